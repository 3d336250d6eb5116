"""Layers of a transformer by operations of OpenVINO, as in `transformer/layers`.

Rows are hidden states float32 [tokens, size] of a batch with padding, or [batch, seq_len, size] of a batch without.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from openvino import Node
from openvino import opset15 as op

from bert_flow_tf.encoder.transformer.activations import EXACT_GELU
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.int8_inputs import SMALLEST_RANGE, Inputs, divisors_of

_T = TypeVar("_T")
# Function path -> array of the weight.
ReadWeight = Callable[[str], np.ndarray]
# Largest value of int8 kernels.
_LARGEST = 127
# OpenVINO's normalization needs an epsilon above 0.
_MIN_EPSILON = 1e-12


def _gelu_tanh(x):
  return op.gelu(x, "tanh")


# {name in config.json: x -> y}, as `transformer.activations`
ACTIVATIONS_BY_OPENVINO: dict[str, Callable[[Node], Node]] = {
  **dict.fromkeys(EXACT_GELU, lambda x: op.gelu(x, "erf")),
  "gelu_10": lambda x: op.clamp(op.gelu(x, "erf"), -10.0, 10.0),
  **dict.fromkeys(["gelu_fast", "gelu_new", "gelu_pytorch_tanh"], _gelu_tanh),
  "mish": op.mish,
  "quick_gelu": lambda x: op.swish(x, op.constant(np.float32(1.702))),
  "relu": op.relu,
  "sigmoid": op.sigmoid,
  **dict.fromkeys(["silu", "swish"], op.swish),
  "tanh": op.tanh,
}


def constant(array: np.ndarray) -> Node:
  """Returns an array as a constant, which is not a copy of it."""
  return op.constant(np.ascontiguousarray(array), shared_memory=True)


def integers(*values: int) -> Node:
  """Returns a constant int64 [n]."""
  return op.constant(np.array(values, np.int64))


def gather_rows(table: Node, indices: Node) -> Node:
  """Returns rows of a table [n, ...] by indices of any shape."""
  return op.gather(table, indices, op.constant(np.int64(0)))


def slice_axis(states: Node, first: Node, end: Node, axis: int) -> Node:
  """Returns states[first:end] of an axis; `first` and `end` are int64 [1]."""
  return op.slice(states, first, end, integers(1), integers(axis))


def size_of(states: Node, axis: int) -> Node:
  """Returns the size of an axis, int64 [1]."""
  return op.gather(op.shape_of(states), integers(axis), op.constant(np.int64(0)))


class DenseWeights(NamedTuple):
  """Weights of a dense layer: kernel float32 [size, units] and bias float32 [units], None for none."""

  kernel: np.ndarray
  bias: np.ndarray | None = None


class _LayerArrays(NamedTuple):
  """Arrays of a dense layer, as a model has them.

  Attributes:
    kernel: float32, or int8 in multiples of steps, [size, units]; or its transpose, if that is in order in memory.
    is_transposed: whether it is the transpose.
    bias: [units]; None for none.
    factors: factors of the inputs, [size]; None for none.
    steps: steps of an int8 kernel, [units], or [units, 1] of its transpose; None for float32.
  """

  kernel: np.ndarray
  is_transposed: bool
  bias: np.ndarray | None
  factors: np.ndarray | None = None
  steps: np.ndarray | None = None


class LayerGraph:
  """What the layers of a model share: its inputs, and constants of which each weight has one.

  Attributes:
    config: the encoder's settings.
    read: returns the array of a weight, float32.
    inputs: {name: input} that the operations need.
    largest: {path of a dense layer: the largest absolute values of its inputs, float32 [size]}; with `watches` alone.
  """

  def __init__(
    self,
    config: EncoderConfig,
    read: ReadWeight,
    arrays: dict[str, Any],
    seen: Mapping[str, np.ndarray] | None,
    watches: bool = False,
  ) -> None:
    """Begins a model.

    Args:
      config: the encoder's settings.
      read: returns the array of a weight.
      arrays: what models with the same weights share: their arrays, which OpenVINO's constants do not copy.
      seen: for int8, {path of a dense layer: the largest absolute values of its inputs}; None for float32.
      watches: whether the model computes these values.
    """
    self.config, self.read, self.inputs, self.largest = config, read, {}, {}
    self._arrays, self._seen, self._watches = arrays, seen, watches
    self._shared: dict[str, Any] = {}

  def input(self, name: str, rank: int, dtype: type = np.int32) -> Node:
    """Returns an input of the model, with axes of any size."""
    if name not in self.inputs:
      self.inputs[name] = op.parameter([-1] * rank, dtype, name)
      self.inputs[name].output(0).get_tensor().set_names({name})
    return self.inputs[name]

  def shared(self, name: str, make: Callable[[], _T]) -> _T:
    """Returns what `make` returned for this name first."""
    if name not in self._shared:
      self._shared[name] = make()
    return self._shared[name]

  def weight(self, path: str) -> Node:
    """Returns the weight of a path as a constant."""
    return self.shared(path, lambda: constant(self._kept(path, lambda: self.read(path))))

  def _kept(self, name, make):
    """Returns what `make` returned for this name first, in any of the models that share their arrays."""
    if name not in self._arrays:
      self._arrays[name] = make()
    return self._arrays[name]

  def dense_weights(self, path: str) -> DenseWeights:
    """Returns the weights of the dense layer of a path."""
    bias = None
    if self.config.architecture.has_biases:
      bias = self.read(f"{path}/bias")
    return DenseWeights(self.read(f"{path}/kernel"), bias)

  def norm(self, rows: Node, path: str) -> Node:
    """Returns the layer normalization of rows."""
    epsilon = max(self.config.layer_norm_eps, _MIN_EPSILON)
    normed = op.multiply(op.mvn(rows, integers(-1), True, epsilon, "inside_sqrt"), self.weight(f"{path}/gamma"))
    if self.config.architecture.has_biases:
      normed = op.add(normed, self.weight(f"{path}/beta"))
    return normed

  def dense(
    self,
    rows: Node,
    path: str,
    *,
    activation: str | None = None,
    least_input: float | None = None,
    part: str = "",
    weights: Callable[[], DenseWeights] | None = None,
  ) -> Node:
    """Returns activation(rows kernel + bias).

    Args:
      rows: its inputs.
      path: path of the layer, or of one of the layers that share these inputs.
      activation: name of its activation.
      least_input: a value below which no input can be; None if there is no such value.
      part: what tells products of the same path from each other.
      weights: what returns the weights, if they are not those of the path alone.
    """
    if self._watches:
      self._watch(rows, path)
    factors, kernel, is_transposed, bias = self.shared(
      f"{path}{part}", lambda: self._layer(path, part, weights, least_input)
    )
    if factors is not None:
      rows = op.multiply(rows, factors)
    outputs = op.matmul(rows, kernel, False, is_transposed)
    if bias is not None:
      outputs = op.add(outputs, bias)
    if activation is not None:
      outputs = ACTIVATIONS_BY_OPENVINO[activation](outputs)
    return outputs

  def _layer(self, path, part, weights, least_input):
    """Returns the constants of a dense layer: factors or None, kernel, whether it is transposed, bias or None."""
    read = weights or (lambda: self.dense_weights(path))
    arrays = self._kept(f"{path}{part}", lambda: self._layer_arrays(read(), path, least_input))
    factors, bias = (None if array is None else constant(array) for array in (arrays.factors, arrays.bias))
    kernel = constant(arrays.kernel)
    if arrays.steps is not None:
      # OpenVINO quantizes the rows at each call, where it finds a kernel in this form.
      kernel = op.multiply(op.convert(kernel, "f32"), constant(arrays.steps))
    return factors, kernel, arrays.is_transposed, bias

  def _layer_arrays(self, weights, path, least_input):
    """Returns the arrays of a dense layer, in int8 if the inputs were seen."""
    kernel, bias = weights
    # Kernels of PyTorch's files are transposed views, which need not be copied.
    is_transposed = kernel.flags.f_contiguous
    factors = steps = None
    if self._seen is not None:
      divisors = divisors_of(Inputs(least_input, self._seen[path]))
      if divisors is not None:
        kernel, factors = kernel * divisors[:, np.newaxis], 1 / divisors
      steps = np.maximum(np.abs(kernel).max(axis=0), SMALLEST_RANGE) / np.float32(_LARGEST)
      kernel = np.rint(kernel / steps).astype(np.int8)
    if is_transposed:
      kernel = kernel.T
      if steps is not None:
        steps = steps[:, np.newaxis]
    return _LayerArrays(np.ascontiguousarray(kernel), is_transposed, bias, factors, steps)

  def _watch(self, rows, path):
    """Adds rows to the largest absolute values of their channels."""
    axes = rows.get_output_partial_shape(0).rank.get_length() - 1
    largest = op.reduce_max(op.abs(rows), integers(*range(axes)))
    if path in self.largest:
      largest = op.maximum(largest, self.largest[path])
    self.largest[path] = largest


class RowsOfBatch(Protocol):
  """Conversion between rows and [batch, seq_len, size]."""

  def pack(self, batch: Node) -> Node:
    """[batch, seq_len, size] -> rows."""

  def unpack(self, rows: Node) -> Node:
    """Rows -> [batch, seq_len, size]; at padding, finite values."""

  def first(self, rows: Node) -> Node:
    """Rows -> the states of first tokens, [batch, 1, size]."""


class RowsWithoutPadding:
  """The batch itself."""

  def pack(self, batch: Node) -> Node:
    """Returns the batch."""
    return batch

  def unpack(self, rows: Node) -> Node:
    """Returns the batch."""
    return rows

  def first(self, rows: Node) -> Node:
    """[batch, seq_len, size] -> [batch, 1, size]."""
    return slice_axis(rows, integers(0), integers(1), 1)


class RowsOfTokens:
  """A row for each token, none for padding, whose states are those of the token before it.

  Attributes:
    numbers: row of each position, int32 [batch, seq_len].
    places: place of each token in the batch, int32 [tokens].
  """

  def __init__(self, graph: LayerGraph) -> None:
    self._graph = graph
    self.numbers = graph.input("rows", 2)

  def pack(self, batch: Node) -> Node:
    """[batch, seq_len, size] -> [tokens, size]."""
    size = batch.get_output_partial_shape(0)[2].get_length()
    return gather_rows(op.reshape(batch, integers(-1, size), False), self._graph.input("places", 1))

  def unpack(self, rows: Node) -> Node:
    """[tokens, size] -> [batch, seq_len, size]."""
    return gather_rows(rows, self.numbers)

  def first(self, rows: Node) -> Node:
    """[tokens, size] -> [batch, 1, size]."""
    return gather_rows(rows, slice_axis(self.numbers, integers(0), integers(1), 1))
