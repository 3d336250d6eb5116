"""Describes the model of a run: what decides its embeddings, and how another process loads it."""

import functools
import os
from collections.abc import Callable
from typing import Any

from bert_flow_tf.calibration.flow import calibration_sha256
from bert_flow_tf.corpus.saved_model import SavedModelReader
from bert_flow_tf.encoder.hub import HUB_NAMES, MODEL_NAMES
from bert_flow_tf.model import SentenceModel


def identity_of(model: SentenceModel | SavedModelReader, calibration_folder: str | None = None) -> dict[str, Any]:
  """Returns json values that decide a model's embeddings.

  Args:
    model: a `SentenceModel` or `SavedModelReader`.
    calibration_folder: the folder that the model was loaded from; None for an encoder alone.
  """
  if isinstance(model, SavedModelReader):
    return {"saved_model_sha256": model.checksum()}
  checksum = calibration_sha256(calibration_folder) if calibration_folder and model.calibration is not None else None
  return {**model.identity.deciding(), "calibration_sha256": checksum}


def describe(model: SentenceModel | SavedModelReader, calibration_folder: str | None = None) -> dict[str, Any]:
  """Returns json values for the manifest that describe a model; arguments as in `identity_of`."""
  if isinstance(model, SavedModelReader):
    return {"saved_model": model.folder}
  if calibration_folder is None or model.calibration is None:
    return {"encoder": model.identity.to_dict()}
  calibration = {"name": model.calibration.name, "folder": os.path.abspath(calibration_folder)}
  return {"encoder": model.identity.to_dict(), "calibration": calibration}


def loader_of(
  model: SentenceModel | SavedModelReader, calibration_folder: str | None = None, cache_dir: str | None = None
) -> Callable[[], SentenceModel | SavedModelReader]:
  """Returns a picklable function that loads the model again, in a process with any working folder.

  Args:
    model: as in `identity_of`.
    calibration_folder: as in `identity_of`.
    cache_dir: folder of the hub's cache, its default if None.
  """
  if isinstance(model, SavedModelReader):
    return functools.partial(SavedModelReader, os.path.abspath(model.folder))
  name = _absolute(model.encoder.name)
  arguments = {**model.identity.pooling_arguments(), **model.identity.loading_arguments(), "cache_dir": cache_dir}
  if calibration_folder is None:
    return functools.partial(SentenceModel.from_pretrained, name, **arguments)
  # The encoder was checked when the model was loaded first.
  folder = os.path.abspath(calibration_folder)
  return functools.partial(SentenceModel.load, folder, name, allow_other_encoder=True, **arguments)


def _absolute(name):
  """Returns the name of an encoder, or the absolute path of its folder or TF1 checkpoint."""
  path = os.path.abspath(os.path.expanduser(name))
  is_name = name in MODEL_NAMES or name in HUB_NAMES.values()  # these win over folders
  return path if not is_name and (os.path.isdir(path) or os.path.isfile(f"{path}.index")) else name
