"""Encoders of TensorFlow's Model Garden: checkpoints of TensorFlow 2, and SavedModels of TensorFlow Hub.

No program of a SavedModel is executed: its weights are read from the checkpoint in it.
"""

import functools
import json
import math
import pathlib
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.encoder.checkpoints import files, model_garden_config
from bert_flow_tf.encoder.checkpoints.model_garden_names import (
  EXPECTED,
  NORM,
  POOLER,
  POSITIONS,
  PROJECTION,
  TYPES,
  WORDS,
  FoundWeights,
  WeightPlace,
  describe_variables,
  name_of_place,
  weights_by_names,
  weights_by_objects,
)
from bert_flow_tf.encoder.checkpoints.tf1 import Checkpoint, find_prefix
from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.weight_names import shapes_of
from bert_flow_tf.encoder.transformer.weights import StoredWeights
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

_ALBERT = "albert"
# Its word embeddings are narrower than its hidden states, as a BertEncoder's with an embedding_width.
_NARROW = "electra"
_SENTENCE_PIECE = "spiece.model"
_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_TEXT = "name the encoder's folder; a SavedModel from texts to vectors is named saved_model:FOLDER"


def is_model_garden(checkpoint: str | pathlib.Path) -> bool:
  """Returns whether a checkpoint, a prefix or a folder, is TensorFlow 2's or that of a SavedModel."""
  return files.is_saved_model(checkpoint) or Checkpoint(find_prefix(checkpoint)).is_object_based


