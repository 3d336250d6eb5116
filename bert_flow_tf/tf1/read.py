"""Converts a checkpoint of TensorFlow 1 into folders of this package."""

import dataclasses
import json
import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration, load_calibration
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.encoder import google_folder, tf1_names, tf1_reader
from bert_flow_tf.encoder.pooling import check_low_dim
from bert_flow_tf.encoder.saving import write_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.encoder.tokenizer_settings import MAX_OF_GOOGLE, lower_case_of_google
from bert_flow_tf.errors import ConfigError, FlowError, naming
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.files import read_json, replaced_folder, write_text
from bert_flow_tf.tf1.checkpoint import Tf1Parts, check_same, flow_variables, group_variables, read_flow
from bert_flow_tf.training.objectives import Classifier

ENCODER, FLOW, CLASSIFIER, RECORD = "encoder", "flow", "classifier", "conversion.json"


@dataclasses.dataclass(frozen=True)
class Source:
  """An opened checkpoint, every variable of which is known.

  `config` is the content of its bert_config.json with values for all keys, `tokenizer` that of the future
  tokenizer_config.json. `fitted` has the `FlowCalibration` "flow" and the `Classifier` "classifier", if it has them.
  """

  checkpoint: tf1_reader.Tf1Checkpoint
  config: dict
  vocab_file: pathlib.Path
  tokenizer: dict
  parts: Tf1Parts
  fitted: dict[str, Any]


def open_source(
  tf1_checkpoint: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
  do_lower_case: bool | None = None,
  hidden_act: str | None = None,
  max_input_chars_per_word: int | None = None,
  flow_model_config: str | None = None,
  labels: list[str] | None = None,
) -> Source:
  """Opens a checkpoint and assigns every variable to encoder, flow or classifier; the arguments are run_convert's."""
  expected = FlowConfig.from_json_file(flow_model_config) if flow_model_config else None
  with naming("tf1_checkpoint"):
    checkpoint = tf1_reader.Tf1Checkpoint(tf1_reader.find_prefix(tf1_checkpoint))
  # The original writes no configuration: it stands where the training began, or next to the checkpoint.
  folder = pathlib.Path(checkpoint.prefix).parent
  config_file = _file("bert_config_file", bert_config_file, google_folder.config_file(folder))
  vocab_path = _file("vocab_file", vocab_file, folder / "vocab.txt")
  config = google_folder.read_config(config_file)
  if hidden_act is not None:
    config["hidden_act"] = hidden_act
  google_folder.check_vocabulary(vocab_path, config["vocab_size"])
  parts = group_variables(checkpoint, config)
  # An argument for a part that the checkpoint lacks is a mistake.
  if expected is not None and not parts.flow:
    raise ConfigError(
      f"flow_model_config={flow_model_config}: {checkpoint.prefix} has no flow (bert/flow/...)",
      argument="flow_model_config",
    )
  if labels is not None and not parts.classifier:
    raise ConfigError(
      f"labels={','.join(labels)}: {checkpoint.prefix} has no classifier (loss/output_weights)", argument="labels"
    )
  fitted: dict[str, Any] = {}
  if parts.flow:
    fitted[FLOW] = FlowCalibration(read_flow(checkpoint, parts.flow, expected))
  if parts.classifier:
    fitted[CLASSIFIER] = _classifier(checkpoint, parts.classifier[0], labels)
  tokenizer = _tokenizer(vocab_path, do_lower_case, max_input_chars_per_word)
  return Source(checkpoint, config, vocab_path, tokenizer, parts, fitted)


def check_output_dir(output_dir: str) -> pathlib.Path:
  """Returns the absolute path of a folder; a ConfigError if it is neither absent nor empty."""
  path = pathlib.Path(output_dir).resolve()
  if path.exists() and not (path.is_dir() and not any(path.iterdir())):
    raise ConfigError(
      f"output_dir={output_dir}: exists and is not an empty folder; choose another one, or delete it",
      argument="output_dir",
    )
  return path


