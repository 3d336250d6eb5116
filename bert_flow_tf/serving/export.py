"""Exports a `SentenceModel` as one version of a model for TF Serving."""

import contextlib
import dataclasses
import os
import pathlib
import tempfile
import uuid
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.files import temporary_folder
from bert_flow_tf.io.lock import owned
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving import assets, audit, golden, metadata, model_card, warmup
from bert_flow_tf.serving.calibration_graph import make_calibration_graph
from bert_flow_tf.serving.graph_tokenizer import GraphTokenizer
from bert_flow_tf.serving.half_weights import tracked
from bert_flow_tf.serving.layout import ExportError, ExportLayout, versions
from bert_flow_tf.serving.served_model import ServedModel
from bert_flow_tf.serving.settings import ExportSettings, check_installed


def export_model(
  model: SentenceModel, export_dir: str | pathlib.Path, *, about: dict | None = None, **settings
) -> ExportLayout:
  """Writes `export_dir`/VERSION completely or not at all; compares its answers with the model's before that.

  Args:
    model: encoder, pooling and fitted calibration.
    export_dir: folder of the served model, with one folder per version; created if absent.
    about: further JSON values for metadata.json, such as the result of `metadata.read_origin`.
    **settings: fields of `ExportSettings`: version, model_name, normalize, weights_dtype.

  Returns:
    Paths of the version.

  Raises:
    ConfigError: a setting is not allowed, the encoder is not float32, or a package is not installed.
    ExportError: the version exists, the folder cannot be written, or the answers differ from the model's.
    BertFlowError: the encoder cannot be served, or the calibration is not fitted.
  """
  settings = ExportSettings(**settings)
  check_installed(export_dir)
  identity = model.identity
  if identity.settings.precision != "float32":
    raise ConfigError(
      f"precision={identity.settings.precision}: a served model computes in float32", argument="precision"
    )
  graph = make_calibration_graph(model.calibration, model.dim)
  tokenizer = GraphTokenizer(model.encoder.tokenizer, identity.max_seq_length)
  pooling = model.encoder.pooling(identity.sentence_embedding_type)
  served = ServedModel(model.encoder, tokenizer, graph, pooling, identity.low_dim, settings.normalize)
  with owned(export_dir, "export_dir"):
    layout = ExportLayout.of(export_dir, _free_version(export_dir, settings.version))
    logging.info("writing %s", layout.folder)
    try:
      with temporary_folder(layout.folder) as folder:  # its name is not a version to the server
        writing = dataclasses.replace(layout, folder=folder)
        _save(served, model, graph.variables, settings, writing)
        _describe(writing, model, graph, served.sizes, settings, about or {})
        folder.rename(layout.folder)
    except OSError as error:
      raise ExportError(f"export_dir={export_dir}: cannot be written ({error})", argument="export_dir") from error
  return layout


def _save(served, model, calibration_variables, settings, layout):
  """Writes the SavedModel: graphs, weights, vocabulary."""
  root = tf.Module(name="bert_flow")
  root.weights = tracked(model.encoder.bert.model.weights, settings.weights_dtype, f"bert_flow_{uuid.uuid4().hex}")
  root.calibration = calibration_variables
  # The model is not trained further, and custom gradients would double its functions.
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
  with tempfile.TemporaryDirectory() as folder, _quiet():
    root.vocabulary = tf.saved_model.Asset(assets.write_vocabulary(model.encoder.tokenizer, folder))
    tf.saved_model.save(root, str(layout.folder), signatures=served.functions(), options=options)
  layout.extra.mkdir()


def _describe(layout, model, graph, sizes, settings, about):
  """Checks the SavedModel and writes the other files of the version."""
  unknown_ops = audit.check_servable(layout.folder)
  if unknown_ops:
    logging.warning("operations that TensorFlow 2.12 may not have, so that an old server may fail: %s", unknown_ops)
  with _quiet():
    loaded = tf.saved_model.load(str(layout.folder))
  answers = golden.answer(loaded.signatures)
  agreement = golden.check(answers, model, settings)
  golden.write(layout.golden, answers)
  warmup.write(layout.warmup, settings.model_name, loaded.signatures, sizes)
  contents = metadata.describe(layout, model, graph, sizes, settings, agreement, unknown_ops, about)
  metadata.write(layout.metadata, contents)
  model_card.write(layout.card, contents)
  assets.write_server_files(layout, settings.model_name)


def _free_version(export_dir: str | pathlib.Path, version: int | None) -> int:
  """Returns the version, or the number after the highest one if it is None.

  Raises:
    ExportError: a file or folder has this name.
  """
  if version is None:
    version = max(versions(export_dir), default=0) + 1
  if os.path.lexists(ExportLayout.of(export_dir, version).folder):
    raise ExportError(
      f"version={version}: exists in {export_dir}, and versions are never overwritten; leave it out for the next one",
      argument="version",
    )
  return version


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Silences TensorFlow, which logs every weight's name and every custom gradient."""
  verbosity = logging.get_verbosity()
  logging.set_verbosity(logging.ERROR)
  try:
    yield
  finally:
    logging.set_verbosity(verbosity)
