"""Models of a run: the values that decide their embeddings, and functions that load them in a worker."""

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import Callable

from bert_flow_tf.corpus.embedding import Embedder
from bert_flow_tf.corpus.vectors import VectorFolder
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.kinds import SAVED_MODEL
from bert_flow_tf.encoder.loading import load_fitted_encoder
from bert_flow_tf.errors import BertFlowError, EncoderError
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.settings import differences
from bert_flow_tf.model import SentenceModel


def load_saved_model(folder: str, output: str | None = None) -> SentenceModel:
  """Loads a SavedModel as a model; a calibration can only be inside it. `output`: see `saved_model_output`."""
  try:
    return SentenceModel.from_pretrained(f"{SAVED_MODEL.prefix}{folder}", saved_model_output=output)
  except EncoderError as error:
    message = str(error).replace(f"model={SAVED_MODEL.prefix}", "saved_model=", 1)
    raise EncoderError(message, argument="saved_model") from error


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


def load_model_of(
  vectors: VectorFolder,
  model: str | None = None,
  calibration_folder: str | None = None,
  cache_dir: str | None = None,
  query_prompt: str | None = None,
) -> SentenceModel:
  """Loads the model by which vectors were embedded, from where the manifest says or from other places.

  `model` and `calibration_folder`: name or folder of the same encoder, and folder of the same calibration; None for the
  manifest's, as `query_prompt`. An EncoderError says what differs.
  """
  where = f"vectors={vectors.folder}"
  identity = EncoderIdentity.from_dict(vectors.manifest["encoder"], where)
  settings = {}
  if query_prompt is not None:
    settings["query_prompt"] = query_prompt
  encoder, arguments = load_fitted_encoder(identity, where, model, cache_dir, **settings)
  if calibration_folder is None:
    calibration_folder = vectors.manifest.get("calibration", {}).get("folder")
  try:
    if calibration_folder is None:
      loaded = SentenceModel(encoder, **arguments)
    else:
      loaded = SentenceModel.load(calibration_folder, model=encoder, allow_other_encoder=True, **arguments)
  except BertFlowError as error:
    message = f"{where}: embedded by {identity.name}, another encoder or calibration than {encoder.name} ({error})"
    raise EncoderError(f"{message}; take the same model", argument="vectors") from error
  check_embedder(vectors.manifest["settings"]["embedder"], loaded, where)
  return loaded


def embedder_values(model: SentenceModel) -> Json:
  """Returns the JSON values of a model that decide its embeddings, as `Embedder.identity`, without versions."""
  return {**model.identity.deciding(), "calibration_sha256": model.steps_checksum}


def check_embedder(embedder: Json, model: SentenceModel, where: str) -> None:
  """Raises an EncoderError if a model gives other embeddings than the values of an `Embedder.identity` at `where`."""
  # Documents may have been embedded with their prompt.
  values = {name: value for name, value in embedder.items() if name != "versions"}
  different = differences(values, embedder_values(model))
  if different and differences(values, embedder_values(model.for_documents())):
    shown = "; ".join(different[:3])
    message = f"{where}: embedded by another encoder or calibration than {model.name} ({shown}); take the same model"
    raise EncoderError(message, argument="vectors")


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
  model = load()
  if model.identity.weights_sha256 != weights_sha256:
    message = f"model={model.identity.name}: a worker loads other weights than the process that started it has"
    raise EncoderError(f"{message}; save them (save_encoder), and name their folder", "model")
  return model
