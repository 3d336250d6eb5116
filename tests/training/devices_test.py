"""training/devices.py, on devices that the tests pretend: GPUs were never at hand."""

import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf.training import devices
from bert_flow_tf.training.distribution import make_strategy

GPUS = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(2)]
DETAILS = {"device_name": "NVIDIA H200", "compute_capability": (9, 0)}


@pytest.fixture
def logged(monkeypatch):
  """Returns the lines that are logged, warnings with their level."""
  lines = []
  monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
  monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append("warning: " + text % values))
  return lines


@pytest.fixture
def gpus(monkeypatch):
  """Pretends two GPUs."""
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: GPUS)
  monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: DETAILS)


def test_gpus_are_named(gpus, logged):
  names = [f"GPU:{i} NVIDIA H200, compute capability 9.0" for i in range(2)]
  assert devices.log_devices(tf.distribute.get_strategy()) == {"names": names, "replicas": 1}
  assert logged == [f"devices: {names[0]}; {names[1]}"]


@pytest.mark.parametrize("error", [RuntimeError("initialized"), ValueError("virtual devices")])
def test_memory_grows_unless_the_gpus_have_started_or_are_divided(gpus, monkeypatch, error):
  grown = []

  def set_memory_growth(gpu, enable):
    grown.append((gpu, enable))
    raise error

  monkeypatch.setattr(tf.config.experimental, "set_memory_growth", set_memory_growth)
  make_strategy(memory_growth=False)
  assert grown == []
  make_strategy()
  assert grown == [(gpu, True) for gpu in GPUS]


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="about a machine without GPUs")
@pytest.mark.parametrize(
  ("vendor", "kind", "hidden", "is_warned"),
  [
    ("0x10de", "0x030200", False, True),
    ("0x10de", "0x030200", True, False),
    ("0x10de", "0x0c0330", False, False),  # the USB controller on a card
    ("0x8086", "0x030000", False, False),
  ],
)
def test_a_gpu_without_its_driver_is_a_warning(tmp_path, monkeypatch, logged, vendor, kind, hidden, is_warned):
  device = tmp_path / "0000:01:00.0"
  device.mkdir()
  (device / "vendor").write_text(vendor + "\n")
  (device / "class").write_text(kind + "\n")
  monkeypatch.setattr(devices, "_PCI_DEVICES", tmp_path)
  monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
  if hidden:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
  (name,) = devices.log_devices()["names"]
  assert name.startswith("CPU, ") and logged[-1] == f"devices: {name}"
  assert logged[0].startswith("warning: the CPU computes: TensorFlow does not see the GPU") == is_warned
