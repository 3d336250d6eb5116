"""Sources of the pairs of embeddings that a flow is fitted on: computed once, or in each step with dropout."""

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import Scale
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.io.files import Json
from bert_flow_tf.training.pipeline import TokenPairs

# Rows read at once for the checksum of vectors on disk.
_ROWS = 8192


class EmbeddingPairs:
  """Pairs of embeddings a, b [n, dim] that a frozen encoder computed once; row i of both is one pair.

  `fingerprint` identifies the data when a fit is resumed; None for a checksum of the embeddings. If a and b hold only
  the pairs that the fit uses, `numbers`, int [n], are their indices among `num_pairs` pairs (`Trainer.pairs_seen`).

  Attributes:
    data_of: JSON values of the encoder, which explain another fingerprint; None if they are unknown.
  """

  data_of: Json | None = None

  def __init__(
    self,
    a: np.ndarray,
    b: np.ndarray,
    fingerprint: str | None = None,
    numbers: np.ndarray | None = None,
    num_pairs: int = 0,
  ) -> None:
    self._fingerprint = fingerprint
    first = check_rows(a, None, TrainingError, "first embeddings")
    second = check_rows(b, first.shape[1], TrainingError, "second embeddings")
    if len(first) != len(second):
      raise TrainingError(f"embeddings of pairs: {len(first)} first and {len(second)} second ones, expected as many")
    self._sides = [np.asarray(first, np.float32), np.asarray(second, np.float32)]
    # {number of a pair: its row}, -1 for a pair that the fit does not use.
    self._rows = None
    if numbers is not None:
      self._rows = np.full([num_pairs], -1, np.int64)
      self._rows[numbers] = np.arange(len(self._sides[0]))

  @property
  def dim(self) -> int:
    """Dimensions of an embedding."""
    return self._sides[0].shape[1]

  def __len__(self) -> int:
    return len(self._sides[0] if self._rows is None else self._rows)

  def fingerprint(self) -> str:
    """Returns the constructor's fingerprint, or the hexadecimal SHA-256 of the embeddings."""
    if self._fingerprint is not None:
      return self._fingerprint
    digest = hashlib.sha256(repr(self._sides[0].shape).encode())
    for side in self._sides:
      digest.update(np.ascontiguousarray(side).data)
    return digest.hexdigest()

  def deviation(self) -> float:
    """Returns the root mean square deviation of a dimension from its mean, over some embeddings."""
    return _deviation(self._sides[0])

  def moments(self) -> Moments:
    """Returns the moments of the embeddings of both sides, without covariances."""
    first, second = self._sides
    return Moments.of(first, False).merged(Moments.of(second, False))

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (a [batch, dim], b [batch, dim])."""
    with tf.device("CPU"):  # input pipelines run on it
      a, b = (tf.constant(side) for side in self._sides)
      if self._rows is not None:
        rows = tf.constant(self._rows)
        positions = positions.map(lambda selected: tf.gather(rows, selected))
    return positions.map(lambda selected: (tf.gather(a, selected), tf.gather(b, selected)))

  def embed(self, features: tuple[tf.Tensor, tf.Tensor], dropout_seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the features, which are the embeddings."""
    del dropout_seed  # the encoder has run already, without dropout
    return features


