"""Files of an index, in FOLDER/index: `centroids.faiss`, codes for each file of vectors, and `index.json`.

The last one names the others with their checksums. It is written after each file, where an interrupted run resumes.
"""

import dataclasses
import hashlib
import json
import pathlib
import re

import numpy as np

from bert_flow_tf.errors import DataError, EncoderError, one_line
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.files import Json, writing
from bert_flow_tf.io.settings import read_fields
from bert_flow_tf.vectors.bm25 import WordCounts
from bert_flow_tf.vectors.inverted_lists import InvertedLists
from bert_flow_tf.vectors.manifest import with_sha256_of_values
from bert_flow_tf.vectors.unit_rows import UnitRows
from bert_flow_tf.vectors.vector_file import VectorFile
from bert_flow_tf.vectors.vector_folder import VectorFolder

INDEX = "index"
_STATE, _CENTROIDS = "index.json", "centroids.faiss"
_CODES = re.compile(r"[0-9]{5,}\.codes")
_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Part:
  """Codes of a file of vectors; `vectors` and `checksum` are the file's, `codes` and `sha256` are of the codes.

  `words_sha256` is of the file of the texts' words beside the codes; None if there is none.
  """

  vectors: str
  checksum: str | None
  rows: int = dataclasses.field(metadata={"minimum": 0})
  codes: str
  sha256: str
  words_sha256: str | None = None

  @property
  def words(self) -> str:
    """Name of the file of words."""
    return self.codes.replace("codes", "words")

  @property
  def key(self) -> tuple[str, str | None, int]:
    """See `key_of`, of the file of vectors."""
    return self.vectors, self.checksum, self.rows

  def file_in(self, folder: str, dim: int) -> VectorFile:
    """Returns the file of vectors in a folder."""
    return VectorFile(folder, self.vectors, self.rows, dim, self.checksum)


