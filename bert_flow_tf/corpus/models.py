"""Describes the model of a run: what decides its embeddings, and how another process loads it."""

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

from bert_flow_tf.calibration.flow import calibration_sha256
from bert_flow_tf.corpus.saved_model import SavedModelReader
from bert_flow_tf.encoder.hub import HUB_NAMES, MODEL_NAMES
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.model import SentenceModel

Embedder = SentenceModel | SavedModelReader


def identity_of(model: Embedder, calibration_folder: str | None = None) -> dict[str, Any]:
  """Returns json values that decide a model's embeddings.

  Args:
    model: a `SentenceModel` or `SavedModelReader`.
    calibration_folder: the folder that the model was loaded from; None for an encoder alone.
  """
  versions = tokenizer_versions(model)
  if isinstance(model, SavedModelReader):
    return {"saved_model_sha256": model.checksum(), "versions": versions}
  checksum = calibration_sha256(calibration_folder) if calibration_folder and model.calibration is not None else None
  return {**model.identity.deciding(), "calibration_sha256": checksum, "versions": versions}


def tokenizer_versions(model: Embedder) -> dict[str, str]:
  """Returns {package: version} of the installed packages that decide which tokens a model reads."""
  versions = {}
  for package in ["tensorflow-text"] if isinstance(model, SavedModelReader) else ["tokenizers", "transformers"]:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # not every SavedModel needs TF Text
      versions[package] = importlib.metadata.version(package)
  return versions


def describe(model: Embedder, calibration_folder: str | None = None) -> dict[str, Any]:
  """Returns json values for the manifest that describe a model; arguments as in `identity_of`."""
  if isinstance(model, SavedModelReader):
    return {"saved_model": model.folder}
  if calibration_folder is None or model.calibration is None:
    return {"encoder": model.identity.to_dict()}
  calibration = {"name": model.calibration.name, "folder": os.path.abspath(calibration_folder)}
  return {"encoder": model.identity.to_dict(), "calibration": calibration}


def loader_of(
  model: Embedder, calibration_folder: str | None = None, cache_dir: str | None = None
) -> Callable[[], Embedder]:
  """Returns a picklable function that loads the model again, in a process with any working folder.

  It raises an EncoderError if the process has another version of a package that tokenizes.

  Args:
    model: as in `identity_of`.
    calibration_folder: as in `identity_of`.
    cache_dir: folder of the hub's cache, its default if None.
  """
  checked = functools.partial(_load, tokenizer_versions(model))
  if isinstance(model, SavedModelReader):
    return functools.partial(checked, SavedModelReader, os.path.abspath(model.folder))
  name = _absolute(model.encoder.name)
  arguments = {**model.identity.model_arguments(), **model.identity.loading_arguments(), "cache_dir": cache_dir}
  if calibration_folder is None:
    return functools.partial(checked, SentenceModel.from_pretrained, name, **arguments)
  # The encoder was checked when the model was loaded first.
  folder = os.path.abspath(calibration_folder)
  return functools.partial(checked, SentenceModel.load, folder, name, allow_other_encoder=True, **arguments)


def _load(versions, load, *arguments, **settings):
  """Returns the model that `load` loads, if it reads the same tokens in this process."""
  model = load(*arguments, **settings)
  here = tokenizer_versions(model)
  if here != versions:
    raise EncoderError(f"a worker has {here}, the process that started it {versions}; install the same versions")
  return model


def _absolute(name):
  """Returns the name of an encoder, or the absolute path of its folder or TF1 checkpoint."""
  path = os.path.abspath(os.path.expanduser(name))
  is_name = name in MODEL_NAMES or name in HUB_NAMES.values()  # these win over folders
  return path if not is_name and (os.path.isdir(path) or os.path.isfile(f"{path}.index")) else name
