"""Devices of this process, and the scope in which an encoder is loaded; without TensorFlow where it is not needed."""

from __future__ import annotations

import contextlib
import os
import pathlib
from typing import TYPE_CHECKING, Any

from absl import logging

from bert_flow_tf.encoder.settings import TENSORFLOW, needs_tensorflow
from bert_flow_tf.errors import install_command
from bert_flow_tf.io import archive
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.io.lazy import imported_tensorflow, load_tensorflow

if TYPE_CHECKING:
  import tensorflow as tf

_PCI_DEVICES = pathlib.Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def loading_scope(
  folder: str | os.PathLike | None = None,
  name: str | None = None,
  engine: str | None = None,
  fit: tf.distribute.Strategy | None = None,
) -> contextlib.AbstractContextManager:
  """Returns the scope in which an encoder is loaded: `embedding_scope`, none if TensorFlow does not compute it.

  Args:
    folder: folder of a saved model or calibration, which names the encoder and its engine; None for none.
    name: name of the encoder; None for the folder's.
    engine: what computes its hidden states; None for the folder's, or TensorFlow.
    fit: see `embedding_scope`.
  """
  saved = {} if folder is None else archive.encoder_in(folder)
  name = str(name or saved.get("name", ""))
  if fit is None and not needs_tensorflow(name, engine or saved.get("engine", TENSORFLOW)):
    return contextlib.nullcontext()
  load_tensorflow()
  from bert_flow_tf.training.strategies import embedding_scope

  return embedding_scope(fit)


def log_devices(strategy: tf.distribute.Strategy | None = None) -> dict[str, Any]:
  """Logs the devices of this process, and returns JSON values for results.json: names, and replicas of a training.

  GPUs compute by TensorFlow alone: a process that has not imported it has the CPU.
  """
  names = []
  tf = imported_tensorflow()
  gpus = [] if tf is None else tf.config.list_physical_devices("GPU")
  for gpu in gpus:
    details = tf.config.experimental.get_device_details(gpu)
    number = gpu.name.removeprefix("/physical_device:")
    capability = ".".join(map(str, details.get("compute_capability", ())))
    names.append(f"{number} {details.get('device_name', '')}, compute capability {capability or 'unknown'}")
  if not names:
    names = [f"CPU, {usable_cpus()} cores"]
    if tf is not None:
      _warn_of_unused_gpus(tf)
  about: dict[str, Any] = {"names": names}
  logged = "; ".join(names)
  if strategy is not None:
    about["replicas"] = strategy.num_replicas_in_sync
    logged += f"; {about['replicas']} of them for a step" if about["replicas"] > 1 else ""
  logging.info("devices: %s", logged)
  return about


def _warn_of_unused_gpus(tf):
  """Warns if the machine has a GPU of NVIDIA that TensorFlow does not see, though the user has not hidden it."""
  count = 0
  for device in _PCI_DEVICES.glob("*"):
    with contextlib.suppress(OSError):
      is_nvidia = (device / "vendor").read_text().startswith(_NVIDIA)
      count += is_nvidia and (device / "class").read_text().startswith(_DISPLAY)
  if count and "CUDA_VISIBLE_DEVICES" not in os.environ:
    reason = "this TensorFlow is built without CUDA"
    if tf.test.is_built_with_cuda():
      reason = f"its driver (see nvidia-smi) or CUDA's libraries are missing ({install_command('and-cuda')})"
    logging.warning("the CPU computes: TensorFlow does not see the GPU of this machine; %s", reason)
