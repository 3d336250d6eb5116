"""Writes folders of this package as a checkpoint of TensorFlow 1."""

import json
import pathlib
from collections.abc import Mapping

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.encoder.checkpoints import google
from bert_flow_tf.encoder.checkpoints.files import GOOGLE_CONFIG
from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity, check_encoder, read_identity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, EncoderError, naming
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json, write_bytes
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.tf1.flow import without_scale
from bert_flow_tf.training.siamese.objectives import Classifier


def write_model(
  encoder: str,
  output_checkpoint: str,
  flow_folder: str | None = None,
  classifier_folder: str | None = None,
  allow_other_encoder: bool = False,
  revision: str | None = None,
  cache_dir: str | None = None,
) -> list[str]:
  """Writes an encoder, a flow and a classifier as a checkpoint that the original reads; returns lines about it."""
  prefix = pathlib.Path(output_checkpoint).resolve()
  with naming("output_checkpoint"):
    tf1_checkpoint.check_free(prefix)
  flow: FlowCalibration | None = None
  classifier: Classifier | None = None
  fitted: dict[str, FlowCalibration | Classifier] = {}
  if flow_folder:
    flow = fitted[f"flow_folder={flow_folder}"] = _load_flow(flow_folder)
  if classifier_folder:
    with naming("classifier_folder"):
      classifier = fitted[f"classifier_folder={classifier_folder}"] = Classifier.load(classifier_folder)
  model = SentenceEncoder.load(EncoderSettings.of(encoder, cache_dir=cache_dir, revision=revision))
  _check_encoder(fitted, model, allow_other_encoder)
  glow = None if flow is None else without_scale(flow)
  variables = tf1_checkpoint.model_variables(model, glow, classifier)
  lines = [f"{len(variables)} variables from {', '.join(filter(None, (model.name, flow_folder, classifier_folder)))}"]
  # The configuration comes first: a checkpoint without it could not be read.
  with naming("output_checkpoint"):
    write_config(prefix.parent, model)
    tf1_checkpoint.write_checkpoint(prefix, variables)
  step = tf1_checkpoint.step_of(prefix)
  if step is not None:
    lines.append(f"global_step is {step}, by the name")
  return [*lines, f"{prefix}: written, do_lower_case is {model.tokenizer.do_lower_case}"]


def _load_flow(folder: str) -> FlowCalibration:
  """Returns the calibration of a flow alone, fitted and of float32."""
  with naming("flow_folder"):
    calibration = load_calibration(folder)
  if isinstance(calibration, FlowCalibration):
    flow = calibration.flow
    if flow.dtype == "float32" and not flow.needs_initialization:
      return calibration
  expected = "expected a fitted flow of float32"
  raise ConfigError(f"flow_folder={folder}: got the calibration {calibration.name}; {expected}", "flow_folder")


def _check_encoder(
  fitted: Mapping[str, FlowCalibration | Classifier], encoder: SentenceEncoder, allow_other: bool
) -> None:
  """Raises an EncoderError if {"argument=folder": flow or classifier} were fitted on embeddings of another encoder."""
  identities = [read_identity(part.encoder, where) for where, part in fitted.items()]
  known = [identity for identity in identities if isinstance(identity, EncoderIdentity)]
  for where, identity in zip(fitted, identities, strict=True):
    if isinstance(identity, VectorsIdentity) and not allow_other:
      identity.check_same(encoder.identity(), where, where.partition("=")[0])
  if not known:
    return
  # All parts must have been fitted with the pooling of the first part.
  settings = known[0].settings.model_arguments()
  model = SentenceModel(encoder, **settings)
  for where, part in fitted.items():
    # A flow takes the full width; a classifier takes what comes after the steps.
    dim = model.dim
    if isinstance(part, Classifier):
      dim = model.output_dim
    check_encoder(part, model.identity, dim, where, where.partition("=")[0], allow_other)


def write_config(folder: pathlib.Path, encoder: SentenceEncoder) -> None:
  """Writes bert_config.json, vocab.txt and tokenizer_config.json, which is not Google's and says the letter case."""
  config = google.google_config(encoder.config)
  expected = {name: config[name] for name in google.DEFAULTS}
  expected["hidden_act"] = encoder.config.hidden_act
  vocabulary = encoder.tokenizer.vocab_file.read_bytes()
  tokenizer = _tokenizer_config(encoder.folder) | encoder.tokenizer.settings
  contents = {"vocab.txt": vocabulary, "tokenizer_config.json": _json(tokenizer)}

  def means_the_same(path):
    if path.name == "vocab.txt":
      return path.read_bytes() == vocabulary
    if path.name == GOOGLE_CONFIG:
      return google.read_config(path).items() >= expected.items()
    return _tokenizer_config(folder) == tokenizer

  try:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*contents, GOOGLE_CONFIG):
      path = folder / name
      if path.exists() and not means_the_same(path):
        raise EncoderError(f"{path}: belongs to another model than {encoder.name}")
    for name, content in contents.items():
      if not (folder / name).exists():
        write_bytes(folder / name, content)
    # bert_config.json is written last, with the checksums of the other files: if it exists, the others are complete.
    path = folder / GOOGLE_CONFIG
    if not path.exists():
      write_bytes(path, _json(checksums.sealed(config, folder, list(contents))))
  except (OSError, ValueError) as error:  # JSONDecodeError is a ValueError
    raise EncoderError(f"{folder}: cannot be used ({error})") from error


def _tokenizer_config(folder: pathlib.Path) -> dict:
  path = folder / "tokenizer_config.json"
  return read_json(path) if path.is_file() else {"tokenizer_class": "BertTokenizer"}


def _json(values: dict) -> bytes:
  return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()