@dataclasses.dataclass
class IndexFolder:
  """Files of an index, which `index.json` names; `recall` is None until all files of vectors are indexed."""

  folder: pathlib.Path
  embedder: Json | None
  dim: int = dataclasses.field(metadata={"minimum": 1})
  centroids: str
  probes: int = dataclasses.field(default=1, metadata={"minimum": 1})
  recall: float | None = None
  parts: list[Part] = dataclasses.field(default_factory=list)

  @classmethod
  def begin(cls, folder: pathlib.Path, lists: InvertedLists, embedder: Json | None, dim: int) -> "IndexFolder":
    """Writes the centroids of lists, and returns the state without parts."""
    folder.mkdir(exist_ok=True)
    files.write_bytes(folder / _CENTROIDS, lists.empty().to_bytes())
    state = cls(folder, embedder, dim, checksums.of_file(folder / _CENTROIDS))
    state.write()
    return state

  @classmethod
  def read(cls, folder: pathlib.Path) -> "IndexFolder | None":
    """Returns the state that a folder holds; None if there is none."""
    path = folder / _STATE
    if not path.is_file():
      return None
    try:
      values = checksums.verified(files.read_json(path))
      version = values.pop("format_version")
      if version != _FORMAT_VERSION:
        raise ValueError(f"version {version}")
      parts = values.pop("parts")
      if not isinstance(parts, list):
        raise ValueError("parts is no list")
      parts = [read_fields(Part, part) for part in parts]
      for part in parts:
        # Files of codes are deleted together with their vectors.
        if not _CODES.fullmatch(part.codes) or not checksums.is_inside(part.vectors):
          raise ValueError(f"codes {part.codes!r} of {part.vectors!r}: expected NUMBER.codes of a file in this folder")
      return read_fields(cls, values, folder=folder, parts=parts)
    except (OSError, ValueError, KeyError, TypeError) as error:
      raise _damaged(path, one_line(error)) from error

  def write(self) -> None:
    """Writes `index.json`."""
    values = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(self)}
    del values["folder"]
    for part in values["parts"]:
      if part["words_sha256"] is None:
        del part["words_sha256"]
    files.write_text(self.folder / _STATE, json.dumps(checksums.sealed(values), indent=1) + "\n")

  def check_vectors(self, vectors: VectorFolder) -> None:
    """Raises an EncoderError if vectors are of another encoder or calibration than the index."""
    embedders = [self.embedder, vectors.embedder]
    if embedders[0] != embedders[1]:
      embedders = [with_sha256_of_values(embedder or {}, vectors.manifest) for embedder in embedders]
    if embedders[0] != embedders[1] or self.dim != vectors.rows.dim:
      message = f"vectors={vectors.folder}: {self.folder} is of another encoder or calibration; delete it, and "
      raise EncoderError(f"{message}bert-flow index makes it again", argument="vectors")

  def keep(self, vectors: tuple[VectorFile, ...]) -> list[VectorFile]:
    """Forgets the parts of files that are gone or have changed; returns the files without a part."""
    wanted = set(map(key_of, vectors))
    kept = [part for part in self.parts if part.key in wanted]
    present = {part.vectors for part in kept}
    missing = [file for file in vectors if file.name not in present]
    if missing or len(kept) < len(self.parts):
      kept_codes = {part.codes for part in kept}
      gone = [part for part in self.parts if part.codes not in kept_codes]
      self.parts, self.recall = kept, None
      self.write()
      for part in gone:
        for name in (part.codes, part.words):
          (self.folder / name).unlink(missing_ok=True)
    return missing

  def add(self, file: VectorFile, lists: InvertedLists, words: WordCounts | None = None) -> None:
    """Writes the codes of a file of vectors, and the words of its texts."""
    used = {part.codes for part in self.parts}
    number = next(number for number in range(len(used) + 1) if f"{number:05d}.codes" not in used)
    name = f"{number:05d}.codes"
    with writing(self.folder / name) as codes:
      for _, block in UnitRows([file], self.dim).blocks():
        codes.write(lists.codes(block).tobytes())
    checksum = checksums.of_file(self.folder / name)
    part = Part(file.name, file.checksum, len(file), name, checksum)
    if words is not None:
      part = self._with_words(part, words)
    self.parts.append(part)
    self.write()

  def add_words(self, part: Part, words: WordCounts) -> None:
    """Writes the words of the texts of a part."""
    self.parts[self.parts.index(part)] = self._with_words(part, words)
    self.write()

  def words_of(self, part: Part) -> WordCounts:
    """Returns the words of the texts of a part that has them."""
    try:
      words = WordCounts.of_bytes(self._content(part.words, part.words_sha256))
      if len(words) != part.rows:
        raise ValueError(f"{len(words)} texts, expected {part.rows}")
    except ValueError as error:
      raise _damaged(self.folder / part.words, one_line(error)) from error
    return words

  def _with_words(self, part, words):
    content = words.to_bytes()
    files.write_bytes(self.folder / part.words, content)
    return dataclasses.replace(part, words_sha256=hashlib.sha256(content).hexdigest())

  def finish(self, lists: InvertedLists) -> None:
    """Writes what was measured; the index is complete."""
    self.probes, self.recall = lists.probes, lists.recall
    self.write()

  def lists(self) -> InvertedLists:
    """Returns the lists without rows."""
    try:
      return InvertedLists.of_bytes(self._content(_CENTROIDS, self.centroids), self.dim)
    except ValueError as error:
      raise _damaged(self.folder / _CENTROIDS, one_line(error)) from error

  def add_codes(self, part: Part, lists: InvertedLists) -> None:
    """Adds the rows of a part to lists, by their codes."""
    content = np.frombuffer(self._content(part.codes, part.sha256), np.uint8)
    try:
      lists.add_codes(content, part.rows)
    except ValueError as error:
      raise _damaged(self.folder / part.codes, one_line(error)) from error

  def _content(self, name, sha256):
    """Returns the bytes of a file; a DataError if it does not have its checksum."""
    path = self.folder / name
    try:
      content = path.read_bytes()
    except OSError as error:
      raise _damaged(path, one_line(error)) from error
    if hashlib.sha256(content).hexdigest() != sha256:
      raise _damaged(path, "its checksum differs")
    return content


def key_of(file: VectorFile) -> tuple[str, str | None, int]:
  """Returns name, checksum and number of vectors of a file, by which its codes are known."""
  return file.name, file.checksum, len(file)


def _damaged(path, reason):
  ways = "bert-flow index, or SentenceIndex.build and save, makes it again"
  message = f"vectors={path}: damaged ({reason}); delete {path.parent}, and {ways}"
  return DataError(message, argument="vectors")
