"""A vector per token in place of a transformer: rows of a word-embedding matrix, or the vectors of a static model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.weight_names import checksum_of_values
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  import tensorflow as tf

# Identities of calibrations name the matrix as a BERT's, for every encoder.
_NAME = "bert/embeddings/word_embeddings/weight"


class WordRows:
  """Word-embedding matrix, float32 [vocab, hidden], in place of a `Transformer`; TensorFlow is for graphs alone.

  `config`: its sizes, as a BERT without blocks.
  """

  has_pooler = False
  # Whether the encoder without "static:" before its name has a transformer.
  is_part = True

  def __init__(self, rows: np.ndarray) -> None:
    sizes = {"vocab_size": rows.shape[0], "hidden_size": rows.shape[1], "num_hidden_layers": 0}
    self.config = EncoderConfig({"model_type": BERT, **sizes})
    self._matrix = np.asarray(rows, np.float32)

  def __reduce__(self) -> Any:
    """Returns class and arguments for a copy with a copied matrix."""
    return type(self), (self.matrix,)

  @functools.cached_property
  def word_embeddings(self) -> tf.Variable:
    """The matrix as a variable, which a graph reads; made once."""
    import tensorflow as tf

    with tf.init_scope():  # it belongs to no graph that reads it
      return tf.Variable(self._matrix, trainable=False, name=f"static/{_NAME}", dtype=tf.float32)

  @property
  def matrix(self) -> np.ndarray:
    """The matrix as an array: the variable's, if there is one, which others may have set."""
    if "word_embeddings" in vars(self):
      return self.word_embeddings.numpy()
    return self._matrix

  @property
  def shapes(self) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the matrix."""
    return {_NAME: self._matrix.shape}

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
    return checksum_of_values({f"{_NAME}:0": lambda: self.matrix})

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """The rows of which means are made, each divided by its length, float32 array of shape [vocab, hidden]."""
    matrix = self.matrix
    return functions_for(matrix).math.l2_normalize(matrix, axis=1)

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
    import tensorflow as tf

    return tf.math.l2_normalize(tf.gather(self.word_embeddings, ids), axis=-1)

  def finish(self, embeddings: tf.Tensor) -> tf.Tensor:
    """Returns embeddings [batch, hidden] of means of rows: the means themselves."""
    return embeddings


class StaticModel(WordRows):
  """Vector of each token, a matrix float32 [vocab, dim], of which plain means are made.

  `normalizes`: whether a mean is divided by its length.
  """

  is_part = False

  def __init__(self, rows: np.ndarray, normalizes: bool) -> None:
    super().__init__(rows)
    self.normalizes = normalizes

  def __reduce__(self) -> Any:
    """Returns what makes a copy of its own vectors."""
    return type(self), (self.matrix, self.normalizes)

  @property
  def deciding_settings(self) -> Json:
    """Settings that decide an embedding: "normalize", True if a mean is divided by its length."""
    return {"normalize": self.normalizes}

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """The vectors as they are, float32 array of shape [vocab, dim]."""
    return self.matrix

  def embed(self, ids: Any, table: np.ndarray | None) -> np.ndarray:
    """Returns embeddings of n int32 arrays [seq_len], weighted by `table` [vocab], float32 [n, dim]."""
    means = super().embed(ids, table)
    if not self.normalizes:
      return means
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0)

  def word_rows(self, ids: tf.Tensor, widened: bool = False) -> tf.Tensor:
    """Returns the vectors of token ids, float32 [batch, seq_len, dim]."""
    import tensorflow as tf

    return tf.gather(self.word_embeddings, ids)

  def finish(self, embeddings: tf.Tensor) -> tf.Tensor:
    """Returns embeddings [batch, dim] of means: divided by their lengths, if the model does so."""
    if not self.normalizes:
      return embeddings
    import tensorflow as tf

    return tf.math.divide_no_nan(embeddings, tf.norm(embeddings, axis=1, keepdims=True))
