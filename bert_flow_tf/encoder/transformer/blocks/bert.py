"""BERT's block of a transformer, which most architectures share."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.encoder.transformer.activations import LEAST_VALUES
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import ATTENDED, DISTANCES, OUTER, PROBABILITIES
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

# transformers adds it to all logits; it changes the last bit of tiny logits.
_STABLE = 1e-9


def split_heads(states: tf.Tensor, heads: int) -> tf.Tensor:
  """[batch, seq_len, heads * head_size] -> [batch, heads, seq_len, head_size], by a static last dimension."""
  batch, length, size = sizes_of(states)
  return tf.transpose(reshape(states, [batch, length, heads, size // heads]), [0, 2, 1, 3])


def join_heads(states: tf.Tensor, size: int) -> tf.Tensor:
  """[batch, heads, seq_len, head_size] -> [batch, seq_len, size], size = heads * head_size."""
  states = tf.transpose(states, [0, 2, 1, 3])
  return reshape(states, [*sizes_of(states)[:2], size])


class TransformerBlock(tf.Module):
  """Base of all blocks."""

  @classmethod
  def shared_table(cls, variables: Variables, config: EncoderConfig) -> tf.Module | None:
    """Returns the table of distances that all blocks share, `relative` of a call; None without one."""
    return None


class Block(TransformerBlock):
  """Transformer block: self-attention and two dense layers, each followed by a sum and a normalization."""

  def __init__(self, variables: Variables, path: str, config: EncoderConfig, number: int) -> None:
    """Makes the layers below a path; `number` counts blocks from 0."""
    super().__init__()
    size, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
    paths = {layer: f"{path}/{name}" for layer, name in config.architecture.layers.items()}
    self._heads, self._size = config.num_attention_heads, size
    self._head_size = size // self._heads
    self.query = Dense(variables, paths["query"], size, size)
    self.key = Dense(variables, paths["key"], size, size)
    self.value = Dense(variables, paths["value"], size, size)
    self.attended = Dense(variables, paths["attended"], size, size)
    self.attended_norm = LayerNorm(variables, paths["attended_norm"], size, epsilon)
    self.inner = Dense(variables, paths["inner"], size, inner, config.hidden_act)
    self.outer = Dense(variables, paths["outer"], inner, size, least_input=LEAST_VALUES.get(config.hidden_act))
    self.outer_norm = LayerNorm(variables, paths["outer_norm"], size, epsilon)

  def __call__(
    self,
    rows: tf.Tensor,
    read: RowLayout,
    bias: tf.Tensor,
    dropout: Dropout,
    number: int,
    first_tokens: FirstTokens | None = None,
    relative: Any = None,
  ) -> tf.Tensor:
    """Hidden states float32 [n, size] -> hidden states of the next block, float32 [m, size].

    Args:
      rows: the hidden states, in the order of `read`.
      read: the positions of `rows`.
      bias: summand of the logits of attention, float32 [batch or 1, heads or 1, seq_len or 1, seq_len].
      dropout: its dropout.
      number: number of the block, from 0; all blocks of ALBERT are the same object.
      first_tokens: None for the states of all of `read`, else of first tokens alone.
      relative: table of the distances of two tokens, for architectures whose attention reads it.
    """
    queries = rows
    written: RowLayout = read
    if first_tokens is not None:
      written = first_tokens
      queries = written.pack(read.unpack(rows))
      bias = bias[:, :, :1]
    query = split_heads(written.unpack(self.query(queries)), self._heads)
    key = split_heads(read.unpack(self.key(rows)), self._heads)
    value = split_heads(read.unpack(self.value(rows)), self._heads)
    if relative is not None:
      relative = dropout(relative, DISTANCES, number)
    logits = self._logits(query, key, relative)
    probabilities = tf.nn.softmax(logits + bias + _STABLE)
    probabilities = dropout(probabilities, PROBABILITIES, number)
    context = join_heads(tf.matmul(probabilities, value), self._size)
    attended = dropout(self.attended(written.pack(context)), ATTENDED, number)
    attended = self.attended_norm(attended + queries)
    outer = dropout(self.outer(self.inner(attended)), OUTER, number)
    return self.outer_norm(outer + attended)

  def _logits(self, query, key, relative):
    """Returns the logits of attention, float32 [batch, heads, queries, seq_len]."""
    return tf.matmul(query, key, transpose_b=True) / tf.sqrt(tf.cast(self._head_size, tf.float32))
