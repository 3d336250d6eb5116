"""Writes folders of this package as a checkpoint of TensorFlow 1."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration, load_calibration
from bert_flow_tf.encoder import google_folder, tf1_names
from bert_flow_tf.encoder.identity import read_identity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError, EncoderError, naming
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json, write_bytes
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.training.objectives import Classifier


def write_model(
  encoder: str,
  output_checkpoint: str,
  flow_folder: str | None = None,
  classifier_folder: str | None = None,
  allow_other_encoder: bool = False,
  revision: str | None = None,
  cache_dir: str | None = None,
) -> list[str]:
  """Writes an encoder, a flow and a classifier as a checkpoint that the original reads.

  Args:
    encoder: name or folder, as in `SentenceEncoder.from_pretrained`.
    output_checkpoint: prefix of the checkpoint; bert_config.json and vocab.txt are written to its folder.
    flow_folder: folder of a flow, or None.
    classifier_folder: folder of a classifier, or None.
    allow_other_encoder: True to write a flow or classifier that was fitted for another encoder.
    revision: of a hub model, as there.
    cache_dir: of the hub, as there.

  Returns:
    Lines that say what was written.

  Raises:
    ConfigError: the flow cannot be written as one of the original's.
    EncoderError: flow or classifier was fitted for another encoder, or the checkpoint cannot be written.
    FlowError, TrainingError: a folder is absent or damaged.
  """
  prefix = pathlib.Path(output_checkpoint).resolve()
  tf1_checkpoint.check_free(prefix)
  fitted: dict[str, Any] = {}
  if flow_folder:
    fitted[f"flow_folder={flow_folder}"] = _load_flow(flow_folder)
  if classifier_folder:
    with naming("classifier_folder"):
      fitted[f"classifier_folder={classifier_folder}"] = Classifier.load(classifier_folder)
  model = SentenceEncoder.from_pretrained(encoder, cache_dir, revision=revision)
  _check_encoder(fitted, model, allow_other_encoder)
  variables = model.bert.tf1_variables()
  lines = [f"encoder     {len(variables):4} variables from {model.name}"]
  for part in fitted.values():
    if isinstance(part, FlowCalibration):
      named = tf1_checkpoint.flow_variables(part.flow)
      lines.append(f"flow        {len(named):4} variables from {flow_folder}")
    else:
      named = {tf1_names.CLASSIFIER: part.output_weights.numpy()}
      lines.append(f"classifier     1 variable from {classifier_folder}")
    variables |= named
  write_config(prefix.parent, model)
  tf1_checkpoint.write_checkpoint(prefix, variables)
  step = tf1_checkpoint.step_of(prefix)
  lines += [] if step is None else [f"global_step is {step}, by the name"]
  return [*lines, f"{prefix}: written, do_lower_case is {model.tokenizer.do_lower_case}"]


def _load_flow(folder: str) -> FlowCalibration:
  """Loads the calibration of a flow alone, fitted and of float32."""
  with naming("flow_folder"):
    calibration = load_calibration(folder)
  if not isinstance(calibration, FlowCalibration) or calibration.mix is not None:
    problem = f"{calibration.name} is another calibration than a flow, or has views"
    raise ConfigError(f"flow_folder={folder}: {problem}", argument="flow_folder")
  flow = calibration.flow
  if flow.dtype != "float32" or flow.needs_initialization:
    problem = "was never fitted" if flow.needs_initialization else f"is {flow.dtype}, expected float32"
    raise ConfigError(f"flow_folder={folder}: the flow {problem}", argument="flow_folder")
  return calibration


def _check_encoder(
  fitted: dict[str, FlowCalibration | Classifier], encoder: SentenceEncoder, allow_other: bool
) -> None:
  """Checks that flow and classifier were fitted on embeddings of the encoder, with the same pooling.

  Raises:
    EncoderError: they were not.
  """
  identities: dict[str, Any] = {where: read_identity(part.encoder, where) for where, part in fitted.items()}
  settings = next((identity.model_arguments() for identity in identities.values() if identity), None)
  if settings is None:
    return
  embeddings = encoder.identity(**settings)
  full = encoder.dim(settings["sentence_embedding_type"])
  for where, identity in identities.items():
    argument = where.partition("=")[0]
    dim = full if isinstance(fitted[where], FlowCalibration) else settings["low_dim"] or full
    if identity is not None:
      try:
        identity.check_same(embeddings, where, argument)
      except EncoderError as error:
        if not allow_other:
          raise EncoderError(f"{error}; allow_other_encoder=True ignores this", argument) from error
        logging.warning("%s", error)
    if fitted[where].dim != dim:
      raise EncoderError(f"{where}: takes embeddings of {fitted[where].dim} dimensions, got {dim}", argument)


def write_config(folder: pathlib.Path, encoder: SentenceEncoder) -> None:
  """Writes bert_config.json, vocab.txt and tokenizer_config.json; the last one is ours and says the letter case.

  Raises:
    EncoderError: files of another model exist, or the files cannot be written.
  """
  source = encoder.bert.folder
  config = google_folder.google_config(encoder.bert.config)
  expected = {**{name: config[name] for name in google_folder.DEFAULTS}, "hidden_act": encoder.bert.config.hidden_act}
  vocabulary = (source / "vocab.txt").read_bytes()
  chosen = {name: getattr(encoder.tokenizer, name) for name in ("do_lower_case", "max_input_chars_per_word")}
  tokenizer = {**_tokenizer_config(source), **chosen}
  # {file: (content, function that tells if an existing file means the same)}
  files: dict[str, tuple[bytes | None, Callable[[pathlib.Path], bool]]] = {
    "vocab.txt": (vocabulary, lambda path: path.read_bytes() == vocabulary),
    "tokenizer_config.json": (_json(tokenizer), lambda path: _tokenizer_config(path.parent) == tokenizer),
  }
  others = list(files)
  # The last one: where it exists, a killed process has written the others too. It holds their checksums.
  files[google_folder.CONFIG_FILE] = (None, lambda path: google_folder.read_config(path).items() >= expected.items())
  argument = "output_checkpoint"
  try:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in files if not (folder / name).exists()]
    for name, (_, means_the_same) in files.items():
      if name not in missing and not means_the_same(folder / name):
        raise EncoderError(f"{argument}: {folder / name} belongs to another model than {encoder.name}", argument)
    for name in missing:
      write_bytes(folder / name, files[name][0] or _json(checksums.sealed(config, folder, others)))
  except (OSError, ValueError) as error:  # JSONDecodeError is a ValueError
    raise EncoderError(f"{argument}: the folder {folder} cannot be used ({error})", argument) from error


def _tokenizer_config(folder: pathlib.Path) -> dict:
  path = folder / "tokenizer_config.json"
  return read_json(path) if path.is_file() else {"tokenizer_class": "BertTokenizer"}


def _json(values: dict) -> bytes:
  return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()