def write_folders(
  source: Source,
  output_dir: str,
  sentence_embedding_type: str = "avg-first-last",
  max_seq_length: int = 64,
  low_dim: int | None = None,
  allow_other_encoder: bool = False,
) -> list[str]:
  """Writes the parts of a checkpoint into folders, all or none; returns lines that say what was written.

  They are read back and compared with the checkpoint bit by bit.

  Args:
    source: result of `open_source`.
    output_dir: folder that gets encoder/, flow/, classifier/ and conversion.json; absent or empty.
    sentence_embedding_type: pooling that flow and classifier were fitted with, which no checkpoint says.
    max_seq_length: number of tokens that they were fitted with.
    low_dim: number of groups of dimensions that are averaged after the flow; None to infer it from the classifier.
    allow_other_encoder: True to convert a flow or classifier whose dimensions differ from the encoder's.
  """
  output_path = check_output_dir(output_dir)
  checkpoint, parts = source.checkpoint, source.parts
  with replaced_folder(output_path) as writing:
    weights = {name: checkpoint.read_weight(name, shape) for name, shape in parts.encoder.items()}
    write_encoder(writing / ENCODER, source.config, weights, source.vocab_file.read_bytes(), source.tokenizer)
    del weights  # 1.3 GB for a large model
    encoder = SentenceEncoder.from_pretrained(str(writing / ENCODER))
    encoder.bert.name = str(output_path / ENCODER)  # the name in identities and messages
    identity = None
    if source.fitted:
      low_dim = _low_dim(source.fitted, encoder, sentence_embedding_type, low_dim)
      identity = _identity(
        source.fitted, encoder, sentence_embedding_type, max_seq_length, low_dim, allow_other_encoder
      )
    for name, part in source.fitted.items():
      part.encoder = identity
      part.save(writing / name)
    # Read back.
    written = encoder.bert.tf1_variables()
    if FLOW in source.fitted:
      written |= flow_variables(load_calibration(writing / FLOW).flow)
    if CLASSIFIER in source.fitted:
      written[tf1_names.CLASSIFIER] = Classifier.load(writing / CLASSIFIER).output_weights.numpy()
    tf1_names.check_names(written, list(parts.encoder) + parts.flow + parts.classifier, checkpoint.prefix)
    check_same(checkpoint, written)
    variables = {ENCODER: sorted(parts.encoder), FLOW: parts.flow, CLASSIFIER: parts.classifier}
    record = {"checkpoint": checkpoint.prefix, "variables": {**variables, "left_out": parts.left_out}}
    write_text(writing / RECORD, json.dumps(record, indent=2) + "\n")
  # What was written, for the terminal.
  lines = [f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables"]
  for name, names in variables.items():
    if names:
      lines.append(f"{name:10}  {len(names):4} -> {output_path / name}")
  lines.append(f"do_lower_case is {encoder.tokenizer.do_lower_case}")
  for kind, count in parts.counts().items():
    lines.append(f"left out    {count:4}: {kind}")
  if source.fitted:
    settings = "unknown"
    if identity is not None:
      keys = ("sentence_embedding_type", "max_seq_length", "low_dim")
      settings = ", ".join(f"{key} {identity[key]}" for key in keys)
    lines.append(f"embeddings of the fit, which no checkpoint describes: {settings}")
  return lines


def _file(argument: str, value: str | None, default: pathlib.Path) -> pathlib.Path:
  """Returns the path of an argument, or the default."""
  path = pathlib.Path(value or default)
  if not path.is_file():
    raise ConfigError(f"{argument}={path}: no such file; expected the one of the checkpoint", argument=argument)
  return path


def _tokenizer(vocab_file: pathlib.Path, do_lower_case: bool | None, max_input_chars_per_word: int | None) -> dict:
  """Returns the content of tokenizer_config.json: that in the vocabulary's folder, with the two settings."""
  config = vocab_file.parent / "tokenizer_config.json"
  settings = {}
  lower = do_lower_case
  if config.is_file() and vocab_file.name == "vocab.txt":
    settings = read_json(config)
    if lower is None:
      lower = SentenceTokenizer.from_pretrained(vocab_file.parent).do_lower_case
  elif lower is None:
    lower = lower_case_of_google(vocab_file)
  limit = max_input_chars_per_word or settings.get("max_input_chars_per_word") or MAX_OF_GOOGLE
  return {**settings, "do_lower_case": lower, "max_input_chars_per_word": limit}


def _classifier(checkpoint: tf1_reader.Tf1Checkpoint, name: str, labels: list[str] | None) -> Classifier:
  """Returns the classifier, the variable `name`; without labels three rows are BERT's NLI, others are numbered."""
  weights = checkpoint.read_weight(name, checkpoint.shapes[name])
  if labels is None:
    labels = list(LABELS)
    if len(weights) != len(labels):
      labels = [str(number) for number in range(len(weights))]
  return Classifier(weights, labels)


def _low_dim(fitted, encoder, sentence_embedding_type, low_dim):
  """Returns low_dim; if it is None, the number of dimensions of the classifier, where it divides the embedding's."""
  dim = encoder.dim(sentence_embedding_type)
  if low_dim is None and CLASSIFIER in fitted:
    compared = fitted[CLASSIFIER].dim
    if compared < dim and dim % compared == 0:
      low_dim = compared
      logging.info("%s gives %d dimensions; low_dim is %d", sentence_embedding_type, dim, low_dim)
  check_low_dim(dim, low_dim)
  return low_dim


def _identity(fitted, encoder, sentence_embedding_type, max_seq_length, low_dim, allow_other_encoder):
  """Returns the identity of the embeddings that flow and classifier take, as JSON values.

  It is None if their dimensions differ from those of the embeddings, if that is allowed.
  """
  encoder.bert.check_max_seq_length(max_seq_length)
  # low_dim comes after the flow, and before the classifier.
  dim = encoder.dim(sentence_embedding_type)
  expected = {FLOW: dim, CLASSIFIER: low_dim or dim}
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
