"""A vector per token in place of a transformer: rows of a word-embedding matrix, or the vectors of a static model."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import tensorflow as tf

from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import checksum_of
from bert_flow_tf.io.files import Json

# Identities of calibrations name the matrix as a BERT's, for every encoder.
_NAME = "static/bert/embeddings/word_embeddings/weight"


class WordRows(tf.Module):
  """Word-embedding matrix, variable `word_embeddings` float32 [vocab, hidden], in place of a `Transformer`.

  `config`: its sizes, as a BERT without blocks.
  """

  has_pooler = False
  # Whether the encoder without "static:" before its name has a transformer.
  is_part = True

  def __init__(self, rows: np.ndarray) -> None:
    super().__init__(name="static")
    sizes = {"vocab_size": rows.shape[0], "hidden_size": rows.shape[1], "num_hidden_layers": 0}
    self.config = EncoderConfig({"model_type": BERT, **sizes})
    self.word_embeddings = tf.Variable(rows, trainable=False, name=_NAME, dtype=tf.float32)

  def __reduce__(self) -> Any:
    """Returns class and arguments for a copy with a copied matrix."""
    return type(self), (self.word_embeddings.numpy(),)

  @property
  def weights(self) -> list[tf.Variable]:
    """The matrix."""
    return [self.word_embeddings]

  @property
  def computed_weights(self) -> list[tf.Variable]:
    """The matrix, which a graph reads."""
    return self.weights

  @property
  def deciding_settings(self) -> Json:
    """No settings."""
    return {}

  def checksum(self) -> str:
    """Returns the `checksum_of` the matrix."""
    return checksum_of(self.weights)

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """The rows of which means are made, each divided by its length, float32 array of shape [vocab, hidden]."""
    return tf.math.l2_normalize(self.word_embeddings, axis=1).numpy()

  def embed(self, ids: Sequence[np.ndarray], table: np.ndarray | None) -> np.ndarray:
    """Returns means of `rows` of n int32 arrays [seq_len], weighted by `table` [vocab], float32 [n, hidden]."""
    # Weights are equal without a table, and where all weights of a sentence are 0.
    # One sparse product, ten times as fast as padded batches in a graph.
    pieces = np.concatenate(ids)
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    weights = np.ones(len(pieces), np.float32)
    if table is not None:
      weights = table[pieces]
      is_weighted = np.repeat(np.add.reduceat(weights, starts[:-1]) > 0, lengths)
      weights = np.where(is_weighted, weights, np.float32(1))
    weights /= np.repeat(np.add.reduceat(weights, starts[:-1]), lengths)
    return scipy.sparse.csr_array((weights, pieces, starts), (len(ids), len(self.rows))) @ self.rows

  def word_rows(self, ids: tf.Tensor, widened: bool = False) -> tf.Tensor:
    """Returns the rows of token ids, each divided by its length, float32 [batch, seq_len, hidden]."""
    return tf.math.l2_normalize(tf.gather(self.word_embeddings, ids), axis=-1)

  def finish(self, embeddings: tf.Tensor) -> tf.Tensor:
    """Returns embeddings [batch, hidden] of means of rows: the means themselves."""
    return embeddings


class StaticModel(WordRows):
  """Vector of each token, variable `word_embeddings` float32 [vocab, dim], of which plain means are made.

  `normalizes`: whether a mean is divided by its length.
  """

  is_part = False

  def __init__(self, rows: np.ndarray, normalizes: bool) -> None:
    super().__init__(rows)
    self.normalizes = normalizes

  def __reduce__(self) -> Any:
    """Returns what makes a copy of its own vectors."""
    return type(self), (self.word_embeddings.numpy(), self.normalizes)

  @property
  def deciding_settings(self) -> Json:
    """Settings that decide an embedding: "normalize", True if a mean is divided by its length."""
    return {"normalize": self.normalizes}

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """The vectors as they are, float32 array of shape [vocab, dim]."""
    return self.word_embeddings.numpy()

  def embed(self, ids: Any, table: np.ndarray | None) -> np.ndarray:
    """Returns embeddings of n int32 arrays [seq_len], weighted by `table` [vocab], float32 [n, dim]."""
    means = super().embed(ids, table)
    if not self.normalizes:
      return means
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0)

  def word_rows(self, ids: tf.Tensor, widened: bool = False) -> tf.Tensor:
    """Returns the vectors of token ids, float32 [batch, seq_len, dim]."""
    return tf.gather(self.word_embeddings, ids)

  def finish(self, embeddings: tf.Tensor) -> tf.Tensor:
    """Returns embeddings [batch, dim] of means: divided by their lengths, if the model does so."""
    if not self.normalizes:
      return embeddings
    return tf.math.divide_no_nan(embeddings, tf.norm(embeddings, axis=1, keepdims=True))