class ModelGardenWeights:
  """Weights of a checkpoint of TensorFlow 2 or of a SavedModel, which are read when they are asked for.

  Attributes:
    checkpoint: the opened checkpoint.
    keys: {path of a weight in a `Transformer`: its key in the checkpoint}.
    files: configuration and tokenizer in the form of a Hugging Face folder.
  """

  def __init__(
    self,
    checkpoint: str | pathlib.Path,
    changes: Json,
    config_path: pathlib.Path | None = None,
    vocab_path: pathlib.Path | None = None,
  ) -> None:
    """Opens a checkpoint, and checks its weights, its configuration and its vocabulary.

    Args:
      checkpoint: a prefix, or a folder with a checkpoint or a SavedModel.
      changes: values in place of the configuration's, as hidden_act.
      config_path: the configuration; None for the one beside the checkpoint, if there is one.
      vocab_path: the vocabulary; None for the one beside the checkpoint.
    """
    is_saved_model = files.is_saved_model(checkpoint)
    folder = pathlib.Path(checkpoint)
    if is_saved_model:
      self.checkpoint, where = _open_saved_model(folder), str(folder)
      found = weights_by_names(self.checkpoint)
      if not found.keys:
        raise EncoderError(
          f"{where}: a SavedModel without the variables of a BERT ({describe_variables(self.checkpoint)}); {_TEXT}"
        )
    else:
      self.checkpoint = Checkpoint(find_prefix(checkpoint))
      where, folder = self.checkpoint.prefix, pathlib.Path(self.checkpoint.prefix).parent
      found = weights_by_objects(self.checkpoint)
    self._where = where
    declared = model_garden_config.read_declared_config(folder, config_path, is_saved_model)
    self._config = EncoderConfig(self._values(found, declared, changes))
    architecture = self._config.architecture
    self._has_pooler = bool(architecture.pooler) and WeightPlace(None, POOLER, "kernel") in found.keys
    self._shapes = shapes_of(self._config, self._has_pooler)
    self.keys = self._find_all(found)
    if vocab_path is None:
      vocab_path = _find_vocabulary(folder / "assets" if is_saved_model else folder, architecture.vocabularies)
    else:
      folder = vocab_path.parent  # its tokenizer_config.json is beside it
    lower = None
    if is_saved_model and _LOWER_CASE in self.checkpoint.shapes:
      lower = bool(self.checkpoint.read(_LOWER_CASE))
    self.files = _translate(self._config, files.EncoderFiles(folder), vocab_path, lower, is_saved_model)
    if self.files.has(files.VOCAB_TXT):
      files.check_vocabulary(self.files, files.VOCAB_TXT, self._config.vocab_size, least_share=1.0)

  def stored(self) -> StoredWeights:
    """Returns the weights."""
    arrays = {path: functools.partial(self._read, path) for path in self._shapes}
    return StoredWeights(self._config, arrays, self._has_pooler, self._where)

  def word_embeddings(self) -> np.ndarray:
    """Returns the matrix of word embeddings, float32 [vocab, word_size], and reads no other weight."""
    return self._read(self._config.architecture.words)

  def _read(self, path: str) -> np.ndarray:
    """Returns a weight in the shape of a `Transformer`: heads and their size are one axis there."""
    shape = self._shapes[path]
    if path not in self.keys:  # ALBERT's projection of embeddings that are as wide as hidden states
      return np.eye(*shape, dtype=np.float32) if len(shape) == 2 else np.zeros(shape, np.float32)
    key = self.keys[path]
    return self.checkpoint.read_weight(key, self.checkpoint.shapes[key]).reshape(shape)

  def _values(self, found: FoundWeights, declared: model_garden_config.DeclaredConfig, changes: Json) -> Json:
    """Returns the values of a config.json: the sizes of the weights, and what a file beside them declares."""

    def shape(block, layer, weight, rank):
      place = WeightPlace(block, layer, weight)
      if place not in found.keys:
        raise EncoderError(f"{self._where}: no {name_of_place(place)}; {EXPECTED}")
      key = found.keys[place]
      got = self.checkpoint.shapes[key]
      if len(got) != rank:
        raise EncoderError(f"{self._where}: {key} has the shape {list(got)}, expected {rank} axes; {EXPECTED}")
      return got

    vocab_size, width = shape(None, WORDS, "embeddings", 2)
    hidden, heads, _ = shape(0, "query", "kernel", 3)
    sizes = {
      "vocab_size": vocab_size,
      "hidden_size": hidden,
      "num_attention_heads": heads,
      "intermediate_size": shape(0, "inner", "bias", 1)[0],
      "max_position_embeddings": shape(None, POSITIONS, "embeddings", 2)[0],
      "type_vocab_size": shape(None, TYPES, "embeddings", 2)[0],
      "embedding_size": width,
    }
    blocks = 1 + max(place.block for place in found.keys if place.block is not None)
    model_type = BERT
    if found.is_shared or (blocks == 1 and declared.is_albert):
      model_type, blocks = _ALBERT, declared.values.get("num_hidden_layers")
      if blocks is None:
        mend = "give bert_config_file=FILE, JSON with num_hidden_layers, or put it beside the checkpoint"
        raise EncoderError(
          f"{self._where}: an ALBERT, whose blocks share their weights, so that nothing in it counts them; {mend} as "
          f"{files.GOOGLE_CONFIG}"
        )
    elif width != hidden:
      model_type = _NARROW
      logging.info("%s: word embeddings of %d dimensions are read as an ELECTRA's", self._where, width)
    sizes["num_hidden_layers"] = blocks
    declared.check(sizes, model_type, self._where)
    values = {**declared.values, **sizes, "model_type": model_type, **changes}
    if model_type == BERT:
      del values["embedding_size"]
    return declared.checked(values, self._where)

  def _find_all(self, found: FoundWeights) -> dict[str, str]:
    """Returns {path: key} of all weights; EncoderError for one that is missing or of another size."""
    keys, layers = {}, self._config.architecture
    paths = {
      WORDS: layers.words.rpartition("/")[0],
      POSITIONS: "embeddings/position_embeddings",
      TYPES: "embeddings/token_type_embeddings",
      NORM: layers.norm,
      PROJECTION: self._config.projection,
      POOLER: layers.pooler,
    }
    for place, key in found.keys.items():
      stem = paths.get(place.layer)
      if place.block is not None:
        stem = f"{layers.block.format(place.block)}/{layers.layers[place.layer]}"
      path = f"{stem}/{place.weight}"
      if place.layer == WORDS:
        path = layers.words
      keys[path] = key
    is_widened = self._config.word_size == self._config.hidden_size
    for path, shape in self._shapes.items():
      if path not in keys:
        if is_widened and self._config.projection and path.startswith(self._config.projection):
          continue
        raise EncoderError(f"{self._where}: no {path} of {layers.name}, by the names of this package; {EXPECTED}")
      got = self.checkpoint.shapes[keys[path]]
      if math.prod(got) != math.prod(shape):
        message = f"{keys[path]} has the shape {list(got)}, which is not {list(shape)}, as in its other weights"
        raise EncoderError(f"{self._where}: {message}; copy or download the checkpoint again")
    return {path: keys[path] for path in self._shapes if path in keys}


