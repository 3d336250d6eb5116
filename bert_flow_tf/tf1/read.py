"""Converts a checkpoint of TensorFlow 1, or an encoder of the Model Garden, into folders of this package."""

import collections
import json
import os
import pathlib
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.saving import load_flow
from bert_flow_tf.calibration.step import output_dim
from bert_flow_tf.calibration.step_list import read_steps
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.encoder.checkpoints import google, tf1_names
from bert_flow_tf.encoder.checkpoints.model_garden import ModelGardenWeights, is_model_garden
from bert_flow_tf.encoder.checkpoints.tf1 import Checkpoint, find_prefix
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, EncoderError, FlowError, naming
from bert_flow_tf.io.files import replaced_folder, write_text
from bert_flow_tf.tf1.checkpoint import model_variables
from bert_flow_tf.tf1.flow import make_flow
from bert_flow_tf.training.siamese.objectives import Classifier

ENCODER, FLOW, CLASSIFIER, RECORD = "encoder", "flow", "classifier", "conversion.json"
_LEFT_OUT = "left_out"
_NOT_OF_ENCODER = "heads, optimizer and counters"


def write_folders(
  tf1_checkpoint: str,
  output_dir: str,
  sentence_embedding_type: str = "avg-first-last",
  max_seq_length: int = 64,
  low_dim: int | None = None,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
  do_lower_case: bool | None = None,
  hidden_act: str | None = None,
  max_input_chars_per_word: int | None = None,
  allow_other_encoder: bool = False,
) -> list[str]:
  """Writes the parts of a checkpoint into folders, all or none, compared bit by bit; returns lines about them."""
  output_path = pathlib.Path(output_dir).resolve()
  if output_path.exists() and not (output_path.is_dir() and not any(output_path.iterdir())):
    raise ConfigError(
      f"output_dir={output_dir}: exists and is not an empty folder; choose another folder, or delete it",
      argument="output_dir",
    )
  with naming("tf1_checkpoint"):
    path = os.path.abspath(os.path.expanduser(tf1_checkpoint))
    if is_model_garden(path):
      settings = EncoderSettings.of(
        path,
        bert_config_file=bert_config_file,
        vocab_file=vocab_file,
        hidden_act=hidden_act,
        max_input_chars_per_word=max_input_chars_per_word,
      )
      return _write_encoder(settings, output_path, do_lower_case)
    checkpoint = Checkpoint(find_prefix(path))
  # The original writes no configuration: it stands where the training began, or next to the checkpoint.
  folder = pathlib.Path(checkpoint.prefix).parent
  config_path = _file("bert_config_file", bert_config_file, google.config_file(folder))
  vocab_path = _file("vocab_file", vocab_file, folder / "vocab.txt")
  names, left_out = _sorted_names(checkpoint, google.read_config(config_path))
  fitted = _fitted(checkpoint, names)
  settings = EncoderSettings.of(
    os.path.abspath(checkpoint.prefix),
    bert_config_file=str(config_path),
    vocab_file=str(vocab_path),
    hidden_act=hidden_act,
    max_input_chars_per_word=max_input_chars_per_word,
  )
  with replaced_folder(output_path) as writing:
    save_encoder(SentenceEncoder.load(settings, do_lower_case=do_lower_case), writing / ENCODER)
    encoder = SentenceEncoder.load(EncoderSettings.of(str(writing / ENCODER)))
    encoder.name = str(output_path / ENCODER)  # the name in identities and messages
    identity = None
    if fitted:
      low_dim = _low_dim(fitted, encoder, sentence_embedding_type, low_dim)
      identity = _identity(fitted, encoder, sentence_embedding_type, max_seq_length, low_dim, allow_other_encoder)
    for name, part in fitted.items():
      part.encoder = identity
      part.save(writing / name)
    written = _read_back(names, encoder, writing)
    tf1_names.check_variables(written, names[ENCODER] + names[FLOW] + names[CLASSIFIER], checkpoint.prefix)
    for name, array in written.items():
      # float32 holds every value of a half-precision checkpoint.
      if checkpoint.read_weight(name, array.shape).tobytes() != array.tobytes():
        raise EncoderError(f"{checkpoint.prefix}: {name} changed in the conversion; please report this bug")
    content = {"checkpoint": checkpoint.prefix, "variables": {**names, _LEFT_OUT: left_out}}
    write_text(writing / RECORD, json.dumps(content, indent=2) + "\n")
  lines = _describe(checkpoint, names, left_out, output_path, encoder.tokenizer.do_lower_case)
  if fitted:
    described = "unknown"
    if identity is not None:
      keys = ("sentence_embedding_type", "max_seq_length", "low_dim")
      described = ", ".join(f"{key} {identity[key]}" for key in keys)
    lines.append(f"embeddings of the fit, which no checkpoint describes: {described}")
  return lines


