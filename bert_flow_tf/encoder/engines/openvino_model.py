"""A model of OpenVINO for hidden states: embeddings, blocks and pooled output, as in `transformer.Transformer`."""

from typing import NamedTuple

import numpy as np
from openvino import Model, Node
from openvino import opset15 as op

from bert_flow_tf.encoder.engines.openvino_blocks import BLOCK_FUNCTIONS, BlockInputs, bias_of_mask
from bert_flow_tf.encoder.engines.openvino_layers import (
  LayerGraph,
  RowsOfBatch,
  RowsOfTokens,
  RowsWithoutPadding,
  constant,
  gather_rows,
  integers,
  size_of,
)
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.distances import MPNET_BUCKETS, mpnet_buckets


class ModelForm(NamedTuple):
  """What a model computes, and of which batches.

  Attributes:
    blocks: numbers of the blocks whose states are wanted, 0 for the embedding layer.
    pooled: whether the pooled output is wanted.
    first_token: whether the last block's states are wanted for first tokens alone.
    packed: whether batches have padding, for which nothing but attention is computed.
    by_windows: whether ModernBERT's local attention computes windows.
  """

  blocks: tuple[int, ...]
  pooled: bool
  first_token: bool
  packed: bool
  by_windows: bool = False


def count_blocks(config: EncoderConfig, form: ModelForm) -> int:
  """Returns the number of blocks that a model computes."""
  if form.pooled:
    return config.num_hidden_layers
  return max(form.blocks)


def build_model(graph: LayerGraph, form: ModelForm) -> Model:
  """Returns a model whose inputs are those of `graph`.

  Its outputs are the states of the blocks, in their order, float32 [batch, seq_len, hidden]; then the pooled output
  [batch, hidden]; then the values that the graph watches.
  """
  config = graph.config
  architecture, last = config.architecture, config.num_hidden_layers
  rows_of_batch: RowsOfBatch = RowsWithoutPadding()
  mask = bias = None
  if form.packed:
    rows_of_batch = RowsOfTokens(graph)
    mask = graph.input("mask", 2, np.float32)
    bias = bias_of_mask(mask)
    length = size_of(mask, 1)
  else:
    length = size_of(graph.input("ids", 2), 1)
  if architecture.has_relative_positions:
    by_distance = _bias_by_distance(graph, length)
    bias = by_distance if bias is None else op.add(bias, by_distance)
  inputs = BlockInputs(rows_of_batch, bias, length, mask, form.by_windows)
  rows = _embed(graph, form.packed)
  states = {0: rows_of_batch.unpack(rows)}
  for number in range(1, count_blocks(config, form) + 1):
    # The pooled output is computed from the first token, too.
    first_alone = number == last and (form.first_token or last not in form.blocks)
    rows = BLOCK_FUNCTIONS[architecture.blocks](graph, number - 1, rows, inputs, first_alone)
    if number == last and architecture.final_norm:
      rows = graph.norm(rows, architecture.final_norm)
    states[number] = rows if first_alone else rows_of_batch.unpack(rows)
  outputs = [states[number] for number in form.blocks]
  if form.pooled:
    first = op.squeeze(RowsWithoutPadding().first(states[last]), integers(1))
    outputs.append(graph.dense(first, architecture.pooler, activation="tanh"))
  return Model([*outputs, *graph.largest.values()], list(graph.inputs.values()), "encoder")


def _embed(graph: LayerGraph, packed: bool) -> Node:
  """Returns the rows of the embedding layer: the normalized sums of word, position and segment embeddings."""
  config = graph.config
  architecture = config.architecture
  rank = 1 if packed else 2

  def segment():
    return graph.read("embeddings/token_type_embeddings/embeddings")[:1]  # all segment ids are 0

  def positions():
    table = graph.read("embeddings/position_embeddings/embeddings")
    if architecture.key("type_vocab_size"):
      table = table + segment()
    return constant(table)

  rows = gather_rows(graph.weight(architecture.words), graph.input("ids", rank))
  if architecture.has_positions:
    rows = op.add(rows, gather_rows(positions(), graph.input("positions", rank)))
  elif architecture.key("type_vocab_size"):
    rows = op.add(rows, constant(segment()))
  rows = graph.norm(rows, architecture.norm)
  if config.projection:
    rows = graph.dense(rows, config.projection)
  return rows


def _bias_by_distance(graph: LayerGraph, length: Node) -> Node:
  """Returns MPNet's bias of attention, float32 [1, heads, seq_len, seq_len]."""
  farthest = graph.config.max_position_embeddings - 1
  buckets = mpnet_buckets(np.arange(-farthest, farthest + 1))
  table = graph.read("encoder/relative_attention_bias/embeddings").reshape(MPNET_BUCKETS, -1)
  zero, one = op.constant(np.int64(0)), op.constant(np.int64(1))
  positions = op.range(zero, op.squeeze(length, integers(0)), one, "i64")
  distance = op.subtract(op.unsqueeze(positions, one), op.unsqueeze(positions, zero))
  numbers = op.add(distance, op.constant(np.int64(farthest)))
  return op.unsqueeze(op.gather(constant(table[buckets].T), numbers, one), integers(0))
