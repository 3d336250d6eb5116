"""Models of a run: the values that decide their embeddings, and functions that load them in a worker."""

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import Callable

from bert_flow_tf.corpus.embedding import Embedder
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.vectors.model_of_vectors import embedder_values


def embedder_of(model: SentenceModel, calibration_folder: str | None = None, cache_dir: str | None = None) -> Embedder:
  """Returns a model of documents, the values that decide its embeddings, and the function by which workers load it.

  `calibration_folder`: None for an encoder alone.
  """
  model = model.for_documents()
  packages = ["tokenizers"]
  if not model.encoder.has_tokens:
    packages = ["tensorflow-text"]
  versions = _versions(packages)
  name = model.identity.name  # a worker may have another working folder, so its path is absolute
  settings = model.identity.settings
  arguments = {**settings.model_arguments(), **settings.loading_arguments(), "cache_dir": cache_dir}
  load: Callable = functools.partial(SentenceModel.from_pretrained, name, **arguments)
  identity = {**embedder_values(model), "versions": versions}
  about: dict[str, object] = {"encoder": model.identity.to_dict()}
  if calibration_folder is not None:
    # The encoder was checked when the model was loaded first.
    folder = os.path.abspath(calibration_folder)
    load = functools.partial(SentenceModel.load, folder, model=name, allow_other_encoder=True, **arguments)
    if model.steps_checksum is not None:
      about["calibration"] = {"name": model.calibration_name, "folder": folder}
  return Embedder(model, functools.partial(_load, versions, model.identity.weights_sha256, load), identity, about)


def _versions(packages):
  """Returns {package: version} of those packages that are installed."""
  versions = {}
  for package in packages:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # not every SavedModel needs TF Text
      versions[package] = importlib.metadata.version(package)
  return versions


def _load(versions, weights_sha256, load):
  """Returns the model that `load` loads, if it reads the same tokens in this process and has the same weights."""
  here = _versions(versions)
  if here != versions:
    raise EncoderError(f"a worker has {here}, the process that started it {versions}; install the same versions")
  model = load().for_documents()
  if model.identity.weights_sha256 != weights_sha256:
    message = f"model={model.identity.name}: a worker loads other weights than the process that started it has"
    raise EncoderError(f"{message}; save them (save_encoder), and name their folder", "model")
  return model