def _write_encoder(settings: EncoderSettings, output_path: pathlib.Path, do_lower_case: bool | None) -> list[str]:
  """Writes the folder of an encoder of the Model Garden, compared bit by bit; returns lines about it."""
  encoder = SentenceEncoder.load(settings, do_lower_case=do_lower_case)
  with replaced_folder(output_path) as writing:
    save_encoder(encoder, writing / ENCODER)
    written = SentenceEncoder.load(EncoderSettings.of(str(writing / ENCODER)))
    if written.weights_checksum != encoder.weights_checksum:
      raise EncoderError(f"{encoder.name}: its weights changed in the conversion; please report this bug")
    config_path, vocab_path = [path and pathlib.Path(path) for path in (settings.bert_config_file, settings.vocab_file)]
    weights = ModelGardenWeights(settings.encoder_name, {}, config_path or None, vocab_path or None)
    left_out = {key: _NOT_OF_ENCODER for key in sorted(set(weights.checkpoint.shapes) - set(weights.keys.values()))}
    names = {ENCODER: sorted(weights.keys.values()), FLOW: [], CLASSIFIER: []}
    variables = {ENCODER: names[ENCODER], _LEFT_OUT: left_out}
    content = {"checkpoint": weights.checkpoint.prefix, "variables": variables}
    write_text(writing / RECORD, json.dumps(content, indent=2) + "\n")
  return _describe(weights.checkpoint, names, left_out, output_path, encoder.tokenizer.do_lower_case)


def _file(argument: str, value: str | None, default: pathlib.Path) -> pathlib.Path:
  """Returns the path of an argument, or the default."""
  path = pathlib.Path(value or default)
  if not path.is_file():
    raise ConfigError(
      f"{argument}={path}: no such file; expected the file of the checkpoint's training", argument=argument
    )
  return path


def _sorted_names(checkpoint: Checkpoint, config: dict) -> tuple[dict[str, list[str]], dict[str, str]]:
  """Returns {part: sorted names}, and {name: kind} of variables that are left out, by the bert_config.json."""
  shapes = checkpoint.shapes
  names: dict[str, list[str]] = {ENCODER: [], FLOW: [], CLASSIFIER: []}
  left_out = {}
  # A variable that no other part claims must belong to the encoder: a variable of unknown use is an error.
  for name in sorted(shapes):
    kind = tf1_names.left_out(name, shapes)
    if kind:
      left_out[name] = kind
    elif name.startswith(tf1_names.FLOW):
      names[FLOW].append(name)
    elif name == tf1_names.CLASSIFIER:
      names[CLASSIFIER].append(name)
    else:
      names[ENCODER].append(name)
  expected = tf1_names.bert_shapes(config, pooler=tf1_names.has_pooler(shapes))
  tf1_names.check_variables(names[ENCODER], expected, checkpoint.prefix)
  for name, shape in expected.items():
    checkpoint.check_shape(name, shape)
  return names, left_out


