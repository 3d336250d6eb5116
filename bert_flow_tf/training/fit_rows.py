"""The rows that a calibration is fitted on: sentences, which are embedded when they are needed, or vectors."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.checkpoints.declared import QUERY
from bert_flow_tf.encoder.embeddings import Embeddings, find_embeddings
from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.io.checks import as_array, check_rows
from bert_flow_tf.io.files import Json
from bert_flow_tf.progress import counted

if TYPE_CHECKING:  # imported where they are used: a flow's pairs need TensorFlow
  from bert_flow_tf.training.choice import Choice
  from bert_flow_tf.training.sources import EmbeddingPairs, SentencePairsWithDropout

_SAMPLE = 1024
# Distinct queries from which their mean is known well enough, and below which a fit without queries is often better.
_FEW_QUERIES, _VERY_FEW_QUERIES = 32, 8
# Pairs with gold scores on which natsv's k is chosen: first vectors [n, dim], second vectors [n, dim], scores [n].
Dev = tuple[np.ndarray, np.ndarray, np.ndarray]


class _FitRows(abc.ABC):
  """Rows that a calibration is fitted on: documents, or texts without roles, and perhaps queries."""

  _queries: Any = None

  @abc.abstractmethod
  def _documents(self) -> np.ndarray | list[np.ndarray]:
    """Returns the rows of documents, numbers [n, dim], or a list of such arrays."""

  @abc.abstractmethod
  def _embedded_queries(self) -> np.ndarray:
    """Returns the rows of queries, [m, dim]."""

  def all(self) -> np.ndarray | list[np.ndarray]:
    """Returns the row of every occurrence, numbers [n, dim], or a list of such arrays; queries by `query_shift`."""
    documents = self._documents()
    if self._queries is None:
      return documents
    queries = np.asarray(self._query_rows - self.query_shift, np.float32)
    return [*documents, queries] if isinstance(documents, list) else np.concatenate([documents, queries])

  @functools.cached_property
  def query_shift(self) -> np.ndarray | None:
    """`Calibration.query_shift`; None without queries."""
    if self._queries is None:
      return None
    rows = self._documents()
    documents = [Moments.of(part, False) for part in (rows if isinstance(rows, list) else [rows])]
    return Moments.of(self._query_rows, False).mean - functools.reduce(Moments.merged, documents).mean

  @functools.cached_property
  def _query_rows(self):
    rows = self._embedded_queries()
    if not len(rows):
      raise CalibrationError("queries: empty; expected some 64, or None for texts without roles", "queries")
    distinct = _count_distinct(rows, _FEW_QUERIES)
    if distinct < _FEW_QUERIES:
      message = "queries: %s; a mean of so few may make a search worse; some %d, which need no labels, are enough"
      if distinct < _VERY_FEW_QUERIES:
        message = (
          "queries: %s; with so few, a search can be much worse than after a fit without queries; give some %d, "
        )
        message += "which need no labels, or none"
      logging.warning(message, counted(distinct, "distinct text"), 2 * _FEW_QUERIES)
    return rows


def _count_distinct(rows, most):
  """Returns the number of distinct rows, which are counted up to `most`."""
  distinct: set[bytes] = set()
  for row in rows:
    distinct.add(row.tobytes())
    if len(distinct) == most:
      break
  return len(distinct)


class FitSentences(_FitRows):
  """Sentences, or two sides of pairs, that a calibration is fitted on; embedded when a part of it needs them.

  Args:
    encoder: the encoder.
    identity: identity of its embeddings.
    sentences: sentences, or first and second sentences of pairs. Every occurrence counts.
    queries: queries, where the sentences are the documents that they search; None for texts without roles. Every
      occurrence counts.
    dev: pairs with gold scores, on which natsv and sn+natsv without K choose it.
    cached: embeddings to reuse.
    encoder_dropout: whether a flow's pairs are embedded in each step with BERT's dropout.
    batch_size: largest number of sentences embedded at once.
    cache: folder where embeddings are kept between runs, an `EmbeddingCache`, or None.
    show_progress: see `SentenceEncoder.encode`.
    key: identifies these sentences among others of the same `Fitter`; the default is unique.

  Attributes:
    occurrences: every sentence as often as it occurs; of pairs all first sentences, then all second ones.
    pairs: the pairs for a flow; a plain list makes pairs of neighbors.
  """

  def __init__(
    self,
    encoder: TextEncoder,
    identity: EncoderIdentity,
    sentences: list[str] | tuple[list[str], list[str]],
    *,
    queries: list[str] | None = None,
    dev: SentencePairs | None = None,
    cached: Sequence[Embeddings] = (),
    encoder_dropout: bool = False,
    batch_size: int = 64,
    cache: Any = None,
    show_progress: bool | None = None,
    key: Hashable = None,
  ) -> None:
    if isinstance(sentences, tuple):
      first, second = sentences
      self.occurrences = first + second
    else:
      even = len(sentences) // 2 * 2
      first, second = sentences[0:even:2], sentences[1:even:2]
      self.occurrences = sentences
    self.pairs = SentencePairs.without_gold(first, second)
    self.key = object() if key is None else key
    self._identity, self._dev, self._cached = identity, dev, list(cached)
    self._encoder, self._queries = encoder, queries
    if queries is not None and encoder.for_documents() is not encoder:
      self._encoder, self._cached = encoder.for_documents(), []  # those of documents have another prompt
    self._encoder_dropout, self._batch_size = encoder_dropout, batch_size
    self._cache, self._show_progress = cache, show_progress

  @property
  def identity(self) -> Json:
    """Identity of the embeddings, as a calibration holds it."""
    return self._identity.to_dict()

  @property
  def dim(self) -> int:
    """Dimensions of an embedding."""
    return self._encoder.dim(self._identity.sentence_embedding_type)

  @property
  def sample(self) -> list[str]:
    """About 1,000 of the occurrences: the flow's usual input, for an export."""
    step = math.ceil(len(self.occurrences) / _SAMPLE)
    return self.occurrences[:: max(step, 1)]

  @property
  def num_pairs(self) -> int:
    """Number of pairs for a flow."""
    return len(self.pairs)

  def _embedded_queries(self):
    encoder, arguments = self._encoder, self._identity.settings.pooling_arguments()
    encoder = encoder.with_prompt(encoder.prompt_of(QUERY))
    progress = {"batch_size": self._batch_size, "show_progress": self._show_progress, "cache": self._cache}
    return encoder.encode(self._queries, **progress, **arguments)

  def _documents(self):
    everything = SentencePairs.without_gold(self.occurrences, self.occurrences)
    embeddings = find_embeddings(everything, self._cached)
    if embeddings is None:
      embeddings = self._embed_of_fit(everything)
      self._cached.append(embeddings)
    return embeddings.of(self.occurrences)

  def gold(self) -> Dev | None:
    """Returns the embeddings of dev's pairs, two float32 [n, dim], and their scores; None without dev."""
    if self._dev is None:
      return None
    embeddings = find_embeddings(self._dev, self._cached) or self._embed(self._dev)
    return embeddings.of(self._dev.sentences_a), embeddings.of(self._dev.sentences_b), self._dev.scores

  def flow_pairs(self, pairs_seen: Callable[[int], np.ndarray]) -> EmbeddingPairs | SentencePairsWithDropout:
    """Returns the pairs for a flow; of sentences without embeddings only `pairs_seen`: number -> sorted indices."""
    from bert_flow_tf.training.sources import SentencePairsWithDropout

    source = self._flow_pairs(pairs_seen)
    values = self._identity.deciding()
    del values["low_dim"]  # comes after the flow
    has_dropout = isinstance(source, SentencePairsWithDropout)
    source.data_of = {**values, "prompt": self._identity.settings.prompt, "encoder_dropout": has_dropout}
    return source

  def _flow_pairs(self, pairs_seen):
    from bert_flow_tf.training.sources import SentencePairsWithDropout

    pairs = self.pairs
    if self._encoder_dropout and isinstance(self._encoder, SentenceEncoder):
      arguments = self._identity.settings.pooling_arguments()
      return SentencePairsWithDropout(self._encoder, pairs.sentences_a, pairs.sentences_b, **arguments)
    embeddings = find_embeddings(pairs, self._cached)
    if embeddings is not None:
      return _embedding_pairs(embeddings, pairs)
    # A short fit on a large corpus uses few of its pairs.
    numbers = pairs_seen(len(pairs))
    used = pairs.take(numbers)
    embeddings = self._embed_of_fit(used)
    return _embedding_pairs(embeddings, used, numbers, len(pairs))

  def choose(self, seed: int) -> Choice:
    """Returns the `Choice` of a calibration without labels."""
    # Imported here: only auto needs it.
    from bert_flow_tf.training.choice import choose_calibration

    rows = self._documents()
    return choose_calibration(self._encoder, self._identity, self.occurrences, rows, seed, self._batch_size)

  def _embed(self, pairs):
    arguments = self._identity.settings.pooling_arguments()
    return Embeddings(self._encoder, [pairs], self._batch_size, self._cache, self._show_progress, **arguments)

  def _embed_of_fit(self, pairs):
    """Returns new embeddings of sentences of the fit, whose cone is logged."""
    embeddings = self._embed(pairs)
    pooling = self._encoder.pooling(self._identity.sentence_embedding_type)
    isotropy.log_cone(embeddings.values, self._encoder.is_for_similarity(pooling))
    return embeddings


