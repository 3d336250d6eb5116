"""ModernBERT's block: rotary positions, local and global attention, GeGLU, normalization before each part.

Warner et al. 2024, "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder". Rotary positions:
Su et al. 2021, RoFormer; GeGLU: Shazeer 2020.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.transformer.activations import activate
from bert_flow_tf.encoder.transformer.blocks.bert import TransformerBlock
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import ATTENDED, OUTER, PROBABILITIES
from bert_flow_tf.encoder.transformer.layers import (
  Dense,
  Dropout,
  FirstTokens,
  LayerNorm,
  RowLayout,
  Variables,
  reshape,
  sizes_of,
)

_MASKED = -10000.0
# A text of more windows than this is computed window by window, which needs no [seq_len, seq_len] matrix.
_MAX_WINDOWS = 2


class RotaryBlock(TransformerBlock):
  """Block: attention of all tokens (global), or of the tokens within half a window (local), then GeGLU."""

  def __init__(self, variables: Variables, path: str, config: EncoderConfig, number: int) -> None:
    """Makes the layers below a path; `number` counts blocks from 0."""
    super().__init__()
    size, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
    self._heads = config.num_attention_heads
    self._head_size = size // self._heads
    self._activation = config.hidden_act
    is_global = number in config.global_blocks
    self._theta = config.global_rope_theta if is_global else config.local_rope_theta
    self._reach = None if is_global else int(config.local_attention) // 2

    def dense(name, inputs, units):
      return Dense(variables, f"{path}/{name}", inputs, units, has_bias=False)

    self.attention_norm = None
    if number:
      self.attention_norm = LayerNorm(variables, f"{path}/attn_norm", size, epsilon, has_beta=False)
    self.projected = dense("attn/Wqkv", size, 3 * size)
    self.attended = dense("attn/Wo", size, size)
    self.norm = LayerNorm(variables, f"{path}/mlp_norm", size, epsilon, has_beta=False)
    self.inner = dense("mlp/Wi", size, 2 * inner)
    self.outer = dense("mlp/Wo", inner, size)

  def __call__(
    self,
    rows: tf.Tensor,
    read: RowLayout,
    bias: tf.Tensor | None,
    dropout: Dropout,
    number: int,
    first_tokens: FirstTokens | None = None,
    relative: Any = None,
  ) -> tf.Tensor:
    """Returns the hidden states of the next block; arguments as in `bert.Block`."""
    normed = rows
    if self.attention_norm is not None:
      normed = self.attention_norm(rows)
    query, key, value = read.split(self.projected(normed, read.keeps_kernels), 3, self._heads)
    query, key = self._rotate(query), self._rotate(key)
    written: RowLayout = read
    if first_tokens is not None:
      written = first_tokens
      rows = written.pack(read.unpack(rows))
      query = tf.expand_dims(query[:, :, 0], 2)  # the static shape has one query, too

    def drop(probabilities):
      return dropout(probabilities, PROBABILITIES, number)

    if bias is None:
      bias = tf.zeros([1, 1, 1, tf.shape(key)[2]])
    query /= np.float32(np.sqrt(self._head_size))
    context = written.join(self._attend(query, key, value, bias, drop))
    rows += dropout(self.attended(context, read.keeps_kernels), ATTENDED, number)
    inputs, gates = tf.split(self.inner(self.norm(rows), read.keeps_kernels), 2, axis=-1)
    inner = dropout(activate(self._activation, inputs) * gates, OUTER, number)
    return rows + self.outer(inner, read.keeps_kernels)

  def _rotate(self, states):
    """Turns each pair of dimensions of states [batch, heads, seq_len, head_size] by an angle of the position."""
    # Each step is rounded as in PyTorch: an angle is up to 8,191 times the error of a rate.
    exponents = np.arange(0, self._head_size, 2, np.float32) / np.float32(self._head_size)
    wavelengths = (self._theta ** exponents.astype(np.float64)).astype(np.float32)
    positions = tf.cast(tf.range(tf.shape(states)[2]), tf.float32)
    angles = tf.expand_dims(positions, 1) * (np.float32(1) / wavelengths)
    first, second = tf.split(states, 2, axis=-1)
    cos, sin = tf.cos(angles), tf.sin(angles)
    return tf.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)

  def _attend(self, query, key, value, bias, drop):
    """Returns the context [batch, heads, queries, head_size] by the attention of the block."""
    if self._reach is None:
      return _attend_to_all(query, key, value, bias, drop)
    if query.shape[2] == 1 or self._reach == 0:
      return self._attend_near(query, key, value, bias, drop)
    largest = 2 * self._reach * _MAX_WINDOWS
    if key.shape[2] is not None:
      attend = self._attend_near if key.shape[2] <= largest else self._attend_by_windows
      return attend(query, key, value, bias, drop)
    return tf.cond(
      tf.shape(key)[2] <= largest,
      lambda: self._attend_near(query, key, value, bias, drop),
      lambda: self._attend_by_windows(query, key, value, bias, drop),
    )

  def _attend_near(self, query, key, value, bias, drop):
    """Local attention by a matrix of all pairs, for short text."""
    queries, keys = tf.range(tf.shape(query)[2]), tf.range(tf.shape(key)[2])
    distance = tf.abs(tf.expand_dims(queries, 1) - keys)
    return _attend_to_all(query, key, value, bias + self._far(distance), drop)

  def _attend_by_windows(self, query, key, value, bias, drop):
    """Local attention of each `reach` queries to as many keys at their place, before it and after it."""
    reach, length = self._reach, sizes_of(key)[2]
    count = (length + reach - 1) // reach

    def windows(states):
      """[batch, heads, seq_len, n] -> [batch, heads, count, 3 * reach, n]."""
      padded = tf.pad(states, [[0, 0], [0, 0], [reach, (count + 1) * reach - length], [0, 0]])
      parts = _in_parts(padded, count + 2, reach)
      return tf.concat([parts[:, :, :-2], parts[:, :, 1:-1], parts[:, :, 2:]], axis=3)

    padded = tf.pad(query, [[0, 0], [0, 0], [0, count * reach - length], [0, 0]])
    # Padding beyond the text is masked, too.
    is_token = tf.cast(tf.equal(tf.linalg.matrix_transpose(bias), 0.0), tf.float32)
    masked = tf.linalg.matrix_transpose(1.0 - windows(is_token)) * _MASKED
    distance = tf.abs(tf.expand_dims(tf.range(reach), 1) + reach - tf.range(3 * reach))
    masked += self._far(distance)
    context = _attend_to_all(_in_parts(padded, count, reach), windows(key), windows(value), masked, drop)
    context = reshape(context, [*sizes_of(context)[:2], count * reach, self._head_size])
    return context[:, :, :length]

  def _far(self, distance):
    return tf.cast(distance > self._reach, tf.float32) * _MASKED


def _attend_to_all(query, key, value, bias, drop):
  """Returns softmax(query key' + bias) value over the last two axes."""
  probabilities = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + bias)
  return tf.matmul(drop(probabilities), value)


def _in_parts(states, count, size):
  """[batch, heads, count * size, n] -> [batch, heads, count, size, n]."""
  batch, heads, _, n = sizes_of(states)
  return reshape(states, [batch, heads, count, size, n])
