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
  JointDense,
  LayerNorm,
  RowLayout,
  Variables,
)

# transformers adds it to all logits; it changes the last bit of tiny logits.
_STABLE = 1e-9


class TransformerBlock(tf.Module):
  """Base of all blocks.

  Attributes:
    joint: query, key and value as one product for weights that never change; None if the block has no such product.
  """

  joint: JointDense | None = None

  @classmethod
  def shared_table(cls, variables: Variables, config: EncoderConfig) -> tf.Module | None:
    """Returns the table of distances that all blocks share, `relative` of a call; None without one."""
    return None


class Block(TransformerBlock):
  """Transformer block: self-attention and two dense layers, each followed by a sum and a normalization."""

  _has_joint = True

  def __init__(self, variables: Variables, path: str, config: EncoderConfig, number: int) -> None:
    """Makes the layers below a path; `number` counts blocks from 0."""
    super().__init__()
    size, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
    paths = {layer: f"{path}/{name}" for layer, name in config.architecture.layers.items()}
    self._heads = config.num_attention_heads
    self._head_size = size // self._heads
    self.query = Dense(variables, paths["query"], size, size)
    self.key = Dense(variables, paths["key"], size, size)
    self.value = Dense(variables, paths["value"], size, size)
    if self._has_joint:
      self.joint = JointDense([self.query, self.key, self.value])
    self.attended = Dense(variables, paths["attended"], size, size)
    self.attended_norm = LayerNorm(variables, paths["attended_norm"], size, epsilon)
    self.inner = Dense(variables, paths["inner"], size, inner, config.hidden_act)
    self.outer = Dense(variables, paths["outer"], inner, size, least_input=LEAST_VALUES.get(config.hidden_act))
    self.outer_norm = LayerNorm(variables, paths["outer_norm"], size, epsilon)

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
    """Hidden states float32 [n, size] -> hidden states of the next block, float32 [m, size].

    Args:
      rows: the hidden states, in the order of `read`.
      read: the positions of `rows`.
      bias: summand of the logits of attention, float32 [batch or 1, heads or 1, seq_len or 1, seq_len]; None for 0.
      dropout: its dropout.
      number: number of the block, from 0; all blocks of ALBERT are the same object.
      first_tokens: None for the states of all of `read`, else of first tokens alone.
      relative: table of the distances of two tokens, for architectures whose attention reads it.
    """
    kept = read.keeps_kernels
    queries = rows
    written: RowLayout = read
    if first_tokens is not None:
      written = first_tokens
      queries = written.pack(read.unpack(rows))
      if bias is not None:
        bias = bias[:, :, :1]
    if relative is not None:
      relative = dropout(relative, DISTANCES, number)
    if self.joint is not None and (kept or self.joint.is_prepared):
      query, key, value = read.split(self.joint(rows, kept), 3, self._heads)
      if first_tokens is not None:
        query = query[:, :, :1]
    else:
      (query,) = written.split(self.query(queries, kept), 1, self._heads)
      (key,) = read.split(self.key(rows, kept), 1, self._heads)
      (value,) = read.split(self.value(rows, kept), 1, self._heads)
    logits = self._logits(query, key, relative)
    if bias is not None:
      logits += bias
    probabilities = tf.nn.softmax(logits + _STABLE)
    probabilities = dropout(probabilities, PROBABILITIES, number)
    context = written.join(tf.matmul(probabilities, value))
    attended = dropout(self.attended(context, kept), ATTENDED, number)
    attended = self.attended_norm(attended + queries)
    outer = dropout(self.outer(self.inner(attended, kept), kept), OUTER, number)
    return self.outer_norm(outer + attended)

  def _logits(self, query, key, relative):
    """Returns the logits of attention, float32 [batch, heads, queries, seq_len]."""
    return tf.matmul(query, key, transpose_b=True) / tf.sqrt(tf.cast(self._head_size, tf.float32))
