"""--distribution_strategy: which devices fit the flow together."""

import tensorflow as tf

from bert_flow_tf.errors import ConfigError

STRATEGIES = ("default", "mirrored", "multi_worker_mirrored")


def is_chief(strategy):
  """Whether this process writes what all workers share: checkpoints, events, results."""
  resolver = strategy.cluster_resolver
  return resolver is None or resolver.task_type in (None, "", "chief") or resolver.task_id == 0


def make_strategy(name="default"):
  """The `tf.distribute.Strategy` of a flag value.

  Args:
    name: "default": all GPUs there are, or the CPU. "mirrored": the same through a MirroredStrategy even on a
      single device (logical CPU devices included). "multi_worker_mirrored": the workers that TF_CONFIG names.

  Raises:
    ConfigError: another name.
  """
  if name not in STRATEGIES:
    raise ConfigError(f"--distribution_strategy={name}: expected one of {', '.join(STRATEGIES)}")
  if name == "multi_worker_mirrored":
    return tf.distribute.MultiWorkerMirroredStrategy()
  gpus = tf.config.list_logical_devices("GPU")
  if name == "mirrored":
    return tf.distribute.MirroredStrategy([device.name for device in gpus or tf.config.list_logical_devices("CPU")])
  # TensorFlow's own default places everything on the one GPU, or on the CPU, and allows XLA for a whole step.
  return tf.distribute.MirroredStrategy() if len(gpus) > 1 else tf.distribute.get_strategy()