def _open_saved_model(folder):
  """Returns the checkpoint in a SavedModel."""
  prefix = folder / "variables" / "variables"
  if not files.is_checkpoint_prefix(prefix):
    raise EncoderError(f"{folder}: a SavedModel without variables/variables.index; copy or download it again")
  checkpoint = Checkpoint(prefix)
  if not checkpoint.is_object_based:
    message = "a SavedModel of TensorFlow 1, expected an encoder of TensorFlow 2 from TensorFlow Hub"
    raise EncoderError(f"{folder}: {message}; choose its newer version")
  return checkpoint


def _translate(config, encoder, vocab_path, lower, is_saved_model):
  """Returns configuration, vocabulary and letter case in the form of a Hugging Face folder.

  `encoder`: files of the folder whose tokenizer_config.json decides. `lower`: the SavedModel's letter case, or None.
  """
  tokenizer: Json = {}
  declared = {key: value for key, value in encoder.json(files.TOKENIZER_CONFIG).items() if value is not None}
  if lower is not None and declared.get("do_lower_case", lower) != lower:
    path = encoder.path(files.TOKENIZER_CONFIG)
    logging.info("%s: do_lower_case=%s, in place of the SavedModel's %s", path, declared["do_lower_case"], lower)
  lower = declared.get("do_lower_case", lower)
  name, tokenizer_type = _SENTENCE_PIECE, None
  if vocab_path.suffix != ".model":
    name = files.VOCAB_TXT
    if config.values["model_type"] == _ALBERT:
      tokenizer_type = _NARROW  # ALBERT's own reads files of SentencePiece alone
    if lower is None:
      lower = files.lower_case_of_google(vocab_path)
    # The Hub's preprocessing, which is a program of its own, has another limit than Google's.
    tokenizer["max_input_chars_per_word"] = files.MAX_OF_GOOGLE
    if is_saved_model:
      tokenizer["max_input_chars_per_word"] = files.MAX_INPUT_CHARS_PER_WORD
  if lower is not None:
    tokenizer["do_lower_case"] = lower
  contents = {files.CONFIG: config.values, files.TOKENIZER_CONFIG: tokenizer | declared}
  encoded = {path: json.dumps(values).encode() for path, values in contents.items()}
  paths = {name: vocab_path, files.TOKENIZER_CONFIG: encoder.path(files.TOKENIZER_CONFIG)}
  return files.TranslatedFiles(vocab_path.parent, encoded, paths, tokenizer_type)


def _find_vocabulary(folder: pathlib.Path, readable: Any) -> pathlib.Path:
  """Returns the path of the vocabulary in a folder: vocab.txt, else the only file of word pieces or SentencePiece."""
  pattern = "*.model" if _SENTENCE_PIECE in readable else "*vocab*.txt"
  names = [folder / files.VOCAB_TXT, *sorted(folder.glob(pattern))]
  found = [path for path in names if path.is_file()]
  if not found:
    expected = f"expected the {files.VOCAB_TXT} of the model's training in it"
    if pattern == "*.model":
      expected += ", or its file of SentencePiece, NAME.model"
    raise EncoderError(f"{folder}: no vocabulary; {expected}, or give vocab_file=FILE")
  return found[0]
