"""Matrix products of the dense layers, in a precision: the number format of their factors.

In half precision the dense layers multiply halves, in int8 integers. Everything else is float32: weights, embeddings,
attention, softmax, normalization, GELU, the sums between blocks, means over tokens. So the attention mask cannot
overflow and errors do not accumulate over blocks. The cost is small: for 64 tokens the dense layers are over 98 % of
BERT-base's arithmetic.
"""

import functools
import os
import pathlib
import re

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.encoder.transformer.activations import EXACT_GELU, activate
from bert_flow_tf.encoder.transformer.int8 import Int8Products
from bert_flow_tf.encoder.transformer.number_formats import FLOAT32, INT8

# Flags in Linux's /proc/cpuinfo of instructions for a format's matrix products, on x86 and Arm.
_INSTRUCTIONS = {"bfloat16": {"avx512_bf16", "amx_bf16", "bf16"}, "float16": {"avx512_fp16", "amx_fp16", "asimdhp"}}
# Compute capability of the first GPUs of NVIDIA with them: Ampere and Volta.
_CAPABILITIES = {"bfloat16": (8, 0), "float16": (7, 0)}
# Values of ONEDNN_MAX_CPU_ISA, oneDNN's limit on instructions, that exclude those instructions.
_ISAS_WITHOUT_HALVES = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")

# Size and units of the kernel, and numbers of rows, of the product that shows whether kernels can be kept.
_CHECKED_SIZES, _CHECKED_ROWS = (96, 160), (5, 70, 1)
# Largest errors of a right product, of its largest value.
_ALLOWED_ERROR = {"float32": 1e-6, "bfloat16": 2**-7, "float16": 2**-9}

_CPUINFO = pathlib.Path("/proc/cpuinfo")


class FloatProducts:
  """Products of rows and a kernel, whose factors are rounded to a type, and multiplied in that type or in float32.

  Attributes:
    rounds: whether the factors are rounded.
  """

  def __init__(self, precision: str = FLOAT32) -> None:
    """Looks for the machine's instructions for the precision: float32, bfloat16 or float16."""
    self._dtype = tf.as_dtype(precision)
    self.rounds = precision != FLOAT32
    # TensorFlow's fallback accumulates products of halves in halves: on STS-B that costs ten times as much accuracy as
    # rounding to bfloat16, and it is slow.
    self._product_dtype = tf.float32
    if self.rounds and _has_instructions(precision):
      self._product_dtype = self._dtype

  def prepare(self, kernel: tf.Tensor) -> tf.Tensor:
    """Returns what `dense` needs of a kernel float32 [size, units]: the kernel in the type of the product."""
    return self._cast(kernel)

  def dense(
    self,
    rows: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor | None,
    activation: str | None,
    is_constant: bool = False,
  ) -> tf.Tensor:
    """Returns activation(rows kernel + bias), float32 [n, units], of float32 [n, size] and the result of `prepare`.

    `is_constant`: whether the product of a graph may keep its first kernel in an order of its own.
    """
    if is_constant and keeps_kernels(self._product_dtype):
      return _kept_product(self._cast(rows), kernel, bias, activation)
    # Of one matrix, TensorFlow computes product, bias and activation as one operation.
    outputs = tf.cast(tf.matmul(self._cast(rows), kernel), tf.float32)
    if bias is not None:
      outputs = tf.nn.bias_add(outputs, bias)
    if activation is not None:
      outputs = activate(activation, outputs)
    return outputs

  def _cast(self, values):
    """Returns a factor, rounded, in the type of the product."""
    return tf.cast(tf.cast(values, self._dtype), self._product_dtype)


class WatchedProducts(FloatProducts):
  """Products in float32 that remember the inputs of a layer.

  Attributes:
    largest: the largest absolute inputs, float32 [size]; None before the first product.
  """

  def __init__(self) -> None:
    super().__init__()
    self.largest: np.ndarray | None = None

  def dense(
    self,
    rows: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor | None,
    activation: str | None,
    is_constant: bool = False,
  ) -> tf.Tensor:
    """Returns activation(rows kernel + bias), float32 [n, units], of float32 [n, size]; not in a graph."""
    largest = tf.reduce_max(tf.abs(rows), axis=0).numpy()
    if self.largest is not None:
      largest = np.maximum(largest, self.largest)
    self.largest = largest
    return super().dense(rows, kernel, bias, activation)


Products = FloatProducts | Int8Products


