"""BERT and its relatives in plain TensorFlow, without Keras and without transformers.

A `tf.Module` tracks variables for checkpoints, SavedModels and strategies, and does nothing else. The equations:
Vaswani et al. 2017, "Attention Is All You Need", section 3, and Devlin et al. 2019, section 3 (BERT).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.pooling import unit_rows_of_words
from bert_flow_tf.encoder.transformer.blocks.bert import Block
from bert_flow_tf.encoder.transformer.blocks.deberta import DisentangledBlock
from bert_flow_tf.encoder.transformer.blocks.modernbert import RotaryBlock
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.distances import MPNET_BUCKETS, mpnet_buckets
from bert_flow_tf.encoder.transformer.families.architecture import EMBEDDED
from bert_flow_tf.encoder.transformer.int8_inputs import random_ids
from bert_flow_tf.encoder.transformer.layers import (
  AllPositions,
  Dense,
  Dropout,
  FirstTokens,
  JointDense,
  LayerNorm,
  OneSentence,
  RowLayout,
  Tokens,
  Variables,
  can_pack,
  sizes_of,
)
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.encoder.transformer.products import WatchedProducts, make_products
from bert_flow_tf.encoder.transformer.weight_names import checksum_of, path_of_variable
from bert_flow_tf.io.files import Json

# {`Architecture.blocks`: class of the blocks}
BLOCKS: dict[str, Any] = {"bert": Block, "deberta": DisentangledBlock, "modernbert": RotaryBlock}
# Summand of the logits of padding.
_MASKED = -10000.0


class Transformer(tf.Module):
  """Encoder of an architecture: embeddings, blocks, and a pooled output if it has weights for it.

  Its variables have the names of transformers' TensorFlow models, so that checksums and the names of TensorFlow 1 are
  the same for every source of the model.

  Attributes:
    config: its `EncoderConfig`.
    weights: all variables, float32.
    has_pooler: whether it has weights for the pooled output.
    word_embeddings: variable float32 [vocab, word_size].
    projection: the dense layer that widens word embeddings, or None.
    blocks: the blocks; a single one if all share their weights.
    pooler: the dense layer of the pooled output, or None.
  """

  def __init__(self, config: EncoderConfig, variables: Variables, has_pooler: bool) -> None:
    """Makes the layers; `variables` returns the variable of a path and a shape."""
    super().__init__()
    self.config = config
    self._weights: list[tf.Variable] = []

    def keep(path, shape):
      variable = variables(path, shape)
      self._weights.append(variable)
      return variable

    architecture, size, width = config.architecture, config.hidden_size, config.word_size
    self.word_embeddings = keep(architecture.words, [config.vocab_size, width])
    # Checkpoints of a training hold the weights by this order.
    self._types = None
    if architecture.key("type_vocab_size"):
      self._types = keep("embeddings/token_type_embeddings/embeddings", [config.type_vocab_size, width])
    self._positions = None
    if architecture.has_positions:
      shape = [config.max_position_embeddings, width]
      self._positions = keep("embeddings/position_embeddings/embeddings", shape)
    self._norm = LayerNorm(keep, architecture.norm, width, config.layer_norm_eps, architecture.has_biases)
    self.projection = None
    if config.projection:
      self.projection = Dense(keep, config.projection, width, size)
    self._distances = None
    if architecture.has_relative_positions:
      self._distances = keep("encoder/relative_attention_bias/embeddings", [MPNET_BUCKETS, config.num_attention_heads])
    count = config.num_hidden_layers
    if architecture.shares_weights:
      count = 1
    make_block = BLOCKS[architecture.blocks]
    self._relative = make_block.shared_table(keep, config)
    self.blocks = [make_block(keep, architecture.block.format(number), config, number) for number in range(count)]
    self._final_norm = None
    if architecture.final_norm:
      self._final_norm = LayerNorm(keep, architecture.final_norm, size, config.layer_norm_eps, architecture.has_biases)
    self.has_pooler, self.pooler = has_pooler, None
    if has_pooler:
      self.pooler = Dense(keep, architecture.pooler, size, size, "tanh")

  def __reduce__(self) -> Any:
    """Returns function and arguments for a copy with copied weights, in this process or another, on any devices."""
    arrays = {path_of_variable(weight): weight.numpy() for weight in self._weights}
    return _from_arrays, (self.config, arrays, self.has_pooler)

  @property
  def weights(self) -> list[tf.Variable]:
    """All variables, float32, in the order in which they were made."""
    return list(self._weights)

  @property
  def computed_weights(self) -> list[tf.Variable]:
    """The variables that a graph reads: in int8 all but the variables of dense layers, which are its constants."""
    constant = set()
    for layer in self.submodules:
      if isinstance(layer, Dense) and layer.is_int8 and layer is not self.projection:  # which `word_rows` reads
        constant.update(id(variable) for variable in layer.variables)
    return [weight for weight in self._weights if id(weight) not in constant]

  def compute_in(self, precision: str, frozen: bool) -> None:
    """Sets the precision of the dense layers, whose weights stay float32.

    `frozen`: whether the weights never change, so that they are cast to the precision once.
    """
    products = make_products(precision)
    layers = self._dense_layers()
    largest: list[np.ndarray | None] = [None] * len(layers)
    if precision == INT8:
      largest = self._largest_inputs(layers)
    for layer, largest_of_layer in zip(layers, largest, strict=True):
      layer.compute_in(products, frozen, largest_of_layer)

  def _dense_layers(self):
    """Returns the dense layers; in place of layers with a joint product, the joint one."""
    layers = [layer for layer in self.submodules if isinstance(layer, Dense)]
    joined = set()
    for layer in layers:
      if isinstance(layer, JointDense):
        joined.update(map(id, layer.layers))
    return [layer for layer in layers if id(layer) not in joined]

  def _largest_inputs(self, layers):
    """Returns the largest absolute inputs of each dense layer, float32 [size], for random tokens."""
    watched = [WatchedProducts() for _ in layers]
    for layer, products in zip(layers, watched, strict=True):
      layer.compute_in(products, frozen=False)
    ids = random_ids(self.config)
    self(tf.constant(ids), tf.ones_like(ids))
    return [products.largest for products in watched]

  def __call__(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor | None,
    dropout_seed: tf.Tensor | None = None,
    packed: bool = False,
    first_token: bool = False,
  ) -> tuple[tuple[tf.Tensor, ...], tf.Tensor | None]:
    """Returns the hidden states and the pooled output.

    Args:
      ids: ids of tokens, int32 [batch, seq_len].
      mask: 1 for tokens and 0 for padding, int32 [batch, seq_len]; None for one sentence, whose graph holds the weights
        as they are at its first call.
      dropout_seed: what decides the masks of dropout, int32 [2]; None for no dropout.
      packed: whether nothing but attention is computed for padding, whose states are 0 then. Values of tokens differ
        by float rounding only. Ignored under XLA.
      first_token: with `packed`, whether the last block computes the state of the first token alone, whose states are
        float32 [batch, 1, hidden].

    Returns:
      num_hidden_layers + 1 states, float32 [batch, seq_len, hidden], of which 0 is the embedding layer; and the pooled
      output, float32 [batch, hidden], or None.
    """
    packed = packed and can_pack()
    rows: RowLayout = AllPositions()
    bias = None
    if mask is None:
      # Each product that keeps its kernel has a copy of it, and with shared weights there are many products.
      rows = OneSentence(ids, keeps_kernels=not self.config.architecture.shares_weights)
    elif packed:
      rows = Tokens(mask)
    dropout = Dropout(self.config, dropout_seed)
    if mask is not None:  # not by tf.newaxis, which TensorFlow Lite lacks
      bias = tf.expand_dims(tf.expand_dims(1.0 - tf.cast(mask, tf.float32), 1), 1) * _MASKED
    length = sizes_of(ids)[1]
    if self._distances is not None:
      by_distance = self._bias_by_distance(length)
      bias = by_distance if bias is None else bias + by_distance
    relative = None
    if self._relative is not None:
      relative = self._relative(length)
    states = dropout(self._embed(ids, rows), EMBEDDED)
    if self.projection is not None:
      states = self.projection(states)
    all_states = [rows.unpack(states)]
    last = self.config.num_hidden_layers - 1
    for number in range(last + 1):
      block = self.blocks[min(number, len(self.blocks) - 1)]
      if packed and first_token and number == last:
        states = block(states, rows, bias, dropout, number, FirstTokens(), relative)
        rows = FirstTokens()
      else:
        states = block(states, rows, bias, dropout, number, None, relative)
      if self._final_norm is not None and number == last:
        states = self._final_norm(states)
      all_states.append(rows.unpack(states))
    pooled = None
    if self.pooler is not None:
      pooled = self.pooler(all_states[-1][:, 0])
    return tuple(all_states), pooled

  def _embed(self, ids, rows):
    """Returns the normalized sums of word, position and segment embeddings, float32 [n, word_size]."""
    # Segment ids are 0, as in the original (docs/original.md, "Encoder and pooling").
    positions = tf.broadcast_to(tf.range(tf.shape(ids)[1]), tf.shape(ids))
    first = self.config.first_position
    if first:
      # Padding has the position of the padding token's id, as in PyTorch.
      is_token = tf.cast(ids != first - 1, tf.int32)
      positions = tf.cumsum(is_token, axis=1) * is_token + first - 1
    ids = rows.pack(ids)
    sums = tf.gather(self.word_embeddings, ids)
    if self._positions is not None:
      sums += tf.gather(self._positions, rows.pack(positions))
    if self._types is not None:
      sums += tf.gather(self._types, tf.zeros_like(ids))
    return self._norm(sums)

  def _bias_by_distance(self, length):
    """Returns MPNet's bias of attention, float32 [1, heads, length, length]."""
    farthest = int(self.config.max_position_embeddings) - 1
    buckets = mpnet_buckets(np.arange(-farthest, farthest + 1)).astype(np.int32)
    positions = tf.range(length)
    distance = tf.expand_dims(positions, 1) - positions
    by_distance = tf.gather(self._distances, tf.gather(buckets, distance + farthest))
    return tf.expand_dims(tf.transpose(by_distance, [2, 0, 1]), 0)

  def word_rows(self, ids: tf.Tensor, widened: bool = False) -> tf.Tensor:
    """Returns the word embeddings of token ids, each divided by its length, float32 [batch, seq_len, word_size].

    `widened` word embeddings are as wide as the hidden states, by the model's own projection without its bias.
    """
    kernel = None
    if widened and self.projection is not None:
      kernel = self.projection.kernel
    return unit_rows_of_words(self.word_embeddings, ids, kernel)

  def trained_weights(self, blocks: Sequence[int], pooled: bool) -> list[tf.Variable]:
    """Returns the weights on which the hidden states of some blocks, or the pooled output, depend.

    As in the published code, a weight without a gradient (the pooler with an average, blocks above the pooled ones) is
    neither updated nor decayed.
    """
    if pooled:
      return self.weights
    unused: list[Any] = []
    if not self.config.architecture.shares_weights:
      count = max(blocks, default=0)
      unused += self.blocks[count:]
      if count < self.config.num_hidden_layers and self._final_norm is not None:
        unused.append(self._final_norm)
      if not count and self._relative is not None:
        unused.append(self._relative)
    if self.pooler is not None:
      unused.append(self.pooler)
    left_out = {id(weight) for layer in unused for weight in layer.variables}
    return [weight for weight in self._weights if id(weight) not in left_out]

  @property
  def deciding_settings(self) -> Json:
    """Settings of config.json that change the output and no weight, for cache keys."""
    return self.config.deciding_settings

  def checksum(self) -> str:
    """Returns the `checksum_of` its variables."""
    return checksum_of(self._weights)


def _from_arrays(config, arrays, has_pooler):
  """Returns a model with {path: array} as weights."""
  main = config.architecture.main
  return Transformer(config, lambda path, shape: tf.Variable(arrays[path], name=f"{main}/{path}"), has_pooler)
