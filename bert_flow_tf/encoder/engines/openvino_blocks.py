"""The blocks of the transformers in OpenVINO's operations: BERT's, DeBERTa's, ModernBERT's, as in `transformer/blocks`.

A block is a function of the rows of hidden states. Attention takes [batch, heads, seq_len, head_size].
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from openvino import Node
from openvino import opset15 as op

from bert_flow_tf.encoder.engines.openvino_layers import (
  ACTIVATIONS_BY_OPENVINO,
  DenseWeights,
  LayerGraph,
  RowsOfBatch,
  RowsWithoutPadding,
  constant,
  integers,
  slice_axis,
)
from bert_flow_tf.encoder.transformer.activations import LEAST_VALUES
from bert_flow_tf.encoder.transformer.distances import deberta_buckets

_MASKED = np.float32(-10000)
# Terms of DeBERTa's logits: of content and content, content and position, position and content.
_DEBERTA_TERMS = 3


class BlockInputs(NamedTuple):
  """What the blocks of a model read, besides hidden states.

  Attributes:
    read: the order of the rows.
    bias: summand of the logits of attention, float32, [batch or 1, heads or 1, 1 or seq_len, seq_len]; None for 0.
    length: seq_len, int64 [1].
    mask: 1 for tokens and 0 for padding, float32 [batch, seq_len]; None if no batch has padding.
    by_windows: whether ModernBERT's local attention computes windows, for text that is longer than two of them.
  """

  read: RowsOfBatch
  bias: Node | None
  length: Node
  mask: Node | None
  by_windows: bool


# Function (graph, number of the block from 0, rows, inputs, whether it computes first tokens alone) -> rows of the next
# block; of first tokens, [batch, 1, size].
BlockFunction = Callable[[LayerGraph, int, Node, BlockInputs, bool], Node]


def bias_of_mask(mask: Node) -> Node:
  """[batch, seq_len] -> summand of the logits, [batch, 1, 1, seq_len]."""
  return op.unsqueeze(_masked(op.subtract(op.constant(np.float32(1)), mask)), integers(1, 2))


def bert_block(graph: LayerGraph, number: int, rows: Node, inputs: BlockInputs, first_token: bool) -> Node:
  """Returns the states after BERT's block."""
  return _bert_block(graph, number, rows, inputs, first_token, 1, None)


def deberta_block(graph: LayerGraph, number: int, rows: Node, inputs: BlockInputs, first_token: bool) -> Node:
  """Returns the states after BERT's block, whose logits have DeBERTa's two terms of distances, too."""
  return _bert_block(graph, number, rows, inputs, first_token, _DEBERTA_TERMS, _add_distances)


def _bert_block(graph, number, rows, inputs, first_token, terms, add_to_logits):
  """Returns the states after a block; its logits are a sum of terms, and `add_to_logits` adds those but the first."""
  config = graph.config
  path = config.architecture.block.format(number)
  paths = {layer: f"{path}/{name}" for layer, name in config.architecture.layers.items()}
  sources = [paths["query"], paths["key"], paths["value"]]
  scale = _scale_of_queries(config, terms)

  def weights_of(layers):
    """Returns the weights of layers with the same inputs, side by side; queries are divided as the logits."""
    weights = [graph.dense_weights(layer) for layer in layers]
    if layers[0] == paths["query"]:
      weights[0] = DenseWeights(weights[0].kernel * scale, weights[0].bias * scale)
    kernels, biases = zip(*weights, strict=True)
    return DenseWeights(np.concatenate(kernels, axis=1), np.concatenate(biases))

  def project(layout, states, layers):
    """Returns the outputs of layers by heads."""
    count = len(layers)
    products = graph.dense(states, sources[0], part=f":{count}", weights=lambda: weights_of(layers))
    return _split_heads(layout.unpack(products), count, config.num_attention_heads)

  queries, written, bias = rows, inputs.read, inputs.bias
  if first_token:
    queries, written = inputs.read.first(rows), RowsWithoutPadding()
    (query,) = project(written, queries, sources[:1])
    key, value = project(inputs.read, rows, sources[1:])
    if bias is not None:
      bias = slice_axis(bias, integers(0), integers(1), 2)
  else:
    query, key, value = project(inputs.read, rows, sources)
  logits = op.matmul(query, key, False, True)
  if add_to_logits is not None:
    logits = add_to_logits(logits, graph, paths, query, key, inputs.length, scale, first_token)
  context = written.pack(_join_heads(_attend(logits, value, bias), config.hidden_size))
  attended = graph.norm(op.add(graph.dense(context, paths["attended"]), queries), paths["attended_norm"])
  inner = graph.dense(attended, paths["inner"], activation=config.hidden_act)
  outer = graph.dense(inner, paths["outer"], least_input=LEAST_VALUES.get(config.hidden_act))
  return graph.norm(op.add(outer, attended), paths["outer_norm"])