def _kept_product(rows, kernel, bias, activation):
  """Returns activation(rows kernel + bias), float32, by a product that keeps its first kernel, in a graph.

  oneDNN orders a kernel for its products anew at each call, which takes half as long as a product of a few rows; this
  operation, in which TensorFlow's optimizer replaces products of constants, does it once.
  """
  dtype, fused = rows.dtype, [b"BiasAdd"]
  summand = bias
  if bias is None or dtype != tf.float32:  # halves would round the bias, and the inputs of the activation
    summand = tf.zeros([kernel.shape[1]], dtype)
  elif activation in EXACT_GELU:
    fused.append(b"GeluExact")
    activation = None
  graph = tf.compat.v1.GraphDef()
  inputs = {"rows": tf.identity(rows), "kernel": tf.identity(kernel), "bias": tf.identity(summand)}
  node = graph.node.add(name="product", op="_MklNativeFusedMatMul", input=list(inputs))
  node.attr["T"].type = dtype.as_datatype_enum
  node.attr["_kernel"].s = b"MklNameChangeOp"  # by which oneDNN's kernels are found
  node.attr["is_filter_const"].b = True
  node.attr["num_args"].i = 1
  node.attr["fused_ops"].list.s.extend(fused)
  (products,) = tf.graph_util.import_graph_def(graph, input_map=inputs, return_elements=["product:0"], name="kept")
  products.set_shape([rows.shape[0], kernel.shape[1]])
  outputs = tf.cast(products, tf.float32)
  if summand is not bias and bias is not None:
    outputs = tf.nn.bias_add(outputs, bias)
  if activation is not None:
    outputs = activate(activation, outputs)
  return outputs


@functools.cache
def keeps_kernels(dtype: tf.DType) -> bool:
  """Returns whether this machine has products of a type that keep their first kernel, and which are right."""
  if tf.config.get_visible_devices("GPU"):
    return False
  with tf.init_scope():  # also while a graph is traced
    return _is_right(dtype)


def _is_right(dtype):
  """Returns whether the product that keeps its kernel is available, and right for some numbers of rows."""
  rng = np.random.default_rng(0)
  size, units = _CHECKED_SIZES
  kernel, bias = tf.constant(rng.normal(size=[size, units]), dtype), tf.constant(rng.normal(size=[units]), tf.float32)

  @tf.function(input_signature=[tf.TensorSpec([None, size], dtype)], autograph=False)
  def product(rows):
    return _kept_product(rows, kernel, bias, "gelu")

  for n in _CHECKED_ROWS:
    rows = tf.constant(rng.normal(size=[n, size]), dtype)
    expected = activate("gelu", tf.matmul(tf.cast(rows, tf.float32), tf.cast(kernel, tf.float32)) + bias)
    try:
      error = np.abs(product(rows) - expected).max()
    except (tf.errors.OpError, ValueError):  # no such operation, or no kernel of it
      return False
    if error > _ALLOWED_ERROR[dtype.name] * np.abs(expected).max():
      return False
  return True


def make_products(precision: str) -> Products:
  """Returns the products of a precision; EncoderError if the machine has none."""
  if precision == INT8:
    return Int8Products()
  return FloatProducts(precision)


def _has_instructions(precision):
  """Returns whether this machine has instructions for products of halves; logs a warning if not."""
  gpus = tf.config.list_physical_devices("GPU")
  if gpus:
    capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability")  # of NVIDIA alone
    needed = _CAPABILITIES[precision]
    has_instructions = capability is None or capability >= needed
    reason = f"the GPU has no instructions for it; its compute capability is {capability}, needed {needed}"
  else:
    # TensorFlow uses them through oneDNN alone, whose sums are float32.
    uses_onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0" and not onednn_is_limited()
    has_instructions = bool(_INSTRUCTIONS[precision] & _cpu_flags()) and uses_onednn
    names = ", ".join(sorted(_INSTRUCTIONS[precision]))
    reason = f"this CPU has no instructions for it (none of {names}), or TensorFlow does not use them"
  if not has_instructions:
    slow = "numbers are rounded to it and multiplied in float32, which is slower than float32 alone"
    logging.warning("precision=%s: %s: %s", precision, slow, reason)
  return has_instructions


def onednn_is_limited() -> bool:
  """Returns whether ONEDNN_MAX_CPU_ISA excludes products of halves; TensorFlow ignores the limit and crashes."""
  limit = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "DEFAULT")).upper()
  return limit in _ISAS_WITHOUT_HALVES


def _cpu_flags():
  """Returns the first CPU's flags; empty if the system does not list them."""
  try:
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
  except OSError:
    return set()
  match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
  if not match:
    return set()
  return set(match[1].split())
