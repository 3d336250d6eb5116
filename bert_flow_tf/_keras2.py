"""Routes `tf.keras` to Keras 2 (tf_keras), which transformers' TF models and TFP need; classes for Keras' loader."""

import os
import sys
from collections.abc import Callable
from typing import Any

from bert_flow_tf.io.quiet import at_import


def require_keras_2():
  """Selects Keras 2 for this process; must run before `tf.keras` is first used.

  Raises:
    ImportError: `tf.keras` was already resolved to another Keras, which cannot be undone.
  """
  os.environ["TF_USE_LEGACY_KERAS"] = "1"
  tensorflow = sys.modules.get("tensorflow")
  # TensorFlow resolves `tf.keras` at its first use: an import of TensorFlow alone does no harm.
  if tensorflow is None or not hasattr(tensorflow, "keras"):
    return
  resolved = tensorflow.keras.layers.Layer.__module__
  if not resolved.startswith("tf_keras."):
    raise ImportError(
      f"bert_flow_tf needs Keras 2, but tf.keras is already loaded from '{resolved}': import "
      "bert_flow_tf before anything that uses tf.keras, or set TF_USE_LEGACY_KERAS=1 before starting "
      "Python."
    )
  # tf_keras, if it came first, has loaded this module without its `keras`, which TensorFlow Probability imports.
  compat, keras = sys.modules.get("tensorflow.compat.v2"), sys.modules.get("tf_keras")
  if compat is not None and keras is not None:
    compat.__path__.append(os.path.join(os.path.dirname(keras.__file__), "api", "_v2"))


def check_not_in_keras_3(layer: Any) -> None:
  """Raises a TypeError if a layer that has weights to train is called inside a layer or model of Keras 3.

  Keras 3 does not know the weights of Keras 2's layers: it would train the others, save them, and say nothing.
  """
  state = sys.modules.get("keras.src.backend.common.global_state")
  is_inside = state is not None and state.get_global_attribute("current_call_ctx") is not None
  if is_inside and layer.trainable_weights:
    raise TypeError(
      f"{type(layer).__name__} '{layer.name}' is a layer of Keras 2, and a model of Keras 3 would not train its "
      "weights: build the model with tf_keras (tf.keras after the import of bert_flow_tf), or set its trainable = False"
    )


def after_keras(register: Callable[[], Any]) -> None:
  """Calls a function when tf_keras has been imported: at once, or in its import; not if a layer of ours imports it."""
  if "tf_keras" in sys.modules:
    register()
    return

  def load_and_register(load, module):
    load(module)
    if "bert_flow_tf.flow.layer" not in sys.modules:
      register()

  at_import("tf_keras", load_and_register)
