"""DeBERTa-v3's attention, which depends on the distance of two tokens by learned embeddings.

He et al. 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", section 3; buckets of distances and
shared keys as in He et al. 2023, DeBERTaV3.
"""

import math

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.transformer.blocks.bert import Block
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.distances import deberta_buckets
from bert_flow_tf.encoder.transformer.layers import AllPositions, LayerNorm, Variables, reshape, sizes_of

# Terms of the logits: of content and content, content and position, position and content.
_TERMS = 3


class Distances(tf.Module):
  """Normalized embeddings of distances, a table [2 * buckets, size] that all blocks share."""

  def __init__(self, variables: Variables, config: EncoderConfig) -> None:
    super().__init__()
    size, buckets = config.hidden_size, int(config.position_buckets)
    self._table = variables("encoder/rel_embeddings.weight", [2 * buckets, size])
    self._farthest = int(config.max_position_embeddings) - 1
    distances = np.arange(-self._farthest, self._farthest + 1)
    self._rows = deberta_buckets(distances, buckets, int(config.longest_distance)).astype(np.int32)
    self._norm = LayerNorm(variables, "encoder/LayerNorm", size, config.layer_norm_eps)

  def __call__(self, length: int | tf.Tensor) -> tf.Tensor:
    """Returns the embeddings of the distances length - 1, ..., -(length - 1), float32 [2 * length - 1, size]."""
    distance = tf.range(length - 1, -length, -1)
    return self._norm(tf.gather(self._table, tf.gather(self._rows, distance + self._farthest)))


class DisentangledBlock(Block):
  """BERT's block, whose logits have two more terms: distances seen by the query, and distances seen by the key."""

  _has_joint = False  # distances need the query and the key alone

  @classmethod
  def shared_table(cls, variables: Variables, config: EncoderConfig) -> Distances:
    """Returns the embeddings of distances."""
    return Distances(variables, config)

  def _logits(self, query, key, relative):
    """Returns the logits of attention; `relative` are embeddings of distances, [2 * seq_len - 1, size]."""
    (position_key,) = AllPositions().split(self.key(relative)[tf.newaxis], 1, self._heads)
    (position_query,) = AllPositions().split(self.query(relative)[tf.newaxis], 1, self._heads)
    logits = tf.matmul(query, key, transpose_b=True)
    logits += _by_distance(tf.matmul(query, position_key, transpose_b=True))
    # Distances seen by a key have the opposite sign.
    seen_by_key = tf.matmul(key, tf.reverse(position_query, [2]), transpose_b=True)
    seen_by_key = tf.linalg.matrix_transpose(_by_distance(seen_by_key))
    logits += seen_by_key[:, :, : tf.shape(query)[2]]
    return logits / np.float32(math.sqrt(_TERMS * self._head_size))


def _by_distance(products):
  """[batch, heads, n, 2 * seq_len - 1] by distance -> [batch, heads, n, seq_len] by position; n is seq_len or 1.

  Row i needs seq_len columns from column seq_len - 1 - i on. In the flat sequence, these are rows shorter by 1.
  """
  batch, heads, _, distances = sizes_of(products)
  length = (distances + 1) // 2
  if products.shape[2] == 1:
    return products[..., length - 1 :]
  flat = tf.pad(products, [[0, 0], [0, 0], [0, 0], [0, 1]])
  flat = reshape(flat, [batch, heads, 2 * length * length])
  flat = flat[:, :, length - 1 : length - 1 + length * (2 * length - 1)]
  return reshape(flat, [batch, heads, length, 2 * length - 1])[..., :length]
