"""From a checkpoint of TensorFlow 1 to our folders; returns what run_convert prints."""

import dataclasses
import json
import pathlib

from absl import logging

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.data.features import SentenceTokenizer
from bert_flow_tf.data.letter_case import lower_case_of_google
from bert_flow_tf.data.nli import LABELS
from bert_flow_tf.encoder import google_folder, tf1_names, tf1_reader
from bert_flow_tf.encoder.saving import write_encoder
from bert_flow_tf.errors import ConfigError, FlowError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.files import replaced_folder, write_text
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.training.classifier import ClassifierWeights

ENCODER, FLOW, CLASSIFIER, RECORD = "encoder", "flow", "classifier", "conversion.json"


@dataclasses.dataclass(frozen=True)
class Source:
  """A checkpoint that was found to be whole, nothing of it unaccounted for.

  Attributes:
    checkpoint: `Tf1Checkpoint`.
    config: content of its bert_config.json, nothing left to a default.
    vocab_file: pathlib.Path.
    tokenizer: what tokenizer_config.json is to say.
    parts: `Tf1Parts`.
    flow: `Glow`, or None.
    classifier: `ClassifierWeights`, or None.
  """

  checkpoint: tf1_reader.Tf1Checkpoint
  config: dict
  vocab_file: pathlib.Path
  tokenizer: dict
  parts: tf1_checkpoint.Tf1Parts
  flow: Glow | None
  classifier: ClassifierWeights | None


def read_source(checkpoint, bert_config_file, vocab_file, do_lower_case, flow_model_config, labels):
  """Opens a checkpoint and says of every variable what it is.

  Args:
    checkpoint: prefix or folder.
    bert_config_file: None for the one beside the checkpoint.
    vocab_file: the same.
    do_lower_case: None to tell it from the vocabulary and its folder.
    flow_model_config: name or file of the flow's configuration; None to tell it from the variables.
    labels: the classifier's, in the order of its rows; None for BERT's own order of three, else their numbers.

  Returns:
    A `Source`.
  """
  given = FlowConfig.from_json_file(flow_model_config) if flow_model_config else None
  opened = tf1_reader.Tf1Checkpoint(tf1_reader.find_prefix(checkpoint))
  beside = pathlib.Path(opened.prefix).parent
  config_file = _file("bert_config_file", bert_config_file, google_folder.config_file(beside))
  vocab_file = _file("vocab_file", vocab_file, beside / "vocab.txt")
  config = google_folder.read_config(config_file)
  google_folder.check_vocabulary(vocab_file, config["vocab_size"])
  parts = tf1_checkpoint.take_apart(opened, config)
  if given is not None and not parts.flow:
    raise ConfigError(f"--flow_model_config={flow_model_config}: {opened.prefix} holds no flow (bert/flow/...)")
  if labels is not None and not parts.classifier:
    raise ConfigError(f"--labels={','.join(labels)}: {opened.prefix} holds no classifier (output_weights)")
  flow = tf1_checkpoint.read_flow(opened, parts.flow, given) if parts.flow else None
  classifier = _classifier(opened, labels) if parts.classifier else None
  return Source(opened, config, vocab_file, _tokenizer(vocab_file, do_lower_case), parts, flow, classifier)


def check_output_dir(output_dir):
  """The folder as an absolute path.

  Raises:
    ConfigError: it exists and is not empty.
  """
  output_dir = pathlib.Path(output_dir).resolve()
  if output_dir.exists() and not (output_dir.is_dir() and not any(output_dir.iterdir())):
    raise ConfigError(f"--output_dir={output_dir}: there is something already; choose another folder, or delete it")
  return output_dir


def from_tf1(source, output_dir, pooling, allow_other_encoder=False):
  """Turns a checkpoint into folders; what is written is read back and compared bit by bit.

  Args:
    source: a `Source`.
    output_dir: of `check_output_dir`; gets encoder/, flow/, classifier/ and conversion.json, all or none.
    pooling: what flow and classifier were fitted on: sentence_embedding_type, max_seq_length and low_dim, None to tell
      the last from their dimensions.
    allow_other_encoder: whether flow and classifier are kept whose dimensions the encoder does not give.

  Returns:
    Lines that say what went where.
  """
  opened, parts, flow, classifier = source.checkpoint, source.parts, source.flow, source.classifier
  with replaced_folder(output_dir) as writing:
    weights = {name: opened.read_weight(name, shape) for name, shape in parts.encoder.items()}
    write_encoder(writing / ENCODER, source.config, weights, source.vocab_file.read_bytes(), source.tokenizer)
    del weights  # a large model's are 1.3 GB
    encoder = SentenceEncoder.from_pretrained(str(writing / ENCODER))
    encoder.bert.name = str(output_dir / ENCODER)  # what flow and classifier, and messages, call it
    written = encoder.bert.tf1_variables()
    identity = _identity({FLOW: flow, CLASSIFIER: classifier}, encoder, pooling, allow_other_encoder)
    if flow is not None:
      flow.encoder = identity
      flow.save(writing / FLOW)
      written |= tf1_checkpoint.flow_variables(Glow.load(writing / FLOW))
    if classifier is not None:
      dataclasses.replace(classifier, encoder=identity).save(writing / CLASSIFIER)
      written[tf1_checkpoint.CLASSIFIER] = ClassifierWeights.load(writing / CLASSIFIER).output_weights
    tf1_names.check_names(written, [*parts.encoder, *parts.flow, *parts.classifier], opened.prefix)
    tf1_checkpoint.check_same(opened, written)
    write_text(writing / RECORD, json.dumps(_record(opened, parts), indent=2) + "\n")
  return _say(source, output_dir, encoder, identity)