def _scale_of_queries(config, terms):
  """Returns the factor of queries: logits are divided by a root of the size of a head, and of the number of terms."""
  return np.float32(1 / math.sqrt(terms * (config.hidden_size // config.num_attention_heads)))


def _split_heads(states, count, heads):
  """[batch, seq_len, count * size] -> count times [batch, heads, seq_len, head_size]."""
  size = states.get_output_partial_shape(0)[2].get_length() // count
  states = op.reshape(states, integers(0, 0, count, heads, size // heads), True)
  states = op.transpose(states, integers(2, 0, 3, 1, 4))
  parts = op.split(states, op.constant(np.int64(0)), count).outputs()
  return [op.squeeze(part, integers(0)) for part in parts]


def _join_heads(states, size):
  """[batch, heads, seq_len, head_size] -> [batch, seq_len, size]."""
  return op.reshape(op.transpose(states, integers(0, 2, 1, 3)), integers(0, 0, size), True)


def _attend(logits, value, bias):
  """Returns softmax(logits + bias) value over the last two axes."""
  if bias is not None:
    logits = op.add(logits, bias)
  return op.matmul(op.softmax(logits, -1), value, False, False)


def _masked(is_masked):
  """Returns the summand of logits for what is 1 where it is masked, else 0."""
  return op.multiply(is_masked, op.constant(_MASKED))


def _add_distances(logits, graph, paths, query, key, length, scale, first_token):
  """Returns the logits with the terms of distances seen by the query, and seen by the key."""
  position_key = _positions_of(graph, paths["key"], 1, length, is_descending=True)
  logits = op.add(logits, _by_distance(op.matmul(query, position_key, False, True), length, first_token))
  # Distances seen by a key have the opposite sign.
  position_query = _positions_of(graph, paths["query"], scale, length, is_descending=False)
  seen_by_key = _by_distance(op.matmul(key, position_query, False, True), length, False)
  if first_token:
    seen_by_key = slice_axis(seen_by_key, integers(0), integers(1), 3)
  return op.add(logits, op.transpose(seen_by_key, integers(0, 1, 3, 2)))


def _positions_of(graph, path, scale, length, is_descending):
  """Returns a layer's outputs for the distances of a text's tokens, [1, heads, 2 * seq_len - 1, head_size]."""
  config = graph.config
  heads = config.num_attention_heads

  def outputs():
    # They do not depend on the text: the model has them as constants, for the rows of the table of distances.
    kernel, bias = graph.dense_weights(path)
    table = (graph.shared("distances", lambda: _normalized_distances(graph)) @ kernel + bias) * scale
    return constant(table.reshape(len(table), heads, -1).transpose(1, 0, 2))

  def numbers():
    farthest = config.max_position_embeddings - 1
    distances = np.arange(-farthest, farthest + 1)
    if is_descending:
      distances = distances[::-1]
    buckets = deberta_buckets(distances, config.position_buckets, config.longest_distance)
    first = op.subtract(integers(farthest + 1), length)
    return slice_axis(constant(buckets.astype(np.int32)), first, op.add(integers(farthest), length), 0)

  table = graph.shared(f"{path} of distances", outputs)
  rows = graph.shared(f"rows of distances {is_descending}", numbers)
  return op.unsqueeze(op.gather(table, rows, op.constant(np.int64(1))), integers(0))


def _normalized_distances(graph):
  """Returns the normalized embeddings of distances, float32 [2 * buckets, size]."""
  table = graph.read("encoder/rel_embeddings.weight")
  centered = table - table.mean(axis=1, keepdims=True)
  deviations = np.sqrt(np.square(centered).mean(axis=1, keepdims=True) + graph.config.layer_norm_eps)
  return centered / deviations * graph.read("encoder/LayerNorm/gamma") + graph.read("encoder/LayerNorm/beta")


def _by_distance(products, length, first_token):
  """[batch, heads, n, 2 * seq_len - 1] by distance -> [batch, heads, n, seq_len] by position; n is seq_len or 1.

  Row i needs seq_len columns from column seq_len - 1 - i on. In the flat sequence, these are rows shorter by 1.
  """
  one = integers(1)
  before = op.subtract(length, one)
  distances = op.add(length, before)
  if first_token:
    return slice_axis(products, before, distances, 3)
  zeros = op.constant(np.float32(0))
  products = op.pad(products, integers(0, 0, 0, 0), integers(0, 0, 0, 1), "constant", zeros)
  flat = op.reshape(products, integers(0, 0, -1), True)
  flat = slice_axis(flat, before, op.add(before, op.multiply(length, distances)), 2)
  rows = op.reshape(flat, op.concat([integers(0, 0, -1), distances], 0), True)
  return slice_axis(rows, integers(0), length, 3)


def modernbert_block(graph: LayerGraph, number: int, rows: Node, inputs: BlockInputs, first_token: bool) -> Node:
  """Returns the states after ModernBERT's block: global or local attention with rotary positions, then GeGLU."""
  config, read = graph.config, inputs.read
  path, size = config.architecture.block.format(number), config.hidden_size
  is_global = number in config.global_blocks
  theta = config.global_rope_theta if is_global else config.local_rope_theta
  scale = _scale_of_queries(config, 1)

  def project(layout, states, first, end):
    """Returns queries, keys and values from `first` to `end` by heads."""

    def weights():
      kernel = graph.read(f"{path}/attn/Wqkv/kernel") * np.repeat([scale, 1, 1], size).astype(np.float32)
      return DenseWeights(kernel[:, first * size : end * size])

    products = graph.dense(states, f"{path}/attn/Wqkv", part=f":{first}-{end}", weights=weights)
    return _split_heads(layout.unpack(products), end - first, config.num_attention_heads)

  normed = rows
  if number:
    normed = graph.norm(rows, f"{path}/attn_norm")
  written = read
  if first_token:
    rows, written = read.first(rows), RowsWithoutPadding()
    (query,) = project(written, read.first(normed), 0, 1)  # the first position is not turned
    key, value = project(read, normed, 1, 3)
  else:
    query, key, value = project(read, normed, 0, 3)
    query = _rotate(graph, query, theta, inputs.length)
  key = _rotate(graph, key, theta, inputs.length)
  reach = config.local_attention // 2
  if is_global:
    context = _attend(op.matmul(query, key, False, True), value, inputs.bias)
  elif inputs.by_windows and not first_token:
    context = _attend_by_windows(graph, query, key, value, inputs, reach)
  else:
    bias = graph.shared(f"near {first_token}", lambda: _bias_of_near(inputs, reach, first_token))
    context = _attend(op.matmul(query, key, False, True), value, bias)
  rows = op.add(rows, graph.dense(written.pack(_join_heads(context, size)), f"{path}/attn/Wo"))
  inner = graph.dense(graph.norm(rows, f"{path}/mlp_norm"), f"{path}/mlp/Wi")
  outputs, gates = op.split(inner, op.constant(np.int64(-1)), 2).outputs()
  gated = op.multiply(ACTIVATIONS_BY_OPENVINO[config.hidden_act](outputs), gates)
  return op.add(rows, graph.dense(gated, f"{path}/mlp/Wo"))


def _rotate(graph, states, theta, length):
  """Turns each pair of dimensions of states [batch, heads, seq_len, head_size] by an angle of the position."""
  config = graph.config
  head_size = config.hidden_size // config.num_attention_heads

  def tables():
    """Returns cosines and sines, each [seq_len, head_size / 2]."""
    # Each step is rounded as in PyTorch: an angle is up to 8,191 times the error of a rate.
    exponents = np.arange(0, head_size, 2, np.float32) / np.float32(head_size)
    wavelengths = (theta ** exponents.astype(np.float64)).astype(np.float32)
    positions = np.arange(config.max_position_embeddings, dtype=np.float32)
    angles = positions[:, np.newaxis] * (np.float32(1) / wavelengths)
    return [slice_axis(constant(table), integers(0), length, 0) for table in (np.cos(angles), np.sin(angles))]

  cos, sin = graph.shared(f"rotation {theta}", tables)
  first, second = op.split(states, op.constant(np.int64(-1)), 2).outputs()
  turned_first = op.subtract(op.multiply(first, cos), op.multiply(second, sin))
  turned_second = op.add(op.multiply(second, cos), op.multiply(first, sin))
  return op.concat([turned_first, turned_second], -1)


def _bias_of_near(inputs, reach, first_token):
  """Returns the bias of attention with distant tokens masked, [batch or 1, 1, queries, seq_len], for short text."""
  zero, one = op.constant(np.int64(0)), op.constant(np.int64(1))
  keys = op.range(zero, op.squeeze(inputs.length, integers(0)), one, "i64")
  queries = keys
  if first_token:
    queries = integers(0)
  distance = op.abs(op.subtract(op.unsqueeze(queries, one), op.unsqueeze(keys, zero)))
  bias = _masked(op.convert(op.greater(distance, op.constant(np.int64(reach))), "f32"))
  if inputs.bias is not None:
    return op.add(inputs.bias, bias)
  return op.unsqueeze(bias, integers(0, 1))


def _attend_by_windows(graph, query, key, value, inputs, reach):
  """Local attention of each `reach` queries to as many keys at their place, before it and after it."""
  head_size = graph.config.hidden_size // graph.config.num_attention_heads
  zero, size = integers(0), integers(reach)
  zeros = op.constant(np.float32(0))
  count = op.divide(op.add(inputs.length, integers(reach - 1)), size)
  rest = op.subtract(op.multiply(count, size), inputs.length)

  def in_parts(states, before, after, n):
    """[batch, heads, seq_len, n] -> [batch, heads, parts, reach, n], with 0 before and after the text."""
    begin, end = (op.concat([zero, zero, padding, zero], 0) for padding in (before, after))
    padded = op.pad(states, begin, end, "constant", zeros)
    return op.reshape(padded, integers(0, 0, -1, reach, n), True)

  def windows(states, n):
    """[batch, heads, seq_len, n] -> [batch, heads, count, 3 * reach, n]."""
    parts = in_parts(states, size, op.add(rest, size), n)
    bounds = [(0, -2), (1, -1), (2, np.iinfo(np.int32).max)]
    return op.concat([slice_axis(parts, integers(first), integers(end), 2) for first, end in bounds], 3)

  def bias():
    """Returns the summand of the logits, which masks padding, also beyond the text, and distant tokens."""
    is_token = windows(op.unsqueeze(inputs.mask, integers(1, 3)), 1)
    padding = _masked(op.subtract(op.constant(np.float32(1)), op.transpose(is_token, integers(0, 1, 2, 4, 3))))
    distance = np.abs(np.arange(reach)[:, np.newaxis] + reach - np.arange(3 * reach))
    return op.add(padding, constant((distance > reach) * _MASKED))

  query = in_parts(query, zero, rest, head_size)
  logits = op.matmul(query, windows(key, head_size), False, True)
  context = _attend(logits, windows(value, head_size), graph.shared("bias of windows", bias))
  context = op.reshape(context, integers(0, 0, -1, head_size), True)
  return slice_axis(context, zero, inputs.length, 2)


# {`Architecture.blocks`: function of the blocks}
BLOCK_FUNCTIONS: dict[str, BlockFunction] = {
  "bert": bert_block,
  "deberta": deberta_block,
  "modernbert": modernbert_block,
}
