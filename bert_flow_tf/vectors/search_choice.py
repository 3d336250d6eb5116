"""The choice of a search: every pair is compared, or an index is asked."""

import pathlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from absl import logging

from bert_flow_tf.vectors.bm25 import Bm25, WordCounts, search_both
from bert_flow_tf.vectors.index_folder import INDEX
from bert_flow_tf.vectors.inverted_lists import AUTO, IVF, has_faiss, takes_lists
from bert_flow_tf.vectors.nearest import search_rows
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from bert_flow_tf.vectors.unit_rows import Neighbors, UnitRows, checked_unit_rows
from bert_flow_tf.vectors.vector_folder import VectorFolder


class ExactSearch:
  """Search that compares queries with all rows, and with the words of their texts if it has them."""

  def __init__(self, rows: UnitRows, bm25: Bm25 | None = None) -> None:
    self._rows, self._bm25 = rows, bm25

  def search(self, query_embeddings: npt.ArrayLike, top_k: int, queries: Sequence[str] | None = None) -> Neighbors:
    """Returns the rows nearest to queries [m, dim]; as `SentenceIndex.search`."""
    embeddings = checked_unit_rows(query_embeddings, "query_embeddings", self._rows.dim)

    def find(k):
      return search_rows(embeddings, self._rows, k, show_progress_bar=len(embeddings) > 1)

    return search_both(find, self._bm25, top_k, queries)


def search_of_embeddings(
  embeddings: np.ndarray, index: str, queries: int, texts: Sequence[str] | None = None
) -> ExactSearch | SentenceIndex:
  """Returns the search for a number of queries in embeddings of length 1, [n, dim]; `index` as in `find_duplicates`.

  `texts`: those of the embeddings, for a search by BM25, too.
  """
  if takes_lists(index, float(queries) * embeddings.size):
    return SentenceIndex.build(embeddings, texts=texts, show_progress_bar=True)
  bm25 = None
  if texts is not None:
    bm25 = Bm25(WordCounts.of_texts(texts))
  return ExactSearch(UnitRows([embeddings], embeddings.shape[1], is_unit=True), bm25)


def search_of_folder(
  vectors: VectorFolder, index: str, queries: int, hybrid: str | None = None
) -> ExactSearch | SentenceIndex:
  """Returns the search for a number of queries in a folder, by its index if it has one and `index` allows it."""
  has_index = pathlib.Path(vectors.folder, INDEX).is_dir()
  if index == IVF or (index == AUTO and has_index and has_faiss()):
    loaded = SentenceIndex.load(vectors.folder)
    loaded.log()
    if hybrid is not None:
      loaded.check_words()
    return loaded
  rows = vectors.rows
  if takes_lists(index, float(queries) * len(rows) * rows.dim):
    logging.info("every pair is compared; an index is faster: bert-flow index %s", vectors.folder)
  vectors.check()
  bm25 = None
  if hybrid is not None:
    bm25 = Bm25(WordCounts.joined([WordCounts.of_texts(file.texts()) for file in vectors.files]))
  return ExactSearch(rows, bm25)
