"""A folder of settings (json) and arrays (npz) that is whole or absent; nothing in it executes when it is read."""

import dataclasses
import json
import pathlib
import zipfile

import numpy as np

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.io import files

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class FolderFormat:
  """What a folder of one kind holds.

  Attributes:
    kind: what it is, for messages: "flow".
    settings_file: name of the json file.
    arrays_file: name of the npz file.
    error: class of the errors raised.
    writer: what writes such a folder, for messages: "Glow.save".
  """

  kind: str
  settings_file: str
  arrays_file: str
  error: type[BertFlowError]
  writer: str

  def write(self, folder, settings, arrays):
    """Writes both files beside and renames, so that the folder is whole or absent.

    Args:
      folder: the folder; an older one of this kind there is replaced.
      settings: dict of json values.
      arrays: {name: array}.

    Raises:
      BertFlowError: of class `error`; the place cannot be written, or is taken by something else.
    """
    folder = pathlib.Path(folder).resolve()
    text = json.dumps({"format_version": FORMAT_VERSION, **settings}, indent=2)
    try:
      foreign = self._foreign(folder)
      if foreign:
        what = f"it holds something that is not a {self.kind} ({foreign})"
        raise self.error(f"{self.kind} folder {folder}: {what}; choose another folder")
      with files.replaced_folder(folder) as beside:
        np.savez(beside / self.arrays_file, **arrays)
        (beside / self.settings_file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
      raise self.error(f"{self.kind} folder {folder}: cannot be written ({error})") from error

  def read(self, folder):
    """Settings and arrays of a folder that `write` made: (dict, {name: array}).

    Raises:
      BertFlowError: of class `error`; a file is absent, damaged, or of another format.
    """
    settings = self.read_settings(folder)
    try:
      # Opened as a zip whatever it holds: np.load would take a bare array or try a pickle.
      with (
        open(pathlib.Path(folder) / self.arrays_file, "rb") as file,
        np.lib.npyio.NpzFile(file, allow_pickle=False) as archive,
      ):
        # `write` compresses nothing; what is compressed may be a file of any size in a few bytes.
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.zip.infolist()):
          raise ValueError("compressed arrays")
        return settings, {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged bytes end in more kinds of error than NumPy or zipfile document
      raise self._damaged(folder, self.arrays_file, error) from error

  def read_settings(self, folder):
    """The settings alone, a dict; the arrays' file must be there all the same.

    Raises:
      BertFlowError: as `read`.
    """
    folder = pathlib.Path(folder)
    try:
      for name in (self.settings_file, self.arrays_file):
        if not (folder / name).is_file():
          raise self.error(f"{self.kind} folder {folder}: no {name} in it; expected a folder that {self.writer} wrote")
      settings = dict(json.loads((folder / self.settings_file).read_text(encoding="utf-8")))
      version = settings.pop("format_version")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
      raise self._damaged(folder, self.settings_file, error) from error
    if type(version) is not int or version != FORMAT_VERSION:
      raise self.error(f"{self.kind} folder {folder}: format {version!r}, this version reads {FORMAT_VERSION}")
    return settings

  def is_in(self, folder):
    """Whether the folder is, by the name of its settings, of this kind."""
    return (pathlib.Path(folder) / self.settings_file).is_file()

  def _damaged(self, folder, name, error):
    return self.error(f"{self.kind} folder {folder}: damaged, {name} cannot be read ({error!r})")

  def _foreign(self, folder):
    """Name of something in the place of the folder that `write` did not put there, or None."""
    if not folder.exists():
      return None
    if not folder.is_dir():
      return folder.name
    known = (self.settings_file, self.arrays_file)
    names = sorted(path.name for path in folder.iterdir())
    others = [name for name in names if name not in known or not (folder / name).is_file()]
    return next(iter(others), None) or (None if self.settings_file in names else next(iter(names), None))
