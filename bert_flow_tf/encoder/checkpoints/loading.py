"""Loads the model of an encoder from the files that settings name. No weight stays random."""

import dataclasses
import os
import pathlib

from bert_flow_tf.encoder.checkpoints import google, hugging_face
from bert_flow_tf.encoder.checkpoints.declared import Declared, read_declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.source import Source, find
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.encoder.transformer import word_rows
from bert_flow_tf.encoder.transformer.transformer import Transformer
from bert_flow_tf.encoder.transformer.word_rows import WordRows
from bert_flow_tf.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """Model of an encoder and where it comes from.

  Attributes:
    model: the transformer, or word rows alone.
    name: the user's name for it.
    files: the files of its tokenizer.
    declared: pooling, length and letter case that its files declare.
    revision: commit of a model of the hub; None for others.
    is_user_model: whether its variables are those of a model object of the user's.
  """

  model: Transformer | WordRows
  name: str
  files: EncoderFiles
  declared: Declared = dataclasses.field(default_factory=Declared)
  revision: str | None = None
  is_user_model: bool = False


def load_model(settings: EncoderSettings) -> LoadedModel:
  """Returns the model that settings name."""
  source = find(settings)
  _check_settings(settings, source)
  changes = {}
  if settings.hidden_act is not None:
    changes["hidden_act"] = settings.hidden_act
  load = _load_hugging_face
  if source.checkpoint is not None:
    load = _load_google
  model, files, declared = load(source, settings, changes)
  if source.static:
    length = STATIC_MAX_SEQ_LENGTH
    if declared.source:
      length = declared.max_seq_length
    lower_case_by = declared.lower_case_by
    declared = Declared(WORD_ROWS, length, lower_case_by=lower_case_by, token_weights=word_rows.TOKEN_WEIGHTS)
  return LoadedModel(model, source.name, files, declared, source.revision)


def _load_hugging_face(source, settings, changes):
  """Returns the model, the files of its folder, and what they declare."""
  declared, folder = read_declared(source.folder)
  files = EncoderFiles(folder)
  return hugging_face.load(files, changes, source.static), files, declared


def _load_google(source, settings, changes):
  """Returns the same for a TensorFlow 1 checkpoint, whose configuration and vocabulary may be in other folders."""
  config_path = google.config_file(source.folder)
  if settings.bert_config_file:
    config_path = _given_file("bert_config_file", settings.bert_config_file)
  vocab_file = source.folder / "vocab.txt"
  if settings.vocab_file is not None:
    vocab_file = _given_file("vocab_file", settings.vocab_file)
  model = google.load(config_path, vocab_file, source.checkpoint, changes, source.static)
  return model, EncoderFiles(vocab_file.parent), Declared()


def _given_file(argument, value):
  """Returns the path of a file that the user named."""
  path = pathlib.Path(os.path.expanduser(value))
  if not path.is_file():
    raise ConfigError(f"{argument}={value}: no such file", argument)
  return path


def _check_settings(settings: EncoderSettings, source: Source) -> None:
  """Raises ConfigError for a setting that such files have no use for."""
  useless = {"saved_model_output": "is no SavedModel"}
  if source.static:
    useless |= dict.fromkeys(("precision", "hidden_act"), "has no transformer that could use it")
  if source.checkpoint is None:
    reason = "is no TensorFlow 1 checkpoint that it could belong to"
    useless |= dict.fromkeys(("bert_config_file", "vocab_file"), reason)
  settings.check_useful(useless)
