"""Converts a checkpoint of TensorFlow 1 into folders of this package."""

import dataclasses
import json
import pathlib

from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.encoder import google_folder, tf1_names, tf1_reader
from bert_flow_tf.encoder.pooling import check_low_dim
from bert_flow_tf.encoder.saving import write_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.encoder.tokenizer_settings import MAX_OF_GOOGLE, lower_case_of_google
from bert_flow_tf.errors import ConfigError, FlowError, naming
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.files import read_json, replaced_folder, write_text
from bert_flow_tf.tf1.checkpoint import Tf1Parts, check_same, flow_variables, group_variables, read_flow
from bert_flow_tf.training.objectives import Classifier

ENCODER, FLOW, CLASSIFIER, RECORD = "encoder", "flow", "classifier", "conversion.json"


@dataclasses.dataclass(frozen=True)
class Source:
  """An opened checkpoint, every variable of which is known.

  Attributes:
    checkpoint: the checkpoint.
    config: content of its bert_config.json, with values for all keys.
    vocab_file: its vocabulary.
    tokenizer: content of the future tokenizer_config.json.
    parts: its variables by part.
    flow: its flow, or None.
    classifier: its classifier, or None.
  """

  checkpoint: tf1_reader.Tf1Checkpoint
  config: dict
  vocab_file: pathlib.Path
  tokenizer: dict
  parts: Tf1Parts
  flow: Glow | None
  classifier: Classifier | None


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
  """Opens a checkpoint and assigns every variable to encoder, flow or classifier.

  Args:
    tf1_checkpoint: prefix or folder of the checkpoint.
    bert_config_file: its configuration; None for the file in the checkpoint's folder.
    vocab_file: its vocabulary; None for the file in the checkpoint's folder.
    do_lower_case: True for an uncased model; None to infer it from the vocabulary and the name of its folder.
    hidden_act: activation in place of the configuration's; see `encoder.bert.load_bert`.
    max_input_chars_per_word: see `SentenceTokenizer`; None for 200, as in Google's code, or the one in the
      tokenizer_config.json in the vocabulary's folder.
    flow_model_config: name or file of the flow's configuration; None to infer it from the variables.
    labels: the classifier's labels in the order of its rows; None for the names of BERT's three NLI labels, or for
      numbers if the classifier has not three rows.

  Raises:
    ConfigError: an argument does not fit the checkpoint.
    EncoderError, FlowError, TrainingError: the checkpoint is damaged, or has missing or unknown variables.
  """
  given_config = FlowConfig.from_json_file(flow_model_config) if flow_model_config else None
  with naming("tf1_checkpoint"):
    checkpoint = tf1_reader.Tf1Checkpoint(tf1_reader.find_prefix(tf1_checkpoint))
  folder = pathlib.Path(checkpoint.prefix).parent
  config_file = _file("bert_config_file", bert_config_file, google_folder.config_file(folder))
  vocab_path = _file("vocab_file", vocab_file, folder / "vocab.txt")
  config = google_folder.read_config(config_file) | ({} if hidden_act is None else {"hidden_act": hidden_act})
  google_folder.check_vocabulary(vocab_path, config["vocab_size"])
  parts = group_variables(checkpoint, config)
  if given_config is not None and not parts.flow:
    raise ConfigError(
      f"flow_model_config={flow_model_config}: {checkpoint.prefix} has no flow (bert/flow/...)",
      argument="flow_model_config",
    )
  if labels is not None and not parts.classifier:
    raise ConfigError(
      f"labels={','.join(labels)}: {checkpoint.prefix} has no classifier (loss/output_weights)", argument="labels"
    )
  flow = read_flow(checkpoint, parts.flow, given_config) if parts.flow else None
  classifier = _classifier(checkpoint, parts.classifier[0], labels) if parts.classifier else None
  tokenizer = _tokenizer(vocab_path, do_lower_case, max_input_chars_per_word)
  return Source(checkpoint, config, vocab_path, tokenizer, parts, flow, classifier)


