"""--distribution_strategy: which devices fit the flow together, and what several machines have to agree on."""

import contextlib
import faulthandler
import hashlib
import json
import os
import signal

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.cluster import WAIT_SECONDS, read_tf_config

STRATEGIES = ("default", "mirrored", "multi_worker_mirrored")

# What a start takes once every worker is there is a second or two.
_START_SECONDS = 300


def is_chief(strategy):
  """Whether this process writes what all workers share: checkpoints, events, results."""
  resolver = strategy.cluster_resolver
  if resolver is None or resolver.task_type in (None, "", "chief"):
    return True
  return resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs


def has_several_workers(strategy):
  """Whether other processes take part."""
  resolver = strategy.cluster_resolver
  return resolver is not None and sum(map(len, resolver.cluster_spec().as_dict().values())) > 1


def make_strategy(name="default", wait_seconds=WAIT_SECONDS):
  """The `tf.distribute.Strategy` of a flag value.

  Args:
    name: "default": all GPUs there are, or the CPU. "mirrored": the same through a MirroredStrategy even on a
      single device (logical CPU devices included). "multi_worker_mirrored": the workers that TF_CONFIG names, in a
      process that has not used TensorFlow yet.
    wait_seconds: how long the other workers are waited for.

  Raises:
    ConfigError: another name, or TF_CONFIG is absent or malformed.
    TrainingError: a worker is not there in time, or left meanwhile.
  """
  if name not in STRATEGIES:
    raise ConfigError(f"--distribution_strategy={name}: expected one of {', '.join(STRATEGIES)}")
  if name == "multi_worker_mirrored":
    return _multi_worker_strategy(wait_seconds)
  if os.environ.get("TF_CONFIG"):
    logging.warning("TF_CONFIG is not looked at; --distribution_strategy=multi_worker_mirrored does")
  gpus = tf.config.list_logical_devices("GPU")
  if name == "mirrored":
    return tf.distribute.MirroredStrategy([device.name for device in gpus or tf.config.list_logical_devices("CPU")])
  # TensorFlow's own default places everything on the one GPU, or on the CPU, and allows XLA for a whole step.
  return tf.distribute.MirroredStrategy() if len(gpus) > 1 else tf.distribute.get_strategy()


def _multi_worker_strategy(wait_seconds):
  cluster = read_tf_config()
  cluster.wait(wait_seconds)
  with open(os.devnull, "w", encoding="utf-8") as nowhere:
    # TensorFlow's start ends neither by Ctrl-C nor by itself where a worker is lost during it.
    faulthandler.dump_traceback_later(_START_SECONDS, exit=True, file=nowhere)
    try:
      strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
      raise TrainingError(
        f"TF_CONFIG: the workers {', '.join(cluster.addresses)} could not be joined ({_first_line(error)}); start all "
        "of them anew, each in a process of its own"
      ) from error
    finally:
      faulthandler.cancel_dump_traceback_later()
  with contextlib.suppress(ValueError):  # not the main thread
    # TensorFlow takes SIGTERM for itself, after which it would end nothing.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
  return strategy


@contextlib.contextmanager
def worker_failures(strategy):
  """Context in which a lost worker is a `TrainingError`.

  TensorFlow notices it in some ten seconds, by heartbeats, and ends what waits for it.
  """
  try:
    yield
  except tf.errors.ResourceExhaustedError:
    raise  # memory of this machine
  except tf.errors.OpError as error:
    if not has_several_workers(strategy):
      raise
    raise TrainingError(
      f"another worker of TF_CONFIG has stopped or cannot be reached ({_first_line(error)}); see what it says, and "
      "start the same command on every machine again: it goes on from the last checkpoint, where there is one"
    ) from error


def check_agreement(strategy, settings):
  """Refuses workers that were started to different ends.

  Args:
    strategy: the `tf.distribute.Strategy`.
    settings: {name: json value}, of the same names everywhere.

  Raises:
    TrainingError: a value differs between two workers.
  """
  if not has_several_workers(strategy):
    return
  values = (hashlib.sha256(json.dumps(settings[name], sort_keys=True).encode()).digest() for name in sorted(settings))
  own = tf.constant([[int.from_bytes(value[:7], "big") for value in values]], tf.int64)

  @tf.function(autograph=False)
  def gather():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(own, axis=0))

  everywhere = strategy.experimental_local_results(gather())[0].numpy()
  differing = np.flatnonzero((everywhere != everywhere[0]).any(axis=0))
  if differing.size:
    names = ", ".join(sorted(settings)[i] for i in differing)
    raise TrainingError(
      f"the workers of TF_CONFIG differ in {names}: start each with the same flags, encoder, data and versions"
    )


def from_chief(strategy, value):
  """The chief's value of a small integer, in every worker."""
  if not has_several_workers(strategy):
    return value
  with strategy.scope():
    shared = tf.Variable(value, dtype=tf.int64, trainable=False)  # starts with the chief's value everywhere
  return int(tf.convert_to_tensor(shared).numpy())


def wait_for_all(strategy):
  """Returns once every worker is here: one that left before would count as lost.

  Raises:
    TrainingError: a worker was lost.
  """
  with worker_failures(strategy):
    from_chief(strategy, 0)


def copy_from_chief(strategy, variables):
  """Gives mirrored variables the chief's values in every worker.

  The chief alone reads checkpoints, which so need no folder that all machines share; and what each machine computes
  for itself, such as the initialisation, may differ in the last bit.
  """
  if not has_several_workers(strategy):
    return
  mine = tf.constant(is_chief(strategy))

  @tf.function(autograph=False)
  def chiefs(vector):
    def replica(vector):
      context = tf.distribute.get_replica_context()
      # The first replica of all belongs to the chief.
      first = tf.logical_and(mine, tf.equal(context.replica_id_in_sync_group, 0))
      return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(first, vector, tf.zeros_like(vector)))

    return strategy.run(replica, args=[vector])

  for dtype in sorted({variable.dtype for variable in variables}, key=str):  # TensorFlow packs one alone
    same = [variable for variable in variables if variable.dtype == dtype]
    vector = tf.concat([tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in same], axis=0)
    vector = strategy.experimental_local_results(chiefs(vector))[0]
    sizes = [variable.shape.num_elements() for variable in same]
    for variable, values in zip(same, tf.split(vector, sizes), strict=True):
      variable.assign(tf.reshape(values, variable.shape))


def _first_line(error):
  """What TensorFlow says went wrong, in a line: behind its list of where, if it has one."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  start = next((i for i, line in enumerate(lines) if "aborted by" in line), 0)
  # The line that says which task was lost ends with a colon, the task stands in the next.
  count = 2 if lines and lines[start].endswith(":") else 1
  return (" ".join(lines[start : start + count]) or repr(error))[:300]
