"""The activations of dense layers, by their names in config.json; importable without TensorFlow."""

import math
from collections.abc import Callable
from typing import Any


def _gelu(tf: Any, x: Any) -> Any:
  # In place of tf.nn.gelu, whose erfc ONNX lacks. TensorFlow's optimizer fuses both into a product of oneDNN.
  return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


def _gelu_tanh(tf: Any, x: Any) -> Any:
  return tf.nn.gelu(x, approximate=True)


# {name in config.json: (module tensorflow, x) -> y of x's shape}
ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
  "gelu": _gelu,
  "gelu_10": lambda tf, x: tf.clip_by_value(_gelu(tf, x), -10.0, 10.0),
  "gelu_fast": _gelu_tanh,
  "gelu_new": _gelu_tanh,
  "gelu_python": _gelu,
  "gelu_pytorch_tanh": _gelu_tanh,
  "mish": lambda tf, x: x * tf.tanh(tf.math.softplus(x)),
  "quick_gelu": lambda tf, x: x * tf.sigmoid(1.702 * x),
  "relu": lambda tf, x: tf.nn.relu(x),
  "sigmoid": lambda tf, x: tf.sigmoid(x),
  "silu": lambda tf, x: tf.nn.silu(x),
  "swish": lambda tf, x: tf.nn.silu(x),
  "tanh": lambda tf, x: tf.tanh(x),
}
# Names of GELU's erf form.
EXACT_GELU = ("gelu", "gelu_python")
# Values below which no value of an activation is: GELU's minimum is -0.16997, and -0.17004 in the form by tanh.
LEAST_VALUES = {"relu": 0.0, **dict.fromkeys([*EXACT_GELU, "gelu_fast", "gelu_new", "gelu_pytorch_tanh"], -0.1701)}


def activate(name: str, x: Any) -> Any:
  """Returns the activation of a tensor, by its name."""
  import tensorflow as tf

  return ACTIVATIONS[name](tf, x)
