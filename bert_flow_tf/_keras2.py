"""Routes `tf.keras` to Keras 2 (tf_keras), which transformers' TF models and TFP need."""

import os
import sys


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
