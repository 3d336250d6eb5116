"""Devices of this machine: their names, their memory, and GPUs that TensorFlow does not see."""

import contextlib
import os
import pathlib
import resource
import sys
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import install_command

_PCI_DEVICES = pathlib.Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def log_devices(strategy: tf.distribute.Strategy | None = None) -> dict[str, Any]:
  """Logs the devices of this process, and returns JSON values for results.json: names, and replicas of a training."""
  names = []
  for gpu in tf.config.list_physical_devices("GPU"):
    details = tf.config.experimental.get_device_details(gpu)
    number = gpu.name.removeprefix("/physical_device:")
    capability = ".".join(map(str, details.get("compute_capability", ())))
    names.append(f"{number} {details.get('device_name', '')}, compute capability {capability or 'unknown'}")
  if not names:
    names = [f"CPU, {os.cpu_count()} cores"]
    _warn_of_unused_gpus()
  about: dict[str, Any] = {"names": names}
  logged = "; ".join(names)
  if strategy is not None:
    about["replicas"] = strategy.num_replicas_in_sync
    logged += f"; {about['replicas']} of them for a step" if about["replicas"] > 1 else ""
  logging.info("devices: %s", logged)
  return about


def _warn_of_unused_gpus():
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


def grow_memory() -> None:
  """Lets TensorFlow take a GPU's memory as it is needed, unless it has started the GPUs or the user divides them."""
  for gpu in tf.config.list_physical_devices("GPU"):
    with contextlib.suppress(RuntimeError, ValueError):
      tf.config.experimental.set_memory_growth(gpu, True)


def peak_memory() -> dict[str, int]:
  """Returns {"host": bytes, "GPU:0": bytes}: the most memory that this process held so far."""
  unit = 1 if sys.platform == "darwin" else 1024
  memory = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
  for index, _ in enumerate(tf.config.list_logical_devices("GPU")):
    memory[f"GPU:{index}"] = tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
  return memory
