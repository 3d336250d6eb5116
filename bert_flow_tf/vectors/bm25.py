"""BM25 by bm25s: texts found by the words of a query; its list and that of the nearest vectors as one (hybrid search).

bm25s computes all scores of a corpus at once, by word lists of Python. Here a corpus has parts, of which each keeps the
counts of its words, so that a part is added or left out without the texts of the others. The arrays of bm25s are made
of the counts, with the frequencies of the whole corpus; its tokenizer and its search are used as they are.
"""

import dataclasses
import io
import itertools
import types
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from bert_flow_tf.errors import ConfigError, install_command, naming, one_line
from bert_flow_tf.vectors.unit_rows import Neighbors

BM25 = "bm25"
HYBRIDS = (BM25,)
# Rows of each of the two lists whose ranks count, whatever number of rows is asked for; the constant of the ranks
# (Cormack, Clarke and Büttcher, 2009).
DEPTH, _RANK_CONSTANT = 100, 60
# Defaults of bm25s.
_K1, _B = 1.5, 0.75
_MAX_COUNT = np.iinfo(np.uint16).max


def check_hybrid(hybrid: str | None) -> None:
  """Raises a ConfigError for another value than None and `HYBRIDS`, or if bm25s is not installed."""
  if hybrid is None:
    return
  if hybrid not in HYBRIDS:
    raise ConfigError(f"hybrid={hybrid}: expected {', '.join(HYBRIDS)}; or leave it out", argument="hybrid")
  with naming("hybrid"):
    _import_bm25s()


def has_bm25s() -> bool:
  """Returns whether bm25s can be imported."""
  try:
    _import_bm25s()
  except ConfigError:
    return False
  return True


def _import_bm25s() -> types.ModuleType:
  try:
    import bm25s
  except ImportError as error:
    raise ConfigError(f"BM25 needs bm25s, which cannot be imported ({error}): {install_command('search')}") from error
  return bm25s


def _tokenized(texts):
  """Returns (numbers of the words of each text, {word: number}): of two letters or more, without English stop words."""
  tokenizer = _import_bm25s().tokenization.Tokenizer(stopwords="en")
  numbers = tokenizer.tokenize(texts, update_vocab=True, show_progress=False, allow_empty=False)
  return numbers, tokenizer.get_vocab_dict()


@dataclasses.dataclass(frozen=True)
class WordCounts:
  """Counts of the words of n consecutive texts.

  Attributes:
    words: the distinct words.
    distinct: number of distinct words of each text, int32 [n].
    numbers: the distinct words of each text, as places in `words`, one text after the other, int32 [m].
    counts: how often the text has each of them, uint16 [m].
  """

  words: list[str]
  distinct: np.ndarray
  numbers: np.ndarray
  counts: np.ndarray

  @classmethod
  def of_texts(cls, texts: Sequence[str]) -> "WordCounts":
    """Returns the counts of texts; a ConfigError if bm25s is not installed."""
    found, vocabulary = _tokenized(list(texts))
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    flat = np.fromiter(itertools.chain.from_iterable(found), np.int64, lengths.sum())
    keys = np.repeat(np.arange(len(found)), lengths) << 32 | flat
    keys, counts = np.unique(keys, return_counts=True)
    distinct = np.bincount(keys >> 32, minlength=len(found))
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    numbers = (keys & 0xFFFFFFFF).astype(np.int32)
    return cls(words, distinct.astype(np.int32), numbers, np.minimum(counts, _MAX_COUNT).astype(np.uint16))

  def __len__(self) -> int:
    return len(self.distinct)

  def to_bytes(self) -> bytes:
    """Returns the bytes of a file of NumPy."""
    words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, words=words, distinct=self.distinct, numbers=self.numbers, counts=self.counts)
    return file.getvalue()

  @classmethod
  def joined(cls, parts: Sequence["WordCounts"]) -> "WordCounts":
    """Returns the counts of the texts of all parts, one after the other."""
    vocabulary: dict[str, int] = {}
    numbers = [np.empty(0, np.int32)]
    for part in parts:
      places = [vocabulary.setdefault(word, len(vocabulary)) for word in part.words]
      numbers.append(np.array(places, np.int32)[part.numbers])
    distinct, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("distinct", "counts"))
    return cls(list(vocabulary), distinct, np.concatenate(numbers), counts)

  @classmethod
  def of_bytes(cls, content: bytes) -> "WordCounts":
    """Returns the counts of `to_bytes`; a ValueError for other bytes."""
    try:
      with np.load(io.BytesIO(content)) as arrays:
        words = arrays["words"].tobytes().decode().split("\n")
        texts = cls(words, arrays["distinct"], arrays["numbers"], arrays["counts"])
      is_whole = texts.distinct.sum() == len(texts.numbers) == len(texts.counts) and texts.distinct.min(initial=0) >= 0
      is_whole &= bool(np.all((texts.numbers >= 0) & (texts.numbers < len(words))))
    except Exception as error:  # a damaged file raises more kinds of error than NumPy documents
      raise ValueError(f"no counts of words: {one_line(error)}") from error
    if not is_whole:
      raise ValueError("counts of words that do not belong together")
    return texts


