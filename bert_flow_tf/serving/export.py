"""Exports a `SentenceModel`, or a calibration alone, as one version of a model for TF Serving, OpenVINO or ONNX."""

import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf._version import __version__
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.calibration.step_list import as_calibration
from bert_flow_tf.data.pairs import SentencePairs, Texts, sentences_or_pairs
from bert_flow_tf.encoder.kinds import public_name
from bert_flow_tf.encoder.other.saved_model import load_saved_model
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.io.files import owned, temporary_folder, write_text
from bert_flow_tf.model import SentenceModel, check_sentence_model
from bert_flow_tf.serving import golden, metadata
from bert_flow_tf.serving.model2vec import export_model2vec
from bert_flow_tf.serving.served_file import CalibrationFile, IdsFile
from bert_flow_tf.serving.served_model import Functions, ServedCalibration, ServedModel
from bert_flow_tf.serving.settings import (
  BATCHING,
  METADATA,
  MODEL2VEC,
  MODELS_CONFIG,
  MONITORING,
  ONNX,
  OPENVINO,
  OVMS_CONFIG,
  SAVED_MODEL,
  WARMUP,
  ExportError,
  ExportSettings,
  check_installed,
  check_precision,
)

# Version of the format of metadata.json.
_FORMAT_VERSION = 1
_PACKAGES = {
  SAVED_MODEL: ("tensorflow", "tensorflow-text", "keras", "tf-keras", "tensorflow-probability", "tokenizers", "numpy"),
  OPENVINO: ("openvino", "tensorflow", "tokenizers", "numpy"),
  ONNX: ("tf2onnx", "onnx", "onnxruntime", "tensorflow", "tokenizers", "numpy"),
}
# Rows of warm-up requests. The first request of a signature is slow. A second size prepares operations that depend on
# the shape.
_WARMUP_ROWS = (1, 8)
# Reference: the largest number of rows that are embedded, and the quantiles of their bits per dimension.
_MAX_REFERENCE_ROWS = 1024
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_MODELS_CONFIG_TEXT = """\
# Example of --model_config_file. Not run by us.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # By default the server serves the highest version only. To serve two, or to roll back, name the versions:
    # model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    # version_labels {{ key: "stable" value: 1 }}
    # version_labels {{ key: "canary" value: 2 }}
  }}
}}
"""
# File for --monitoring_config_file: Prometheus reads numbers and times of requests at this path of the REST port.
_MONITORING_TEXT = """\
prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }
"""
# Padding is safe: embed_ids reads `lengths` tokens of each row, and text has no second dimension.
_BATCHING_TEXT = """\
max_batch_size { value: 64 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 256 }
num_batch_threads { value: 4 }
pad_variable_length_inputs: true
"""


def export_model(
  model: SentenceModel | Calibration | Glow,
  export_dir: str | os.PathLike,
  *,
  reference: Texts | SentencePairs | None = None,
  about: dict | None = None,
  **settings: Any,
) -> pathlib.Path:
  """Writes `export_dir`/VERSION completely or not at all; compares its answers with the model's before that.

  Args:
    model: encoder, pooling and fitted calibration; or a calibration alone, which takes embeddings in place of text.
    export_dir: folder of the served model, with one folder per version; created if absent. With format="model2vec" the
      folder of the table of vectors itself (`model2vec.export_model2vec`), which is new or empty.
    reference: sentences, or pairs, as `SentenceModel.fit` takes them, or embeddings [n, dim] for a calibration alone:
      the usual input; by default sentences of the model's fit, if it was fitted in this process. metadata.json gets
      the quantiles of the flow's bits per dimension for about 1,000 of them.
    about: further JSON values for metadata.json, for example the result of `metadata.read_origin`.
    **settings: fields of `ExportSettings`: version, model_name, normalize, format, dtype.

  Returns:
    Folder of the version, or of the table.

  Raises:
    ConfigError: a setting is not allowed, the encoder is neither float32 nor int8, the format cannot have it, or a
      package is not installed.
    ExportError: the version exists, the folder cannot be written, or the answers differ from the model's.
    BertFlowError: the encoder cannot be served, or the calibration is not fitted.
  """
  checked = ExportSettings(**settings)
  check_installed(checked.format)
  if checked.format == MODEL2VEC:
    return _export_table(model, export_dir, reference, checked)
  served = _served(model, checked)
  if reference is not None and served.flow is None:
    name = served.name
    raise ConfigError(f"reference: only a flow says how usual a text is, not {name}; leave it out", "reference")
  if served.without_text:
    logging.warning("%s: the served model has embed_ids and no signature of text", served.without_text)
  with owned(export_dir, "export_dir"):
    place = _new_version(pathlib.Path(export_dir), checked.version)
    entries = _describe_reference(served, reference) | (about or {})
    logging.info("writing %s", place)
    try:
      with temporary_folder(place) as folder:  # its name is not a version to the server
        _write(folder, served, checked, {"version": int(place.name)} | entries)
        folder.rename(place)
    except OSError as error:
      raise ExportError(f"export_dir={export_dir}: cannot be written ({error})", argument="export_dir") from error
  return place


