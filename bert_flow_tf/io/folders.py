"""Folders of settings (json) and arrays (npz), written atomically; nothing in them is executed when they are read."""

import dataclasses
import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.io import checksums, files

FORMAT_VERSION = 1
# Settings and arrays of every calibration, and as a flow's folder had them before.
CALIBRATION_FILES = ("calibration.json", "arrays.npz")
OLDER_FLOW_FILES = ("flow.json", "weights.npz")


@dataclasses.dataclass(frozen=True)
class FolderFormat:
  """Format of one kind of folder.

  Attributes:
    kind: name of the kind, for messages: "flow".
    settings_file: name of the json file.
    arrays_file: name of the npz file.
    error: class of the errors raised.
    writer: function that writes such folders, for messages: "Glow.save".
    older: names of both files in folders of earlier versions, which are read too; () if they did not change.
  """

  kind: str
  settings_file: str
  arrays_file: str
  error: type[BertFlowError]
  writer: str
  older: tuple[str, ...] = ()

  def write(self, folder: str | os.PathLike, settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes a folder atomically.

    Args:
      folder: the folder; an older one of this kind is replaced.
      settings: JSON values.
      arrays: {name: array}.

    Raises:
      BertFlowError: of class `error`; the folder cannot be written, or contains something else.
    """
    if not os.fspath(folder):
      raise self.error("folder is empty; expected a path", argument="folder")
    folder = pathlib.Path(folder).resolve()
    settings = {"format_version": FORMAT_VERSION, **settings}
    try:
      foreign = self._foreign(folder)
      if foreign:
        raise self.error(f"{self.kind} folder {folder}: contains {foreign}, not a {self.kind}; choose another folder")
      with files.replaced_folder(folder) as temporary:
        np.savez(temporary / self.arrays_file, **arrays)  # type: ignore[arg-type]
        text = json.dumps(checksums.sealed(settings, temporary, [self.arrays_file]), indent=2)
        (temporary / self.settings_file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
      raise self.error(f"{self.kind} folder {folder}: cannot be written ({error})") from error

  def read(self, folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads settings and arrays of a folder that `write` wrote.

    Raises:
      BertFlowError: of class `error`; a file is missing, damaged, or of another format.
    """
    settings = self.read_settings(folder)
    _, arrays_file = self._names(folder)
    try:
      # Not np.load, which would also read a bare array or a pickle.
      with (
        open(pathlib.Path(folder) / arrays_file, "rb") as file,
        np.lib.npyio.NpzFile(file, allow_pickle=False) as archive,
      ):
        # `write` does not compress; a few compressed bytes could expand to any size.
        entries = archive.zip.infolist()  # type: ignore[union-attr]
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
          raise ValueError("compressed arrays")
        return settings, {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged bytes raise more kinds of error than NumPy and zipfile document
      raise self._damaged(folder, arrays_file, error) from error

  def read_settings(self, folder: str | os.PathLike) -> dict[str, Any]:
    """Reads the settings alone; the arrays' file must exist too, and have its checksum if the settings hold one.

    Raises:
      BertFlowError: as `read`.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
      raise self.error(f"{self.kind} folder {folder}: no such folder; expected one that {self.writer} wrote")
    names = self._names(folder)
    try:
      for name in names:
        if not (folder / name).is_file():
          raise self.error(f"{self.kind} folder {folder}: no {name}; expected a folder that {self.writer} wrote")
      settings = checksums.opened(files.read_json(folder / names[0]), folder)
      version = settings.pop("format_version")
    except (OSError, ValueError, TypeError, KeyError) as error:
      raise self._damaged(folder, names[0], error) from error
    if type(version) is not int or version != FORMAT_VERSION:
      raise self.error(f"{self.kind} folder {folder}: format {version!r}, this version reads {FORMAT_VERSION}")
    return settings

  def is_in(self, folder: str | os.PathLike) -> bool:
    """Returns whether the folder has a settings file of this kind."""
    return (pathlib.Path(folder) / self._names(folder)[0]).is_file()

  def _names(self, folder):
    """Returns the names of settings and arrays in a folder: the older ones if it has only these."""
    names = (self.settings_file, self.arrays_file)
    if not self.older or (pathlib.Path(folder) / names[0]).is_file():
      return names
    return self.older if (pathlib.Path(folder) / self.older[0]).is_file() else names

  def _damaged(self, folder, name, error):
    reason = f"{type(error).__name__}: {error}"[:200]  # NumPy's may show a whole file
    return self.error(f"{self.kind} folder {folder}: damaged, {name}: {reason}; {checksums.KEEP_CHANGES}")

  def _foreign(self, folder):
    """Returns the name of a file that `write` did not write, or None."""
    if not folder.exists():
      return None
    if not folder.is_dir():
      return folder.name
    known = [self.settings_file, self.arrays_file]
    if all((folder / name).is_file() for name in self.older):
      known += self.older
    names = sorted(path.name for path in folder.iterdir())
    others = [name for name in names if name not in known or not (folder / name).is_file()]
    return next(iter(others), None) or (None if self.is_in(folder) else next(iter(names), None))