class Bm25:
  """BM25 of the texts of some counts, as bm25s computes it (Lucene's form, k1 = 1.5, b = .75)."""

  def __init__(self, texts: WordCounts) -> None:
    n = len(texts)
    starts = np.concatenate([[0], np.cumsum(texts.distinct)])
    counts = texts.counts.astype(np.float32)
    lengths = np.diff(np.concatenate([[0], np.cumsum(texts.counts, dtype=np.int64)])[starts])
    # The length of each text, by that of an average one.
    norms = (_K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1))).astype(np.float32)
    frequencies = np.bincount(texts.numbers, minlength=len(texts.words))
    scores = np.log1p((n - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)[texts.numbers]
    scores *= counts
    counts += np.repeat(norms, texts.distinct)
    scores /= counts
    matrix = sparse.csr_matrix((scores, texts.numbers, starts), shape=(n, len(texts.words))).tocsc()
    self._ranker = _import_bm25s().BM25(k1=_K1, b=_B)
    self._ranker.scores = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "num_docs": n}
    self._ranker.vocab_dict = {word: number for number, word in enumerate(texts.words)}
    self._ranker.nonoccurrence_array = None

  def search(self, queries: Sequence[str], depth: int = DEPTH) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns for each query the rows of at most `depth` texts that share a word with it, the best first, int64 [k].

    Then their scores, float32 [k]. Equal scores are by increasing row.
    """
    numbers, vocabulary = _tokenized(list(queries))
    words = list(vocabulary)
    found, of_found = [], []
    for of_query in numbers:
      known = self._ranker.get_tokens_ids([words[number] for number in of_query])
      rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
      if known:
        scores = self._ranker.get_scores_from_ids(known)
        rows = np.flatnonzero(scores > 0)  # eight times as fast as of the scores themselves
        if len(rows) > depth:
          rows = rows[scores[rows] >= np.partition(scores[rows], -depth)[-depth]]
        rows = rows[np.argsort(-scores[rows], kind="stable")][:depth]
      found.append(rows)
      of_found.append(scores[rows])
    return found, of_found


def search_both(
  find: Callable[[int], Neighbors], bm25: Bm25 | None, top_k: int, queries: Sequence[str] | None
) -> Neighbors:
  """Returns the rows that `find` finds as the nearest; with texts of the queries, fused with those by BM25."""
  if queries is None or bm25 is None:
    return find(top_k)
  return fused(find(max(top_k, DEPTH)), bm25.search(queries)[0], top_k)


def fused(near: Neighbors, found: Sequence[np.ndarray], top_k: int) -> Neighbors:
  """Returns the best of two lists of rows for each query, [m, top_k], by reciprocal ranks.

  The score of a row is the sum of 1 / (60 + rank) over the lists that have it among their first `DEPTH` rows. A row
  that neither has so early follows by its rank among the nearest ones. Equal scores are by increasing row.

  Args:
    near: at least min(`DEPTH`, n) and top_k nearest rows of each query.
    found: rows by BM25 for each query, at most `DEPTH`.
    top_k: number of rows; all of `near`, if that is less.
  """
  k = min(top_k, near.rows.shape[1])
  scores, rows = np.empty([len(near.rows), k], np.float32), np.empty([len(near.rows), k], np.int64)
  for query, (nearest, by_words) in enumerate(zip(near.rows, found, strict=True)):
    # The rank of a later row counts only if it has no other, so that no list of a smaller top_k differs.
    is_late = np.arange(len(nearest)) >= DEPTH
    ranked = np.where(is_late & np.isin(nearest, by_words), 0, _reciprocal_ranks(len(nearest)))
    candidates, places = np.unique(np.concatenate([nearest, by_words]), return_inverse=True)
    sums = np.bincount(places, np.concatenate([ranked, _reciprocal_ranks(len(by_words))])).astype(np.float32)
    order = np.argsort(-sums, kind="stable")[:k]
    scores[query], rows[query] = sums[order], candidates[order]
  return Neighbors(scores, rows)


def _reciprocal_ranks(count):
  return 1 / (_RANK_CONSTANT + 1 + np.arange(count))