def _export_table(model, export_dir, reference, settings):
  """Writes the table of vectors of a model; raises a ConfigError for what a table does not have."""
  if isinstance(model, Calibration | Glow):
    message = "a table of vectors needs an encoder, and this is a calibration alone; give a SentenceModel"
    raise ConfigError(f"model: {message}", "model")
  check_sentence_model(model)
  if reference is not None:
    raise ConfigError(f"reference: has no use with format={MODEL2VEC}; leave it out", "reference")
  return export_model2vec(model, export_dir, settings)


def _served(model: SentenceModel | Calibration | Glow, settings: ExportSettings) -> ServedCalibration:
  """Returns the graphs of a model, or of a calibration alone."""
  normalize, format = settings.normalize, settings.format
  if isinstance(model, Calibration | Glow):
    calibration = as_calibration(model)
    if format != SAVED_MODEL:
      return CalibrationFile(calibration, normalize, format)
    return ServedCalibration(calibration, [calibration], calibration.dim, calibration.output_dim, normalize)
  check_sentence_model(model, ", a Calibration or a Glow")
  check_precision(model.identity.settings.precision, model.identity.settings.engine, format)
  if format != SAVED_MODEL:
    return IdsFile(model, normalize, format)
  return ServedModel(model, normalize)


def _describe_reference(served: ServedCalibration, reference: Texts | SentencePairs | None) -> dict[str, object]:
  """Returns an entry of metadata.json, `reference`, with the quantiles of bits per dimension; {} without a flow."""
  if served.flow is None:
    return {}
  rows: Sequence[str] | np.ndarray = []
  if isinstance(served.model, SentenceModel):
    sentences = served.model.sample if reference is None else sentences_or_pairs(reference)
    if isinstance(sentences, tuple):
      sentences = sentences[0] + sentences[1]
    rows = sentences
  elif reference is not None:
    rows = check_rows(reference, served.sizes["dim"], name="reference")
  if not len(rows):
    if reference is not None:
      raise DataError("reference: empty; expected sentences, or leave it out", "reference")
    return {}
  rows = served.embed(rows[:: math.ceil(len(rows) / _MAX_REFERENCE_ROWS)])
  bits = served.flow.log_prob(rows)[0]
  quantiles = {str(share): float(np.quantile(bits, share)) for share in _QUANTILES}
  return {"reference": {"rows": len(rows), "bits_per_dim": quantiles}}


def _new_version(base: pathlib.Path, version: int | None) -> pathlib.Path:
  """Returns the folder of a version that does not exist yet; None for the number after the highest one."""
  if version is None:
    version = 1
    for path in base.iterdir():
      if path.name.isascii() and path.name.isdigit():
        version = max(version, int(path.name) + 1)
  place = base / str(version)
  if os.path.lexists(place):
    reason = "exists, and versions are never overwritten; leave it out for the next one"
    raise ExportError(f"version={version}: {place} {reason}", argument="version")
  return place


def _save(folder, served):
  """Writes the SavedModel: graphs, weights, vocabulary."""
  root = served.module()
  with tempfile.TemporaryDirectory() as place, _quiet():
    if isinstance(served, ServedModel) and served.model.encoder.has_tokens:
      root.vocabulary = []
      for name, content in served.model.encoder.tokenizer.files().items():
        pathlib.Path(place, name).write_bytes(content)
        root.vocabulary.append(tf.saved_model.Asset(str(pathlib.Path(place, name))))
    tf.saved_model.save(root, str(folder), signatures=served.functions())


