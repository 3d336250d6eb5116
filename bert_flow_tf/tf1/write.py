"""From our folders to a checkpoint of TensorFlow 1; returns what run_convert prints."""

import json
import pathlib

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder import google_folder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.files import write_bytes
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.training.classifier import ClassifierWeights
from run_scripts.saved import Saved, check_saved, load_saved, saved_identity


def write_model(encoder, output_checkpoint, flow_folder=None, classifier_folder=None, allow_other_encoder=False):
  """Writes an encoder, and a flow and a classifier where given, as a checkpoint of the original's.

  Args:
    encoder: what --model takes.
    output_checkpoint: prefix; bert_config.json and vocab.txt are written beside it, or found there as they would be.
    flow_folder: a flow's.
    classifier_folder: a classifier's.
    allow_other_encoder: whether the flow may have been fitted for another encoder.

  Returns:
    Lines that say what was written.
  """
  prefix = pathlib.Path(output_checkpoint).resolve()
  tf1_checkpoint.check_free(prefix)
  classifier = ClassifierWeights.load(classifier_folder) if classifier_folder else None
  saved = load_saved([flow_folder]) if flow_folder else {}
  flow = _flow_of(flow_folder, saved) if flow_folder else None
  fitted = saved | ({} if classifier is None else {"classifier": Saved(classifier_folder, classifier)})
  _, identity = saved_identity(fitted)
  encoder = SentenceEncoder.from_pretrained(encoder)
  if identity:
    settings = {key: identity[key] for key in ("sentence_embedding_type", "max_seq_length", "low_dim")}
    dim = encoder.dim(settings["sentence_embedding_type"], settings["low_dim"])
    check_saved(fitted, encoder.identity(**settings), dim, allow_other_encoder)
  variables = encoder.bert.tf1_variables()
  lines = [f"encoder     {len(variables):4} variables from {encoder.name}"]
  if flow is not None:
    named = tf1_checkpoint.flow_variables(flow)
    variables |= named
    lines.append(f"flow        {len(named):4} variables from {flow_folder}")
  if classifier is not None:
    variables[tf1_checkpoint.CLASSIFIER] = classifier.output_weights
    lines.append(f"classifier     1 variable from {classifier_folder}")
  _write_beside(prefix.parent, encoder)
  tf1_checkpoint.write_checkpoint(prefix, variables)
  step = tf1_checkpoint.step_of(prefix)
  lines += [] if step is None else [f"global_step is {step}, by the name"]
  return [*lines, f"{prefix}: written, do_lower_case is {encoder.tokenizer.do_lower_case}"]


def _flow_of(folder, saved):
  """The `Glow` among what `load_saved` gives for one folder.

  Raises:
    ConfigError: it is another calibration, or its numbers are not the original's float32.
  """
  ((_, calibration),) = saved.values()
  flow = getattr(calibration, "flow", None)
  if flow is None:
    raise ConfigError(f"--flow_folder={folder} holds {calibration.name}, expected a flow: the original has no other")
  if flow.dtype != "float32":
    raise ConfigError(f"--flow_folder={folder} holds a flow of {flow.dtype}, expected float32, the original's")
  if flow.needs_initialization:
    raise ConfigError(f"--flow_folder={folder} holds a flow that was never fitted, expected one that was")
  return flow


def _write_beside(folder, encoder):
  """bert_config.json, vocab.txt and tokenizer_config.json, without which a checkpoint is of little use.

  The last is ours: it says the case, for which the original has a flag.

  Raises:
    EncoderError: other ones are there, or they cannot be written.
  """
  source = encoder.bert.folder
  config = google_folder.google_config(encoder.bert.config)
  vocabulary = (source / "vocab.txt").read_bytes()
  tokenizer = {**_tokenizer_config(source), "do_lower_case": encoder.tokenizer.do_lower_case}
  # {file: (bytes to write, whether what is there means the same)}
  files = {
    google_folder.CONFIG_FILE: (_json(config), lambda path: google_folder.read_config(path).items() >= config.items()),
    "vocab.txt": (vocabulary, lambda path: path.read_bytes() == vocabulary),
    "tokenizer_config.json": (_json(tokenizer), lambda path: _tokenizer_config(path.parent) == tokenizer),
  }
  try:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in files if not (folder / name).exists()]
    for name, (_, means_the_same) in files.items():
      if name not in missing and not means_the_same(folder / name):
        raise EncoderError(f"{folder / name} belongs to another model than {encoder.name}; choose another folder")
    for name in missing:
      write_bytes(folder / name, files[name][0])
  except (OSError, ValueError) as error:  # JSONDecodeError is a ValueError
    raise EncoderError(f"checkpoint folder {folder} cannot be used ({error}); choose another folder") from error


def _tokenizer_config(folder):
  path = folder / "tokenizer_config.json"
  return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"tokenizer_class": "BertTokenizer"}


def _json(values):
  return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()
