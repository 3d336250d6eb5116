"""Models of a run: what decides their embeddings, how a worker loads them; and exported SavedModels as such a model."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.flow import calibration_sha256
from bert_flow_tf.corpus.embedding import Embedder
from bert_flow_tf.encoder.source import HUB_NAMES, MODEL_NAMES
from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json
from bert_flow_tf.model import SentenceModel

_SIGNATURE = "serving_default"


class SavedModelReader:
  """SavedModel whose default signature maps texts to embeddings, of `output_dim` dimensions."""

  def __init__(self, folder: str) -> None:
    with contextlib.suppress(ImportError):  # needed only by models that use its ops
      import tensorflow_text  # noqa: F401 (registers the ops)
    self.folder = folder
    _check_folder(pathlib.Path(folder))
    try:
      # Kept, because the signature does not keep the weights.
      self._loaded = tf.saved_model.load(folder)
      self._signature = self._loaded.signatures[_SIGNATURE]
      ((self._input, spec),) = self._signature.structured_input_signature[1].items()
      outputs = dict(self._signature.structured_outputs)
      if "embedding" not in outputs and len(outputs) == 1:
        (self._output,) = outputs
      else:
        self._output = "embedding"
      shape = outputs[self._output].shape
      if spec.dtype != tf.string or shape.rank != 2 or shape[1] is None:
        raise ValueError(f"text is {spec.dtype.name}, embedding has the shape {shape}")
    except Exception as error:  # damaged files, missing ops and other signatures raise many kinds of error
      reason = " ".join(str(error).split())[:200]
      raise EncoderError(
        f"saved_model={folder} cannot be used ({type(error).__name__}: {reason}); expected a SavedModel whose "
        f"signature {_SIGNATURE} maps texts to embeddings, and tensorflow_text if the model uses its ops",
        argument="saved_model",
      ) from error
    self.output_dim = shape[1]

  def checksum(self) -> str:
    """Returns the hexadecimal sha256 of graph, weights and assets, without files that only describe them."""
    folder = pathlib.Path(self.folder)
    paths = [folder / "saved_model.pb", *(folder / "variables").glob("*"), *(folder / "assets").rglob("*")]
    total = hashlib.sha256()
    for path in sorted(paths):
      if path.is_file():
        total.update(f"{path.relative_to(folder).as_posix()} {checksums.of_file(path)}\n".encode())
    return total.hexdigest()

  def encode(self, sentences: list[str], batch_size: int = 64, *, normalize_embeddings: bool = False) -> np.ndarray:
    """Returns embeddings, float32 array of shape [n, output_dim]."""
    vectors = np.empty([len(sentences), self.output_dim], np.float32)
    # Batches of similar length.
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    for start in range(0, len(order), batch_size):
      rows = order[start : start + batch_size]
      batch = tf.constant([sentences[i].encode("utf-8", "replace") for i in rows])
      try:
        vectors[rows] = self._signature(**{self._input: batch})[self._output].numpy()
      except tf.errors.OpError as error:
        reason = " ".join(str(error.message).split())[:200]
        raise BertFlowError(f"{self.folder} cannot embed {len(rows)} sentences: {reason}") from error
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
      raise EncoderError(f"sentence {bad[0]} (counted from 0): its embedding by {self.folder} is not finite")
    if normalize_embeddings:
      vectors = normalized(vectors).astype(np.float32)
    return vectors


def _check_folder(folder):
  """Raises an error if a folder has no SavedModel, or a file differs from its checksum in our metadata.json."""
  if not (folder / "saved_model.pb").is_file():
    message = f"saved_model={folder}: no saved_model.pb in it, expected a SavedModel"
    versions = sorted(folder.glob("[0-9]*/saved_model.pb"))
    if versions:
      message += f", such as {versions[-1].parent}"
    raise ConfigError(message, argument="saved_model")
  path = folder / "assets.extra" / "metadata.json"
  # Of another program.
  if not path.is_file():
    return
  try:
    checksums.opened(read_json(path), folder)
  except (OSError, ValueError) as error:
    raise EncoderError(
      f"saved_model={folder}: damaged, {path.name}: {error}; {checksums.KEEP_CHANGES}", argument="saved_model"
    ) from error


def embedder_of(
  model: SentenceModel | SavedModelReader, calibration_folder: str | None = None, cache_dir: str | None = None
) -> Embedder:
  """Returns a model with what decides its embeddings, and how workers load it; None as folder: an encoder alone."""
  if isinstance(model, SavedModelReader):
    versions = _versions(["tensorflow-text"])
    load: Callable = functools.partial(SavedModelReader, os.path.abspath(model.folder))
    identity: dict[str, Any] = {"saved_model_sha256": model.checksum()}
    about: dict[str, Any] = {"saved_model": model.folder}
  else:
    # A worker may have another working folder, so paths are absolute.
    versions = _versions(["tokenizers", "transformers"])
    name = _absolute(model.encoder.name)
    arguments = {**model.identity.model_arguments(), **model.identity.loading_arguments(), "cache_dir": cache_dir}
    load = functools.partial(SentenceModel.from_pretrained, name, **arguments)
    identity = {**model.identity.deciding(), "calibration_sha256": None}
    about = {"encoder": model.identity.to_dict()}
    if calibration_folder is not None:
      # The encoder was checked when the model was loaded first.
      folder = os.path.abspath(calibration_folder)
      load = functools.partial(SentenceModel.load, folder, name, allow_other_encoder=True, **arguments)
      if model.calibration is not None:
        identity["calibration_sha256"] = calibration_sha256(folder)
        about["calibration"] = {"name": model.calibration.name, "folder": folder}
  return Embedder(model, functools.partial(_load, versions, load), {**identity, "versions": versions}, about)


def _versions(packages):
  """Returns {package: version} of those packages that are installed."""
  versions = {}
  for package in packages:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # not every SavedModel needs TF Text
      versions[package] = importlib.metadata.version(package)
  return versions


def _load(versions, load):
  """Returns the model that `load` loads, if it reads the same tokens in this process."""
  here = _versions(versions)
  if here != versions:
    raise EncoderError(f"a worker has {here}, the process that started it {versions}; install the same versions")
  return load()


def _absolute(name):
  """Returns the name of an encoder, or the absolute path of its folder or TF1 checkpoint."""
  # These win over folders.
  if name in MODEL_NAMES or name in HUB_NAMES.values():
    return name
  path = os.path.abspath(os.path.expanduser(name))
  is_path = os.path.isdir(path) or os.path.isfile(f"{path}.index")
  return path if is_path else name
