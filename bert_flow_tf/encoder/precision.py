"""How an encoder's layers compute: the number format of matrix products (the precision), and seeded dropout.

A model may be a user's own, so nothing in it is changed for longer than a call: see `Replaced`.
"""

# In half precision the dense layers multiply halves; weights are cast once, inputs at each call. Everything else is
# float32: embeddings, attention, softmax, normalization, GELU, the sums between blocks, means over tokens. So the
# attention mask cannot overflow and errors do not accumulate over blocks. The cost is small: for 64 tokens
# the dense layers are over 98 % of BERT-base's arithmetic.

import os
import pathlib
import re
import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras
from absl import logging

FLOAT32 = "float32"
# Flags in Linux's /proc/cpuinfo of instructions for a format's matrix products, on x86 and Arm.
_INSTRUCTIONS = {"bfloat16": {"avx512_bf16", "amx_bf16", "bf16"}, "float16": {"avx512_fp16", "amx_fp16", "asimdhp"}}
# Compute capability of the first GPUs of NVIDIA with them: Ampere and Volta.
_CAPABILITIES = {"bfloat16": (8, 0), "float16": (7, 0)}
# Values of ONEDNN_MAX_CPU_ISA, oneDNN's limit on instructions, that exclude those instructions.
_ISAS_WITHOUT_HALVES = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")

# Attributes of a layer: an activation and the dense layer before it, in BERT's kin, DistilBERT and ALBERT.
_ACTIVATIONS = (("intermediate_act_fn", "dense"), ("activation", "lin1"), ("activation", "ffn"))

_CPUINFO = pathlib.Path("/proc/cpuinfo")


class Replaced:
  """Context in which attributes of layers have other values, {(layer, name): value}; then the layers are as before."""

  # In a graph this happens when it is traced. Another thread must not call the same layers meanwhile.
  _lock = threading.RLock()

  def __init__(self, values: Mapping[tuple[Any, str], Any]) -> None:
    self._values = values
    self._before: list[Any] = []

  # A class and no generator, which AutoGraph does not convert. Keras would track what is set without `vars`.
  def __enter__(self) -> None:
    self._lock.acquire()
    for (layer, name), value in self._values.items():
      self._before.append(vars(layer).get(name))
      vars(layer)[name] = value

  def __exit__(self, *unused: object) -> None:
    for (layer, name), value in zip(self._values, self._before, strict=True):
      vars(layer)[name] = value
      if value is None:
        del vars(layer)[name]
    self._before = []
    self._lock.release()


def dense_calls(model: tf_keras.Model, precision: str, frozen: bool = True) -> dict[tuple[Any, str], Any]:
  """Returns what `Replaced` replaces so that the dense layers multiply in a precision.

  `frozen` weights are cast once; others at each call, with float32 gradients.
  """
  # Inputs are one matrix: product, bias and GELU follow each other without a reshape, so on a CPU, without gradients,
  # TensorFlow computes them as one operation. Apart, as in Keras, they took 3% (768 wide) to 9% (384 wide) more time.
  dtype = tf.as_dtype(precision)
  # TensorFlow's fallback accumulates products of halves in halves: on STS-B that costs ten times as much accuracy as
  # rounding to bfloat16, and it is slow.
  product_dtype = tf.float32
  if precision != FLOAT32 and _has_instructions(precision):
    product_dtype = dtype
  values: dict[tuple[Any, str], Any] = {}
  activations = {}
  for layer in model.submodules:
    # The activation between a block's dense layers is a step of its own in transformers.
    for function, name in _ACTIVATIONS:
      dense = getattr(layer, name, None)
      if hasattr(layer, function) and isinstance(dense, tf_keras.layers.Dense):
        activations[dense] = getattr(layer, function)
        values[layer, function] = tf.identity
  for layer in model.submodules:
    if isinstance(layer, tf_keras.layers.Dense):
      activation = activations.get(layer, layer.activation)
      values[layer, "call"] = _call(layer, activation, dtype, product_dtype, frozen and precision != FLOAT32)
  return values


def _call(layer, activation, dtype, product_dtype, cast_once):
  """Returns a dense layer's `call`; `cast_once`: whether the kernel is cast now rather than at each call."""

  def cast_kernel():
    return tf.cast(tf.cast(layer.kernel, dtype), product_dtype)

  # At every call it would take as long as embedding a few short sentences.
  constant = None
  if cast_once:
    constant = cast_kernel()
    if tf.distribute.has_strategy():  # a copy on each of its devices
      constant = tf.Variable(constant, trainable=False)
  features, units = layer.kernel.shape

  def call(inputs):
    kernel = constant
    if not cast_once:
      kernel = cast_kernel()
    rows = tf.reshape(tf.cast(tf.cast(inputs, dtype), product_dtype), [-1, features])
    outputs = activation(tf.nn.bias_add(tf.cast(tf.matmul(rows, kernel), tf.float32), tf.cast(layer.bias, tf.float32)))
    outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [units]], axis=0))
    outputs.set_shape([*inputs.shape[:-1], units])
    return tf.cast(outputs, inputs.dtype)  # which Keras' mixed precision may choose

  return call


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


def dropout_calls(model: tf_keras.Model, seed: tf.Tensor) -> dict[tuple[Any, str], Any]:
  """Returns what `Replaced` replaces for dropout whose masks a seed, int32 [2], and a layer's position determine."""
  # Keras draws masks from a state that is in no checkpoint, so a fit would not resume exactly.
  layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Dropout)]
  return {(layer, "call"): _seeded_call(layer.rate, seed, position) for position, layer in enumerate(layers)}


def _seeded_call(rate, seed, position):
  def call(inputs, training=None):
    del training  # only the seed decides
    if not rate:
      return tf.identity(inputs)
    return tf.nn.experimental.stateless_dropout(inputs, rate, tf.random.experimental.stateless_fold_in(seed, position))

  return call
