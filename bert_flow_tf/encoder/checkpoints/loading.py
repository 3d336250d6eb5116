"""Loads the model of an encoder from the files that settings name. No weight stays random."""

import dataclasses
import os
import pathlib
from typing import Any

from bert_flow_tf.encoder.checkpoints import hugging_face
from bert_flow_tf.encoder.checkpoints.declared import Declared, read_declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.source import Source
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, STATIC_TOKEN_WEIGHTS, EncoderSettings
from bert_flow_tf.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """Model of an encoder and where it comes from.

  Attributes:
    model: the `Transformer`, or `WordRows` alone.
    name: the user's name for it.
    files: the files of its tokenizer.
    declared: pooling, length and letter case that its files declare.
    revision: commit of a model of the hub; None for others.
    is_user_model: whether it shares its variables with a model object of the user's.
  """

  model: Any
  name: str
  files: EncoderFiles
  declared: Declared = dataclasses.field(default_factory=Declared)
  revision: str | None = None
  is_user_model: bool = False


def load_model(settings: EncoderSettings, source: Source) -> LoadedModel:
  """Returns the model of a source, with settings."""
  check_settings(settings, source)
  changes = {}
  if settings.hidden_act is not None:
    changes["hidden_act"] = settings.hidden_act
  if source.checkpoint is not None:
    model, files = _load_google(source, settings, changes)
    declared = Declared()
  else:
    declared, folder = read_declared(source.folder)
    files = EncoderFiles(folder)
    model = hugging_face.load(files, changes, source.static)
  if source.static:
    from bert_flow_tf.encoder.transformer.word_rows import WordRows

    model = WordRows(model)
    length = STATIC_MAX_SEQ_LENGTH
    if declared.source:
      length = declared.max_seq_length
    lower_case_by = declared.lower_case_by
    declared = Declared(WORD_ROWS, length, lower_case_by=lower_case_by, token_weights=STATIC_TOKEN_WEIGHTS)
  return LoadedModel(model, source.name, files, declared, source.revision)


def _load_google(source, settings, changes):
  """Returns the model of a TensorFlow 1 checkpoint and its files; configuration and vocabulary may be elsewhere."""
  from bert_flow_tf.encoder.checkpoints import google

  config_path = google.config_file(source.folder)
  if settings.bert_config_file:
    config_path = _given_file("bert_config_file", settings.bert_config_file)
  vocab_file = source.folder / "vocab.txt"
  if settings.vocab_file is not None:
    vocab_file = _given_file("vocab_file", settings.vocab_file)
  model = google.load(config_path, vocab_file, source.checkpoint, changes, source.static)
  return model, EncoderFiles(vocab_file.parent)


def _given_file(argument, value):
  """Returns the path of a file that the user named."""
  path = pathlib.Path(os.path.expanduser(value))
  if not path.is_file():
    raise ConfigError(f"{argument}={value}: no such file", argument)
  return path


def check_settings(settings: EncoderSettings, source: Source) -> None:
  """Raises ConfigError for a setting without a use for these files."""
  useless = {"saved_model_output": "is no SavedModel"}
  if source.static:
    useless |= dict.fromkeys(("precision", "hidden_act"), "has no transformer that could use it")
  if source.checkpoint is None:
    reason = "is no TensorFlow 1 checkpoint that it could belong to"
    useless |= dict.fromkeys(("bert_config_file", "vocab_file"), reason)
  settings.check_useful(useless)