def check_output_dir(output_dir: str) -> pathlib.Path:
  """Returns the absolute path of a folder that is absent or empty.

  Raises:
    ConfigError: it exists and is not empty.
  """
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
  """Writes the parts of a checkpoint, reads them back and compares them with the checkpoint bit by bit.

  Args:
    source: result of `open_source`.
    output_dir: folder that gets encoder/, flow/, classifier/ and conversion.json, all or none; absent or empty.
    sentence_embedding_type: pooling that flow and classifier were fitted with, which no checkpoint says.
    max_seq_length: number of tokens that they were fitted with.
    low_dim: number of groups of dimensions that are averaged after the flow; None to infer it from the classifier.
    allow_other_encoder: True to convert a flow or classifier whose dimensions differ from the encoder's.

  Returns:
    Lines that say what was written.

  Raises:
    BertFlowError: the folder is not empty, or the encoder does not give embeddings with these arguments.
    FlowError: flow or classifier takes embeddings of other dimensions.
  """
  output_path = check_output_dir(output_dir)
  checkpoint, parts, flow, classifier = source.checkpoint, source.parts, source.flow, source.classifier
  with replaced_folder(output_path) as writing:
    weights = {name: checkpoint.read_weight(name, shape) for name, shape in parts.encoder.items()}
    write_encoder(writing / ENCODER, source.config, weights, source.vocab_file.read_bytes(), source.tokenizer)
    del weights  # 1.3 GB for a large model
    encoder = SentenceEncoder.from_pretrained(str(writing / ENCODER))
    encoder.bert.name = str(output_path / ENCODER)  # the name in identities and messages
    written = encoder.bert.tf1_variables()
    dims = {name: part.dim for name, part in ((FLOW, flow), (CLASSIFIER, classifier)) if part is not None}
    identity = None
    if dims:
      pooling = (sentence_embedding_type, max_seq_length, low_dim)
      identity = _identity(dims, encoder, *pooling, allow_other_encoder=allow_other_encoder)
    if flow is not None:
      calibration = FlowCalibration(flow)
      calibration.encoder = identity
      calibration.save(writing / FLOW)
      written |= flow_variables(Glow.load(writing / FLOW))
    if classifier is not None:
      classifier.encoder = identity
      classifier.save(writing / CLASSIFIER)
      written[parts.classifier[0]] = Classifier.load(writing / CLASSIFIER).output_weights.numpy()
    tf1_names.check_names(written, [*parts.encoder, *parts.flow, *parts.classifier], checkpoint.prefix)
    check_same(checkpoint, written)
    write_text(writing / RECORD, json.dumps(_record(source), indent=2) + "\n")
  return _summary(source, output_path, encoder, identity)


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
  if config.is_file() and vocab_file.name == "vocab.txt":
    lower = SentenceTokenizer.from_pretrained(vocab_file.parent).do_lower_case
    settings = read_json(config)
  else:
    lower = lower_case_of_google(vocab_file) if do_lower_case is None else do_lower_case
  limit = max_input_chars_per_word or settings.get("max_input_chars_per_word") or MAX_OF_GOOGLE
  lower = lower if do_lower_case is None else do_lower_case
  return {**settings, "do_lower_case": lower, "max_input_chars_per_word": limit}


def _classifier(checkpoint: tf1_reader.Tf1Checkpoint, name: str, labels: list[str] | None) -> Classifier:
  """Reads the classifier, the variable `name`."""
  weights = checkpoint.read_weight(name, checkpoint.shapes[name])
  if labels is None:
    labels = LABELS if len(weights) == len(LABELS) else tuple(map(str, range(len(weights))))
  return Classifier(weights, tuple(labels))


def _identity(dims, encoder, sentence_embedding_type, max_seq_length, low_dim, *, allow_other_encoder):
  """Returns the identity of the embeddings that flow and classifier take, as JSON values.

  It is None if the dimensions differ from those in `dims` {"flow" or "classifier": dimensions}, if that is allowed.
  """
  encoder.bert.check_max_seq_length(max_seq_length)
  dim, compared = encoder.dim(sentence_embedding_type), dims.get(CLASSIFIER)
  if low_dim is None and compared is not None and compared < dim and dim % compared == 0:
    low_dim = compared
    logging.info("%s gives %d dimensions; low_dim is %d", sentence_embedding_type, dim, low_dim)
  check_low_dim(dim, low_dim)
  expected = {FLOW: dim, CLASSIFIER: low_dim or dim}
  other = next((name for name in dims if dims[name] != expected[name]), None)
  if other is None:
    return encoder.identity(sentence_embedding_type, max_seq_length, low_dim).to_dict()
  message = (
    f"sentence_embedding_type={sentence_embedding_type}: with low_dim={low_dim} a {other} takes {expected[other]} "
    f"dimensions, the checkpoint's takes {dims[other]}; expected the pooling and low_dim that it was fitted with"
  )
  if not allow_other_encoder:
    raise FlowError(message, argument="sentence_embedding_type")
  logging.warning("%s; it is saved without its encoder's identity", message)
  return None


def _record(source: Source) -> dict:
  """Returns the content of conversion.json: the part of every variable."""
  parts = source.parts
  return {
    "checkpoint": source.checkpoint.prefix,
    "variables": {
      ENCODER: sorted(parts.encoder),
      FLOW: parts.flow,
      CLASSIFIER: parts.classifier,
      "left_out": parts.left_out,
    },
  }


def _summary(source: Source, output_dir: pathlib.Path, encoder: SentenceEncoder, identity) -> list[str]:
  """Returns lines that say what was written."""
  parts, flow, classifier = source.parts, source.flow, source.classifier
  pooler = "" if encoder.bert.has_pooler else ", without a pooler"
  case = f"do_lower_case {encoder.tokenizer.do_lower_case}"
  lines = [
    f"{source.checkpoint.prefix}: {len(source.checkpoint.shapes)} variables",
    f"encoder     {len(parts.encoder):4} -> {output_dir / ENCODER}: {case}{pooler}",
  ]
  if flow is not None:
    config = flow.config
    shape = f"{config.n_levels} levels of depth {config.depth}, width {config.coupling_width}, {flow.dim} dimensions"
    lines.append(f"flow        {len(parts.flow):4} -> {output_dir / FLOW}: {shape}")
  if classifier is not None:
    labels = f"{classifier.dim} dimensions, labels {', '.join(classifier.labels or ())}"
    lines.append(f"classifier  {len(parts.classifier):4} -> {output_dir / CLASSIFIER}: {labels}")
  lines += [f"left out    {count:4}: {kind}" for kind, count in parts.counts().items()]
  if flow is not None or classifier is not None:
    keys = ("sentence_embedding_type", "max_seq_length", "low_dim")
    settings = ", ".join(f"{key} {identity[key]}" for key in keys) if identity else "unknown"
    lines.append(f"embeddings of the fit, which no checkpoint describes: {settings}")
  return lines
