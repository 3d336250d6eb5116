"""Index of embeddings by which a search reads a part of them; in memory, or beside the files of `bert-flow embed`."""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from absl import logging

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.checks import as_array, check_counts, check_rows
from bert_flow_tf.io.files import Json, check_path, owned, replaced_folder, writing
from bert_flow_tf.progress import Progress, counted, either_name
from bert_flow_tf.vectors.bm25 import Bm25, WordCounts, check_hybrid, search_both
from bert_flow_tf.vectors.index_folder import INDEX, IndexFolder, key_of
from bert_flow_tf.vectors.inverted_lists import InvertedLists
from bert_flow_tf.vectors.manifest import MANIFEST, with_sha256_of_values
from bert_flow_tf.vectors.model_of_vectors import check_embedder, embedder_values
from bert_flow_tf.vectors.unit_rows import Neighbors, UnitRows, checked_unit_rows
from bert_flow_tf.vectors.vector_file import VectorFile, write_npy
from bert_flow_tf.vectors.vector_folder import VectorFolder

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

_VECTORS = "vectors.npy"


class SentenceIndex:
  """Index of n embeddings by FAISS (`pip install 'bert-flow-tf[search]'`), of 8 bits per dimension; cosines are exact.

      index = SentenceIndex.build(model.encode(texts), model)
      scores, rows = search(model, ["Who plays?"], index, top_k=3)
      index.add(model.encode(more_texts))
      index.save("my_index")
      index = SentenceIndex.load("my_index")  # or a folder of bert-flow embed and bert-flow index

  Attributes:
    recall: share of the ten nearest embeddings that a search finds, measured on 1,000 of them by exact cosines.
  """

  def __init__(
    self, rows: UnitRows, lists: InvertedLists, embedder: Json | None, words: WordCounts | None = None
  ) -> None:
    self._rows, self._lists, self._embedder, self._words = rows, lists, embedder, words

  @functools.cached_property
  def _bm25(self):
    return Bm25(self._words)

  @classmethod
  @either_name
  def build(
    cls,
    embeddings: npt.ArrayLike,
    model: "SentenceModel | None" = None,
    *,
    texts: Texts | None = None,
    show_progress_bar: bool = False,
  ) -> "SentenceIndex":
    """Returns an index of embeddings.

    Args:
      embeddings: n embeddings, [n, dim]; the index keeps the array.
      model: the model that gave them, which a search must have, too; None for any model.
      texts: the n texts, for `search(model, queries, index, hybrid="bm25")`; the index keeps the counts of their words.
      show_progress_bar: see `search_embeddings`.

    Raises:
      CalibrationError: embeddings are not [n, dim] of finite numbers.
      ConfigError: FAISS is not installed, or bm25s for texts; or there is no embedding.
      DataError: texts are not n str.
    """
    array = check_rows(embeddings)
    if not len(array):
      raise ConfigError("embeddings: 0 rows; expected at least one", argument="embeddings")
    words = None
    if texts is not None:
      words = _words_of(texts, len(array))
    rows = UnitRows([array], array.shape[1])
    lists = InvertedLists.train(rows)
    lists.add_all(rows, show_progress_bar=show_progress_bar)
    lists.tune(rows)
    embedder = None
    if model is not None:
      embedder = embedder_values(model)
    index = cls(rows, lists, embedder, words)
    index.log()
    return index

  def __len__(self) -> int:
    return len(self._rows)

  @property
  def recall(self) -> float:
    """Share of the nearest embeddings that a search finds."""
    return self._lists.recall

  def log(self) -> None:
    """Logs the size and the measured recall."""
    read = f"{self._lists.probes} of {counted(self._lists.lists, 'list', ',')} read per query"
    size = counted(len(self), "vector", ",")
    logging.info("index of %s: %s, recall %.1f %% of 10 nearest, measured", size, read, 100 * self.recall)

  def add(self, embeddings: npt.ArrayLike, texts: Texts | None = None) -> None:
    """Adds embeddings [m, dim], which get the next rows, and measures recall again.

    Args:
      embeddings: m embeddings.
      texts: their texts, for an index that has texts; None for one that has none.

    Raises:
      CalibrationError: embeddings are not [m, dim] of finite numbers.
      ConfigError: the index has texts and there are none, or the other way round.
      DataError: texts are not m str.
    """
    array = check_rows(embeddings, self._rows.dim)
    if (texts is None) != (self._words is None):
      found = "missing, and the index has texts" if texts is None else "given, and the index was built without texts"
      raise ConfigError(f"texts: {found}; expected texts of all embeddings, or of none", argument="texts")
    if texts is not None and self._words is not None:
      self._words = WordCounts.joined([self._words, _words_of(texts, len(array))])
      self.__dict__.pop("_bm25", None)
    self._lists.add_all(UnitRows([array], self._rows.dim), first=len(self))
    self._rows = UnitRows([*self._rows.parts, array], self._rows.dim)
    self._lists.tune(self._rows)

  def search(self, query_embeddings: npt.ArrayLike, top_k: int = 10, queries: Sequence[str] | None = None) -> Neighbors:
    """Returns the embeddings that are nearest to queries [m, dim], by exact cosines of those that the index finds.

    Args:
      query_embeddings: m embeddings, [m, dim]; [dim] is one.
      top_k: number of neighbors of a query.
      queries: the texts of the queries, for a search by BM25, too; see `hybrid` of `search`.

    Raises:
      CalibrationError: queries are not [m, dim] of finite numbers.
      ConfigError: top_k is not positive, or there are texts of queries and the index has none.
    """
    check_counts(top_k=top_k)
    array = np.atleast_2d(as_array(query_embeddings, "query_embeddings"))
    rows = checked_unit_rows(array, "query_embeddings", self._rows.dim)
    bm25 = None
    if queries is not None and len(queries) != len(rows):
      raise DataError(f"queries: {len(queries)}, but {len(rows)} embeddings; expected the text of each", "queries")
    if queries is not None:
      self.check_words()
      bm25 = self._bm25
    return search_both(lambda k: self._lists.search(rows, self._rows, k), bm25, top_k, queries)

  def check_words(self) -> None:
    """Raises a ConfigError if the index has no words for a hybrid search."""
    if self._words is None:
      message = (
        "hybrid=bm25: the index has no words of its texts; expected one of SentenceIndex.build(embeddings, model, "
      )
      raise ConfigError(f"{message}texts=texts), or of bert-flow index --hybrid=bm25", argument="hybrid")

  def check_model(self, model: "SentenceModel") -> None:
    """Raises an EncoderError if the embeddings are of another model, as far as the index knows its model."""
    if self._rows.dim != model.output_dim:
      sizes = f"{self._rows.dim} dimensions, and {model.name} gives {model.output_dim}"
      raise EncoderError(f"vectors: the index has {sizes}; take the model of the index", argument="vectors")
    if self._embedder is not None:
      check_embedder(self._embedder, model, "index")

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the index and its embeddings into a folder, completely or not at all.

    Args:
      folder: a new folder, or that of an older index, which is replaced.

    Raises:
      ConfigError: the folder holds something else, or cannot be written.
    """
    target = check_path(folder, "folder")
    if target.exists() and {path.name for path in target.iterdir()} - {INDEX, _VECTORS}:
      raise ConfigError(f"folder={folder}: holds other files than an index; choose another folder", argument="folder")
    try:
      with replaced_folder(target) as temporary:
        with writing(temporary / _VECTORS) as written:
          write_npy(written, len(self), self._rows.dim, (block for _, block in self._rows.blocks()))
        checksum = checksums.of_file(temporary / _VECTORS)
        file = VectorFile(str(temporary), _VECTORS, len(self), self._rows.dim, checksum)
        state = IndexFolder.begin(temporary / INDEX, self._lists, self._embedder, self._rows.dim)
        state.add(file, self._lists, self._words)
        state.finish(self._lists)
    except OSError as error:
      raise ConfigError(f"folder={folder}: cannot be written ({error.strerror or error})", "folder") from error

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "SentenceIndex":
    """Loads the folder of `save`, or a folder of `bert-flow embed` that `bert-flow index` has indexed.

    Raises:
      ConfigError: there is no complete index, it is older than the vectors, or FAISS is not installed.
      DataError: a file is damaged.
      EncoderError: the index is of another encoder or calibration than the vectors.
    """
    path = check_path(folder, "vectors")
    state = IndexFolder.read(path / INDEX)
    if state is None or state.recall is None or not sum(part.rows for part in state.parts):
      way = f"bert-flow index {folder} makes it"
      if (path / _VECTORS).is_file() and not (path / MANIFEST).exists():
        way = f"SentenceIndex.build(np.load('{path / _VECTORS}'), model).save('{folder}') makes it"
      message = f"vectors={folder}: no complete index in it; {way}; exact needs none"
      raise ConfigError(message, argument="vectors")
    if (path / _VECTORS).exists():
      vectors = [part.file_in(str(folder), state.dim) for part in state.parts]
      for file in vectors:
        file.check_shape()
    else:
      opened = VectorFolder.open(str(folder))
      state.check_vectors(opened)
      state.embedder = with_sha256_of_values(opened.embedder, opened.manifest)
      vectors = list(opened.files)
    parts = {part.key: part for part in state.parts}
    absent = [file.name for file in vectors if key_of(file) not in parts]
    if absent or len(vectors) < len(parts):
      changed = f"{len(absent)} of {len(vectors)} are not in it" if absent else "it has some that are gone"
      message = f"vectors={folder}: the index is older than its shards ({changed}); bert-flow index {folder} adds them"
      raise ConfigError(message, argument="vectors")
    lists = state.lists()
    for file in vectors:
      state.add_codes(parts[key_of(file)], lists)
    lists.probes, lists.recall = state.probes, state.recall
    words = None
    if all(part.words_sha256 is not None for part in state.parts):
      words = WordCounts.joined([state.words_of(parts[key_of(file)]) for file in vectors])
    return cls(UnitRows(vectors, state.dim), lists, state.embedder, words)


def _words_of(texts, count):
  """Returns the counts of the words of so many texts."""
  checked = check_sentences(texts, "texts")
  if len(checked) != count:
    raise DataError(f"texts: {len(checked)}, but {count} embeddings; expected a text of each", argument="texts")
  return WordCounts.of_texts(checked)


def _check_texts(vectors: VectorFolder, state: IndexFolder | None, hybrid: str | None) -> bool:
  """Returns whether an index has the words of its texts; a ConfigError, before anything is written, if texts lack."""
  parts = [part for part in state.parts if part.words_sha256] if state is not None else []
  if hybrid is None and not parts:
    return False
  known = {part.key for part in parts}
  for file in vectors.files:
    if key_of(file) not in known and not file.has_texts:
      ways = "embed it again with --keep_text"
      if parts:
        ways += f", or delete {vectors.folder}/{INDEX} and index without hybrid"
      where = f"vectors={vectors.folder}: {file.name} has no texts, whose words are compared"
      raise ConfigError(f"{where}; {ways}", argument="vectors")
  return True


def index_vectors(folder: str, show_progress_bar: bool = True, hybrid: str | None = None) -> SentenceIndex:
  """Writes the index of a folder of `bert-flow embed` beside its files, or adds files that are new, and returns it.

  An interrupted call resumes with the next file. `hybrid`: "bm25" for an index with the words of the texts, which
  `bert-flow embed --keep_text` has kept; one that has words gets those of new files.

  Raises:
    ConfigError: see `VectorFolder.open`; or FAISS is not installed, or bm25s; or a file has no texts.
    DataError: a file is damaged.
    EncoderError: the index is of another encoder or calibration than the vectors.
  """
  check_hybrid(hybrid)
  vectors = VectorFolder.open(folder)
  target = pathlib.Path(folder, INDEX)
  with owned(target, "vectors"):
    state = IndexFolder.read(target)
    has_words = _check_texts(vectors, state, hybrid)
    if state is None:
      state = IndexFolder.begin(target, InvertedLists.train(vectors.rows), vectors.embedder, vectors.rows.dim)
    state.check_vectors(vectors)
    lists = state.lists()
    missing = state.keep(vectors.files)
    done = len(vectors.rows) - sum(map(len, missing))
    with Progress(len(vectors.rows), show_progress_bar, "indexing", "vector", done) as progress:
      for file in missing:
        file.check()
        state.add(file, lists, WordCounts.of_texts(file.texts()) if has_words else None)
        progress.update(len(file))
    if has_words:
      files = {file.name: file for file in vectors.files}
      for part in [part for part in state.parts if part.words_sha256 is None]:
        state.add_words(part, WordCounts.of_texts(files[part.vectors].texts()))
    if state.recall is None:
      parts = {part.vectors: part for part in state.parts}
      for file in vectors.files:
        state.add_codes(parts[file.name], lists)
      lists.tune(vectors.rows)
      state.finish(lists)
  return SentenceIndex.load(folder)
