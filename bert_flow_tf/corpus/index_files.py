"""Files of an index, in FOLDER/index: `centroids.faiss`, codes for each file of vectors, and `index.json`.

The last one names the others with their checksums. It is written after each file, where an interrupted run resumes.
"""

import dataclasses
import hashlib
import json
import pathlib

import numpy as np

from bert_flow_tf.corpus.vector_files import VectorFile
from bert_flow_tf.errors import DataError, one_line
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.files import Json, writing
from bert_flow_tf.neighbors.inverted_lists import InvertedLists
from bert_flow_tf.neighbors.unit_rows import UnitRows

INDEX = "index"
_STATE, _CENTROIDS = "index.json", "centroids.faiss"
_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Part:
  """Codes of a file of vectors; `vectors` and `checksum` are the file's, `codes` and `sha256` are of the codes."""

  vectors: str
  checksum: str | None
  rows: int
  codes: str
  sha256: str

  def file_in(self, folder: str, dim: int) -> VectorFile:
    """Returns the file of vectors in a folder."""
    return VectorFile(folder, self.vectors, self.rows, dim, self.checksum)


@dataclasses.dataclass
class IndexFiles:
  """Files of an index, which `index.json` names; `recall` is None until all files of vectors are indexed."""

  folder: pathlib.Path
  embedder: Json | None
  dim: int
  centroids: str
  probes: int = 1
  recall: float | None = None
  parts: list[Part] = dataclasses.field(default_factory=list)

  @classmethod
  def begin(cls, folder: pathlib.Path, lists: InvertedLists, embedder: Json | None, dim: int) -> "IndexFiles":
    """Writes the centroids of lists, and returns the state without parts."""
    folder.mkdir(exist_ok=True)
    files.write_bytes(folder / _CENTROIDS, lists.empty().to_bytes())
    state = cls(folder, embedder, dim, checksums.of_file(folder / _CENTROIDS))
    state.write()
    return state

  @classmethod
  def read(cls, folder: pathlib.Path) -> "IndexFiles | None":
    """Returns the state that a folder holds; None if there is none."""
    path = folder / _STATE
    if not path.is_file():
      return None
    try:
      values = checksums.opened(files.read_json(path))
      version = values.pop("format_version")
      if version != _FORMAT_VERSION:
        raise ValueError(f"version {version}")
      parts = [Part(**part) for part in values.pop("parts")]
      return cls(folder=folder, parts=parts, **values)
    except (ValueError, KeyError, TypeError) as error:
      raise _damaged(path, one_line(error)) from error

  def write(self) -> None:
    """Writes `index.json`."""
    values = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(self)}
    del values["folder"]
    files.write_text(self.folder / _STATE, json.dumps(checksums.sealed(values), indent=1) + "\n")

  def keep(self, vectors: tuple[VectorFile, ...]) -> list[VectorFile]:
    """Forgets the parts of files that are gone or have changed; returns the files without a part."""
    wanted = {(file.name, file.checksum) for file in vectors}
    kept = [part for part in self.parts if (part.vectors, part.checksum) in wanted]
    present = {part.vectors for part in kept}
    missing = [file for file in vectors if file.name not in present]
    if missing or len(kept) < len(self.parts):
      gone = {part.codes for part in self.parts} - {part.codes for part in kept}
      self.parts, self.recall = kept, None
      self.write()
      for name in gone:
        (self.folder / name).unlink(missing_ok=True)
    return missing

  def add(self, file: VectorFile, lists: InvertedLists) -> None:
    """Writes the codes of a file of vectors."""
    used = {part.codes for part in self.parts}
    number = next(number for number in range(len(used) + 1) if f"{number:05d}.codes" not in used)
    name = f"{number:05d}.codes"
    with writing(self.folder / name) as codes:
      for _, block in UnitRows([file], self.dim).blocks():
        codes.write(lists.codes(block).tobytes())
    checksum = checksums.of_file(self.folder / name)
    self.parts.append(Part(file.name, file.checksum, len(file), name, checksum))
    self.write()

  def finish(self, lists: InvertedLists) -> None:
    """Writes what was measured; the index is complete."""
    self.probes, self.recall = lists.probes, lists.recall
    self.write()

  def lists(self) -> InvertedLists:
    """Returns the lists without rows."""
    return InvertedLists.of_bytes(self._content(_CENTROIDS, self.centroids), str(self.folder / _CENTROIDS))

  def codes(self, part: Part) -> np.ndarray:
    """Returns the codes of a part, uint8 [rows, bytes]."""
    return np.frombuffer(self._content(part.codes, part.sha256), np.uint8).reshape([part.rows, -1])

  def _content(self, name, sha256):
    """Returns the bytes of a file; a DataError if it does not have its checksum."""
    path = self.folder / name
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != sha256:
      raise _damaged(path, "its checksum differs")
    return content


def _damaged(path, reason):
  message = f"vectors={path}: damaged ({reason}); delete {path.parent}, and bert-flow index makes it again"
  return DataError(message, argument="vectors")
