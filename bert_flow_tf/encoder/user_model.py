"""A user's own TFBertModel and tokenizer as the parts of a `SentenceEncoder`."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.checkpoints import files as files_lib
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.checkpoints.preset_files import PACKAGES as KERAS_HUB
from bert_flow_tf.encoder.checkpoints.preset_files import SAVE
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.encoder.transformer import architectures
from bert_flow_tf.encoder.transformer.config import EncoderConfig, check_config
from bert_flow_tf.encoder.transformer.transformer import Transformer
from bert_flow_tf.encoder.transformer.weights import share_weights
from bert_flow_tf.errors import EncoderError, one_line

# Largest differences of hidden states, relative to their largest value: in float32, and in Keras' mixed precision.
_TOLERANCE, _MIXED_TOLERANCE = 1e-3, 0.05
# Packages whose layers compute the same as `Transformer`.
_PACKAGES = ("transformers", "tf_keras")
_MERGE = "adapters and layers of your own cannot be used: merge them into the weights"


def convert_user_model(model: Any, tokenizer: Any) -> tuple[LoadedModel, SentenceTokenizer]:
  """Returns the two parts for a TFBertModel, which is not changed, and a tokenizer or its folder.

  Raises:
    EncoderError: it is no TensorFlow model of transformers, or computes something else, as with adapters.
  """
  transformers: Any = sys.modules.get("transformers")  # without an import of it, `model` cannot be its object
  kind = getattr(transformers, "TFPreTrainedModel", None)
  if kind is None or not isinstance(model, kind):
    message = f"bert: expected a transformers.TFBertModel, got {type(model).__name__}"
    packages = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    if not packages.isdisjoint(KERAS_HUB):
      message += f" of KerasHub: save it by {SAVE}, and give SentenceEncoder.from_pretrained(FOLDER)"
    raise EncoderError(message, "bert")
  architecture = architectures.check_model_type("bert.config", model.config.model_type)
  if not model.built:
    model.build_in_name_scope()
  values = model.config.to_dict()
  check_config(pathlib.Path("bert.config"), values)
  main = encoder = getattr(model, architecture.main)
  if isinstance(model, getattr(transformers, f"TF{architecture.name}Model")):
    encoder = model  # without a head, as TFBertForSequenceClassification has one
  _check_has_no_code_of_the_user(encoder)
  has_pooler = bool(architecture.pooler) and main.pooler is not None
  bert = share_weights(EncoderConfig(values), encoder.weights, has_pooler)
  tolerance = _TOLERANCE
  if model.compute_dtype != "float32":
    tolerance = _MIXED_TOLERANCE
  _check_computes_the_same(bert, encoder, tolerance)
  with tempfile.TemporaryDirectory(prefix="bert_flow_tf_") as folder:
    files = EncoderFiles(pathlib.Path(folder))
    (files.folder / files_lib.CONFIG).write_text(json.dumps(values), encoding="utf-8")
    _write_tokenizer(tokenizer, files.folder)
    name = model.name_or_path or model.name
    converted = load_tokenizer(files, name)
    files.json(files_lib.TOKENIZER_CONFIG)  # before the folder is deleted
  converted.check_ids(model.config.vocab_size)
  return LoadedModel(bert, name, files, is_user_model=True), converted


def _check_has_no_code_of_the_user(encoder: Any) -> None:
  """Raises an EncoderError if a layer's `call` is not defined by transformers or Keras: it would be ignored."""
  for layer in (encoder, *encoder.submodules):
    defining = [kind for kind in type(layer).__mro__ if "call" in vars(kind)]
    if defining and defining[0].__module__.partition(".")[0] not in _PACKAGES:
      raise EncoderError(f"bert: {type(layer).__name__} has a call of its own; {_MERGE}", "bert")


def _check_computes_the_same(bert: Transformer, encoder: Any, tolerance: float) -> None:
  """Raises an EncoderError if the object gives other hidden states, as with another function as activation."""
  config = bert.config
  ids = tf.constant([[number for number in range(4) if number != config.pad_token_id][:3]])
  mask = tf.ones_like(ids)
  inputs = {"input_ids": ids, "attention_mask": mask}
  if config.first_position:  # transformers' classes for TensorFlow would assume 1 as the padding token
    inputs["position_ids"] = config.first_position + tf.range(3)[tf.newaxis]
  try:
    expected = np.float32(encoder(inputs)[0])
  except Exception as error:  # of any code of the user's
    raise EncoderError(f"bert: {type(encoder).__name__} cannot be called ({one_line(error)})", "bert") from error
  actual = bert(ids, mask)[0][-1].numpy()
  if expected.shape == actual.shape and np.abs(expected - actual).max() <= tolerance * np.abs(actual).max():
    return
  raise EncoderError(
    f"bert: {type(encoder).__name__} computes other hidden states than a {config.architecture.name} with its weights; "
    f"{_MERGE}",
    argument="bert",
  )


def _write_tokenizer(tokenizer, folder):
  """Writes the files of a tokenizer, or copies the files of its folder."""
  if isinstance(tokenizer, SentenceTokenizer):
    for name, content in tokenizer.files().items():
      (folder / name).write_bytes(content)
    settings = json.dumps({**tokenizer.settings, **tokenizer.specials})
    (folder / files_lib.TOKENIZER_CONFIG).write_text(settings, encoding="utf-8")
  elif isinstance(tokenizer, str | os.PathLike):
    for name in files_lib.TOKENIZER_FILES:
      path = pathlib.Path(tokenizer).expanduser() / name
      if path.is_file():
        shutil.copy(path, folder)
  elif type(tokenizer).__name__ == "BertTokenizer" or getattr(tokenizer, "is_fast", False):
    tokenizer.save_pretrained(folder)
  else:
    expected = "a BertTokenizer, a fast tokenizer or its folder"
    raise EncoderError(f"tokenizer: expected {expected}, got {type(tokenizer).__name__}", "tokenizer")