def _fitted(checkpoint: Checkpoint, names: Mapping[str, list[str]]) -> dict[str, FlowCalibration | Classifier]:
  """Returns the `FlowCalibration` "flow" and the `Classifier` "classifier", if the checkpoint has them."""
  arrays = {}
  for name in names[FLOW] + names[CLASSIFIER]:
    arrays[name] = checkpoint.read_weight(name, checkpoint.shapes[name])
  fitted: dict[str, FlowCalibration | Classifier] = {}
  weights = arrays.pop(tf1_names.CLASSIFIER, None)
  if arrays:
    # Names of a flow's variables begin below bert/flow/.
    variables = {name.removeprefix(tf1_names.FLOW): array for name, array in arrays.items()}
    try:
      fitted[FLOW] = FlowCalibration(make_flow(variables))
    except FlowError as error:
      raise FlowError(f"{checkpoint.prefix}: {error}") from error
  if weights is not None:
    # Three rows are BERT's NLI; other labels are numbered.
    labels = list(LABELS)
    if len(weights) != len(labels):
      labels = [str(number) for number in range(len(weights))]
    fitted[CLASSIFIER] = Classifier(weights, labels)
  return fitted


def _read_back(names: Mapping[str, list[str]], encoder: SentenceEncoder, folder: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns {name in a checkpoint: float32 array} of the encoder, and of flow and classifier in a written folder."""
  flow = classifier = None
  if names[FLOW]:
    flow = load_flow(folder / FLOW).flow
  if names[CLASSIFIER]:
    classifier = Classifier.load(folder / CLASSIFIER)
  return model_variables(encoder, flow, classifier)


def _describe(
  checkpoint: Checkpoint,
  names: Mapping[str, list[str]],
  left_out: Mapping[str, str],
  folder: pathlib.Path,
  do_lower_case: bool,
) -> list[str]:
  """Returns lines that say where the variables went."""
  lines = [f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables"]
  for name in (ENCODER, FLOW, CLASSIFIER):
    if names[name]:
      lines.append(f"{name:10}  {len(names[name]):4} -> {folder / name}")
  lines.append(f"do_lower_case is {do_lower_case}")
  for kind, count in collections.Counter(left_out.values()).items():
    lines.append(f"left out    {count:4}: {kind}")
  return lines


def _low_dim(fitted, encoder, sentence_embedding_type, low_dim):
  """Returns low_dim; if it is None, the number of dimensions of the classifier, where it divides the embedding's."""
  dim = encoder.dim(sentence_embedding_type)
  if low_dim is None and CLASSIFIER in fitted:
    compared = fitted[CLASSIFIER].dim
    if compared < dim and dim % compared == 0:
      low_dim = compared
      logging.info("%s gives %d dimensions; low_dim is %d", sentence_embedding_type, dim, low_dim)
  return low_dim


def _identity(fitted, encoder, sentence_embedding_type, max_seq_length, low_dim, allow_other_encoder):
  """Returns the identity of the embeddings that flow and classifier take; None for other dimensions, if allowed."""
  encoder.check_max_seq_length(max_seq_length)
  # low_dim comes after the flow, and before the classifier.
  dim = encoder.dim(sentence_embedding_type)
  expected = {FLOW: dim, CLASSIFIER: output_dim(read_steps(low_dim=low_dim), dim)}
  for name, part in fitted.items():
    if part.dim != expected[name]:
      message = (
        f"sentence_embedding_type={sentence_embedding_type}: with low_dim={low_dim} a {name} takes {expected[name]} "
        f"dimensions, the checkpoint's takes {part.dim}; expected the pooling and low_dim that it was fitted with"
      )
      if not allow_other_encoder:
        raise FlowError(message, argument="sentence_embedding_type")
      logging.warning("%s; it is saved without its encoder's identity", message)
      return None
  return encoder.identity(sentence_embedding_type, max_seq_length, low_dim).to_dict()