def _write(folder, served, settings, about):
  """Writes the files of a version, after a comparison of its answers with Python's."""
  (folder / METADATA).parent.mkdir(parents=True)
  if isinstance(served, IdsFile | CalibrationFile):
    served.write(folder)
    if isinstance(served, IdsFile):
      served.write_tokenizer(folder, golden.SENTENCES)
    answers, pooled = golden.answer_of_file(folder, served)
    agreement = golden.compare(answers, served, pooled)
    if settings.format == OPENVINO:
      _write_ovms_config(folder / OVMS_CONFIG, settings.model_name)
  else:
    _save(folder, served)
    with _quiet():
      loaded = load_saved_model(folder)
    answers = golden.answer(loaded.signatures, served)
    agreement = golden.compare(answers, served)
    _write_warmup(folder / WARMUP, settings.model_name, loaded.signatures, served)
    write_text(folder / MODELS_CONFIG, _MODELS_CONFIG_TEXT.format(name=settings.model_name))
    write_text(folder / MONITORING, _MONITORING_TEXT)
    write_text(folder / BATCHING, _BATCHING_TEXT)
  golden.write_golden(folder, answers)
  contents = _describe_model(served, settings, {"agreement_with_python": agreement} | about)
  metadata.write_metadata(folder, contents)


def _write_ovms_config(path, model_name):
  """Writes an example of a configuration of OpenVINO Model Server."""
  # Without the hint, a CPU with instructions for bfloat16 computes in it.
  config = {"name": model_name, "base_path": f"/models/{model_name}", "plugin_config": metadata.PLUGIN_CONFIG}
  write_text(path, json.dumps({"model_config_list": [{"config": config}]}, indent=2) + "\n")


def _describe_model(served: ServedCalibration, settings: ExportSettings, about: dict[str, object]) -> dict:
  """Returns the content of metadata.json; `about`: further entries, including `version`."""
  calibration: dict[str, object] = {"name": served.name, **served.sizes}
  if served.flow is not None:
    calibration["flow"] = served.flow.flow.settings()
  if isinstance(served.calibration, LinearCalibration):
    calibration["fitted_on"] = served.calibration.count
  versions = {"bert_flow_tf": __version__, "python": platform.python_version()}
  for package in _PACKAGES[settings.format]:
    versions[package] = importlib.metadata.version(package)
  signatures = {}
  for name, signature in served.table.items():
    signatures[name] = signature.describe(served.sizes)
  return {
    "format_version": _FORMAT_VERSION,
    "format": settings.format,
    "model_name": settings.model_name,
    "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "encoder": _describe_encoder(served),
    "calibration": calibration,
    "normalize": settings.normalize,
    "signatures": signatures,
    "without": served.without,
    "versions": versions,
    **about,
  }


def _describe_encoder(served: ServedCalibration) -> dict[str, object] | None:
  """Returns the encoder of a served model, or the identity of the encoder that a calibration was fitted for."""
  model = served.model
  if not isinstance(model, SentenceModel):
    return metadata.without_folders(model.encoder)
  encoder = metadata.without_folders(model.identity.to_dict())
  encoder |= {"name": public_name(model.encoder.name), "engine": served.engine}
  weighted_by = None
  if model.encoder.token_weights is not None:
    weighted_by = model.encoder.token_weights.name
  encoder["pooled"] = model.pooling.describe(weighted_by)
  if model.encoder.has_tokens:
    encoder["tokens"] = model.encoder.tokenizer.vocab_size
  return encoder


def _write_warmup(path: pathlib.Path, model_name: str, functions: Functions, served: ServedCalibration) -> None:
  """Writes a TFRecord file of `PredictionLog`, which a server answers before it serves a version."""
  from tensorflow_serving.apis import prediction_log_pb2

  with tf.io.TFRecordWriter(str(path)) as writer:
    for name, signature in served.table.items():
      for rows in _WARMUP_ROWS:
        log = prediction_log_pb2.PredictionLog()
        request = log.predict_log.request
        request.model_spec.name, request.model_spec.signature_name = model_name, name
        tensors = {}
        for key, value in signature.example_inputs(rows, served.sizes).items():
          tensors[key] = tf.constant(value)
          request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        functions[name](**tensors)  # a request that fails would stop the server from loading the model
        writer.write(log.SerializeToString(deterministic=True))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Silences TensorFlow, which logs every weight's name and every custom gradient."""
  verbosity = logging.get_verbosity()
  logging.set_verbosity(logging.ERROR)
  try:
    yield
  finally:
    logging.set_verbosity(verbosity)
