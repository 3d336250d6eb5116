"""A fitted encoder and calibration -> one version of a model for TF Serving."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import tempfile
import uuid

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving import assets, audit, golden, metadata, model_card, warmup
from bert_flow_tf.serving.calibration_graph import make_calibration_graph
from bert_flow_tf.serving.graph_tokenizer import GraphTokenizer
from bert_flow_tf.serving.half_weights import WEIGHTS_DTYPES, tracked
from bert_flow_tf.serving.layout import ExportError, ExportLayout, versions
from bert_flow_tf.serving.signatures import ServedModel

# The server keeps versions as int64.
_LAST_VERSION = 2**63 - 1
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def export_model(
  encoder,
  calibration,
  base_dir,
  *,
  version=None,
  model_name="bert_flow",
  sentence_embedding_type="avg-first-last",
  max_seq_length=64,
  low_dim=None,
  normalize=False,
  weights_dtype="float32",
  about=None,
):
  """Writes `base_dir`/`version`, whole or not at all, and proves it on a few sentences before it gets its name.

  Args:
    encoder: `SentenceEncoder`.
    calibration: fitted `Glow`, something that has one as `flow` (`FlowCalibration`), a `LinearCalibration`, or None.
    base_dir: the model's folder, with a folder a version; made if absent.
    version: int; the next free one if None.
    model_name: what the server is to call it.
    sentence_embedding_type: as the calibration was fitted with, see `SentenceEncoder.encode`.
    max_seq_length: the same.
    low_dim: the same.
    normalize: whether embeddings get the length 1.
    weights_dtype: of the encoder's matrices on disk: float32, float16 or bfloat16.
    about: dict of json values for metadata.json: where the calibration came from, figures.

  Returns:
    `ExportLayout` of the version.

  Raises:
    ConfigError: an argument outside its allowed values.
    ExportError: the version exists, the folder cannot be written, or the SavedModel does not give what encoder and
      calibration give.
    BertFlowError: the encoder cannot be served, or the calibration is not fitted or for other dimensions.
  """
  check_arguments(version, model_name, weights_dtype)
  pooling = encoder.pooling(sentence_embedding_type)
  encoder.bert.check_max_seq_length(max_seq_length)
  graph = make_calibration_graph(calibration, encoder.dim(pooling, low_dim))
  tokenizer = GraphTokenizer(encoder.tokenizer, max_seq_length)
  model = ServedModel(encoder, tokenizer, graph, pooling, low_dim, bool(normalize))
  options = metadata.Options(model_name, pooling, int(max_seq_length), low_dim, bool(normalize), weights_dtype)
  with _locked(base_dir):
    layout = ExportLayout.of(base_dir, _free_version(base_dir, version))
    logging.info("writing %s", layout.folder)
    try:
      shutil.rmtree(layout.beside.folder, ignore_errors=True)  # what a killed process left
      _save(model, encoder, weights_dtype, layout.beside)
      _describe(layout.beside, encoder, calibration, graph, options, about or {})
      layout.beside.folder.rename(layout.folder)
    except OSError as error:
      raise ExportError(f"--export_dir={base_dir}: cannot be written ({error})") from error
    finally:
      shutil.rmtree(layout.beside.folder, ignore_errors=True)
  return layout


def check_arguments(version, model_name, weights_dtype):
  """Refuses what needs no model to be seen wrong.

  Raises:
    ConfigError: not allowed values.
  """
  if weights_dtype not in WEIGHTS_DTYPES:
    raise ConfigError(f"--weights_dtype={weights_dtype}: expected one of {', '.join(WEIGHTS_DTYPES)}")
  if not isinstance(model_name, str) or not _MODEL_NAME.fullmatch(model_name):
    raise ConfigError(f"--model_name={model_name}: expected letters, digits, '_', '.' and '-', as it stands in URLs")
  if version is not None and (type(version) is not int or not 1 <= version <= _LAST_VERSION):
    raise ConfigError(f"--version={version}: expected a whole number from 1 to {_LAST_VERSION}")


def _save(model, encoder, weights_dtype, layout):
  """Writes the SavedModel: graphs, weights, vocabulary."""
  layout.folder.mkdir(parents=True)
  signatures = {name: function.get_concrete_function() for name, function in model.signatures().items()}
  root = tf.Module(name="bert_flow")
  root.weights = tracked(encoder.bert.model.weights, weights_dtype, f"bert_flow_{uuid.uuid4().hex}")
  # Nothing is trained from here.
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
  with tempfile.TemporaryDirectory() as folder, _quiet():
    root.vocabulary = tf.saved_model.Asset(assets.write_vocabulary(encoder.tokenizer, folder))
    tf.saved_model.save(root, str(layout.folder), signatures=signatures, options=options)
  layout.extra.mkdir()


def _describe(layout, encoder, calibration, graph, options, about):
  """Checks the SavedModel and writes what lies beside it."""
  unknown = audit.check_servable(layout.folder)
  if unknown:
    logging.warning("ops that TensorFlow 2.12 is not known to have, so that an older server may refuse: %s", unknown)
  answers = golden.answer(layout.folder)
  agreement = golden.check(answers, encoder, calibration, options)
  golden.write(layout.golden, answers)
  warmup.write(layout.warmup, options.model_name, encoder, options.max_seq_length, answers)
  described = metadata.describe(layout, encoder, calibration, graph, options, agreement, unknown, about)
  metadata.write(layout.metadata, described)
  model_card.write(layout.card, described)
  assets.write_server_files(layout, options.model_name)


def _free_version(base_dir, version):
  """The version, or the next free one."""
  taken = versions(base_dir)
  if version is None:
    version = max(taken, default=0) + 1
    check_arguments(version, "model", "float32")
  # A name that is no version's, such as a file, is in the way too.
  if version in taken or os.path.lexists(ExportLayout.of(base_dir, version).folder):
    raise ExportError(
      f"--export_dir={base_dir}: version {version} is there and is never overwritten; leave --version out"
    )
  return version


@contextlib.contextmanager
def _quiet():
  """Silences TensorFlow, which lists every weight's name for each signature."""
  before = logging.get_verbosity()
  logging.set_verbosity(min(before, logging.WARNING))
  try:
    yield
  finally:
    logging.set_verbosity(before)


@contextlib.contextmanager
def _locked(base_dir):
  """Makes the base folder and keeps other exports out of it; the lock ends with the process at the latest."""
  base = pathlib.Path(base_dir)
  try:
    base.mkdir(parents=True, exist_ok=True)
    handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
  except OSError as error:
    raise ExportError(f"--export_dir={base_dir}: cannot be made or read ({error.strerror})") from error
  try:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield
  except BlockingIOError as error:
    raise ExportError(f"--export_dir={base_dir}: another export is writing there; wait for it") from error
  finally:
    os.close(handle)