class FitVectors(_FitRows):
  """Vectors of any program that a calibration is fitted on.

  Args:
    vectors: numbers [n, dim], an array or rows; a tuple of two such arrays, the sides of pairs; or a list of arrays,
      read in parts.
    vectors_of: description of the vectors, or None.
    queries: vectors of queries, [m, dim], or a list of such arrays, where the others are of documents; None for none.
    dev: pairs with gold scores, on which natsv and sn+natsv without K choose it.
  """

  def __init__(
    self, vectors: Any, *, vectors_of: str | None = None, queries: Any = None, dev: Dev | None = None
  ) -> None:
    self.key = object()
    self._queries = queries
    self._vectors: Any
    if not _is_of_arrays(vectors):
      self._vectors = as_array(vectors, "vectors")
    elif isinstance(vectors, tuple):
      self._vectors = tuple(as_array(side, "vectors") for side in vectors)
      shapes = [list(side.shape) for side in self._vectors]
      if len(shapes) != 2 or shapes[0] != shapes[1] or len(shapes[0]) != 2:
        raise CalibrationError(f"vectors: a tuple of shapes {shapes}, expected two sides of pairs, [n, dim]", "vectors")
    else:
      self._vectors = [as_array(part, "vectors") for part in vectors]
    self._dev = dev
    self.identity = None if vectors_of is None else VectorsIdentity(vectors_of).to_dict()

  @property
  def dim(self) -> int:
    """Dimensions of a vector."""
    return self._source.dim

  @property
  def num_pairs(self) -> int:
    """Number of pairs for a flow."""
    return len(self._source)

  def _embedded_queries(self):
    parts = self._queries if _is_of_arrays(self._queries) else [self._queries]
    return np.concatenate([check_rows(as_array(part, "queries"), self.dim, name="queries") for part in parts])

  def warn_of_zeros(self) -> None:
    """Logs a warning of rows of zeros, which the fit has counted."""
    parts = self._vectors if isinstance(self._vectors, list | tuple) else [self._vectors]
    of_roles = {"vectors": parts}
    if self._queries is not None:
      of_roles["queries"] = [self._query_rows]
    for name, arrays in of_roles.items():
      zeros = sum(int(np.count_nonzero(~array.any(axis=1))) for array in arrays)
      if zeros:
        message = "%s: %s of zeros, as of texts without a known word, of %d; they count in the fit: leave them out"
        logging.warning(message, name, counted(zeros, "row"), sum(map(len, arrays)))

  def _documents(self):
    if isinstance(self._vectors, tuple):
      return np.concatenate(self._vectors)
    return self._vectors

  def gold(self) -> Dev | None:
    """Returns dev."""
    return self._dev

  def flow_pairs(self, pairs_seen: Callable[[int], np.ndarray]) -> EmbeddingPairs:
    """Returns the pairs for a flow, all of them."""
    del pairs_seen
    return self._source

  @functools.cached_property
  def _source(self):
    from bert_flow_tf.training.sources import EmbeddingPairs, VectorPairs

    vectors = self._vectors
    if isinstance(vectors, tuple):
      return EmbeddingPairs(*vectors)
    if isinstance(vectors, list):
      return VectorPairs(vectors)
    # Pairs are rows 0 and 1, 2 and 3, ...; the last row of an odd number is left out.
    rows = check_rows(vectors)
    even = len(rows) // 2 * 2
    return EmbeddingPairs(rows[0:even:2], rows[1:even:2])


def _is_of_arrays(vectors):
  """Returns whether vectors are a tuple or list of arrays [n, dim], not of rows."""
  if not isinstance(vectors, tuple | list) or not len(vectors):
    return False
  first = vectors[0]
  if isinstance(first, tuple | list):
    return bool(first) and np.ndim(first[0]) > 0
  return np.ndim(first) > 1


def _embedding_pairs(
  embeddings: Embeddings, pairs: SentencePairs, numbers: np.ndarray | None = None, num_pairs: int = 0
) -> EmbeddingPairs:
  """Returns the `EmbeddingPairs` of sentence pairs, with the fingerprint of their embeddings."""
  from bert_flow_tf.training.sources import EmbeddingPairs

  a, b = embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b)
  return EmbeddingPairs(a, b, embeddings.fingerprint(pairs), numbers, num_pairs)
