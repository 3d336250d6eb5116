"""Matrix products of 8-bit integers, by oneDNN on x86 CPUs: a range per row, and one per output channel of the kernel.

A row is a token, so that no range depends on the neighbors in a batch; float32's rounding does, which moves a value to
the next step now and then. Inputs are divided by the factors of `int8_inputs`, by which the kernel is multiplied.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from bert_flow_tf.encoder.transformer.activations import EXACT_GELU, activate
from bert_flow_tf.encoder.transformer.int8_inputs import SMALLEST_RANGE, Inputs, divisors_of
from bert_flow_tf.encoder.transformer.number_formats import INT8, int8_error

_LARGEST_OF_ROWS, _LARGEST = 255, 127
# Quantized value of 0 in rows whose values have both signs.
_ZERO = 127
# CPUs without VNNI sum pairs of products in 16 bits, which saturate; with kernels of 7 bits they cannot.
_LARGEST_OF_7_BITS = 63
# Rows, size and units of the product that shows whether the operation works, and saturates.
_CHECKED_SHAPE = (64, 256, 256)
_TYPES = {"T1": tf.quint8, "T2": tf.qint8, "Tbias": tf.float32, "U": tf.float32, "Tout": tf.float32}


class Int8Kernel(NamedTuple):
  """A quantized kernel.

  Attributes:
    values: int8 [size, units].
    ranges: what 127 stands for in each output channel, float32 [units].
    summand: summand of the products, float32 [units].
    bias: summand of the layer, float32 [units].
    factors: factors of the inputs, float32 [size]; or [] for none.
  """

  values: tf.Tensor
  ranges: tf.Tensor
  summand: tf.Tensor
  bias: tf.Tensor
  factors: tf.Tensor


class Int8Products:
  """Products of rows, quantized at each call, and of a kernel that is quantized once."""

  def __init__(self) -> None:
    """Raises a ConfigError if this machine has no products of integers."""
    self._largest = largest_of_kernels()

  def prepare(self, kernel: tf.Tensor, bias: tf.Tensor | None, inputs: Inputs) -> Int8Kernel:
    """Returns what `dense` needs of a kernel float32 [size, units] and a bias float32 [units], None for 0."""
    factors = tf.zeros([0])
    divisors = divisors_of(inputs)
    if divisors is not None:
      kernel = kernel * divisors[:, tf.newaxis]
      factors = tf.constant(1 / divisors)
    ranges = tf.maximum(tf.reduce_max(tf.abs(kernel), axis=0), SMALLEST_RANGE)
    values = tf.round(kernel * (self._largest / ranges))
    ranges *= _LARGEST / self._largest
    sums = tf.reduce_sum(values, axis=0) * (ranges / _LARGEST)
    summand = tf.zeros_like(sums)
    if bias is None:
      bias = tf.zeros_like(sums)
    if inputs.least is None:
      summand = sums * (-_ZERO / _LARGEST_OF_ROWS)
    else:
      bias = bias + sums * inputs.least
    return Int8Kernel(tf.cast(values, tf.int8), ranges, summand, tf.identity(bias), factors)

  def dense(self, rows: tf.Tensor, kernel: Int8Kernel, inputs: Inputs, activation: str | None) -> tf.Tensor:
    """Returns activation(rows kernel + bias), float32 [n, units], of float32 [n, size] and the result of `prepare`."""
    # In few passes over the rows: next to products of integers, each costs.
    if kernel.factors.shape[0]:
      rows *= kernel.factors
    quantized, ranges = _quantize(rows, inputs.least)
    product = functools.partial(_product, is_constant=True)
    if tf.executing_eagerly():
      product = _eager_product()
    products = product(quantized, kernel.values, kernel.ranges, kernel.summand)
    bias = kernel.bias
    if activation in EXACT_GELU:
      ranges, bias = ranges * 0.5, bias * 0.5
    # Otherwise gradients would flow around the product, through the ranges.
    without_gradient = str(int8_error("it has no gradients"))
    products = tf.raw_ops.PreventGradient(input=products * ranges, message=without_gradient)
    outputs = tf.nn.bias_add(products, bias)
    if activation in EXACT_GELU:  # x / 2 + x / 2 erf(x / sqrt 2), of x / 2
      return outputs + outputs * tf.math.erf(outputs * math.sqrt(2.0))
    if activation is not None:
      return activate(activation, outputs)
    return outputs


def _quantize(rows, least):
  """Returns rows float32 [n, size] as uint8, and what 255 steps of theirs are, float32 [n, 1]."""
  largest = tf.reduce_max(rows, axis=1, keepdims=True)
  if least is None:  # as far on both sides of 0
    largest = tf.maximum(largest, -tf.reduce_min(rows, axis=1, keepdims=True))
    ranges = tf.maximum(largest, SMALLEST_RANGE) * (_LARGEST_OF_ROWS / _ZERO)
    steps = _LARGEST_OF_ROWS / ranges
    return tf.cast(rows * steps + (_ZERO + 0.5), tf.uint8), ranges
  ranges = tf.maximum(largest - least, SMALLEST_RANGE)
  steps = _LARGEST_OF_ROWS / ranges
  return tf.cast(rows * steps + (0.5 - least * steps), tf.uint8), ranges


@functools.cache
def largest_of_kernels() -> int:
  """Returns the largest value of quantized kernels that this machine multiplies without an error.

  Raises:
    ConfigError: it has no products of integers.
  """
  if tf.config.get_visible_devices("GPU"):
    raise int8_error("it needs a CPU, and this process uses a GPU")
  for largest in (_LARGEST, _LARGEST_OF_7_BITS):
    if _is_exact(largest):
      return largest
  raise int8_error("TensorFlow has products of integers for x86 CPUs alone, and none here")


def _is_exact(largest: int) -> bool:
  """Returns whether the product of the largest values, and of random ones, is available and right."""
  n, size, units = _CHECKED_SHAPE
  rng = np.random.default_rng(0)
  rows = [np.full([n, size], _LARGEST_OF_ROWS), rng.integers(0, _LARGEST_OF_ROWS + 1, [n, size])]
  kernels = [np.full([size, units], largest), rng.integers(-largest, largest + 1, [size, units])]
  ranges = np.linspace(0.5, 1.5, units, dtype=np.float32)
  for row_values, kernel in zip(rows, kernels, strict=True):
    expected = (row_values @ kernel) * (ranges / (_LARGEST_OF_ROWS * _LARGEST)) + ranges
    try:
      products = _eager_product()(row_values.astype(np.uint8), kernel.astype(np.int8), ranges, ranges).numpy()
    except (tf.errors.OpError, ValueError):  # no such operation, or no kernel of it
      return False
    if np.abs(products - expected).max() > 1e-5 * np.abs(expected).max():
      return False
  return True


@functools.cache
def _eager_product() -> tf.types.experimental.PolymorphicFunction:
  """Returns `_product` as a function for all kernels."""
  specs = [tf.TensorSpec([None, None], tf.uint8), tf.TensorSpec([None, None], tf.int8)] + [tf.TensorSpec([None])] * 2

  def product(rows, kernel, ranges, summand):
    return _product(rows, kernel, ranges, summand, is_constant=False)

  return tf.function(product, specs, autograph=False)


def _product(rows: tf.Tensor, kernel: tf.Tensor, ranges: tf.Tensor, summand: tf.Tensor, is_constant: bool) -> tf.Tensor:
  """uint8 [n, size] x int8 [size, units] * ranges [units] / (255 * 127) + summand -> float32 [n, units], in a graph.

  The operation has no public name; TensorFlow's optimizer puts it in the place of others. The documented
  QuantizedMatMulWithBiasAndDequantize has a single range for all channels and is slower.
  """
  if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
    raise int8_error("XLA has none of its products")
  graph = tf.compat.v1.GraphDef()
  # Constants are int8, and become qint8 in the graph: a constant of qint8 does not survive a SavedModel.
  inputs = {
    "rows": tf.bitcast(rows, tf.quint8),
    "kernel": tf.bitcast(kernel, tf.qint8),
    "bias": tf.identity(summand),
    "min_rows": tf.constant(0.0),
    "max_rows": tf.constant(1.0),
    "min_kernel": -ranges,
    "max_kernel": tf.identity(ranges),
  }
  node = graph.node.add(name="product", op="_QuantizedMatMul", input=list(inputs))
  for name, dtype in _TYPES.items():
    node.attr[name].type = dtype.as_datatype_enum
  lists = {"Tdevice_inputs": [tf.quint8, tf.qint8, tf.float32], "Thost_inputs": [tf.float32] * 4}
  lists |= {"Tdevice_outputs": [tf.float32], "Thost_outputs": []}
  for name, dtypes in lists.items():
    node.attr[name].list.type.extend([dtype.as_datatype_enum for dtype in dtypes])
  node.attr["fused_ops"].list.s.extend([b"BiasAdd", b"Dequantize"])
  for name in ("input_quant_mode", "output_quant_mode"):
    node.attr[name].s = b"SCALED"
  # A constant kernel is kept in oneDNN's order from the first call on, so a function for all kernels must not say so.
  node.attr["is_weight_const"].b = is_constant
  node.attr["is_bias_const"].b = is_constant
  (products,) = tf.graph_util.import_graph_def(graph, input_map=inputs, return_elements=["product:0"], name=INT8)
  products.set_shape([rows.shape[0], kernel.shape[1]])
  return products
