"""metadata.json: what was exported, from what and by what."""

import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import platform
from typing import Any

import tensorflow as tf

from bert_flow_tf._version import __version__
from bert_flow_tf.io.files import write_text

FORMAT_VERSION = 1
_PACKAGES = ("tensorflow", "tensorflow-text", "tf-keras", "tensorflow-probability", "transformers", "numpy")
_MEANINGS = {
  "serving_default": "text -> calibrated embedding",
  "embed_pooled": "text -> the encoder's embedding, before the calibration",
  "embed_ids": "token ids with [CLS] and [SEP], and how many of each row count -> calibrated embedding",
  "similarity": "two texts -> cosine of their calibrated embeddings",
  "log_prob": "text -> the flow's log-density of its embedding, in bits per dimension (the loss) and in nats",
  "inverse": "latent -> the embedding that the flow maps to it; takes latents that are not normalized",
}


@dataclasses.dataclass(frozen=True)
class Options:
  """How a model was asked to be exported; see `serving.export_model`."""

  model_name: str
  pooling: Any
  max_seq_length: int
  low_dim: int | None
  normalize: bool
  weights_dtype: str


def describe(layout, encoder, calibration, graph, options, agreement, unknown_ops, about):
  """The content of metadata.json, a dict of json values.

  Args:
    layout: `ExportLayout` of the folder that is being written.
    encoder: `SentenceEncoder`.
    calibration: as `export_model` takes it.
    graph: its `CalibrationGraph`.
    options: `Options`.
    agreement: of `golden.check`.
    unknown_ops: of `audit.check_servable`.
    about: what the caller knows of the calibration's origin.
  """
  identity = encoder.identity(options.pooling, options.max_seq_length, options.low_dim)
  flow = getattr(calibration, "flow", calibration)
  return {
    "format_version": FORMAT_VERSION,
    "model_name": options.model_name,
    "version": layout.version,
    "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "encoder": {**identity, "pooled": options.pooling.describe(), "tokens": encoder.tokenizer.vocab_size},
    "calibration": {
      "name": graph.name,
      "dim": graph.dim,
      "output_dim": graph.output_dim,
      **({"flow": flow.settings()} if graph.is_flow else {}),
      **({"fitted_on": calibration.count} if hasattr(calibration, "count") else {}),
    },
    "normalize": options.normalize,
    "weights_dtype": options.weights_dtype,
    "signatures": signatures(layout.folder),
    "without": [] if graph.is_flow else ["log_prob and inverse: the calibration is no flow"],
    "agreement_with_python": agreement,
    "ops_not_known_to_tensorflow_2.12": unknown_ops,
    "sha256": checksums(layout),
    "versions": {"bert_flow_tf": __version__, "python": platform.python_version(), **_versions()},
    **about,
  }


def signatures(folder):
  """{name: {"meaning": str, "inputs" and "outputs": {name: [dtype, shape]}}} of a SavedModel."""
  from tensorflow.core.protobuf import saved_model_pb2

  model = saved_model_pb2.SavedModel()
  model.ParseFromString((folder / "saved_model.pb").read_bytes())

  def tensors(infos):
    shapes = {name: [size.size for size in info.tensor_shape.dim] for name, info in infos.items()}
    return {name: [tf.as_dtype(infos[name].dtype).name, shape] for name, shape in sorted(shapes.items())}

  return {
    name: {"meaning": _MEANINGS[name], "inputs": tensors(definition.inputs), "outputs": tensors(definition.outputs)}
    for name, definition in sorted(model.meta_graphs[0].signature_def.items())
    if name in _MEANINGS
  }


def checksums(layout):
  """{path within the version: hexadecimal sha256} of graphs, weights and vocabulary."""
  files = [layout.saved_model, layout.vocabulary, *sorted(layout.variables.iterdir())]
  found = {}
  for path in files:
    with path.open("rb") as file:
      found[path.relative_to(layout.folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
  return found


def write(path, described):
  """Writes metadata.json."""
  write_text(path, json.dumps(described, indent=2, ensure_ascii=False) + "\n")


def _versions():
  return {package: importlib.metadata.version(package) for package in _PACKAGES}
