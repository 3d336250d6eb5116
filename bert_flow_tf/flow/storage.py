"""A flow's folder on disk."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.named_weights import check_names
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.folders import CALIBRATION_FILES, OLDER_FLOW_FILES, FolderFormat

FLOW_FOLDER = FolderFormat("flow", *CALIBRATION_FILES, FlowError, "Glow.save", OLDER_FLOW_FILES)


# Values of a flow's `state` weight: new, loaded from the original, initialized from data.
STATES = (0, 1, 2)


def save(flow: Any, folder: str | os.PathLike) -> None:
  """Writes a `Glow`; see `Glow.save`."""
  FLOW_FOLDER.write(folder, *contents(flow))


def contents(flow: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Returns the settings, JSON values, and arrays that `save` writes.

  Raises:
    FlowError: a weight is NaN or infinite.
  """
  settings = {**flow.settings(), "state": int(tf.convert_to_tensor(flow.state).numpy())}
  settings |= {"encoder": flow.encoder} if flow.encoder else {}
  arrays = {name: weight.read() for name, weight in flow.named_weights().items()}
  bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
  if bad:
    raise FlowError(f"the flow's {bad[0]} is not finite (as {len(bad)} weights in all): it cannot be saved")
  return settings, arrays


def load(cls: type, folder: str | os.PathLike) -> Any:
  """Reads a flow of class `Glow`; see `Glow.load`."""
  return restore(cls, folder, *FLOW_FOLDER.read(folder))


def restore(cls: type, folder: str | os.PathLike, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
  """Returns the flow of class `Glow` of settings and arrays that were read in `folder`; see `Glow.load`."""
  if "config" not in settings:
    raise FlowError(f"flow folder {folder}: it has another calibration than a flow; load it with load_calibration")
  settings = dict(settings)
  state, encoder = settings.pop("state", None), settings.pop("encoder", None)
  if not isinstance(encoder, dict | None):
    raise FlowError(f"flow folder {folder}: encoder is {encoder!r}, expected an object")
  if "shares" in settings:
    raise FlowError(f"flow folder {folder}: its flow takes a mix of views; only load_calibration loads both")
  if state not in STATES:
    raise FlowError(f"flow folder {folder}: state is {state!r}, expected one of {STATES}")
  _check_sizes(settings, arrays, folder)
  try:
    flow = cls.from_config(settings)  # type: ignore[attr-defined]
  except (ConfigError, FlowError, TypeError) as error:
    raise FlowError(f"flow folder {folder}: its settings do not describe a flow ({error})") from error
  weights = flow.named_weights()
  check_names(arrays, weights, f"weights in {folder}")
  for name, weight in weights.items():
    weight.weight.assign(weight.parse(name, arrays[name]))
  flow.state.assign(state)
  flow.encoder = encoder
  return flow


def _check_sizes(settings, arrays, folder):
  """Checks that a flow of these settings is not larger than its weights, before it takes memory and time."""
  config = settings["config"] if isinstance(settings["config"], dict) else {}
  largest = max((size for array in arrays.values() for size in array.shape), default=0)
  limits = {"coupling_width": largest, "n_levels": len(arrays), "depth": len(arrays), "dim": largest}
  for name, limit in limits.items():
    value = {**config, "dim": settings.get("dim")}.get(name)
    if is_integer(value, limit + 1):
      raise FlowError(f"flow folder {folder}: {name} is {value}, but its weights are those of a smaller flow")