def _file(flag, given, beside):
  """The file that a flag names, else the one beside the checkpoint."""
  path = pathlib.Path(given or beside)
  if not path.is_file():
    where = f"--{flag}={given}" if given else f"{beside}"
    raise ConfigError(
      f"{where}: no such file, expected the one that belongs to the checkpoint: say where with --{flag}"
    )
  return path


def _tokenizer(vocab_file, do_lower_case):
  """What tokenizer_config.json says: that beside the vocabulary, with the case, which is always said."""
  config = vocab_file.parent / "tokenizer_config.json"
  settings = {}
  if config.is_file() and vocab_file.name == "vocab.txt":
    found = SentenceTokenizer.from_pretrained(vocab_file.parent)  # refuses what is wrong with it
    settings = json.loads(config.read_text(encoding="utf-8"))
    lower = found.do_lower_case
  else:
    lower = lower_case_of_google(vocab_file) if do_lower_case is None else do_lower_case
  return {**settings, "do_lower_case": lower if do_lower_case is None else do_lower_case}


def _classifier(opened, labels):
  name = tf1_checkpoint.CLASSIFIER
  weights = opened.read_weight(name, opened.shapes[name])
  if labels is None and weights.ndim:
    labels = LABELS if len(weights) == len(LABELS) else tuple(map(str, range(len(weights))))
  try:
    return ClassifierWeights(weights, labels)
  except TrainingError as error:
    raise TrainingError(f"{opened.prefix}: {error}") from error


def _identity(fitted, encoder, pooling, insist):
  """What the flow and the classifier are said to be fitted on: `SentenceEncoder.identity`, or None where insisted.

  Args:
    fitted: {what it is: a flow, a classifier, or None}.
    encoder: the converted `SentenceEncoder`.
    pooling: {"sentence_embedding_type", "max_seq_length", "low_dim": as the flags say it}; a low_dim of None is told
      from the dimensions that were fitted.
    insist: whether dimensions that the encoder does not give are allowed; it is said in the log then.

  Raises:
    ConfigError, EncoderError: the encoder cannot be used so.
    FlowError: its embeddings are not as wide as what was fitted takes.
  """
  dims = {what: part.dim for what, part in fitted.items() if part is not None}
  if not dims:
    return None
  encoder.bert.check_max_seq_length(pooling["max_seq_length"])
  kind, low_dim = pooling["sentence_embedding_type"], pooling["low_dim"]
  wide, narrow = encoder.dim(kind), min(dims.values())
  if low_dim is None and narrow < wide and wide % narrow == 0:
    low_dim = narrow
    logging.info("%s gives %d dimensions, low_dim is %d", kind, wide, low_dim)
  found = encoder.dim(kind, low_dim)
  what, dim = next(((what, dim) for what, dim in dims.items() if dim != found), (None, found))
  if what is None:
    return encoder.identity(**{**pooling, "low_dim": low_dim}).to_dict()
  hint = f", such as --sentence_embedding_type=avg-last-concat-{dim // encoder.hidden_size}"
  message = (
    f"the checkpoint's {what} takes embeddings of {dim} dimensions, found {found} by --sentence_embedding_type={kind} "
    f"and --low_dim={low_dim or -1}: say what it was fitted on{'' if dim % encoder.hidden_size else hint}"
  )
  if not insist:
    raise FlowError(f"{message}, or insist with --allow_other_encoder")
  logging.warning("%s; it is saved without its encoder's identity", message)
  return None


def _record(opened, parts):
  """conversion.json: where every variable went."""
  return {
    "checkpoint": opened.prefix,
    "variables": {
      ENCODER: sorted(parts.encoder),
      FLOW: parts.flow,
      CLASSIFIER: parts.classifier,
      "left_out": parts.left_out,
    },
  }


def _say(source, output_dir, encoder, identity):
  opened, parts, flow, classifier = source.checkpoint, source.parts, source.flow, source.classifier
  lines = [f"{opened.prefix}: {len(opened.shapes)} variables"]
  pooler = "" if encoder.bert.has_pooler else ", without a pooler"
  case = f"do_lower_case {encoder.tokenizer.do_lower_case}"
  lines.append(f"encoder     {len(parts.encoder):4} -> {output_dir / ENCODER}: {case}{pooler}")
  if flow is not None:
    config = flow.config
    shape = f"{config.n_levels} levels of depth {config.depth}, width {config.coupling_width}, {flow.dim} dimensions"
    lines.append(f"flow        {len(parts.flow):4} -> {output_dir / FLOW}: {shape}")
  if classifier is not None:
    what = f"{classifier.dim} dimensions, labels {', '.join(classifier.labels)}"
    lines.append(f"classifier  {len(parts.classifier):4} -> {output_dir / CLASSIFIER}: {what}")
  lines += [f"left out    {count:4}: {kind}" for kind, count in parts.counts().items()]
  if flow is not None or classifier is not None:
    keys = ("sentence_embedding_type", "max_seq_length", "low_dim")
    settings = ", ".join(f"{key} {identity[key]}" for key in keys) if identity else "unknown"
    lines.append(f"no checkpoint says what it was fitted on: taken as {settings}")
  return lines