class ScaledPairs(EmbeddingPairs):
  """Pairs that are scaled where they are read, by a `scale` that is fitted on all of them."""

  def __init__(self, source: EmbeddingPairs) -> None:
    self._source, self.scale = source, Scale.of(source.moments())
    self.data_of = source.data_of

  def __len__(self) -> int:
    return len(self._source)

  def fingerprint(self) -> str:
    """Returns the fingerprint of the pairs, marked as scaled."""
    return f"{self._source.fingerprint()} shares (1.0,)"  # as in release 0.1.0

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (a [batch, dim], b [batch, dim])."""
    return self._source.features(positions).map(lambda a, b: (self.scale(a), self.scale(b)))


class VectorPairs(EmbeddingPairs):
  """Neighboring rows of arrays [n, dim], which may be memory-mapped, as pairs, across borders; no odd last row."""

  def __init__(self, arrays: Sequence[np.ndarray]) -> None:
    shapes = [array.shape for array in arrays]
    if not shapes or any(len(shape) != 2 or shape[1] != shapes[0][-1] for shape in shapes):
      raise TrainingError(f"vectors: arrays have shapes {shapes}, expected [n, dim] with one dim", "vectors")
    self._arrays = list(arrays)
    self._starts = np.cumsum([0] + [len(array) for array in arrays])

  @property
  def dim(self) -> int:
    """Dimensions of a vector."""
    return self._arrays[0].shape[1]

  def __len__(self) -> int:
    return int(self._starts[-1]) // 2

  def fingerprint(self) -> str:
    """Returns the hexadecimal SHA-256 of the vectors."""
    # That of the same pairs in memory: all first rows, then all second ones.
    digest = hashlib.sha256(repr((len(self), self.dim)).encode())
    for side in (0, 1):
      for array, border in zip(self._arrays, self._starts[:-1].tolist(), strict=True):
        rows = array[(side - border) % 2 : max(0, 2 * len(self) - border) : 2]
        for start in range(0, len(rows), _ROWS):
          digest.update(np.ascontiguousarray(rows[start : start + _ROWS], np.float32).data)
    return digest.hexdigest()

  def deviation(self) -> float:
    """Returns the root mean square deviation of a dimension from its mean, over some vectors."""
    return _deviation(max(self._arrays, key=len))

  def moments(self) -> Moments:
    """Returns the moments of the vectors, without covariances."""
    # The odd last row belongs to no pair and is left out.
    moments = Moments.of(np.zeros([0, self.dim]), False)
    for array, start in zip(self._arrays, self._starts[:-1], strict=True):
      moments = moments.merged(Moments.of(array[: max(0, 2 * len(self) - start)], False))
    return moments

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (a [batch, dim], b [batch, dim])."""

    def read(selected):
      a, b = tf.numpy_function(self._read, [selected], [tf.float32, tf.float32])
      shape = [selected.shape[0], self.dim]
      return tf.ensure_shape(a, shape), tf.ensure_shape(b, shape)

    return positions.map(read)

  def _read(self, positions):
    return self._rows_at(2 * positions), self._rows_at(2 * positions + 1)

  def _rows_at(self, rows):
    """Reads rows, float32 [batch, dim]."""
    vectors = np.empty([len(rows), self.dim], np.float32)
    # A row is in the last array that starts at the row or before it.
    files = np.searchsorted(self._starts, rows, side="right") - 1
    for index, (file, row) in enumerate(zip(files, rows, strict=True)):
      vectors[index] = self._arrays[file][row - self._starts[file]]
    return vectors


def _deviation(rows):
  return float(np.sqrt(np.mean(np.var(np.asarray(rows[:_ROWS], np.float64), axis=0))))


class SentencePairsWithDropout:
  """Pairs that are embedded in each step with BERT's dropout, as in the published code; for `data_of` see above."""

  data_of: Json | None = None

  def __init__(
    self,
    encoder: SentenceEncoder,
    sentences_a: Sequence[str],
    sentences_b: Sequence[str],
    sentence_embedding_type: str,
    max_seq_length: int = 64,
  ) -> None:
    self._encoder = encoder
    self._pooling = encoder.pooling(sentence_embedding_type)
    tokenizer = encoder.tokenizer
    sides = [tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    self._pairs = TokenPairs(sides, tokenizer.pad_id)
    sentences = list(sentences_a) + list(sentences_b)
    self._fingerprint = "dropout " + encoder.fingerprint(sentences, self._pooling, max_seq_length)

  def __len__(self) -> int:
    return len(self._pairs)

  def fingerprint(self) -> str:
    """Returns a text that identifies encoder, pooling and sentences when a fit is resumed."""
    return self._fingerprint

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of token ids of both sides; see `TokenPairs.features`."""
    return self._pairs.features(positions)

  def embed(self, features: Sequence[tf.Tensor], dropout_seed: tf.Tensor) -> list[tf.Tensor]:
    """Runs the encoder on both sides and returns two float32 [batch, dim]."""
    embedded = []
    for side, ids in enumerate(features):
      # The two sides have different masks.
      seed = tf.random.experimental.stateless_fold_in(dropout_seed, side)
      ids, mask = self._pairs.tokens(ids)
      embedded.append(self._encoder.embed_batch(ids, mask, self._pooling, seed))
    return embedded
