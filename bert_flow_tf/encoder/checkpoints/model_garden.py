"""Encoders of TensorFlow's Model Garden: checkpoints of TensorFlow 2, and SavedModels of TensorFlow Hub.

model/layer_with_weights-4/_attention_layer/_query_dense/kernel   objects of a BertEncoder or AlbertEncoder
encoder/_transformer_layers/0/_attention_layer/...                objects of a BertEncoderV2
transformer/layer_0/self_attention/query/kernel                   name of a variable in a SavedModel

A checkpoint holds a graph of objects; a variable's key in it is one of several paths to the variable. Nothing is
executed: a SavedModel's weights are those of the checkpoint in it.
"""

import collections
import functools
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_flow_tf.encoder.checkpoints import files, model_garden_config
from bert_flow_tf.encoder.checkpoints.tf1 import Checkpoint, find_prefix
from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import Transformer
from bert_flow_tf.encoder.transformer.weights import make_transformer, shapes_of
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

_ALBERT = "albert"
# Its word embeddings are narrower than its hidden states, as a BertEncoder's with an embedding_width.
_NARROW = "electra"
_SENTENCE_PIECE = "spiece.model"
_WORDS, _POSITIONS, _TYPES, _NORM, _PROJECTION, _POOLER = _PARTS = (
  "words",
  "positions",
  "types",
  "norm",
  "projection",
  "pooler",
)
# {part: its name as an attribute of a BertEncoderV2, and its name in the names of variables}
_ATTRIBUTES = {
  _WORDS: ("_embedding_layer", "word_embeddings"),
  _POSITIONS: ("_position_embedding_layer", "position_embedding"),
  _TYPES: ("_type_embedding_layer", "type_embeddings"),
  _NORM: ("_embedding_norm_layer", "embeddings/layer_norm"),
  _PROJECTION: ("_embedding_projection", "embedding_projection"),
  _POOLER: ("_pooler_layer", "pooler_transform"),
}
_BLOCKS = "_transformer_layers"
_LAYER, _ATTENTION = "layer_with_weights-", "_attention_layer"
# {layer of a block: its paths as an object below the block, and its names in the names of variables}; the second of two
# is of releases of 2020.
_LAYERS = {
  "query": (("_attention_layer/_query_dense",), ("self_attention/query",)),
  "key": (("_attention_layer/_key_dense",), ("self_attention/key",)),
  "value": (("_attention_layer/_value_dense",), ("self_attention/value",)),
  "attended": (
    ("_attention_layer/_output_dense", "_attention_output_dense"),
    ("self_attention/attention_output", "self_attention_output"),
  ),
  "attended_norm": (("_attention_layer_norm",), ("self_attention_layer_norm",)),
  "inner": (("_intermediate_dense",), ("intermediate",)),
  "outer": (("_output_dense",), ("output",)),
  "outer_norm": (("_output_layer_norm",), ("output_layer_norm",)),
}
_WEIGHTS = ("embeddings", "kernel", "bias", "gamma", "beta")
# "bert_encoder/transformer/layer_0/self_attention/query/kernel"; ALBERT's block has no number.
_NAME_OF_BLOCK = re.compile(r"(?:.*/)?transformer/(?:layer_(\d+)/)?(.+)/(\w+)")
_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"


class _Place(NamedTuple):
  """Place of a weight in an encoder; `block` is None for one that is in no block."""

  block: int | None
  layer: str
  weight: str


class _Found(NamedTuple):
  """Weights of an encoder: {place: key in the checkpoint}, and whether all blocks have the same."""

  keys: dict[_Place, str]
  is_shared: bool


def is_model_garden(checkpoint: str | pathlib.Path) -> bool:
  """Returns whether a checkpoint, a prefix or a folder, is TensorFlow 2's or that of a SavedModel."""
  return files.is_saved_model(checkpoint) or Checkpoint(find_prefix(checkpoint)).is_object_based


class ModelGardenWeights:
  """Weights of a checkpoint of TensorFlow 2 or of a SavedModel, which are read when they are asked for.

  Attributes:
    checkpoint: the opened checkpoint.
    keys: {path of a weight in a `Transformer`: its key in the checkpoint}.
    files: files of the vocabulary.
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
      found = _by_names(self.checkpoint)
      if not found.keys:
        raise EncoderError(
          f"{where}: a SavedModel without the variables of a BERT ({_listed(self.checkpoint)}); {_TEXT}"
        )
    else:
      self.checkpoint = Checkpoint(find_prefix(checkpoint))
      where, folder = self.checkpoint.prefix, pathlib.Path(self.checkpoint.prefix).parent
      found = _by_objects(self.checkpoint)
    self._where = where
    declared = model_garden_config.read(folder, config_path, is_saved_model)
    self._config = EncoderConfig(self._values(found, declared, changes))
    architecture = self._config.architecture
    self._has_pooler = bool(architecture.pooler) and _Place(None, _POOLER, "kernel") in found.keys
    self._shapes = shapes_of(self._config, self._has_pooler)
    self.keys = self._find_all(found)
    if vocab_path is None:
      vocab_path = _find_vocabulary(folder / "assets" if is_saved_model else folder, architecture.vocabularies)
    lower = None
    if is_saved_model and _LOWER_CASE in self.checkpoint.shapes:
      lower = bool(self.checkpoint.read(_LOWER_CASE))
    self.files = _translate(self._config, vocab_path, lower, is_saved_model)
    if self.files.has(files.VOCAB_TXT):
      files.check_vocabulary(self.files, files.VOCAB_TXT, self._config.vocab_size, least_share=1.0)

  def transformer(self) -> Transformer:
    """Returns the transformer."""
    arrays = {path: functools.partial(self._read, path) for path in self._shapes}
    return make_transformer(self._config, arrays, self._has_pooler, self._where)

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

  def _values(self, found: _Found, declared: model_garden_config.DeclaredConfig, changes: Json) -> Json:
    """Returns the values of a config.json: the sizes of the weights, and what a file beside them declares."""

    def shape(block, layer, weight, rank):
      place = _Place(block, layer, weight)
      if place not in found.keys:
        raise EncoderError(f"{self._where}: no {_name(place)}; {_EXPECTED}")
      key = found.keys[place]
      got = self.checkpoint.shapes[key]
      if len(got) != rank:
        raise EncoderError(f"{self._where}: {key} has the shape {list(got)}, expected {rank} axes; {_EXPECTED}")
      return got

    vocab_size, width = shape(None, _WORDS, "embeddings", 2)
    hidden, heads, _ = shape(0, "query", "kernel", 3)
    sizes = {
      "vocab_size": vocab_size,
      "hidden_size": hidden,
      "num_attention_heads": heads,
      "intermediate_size": shape(0, "inner", "bias", 1)[0],
      "max_position_embeddings": shape(None, _POSITIONS, "embeddings", 2)[0],
      "type_vocab_size": shape(None, _TYPES, "embeddings", 2)[0],
      "embedding_size": width,
    }
    blocks = 1 + max(place.block for place in found.keys if place.block is not None)
    model_type = BERT
    if found.is_shared or (blocks == 1 and declared.is_albert):
      model_type, blocks = _ALBERT, declared.values.get("num_hidden_layers")
      if blocks is None:
        mend = "give bert_config_file, a JSON file with num_hidden_layers, or put it beside the checkpoint"
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

  def _find_all(self, found: _Found) -> dict[str, str]:
    """Returns {path: key} of all weights; EncoderError for one that is missing or of another size."""
    keys, layers = {}, self._config.architecture
    paths = {
      _WORDS: layers.words.rpartition("/")[0],
      _POSITIONS: "embeddings/position_embeddings",
      _TYPES: "embeddings/token_type_embeddings",
      _NORM: layers.norm,
      _PROJECTION: self._config.projection,
      _POOLER: layers.pooler,
    }
    for place, key in found.keys.items():
      stem = paths.get(place.layer)
      if place.block is not None:
        stem = f"{layers.block.format(place.block)}/{layers.layers[place.layer]}"
      path = f"{stem}/{place.weight}"
      if place.layer == _WORDS:
        path = layers.words
      keys[path] = key
    is_widened = self._config.word_size == self._config.hidden_size
    for path, shape in self._shapes.items():
      if path not in keys:
        if is_widened and self._config.projection and path.startswith(self._config.projection):
          continue
        raise EncoderError(f"{self._where}: no {path} of {layers.name}, by the names of this package; {_EXPECTED}")
      got = self.checkpoint.shapes[keys[path]]
      if math.prod(got) != math.prod(shape):
        message = f"{keys[path]} has the shape {list(got)}, which is not {list(shape)}, as in its other weights"
        raise EncoderError(f"{self._where}: {message}; copy or download the checkpoint again")
    return {path: keys[path] for path in self._shapes if path in keys}


_EXPECTED = "expected all weights of a BertEncoder, BertEncoderV2 or AlbertEncoder of the Model Garden"
_TEXT = "one that takes texts is named saved_model:FOLDER"


def _name(place):
  """Returns the name of a weight in the names of variables, for a message."""
  if place.block is None:
    return f"{_ATTRIBUTES[place.layer][1]}/{place.weight}"
  return f"transformer/layer_{place.block}/{_LAYERS[place.layer][1][0]}/{place.weight}"


def _open_saved_model(folder):
  """Returns the checkpoint in a SavedModel."""
  prefix = folder / "variables" / "variables"
  if not files.is_tf1_prefix(prefix):
    raise EncoderError(f"{folder}: a SavedModel without variables/variables.index; copy or download it again")
  checkpoint = Checkpoint(prefix)
  if not checkpoint.is_object_based:
    message = "a SavedModel of TensorFlow 1, expected an encoder of TensorFlow 2 from TensorFlow Hub"
    raise EncoderError(f"{folder}: {message}; choose its newer version")
  return checkpoint


def _translate(config, vocab_path, lower, is_saved_model):
  """Returns configuration, vocabulary and letter case in the form of a Hugging Face folder."""
  tokenizer: Json = {}
  if lower is not None:
    tokenizer["do_lower_case"] = lower
  name, tokenizer_type = _SENTENCE_PIECE, None
  if vocab_path.suffix != ".model":
    name = files.VOCAB_TXT
    if config.values["model_type"] == _ALBERT:
      tokenizer_type = _NARROW  # ALBERT's own reads files of SentencePiece alone
    tokenizer.setdefault("do_lower_case", files.lower_case_of_google(vocab_path))
    # The Hub's preprocessing, which is a program of its own, has another limit than Google's.
    tokenizer["max_input_chars_per_word"] = files.MAX_OF_GOOGLE
    if is_saved_model:
      tokenizer["max_input_chars_per_word"] = files.MAX_INPUT_CHARS_PER_WORD
  contents = {files.CONFIG: config.values, files.TOKENIZER_CONFIG: tokenizer}
  encoded = {path: json.dumps(values).encode() for path, values in contents.items()}
  return files.TranslatedFiles(vocab_path.parent, encoded, {name: vocab_path}, tokenizer_type)


def _find_vocabulary(folder: pathlib.Path, readable: Any) -> pathlib.Path:
  """Returns the path of the vocabulary in a folder: vocab.txt, else the only file of word pieces or SentencePiece."""
  pattern = "*.model" if _SENTENCE_PIECE in readable else "*vocab*.txt"
  names = [folder / files.VOCAB_TXT, *sorted(folder.glob(pattern))]
  found = [path for path in names if path.is_file()]
  if not found:
    expected = f"expected the {files.VOCAB_TXT} of the model's training in it"
    if pattern == "*.model":
      expected += ", or its file of SentencePiece, NAME.model"
    raise EncoderError(f"{folder}: no vocabulary; {expected}, or give vocab_file")
  return found[0]


def _listed(checkpoint):
  """Returns some names of variables for a message."""
  names = [attribute.full_name or attribute.checkpoint_key for _, attribute in _variables(checkpoint.objects())]
  return f"{len(names)} variables, first {', '.join(names[:2])}" if names else "it has none"


def _variables(graph):
  """Yields node and attribute of each variable of a graph of objects."""
  for node in graph.nodes:
    for attribute in node.attributes:
      if attribute.name == "VARIABLE_VALUE":
        yield node, attribute


def _by_names(checkpoint: Checkpoint) -> _Found:
  """Returns the weights of the encoder in a SavedModel, by the names of its variables."""
  keys, is_shared = {}, False
  parts = {name: part for part, (_, name) in _ATTRIBUTES.items()}
  layers = {name: layer for layer, (_, names) in _LAYERS.items() for name in names}
  for _, attribute in _variables(checkpoint.objects()):
    name = attribute.full_name.partition(":")[0]
    place = None
    match = _NAME_OF_BLOCK.fullmatch(name)
    if match and match[2] in layers:
      place = _Place(int(match[1] or 0), layers[match[2]], match[3])
      is_shared |= match[1] is None
    stem, _, weight = name.rpartition("/")
    for part_name, part in parts.items():
      if stem == part_name or stem.endswith(f"/{part_name}"):
        place = _Place(None, part, weight)
    if place is None or place.weight not in _WEIGHTS:
      continue
    if place in keys:
      message = f"several variables are named {name}, as of two encoders"
      raise EncoderError(f"{checkpoint.prefix}: {message}; expected a SavedModel of one encoder")
    keys[place] = attribute.checkpoint_key
  if not any(place.block is not None for place in keys):
    keys = {}
  return _Found(keys, is_shared)


def _by_objects(checkpoint: Checkpoint) -> _Found:
  """Returns the weights of the encoder in a checkpoint, by the paths of its objects."""
  graph = checkpoint.objects()
  children = [{child.local_name: child.node_id for child in node.children} for node in graph.nodes]

  def below(node: int | None, path: str) -> int | None:
    for name in path.split("/"):
      node = None if node is None else children[node].get(name)
    return node

  places = {0: ""}
  encoders: dict[int | None, tuple[str, dict[str, int], list[int]]] = {}
  queue = collections.deque(places)
  while queue:
    node = queue.popleft()
    parts, blocks = _parts_of(children, node, below)
    words = below(parts.get(_WORDS), "embeddings")
    if words is not None and blocks:
      encoders.setdefault(words, (places[node] or "the root", parts, blocks))
    for name, child in children[node].items():
      if child not in places:
        places[child] = f"{places[node]}/{name}".lstrip("/")
        queue.append(child)
  if not encoders:
    names = ", ".join(sorted(children[0])[:8])
    message = f"a checkpoint of TensorFlow 2 without an encoder of the Model Garden (its objects are {names})"
    raise EncoderError(f"{checkpoint.prefix}: {message}; {_EXPECTED}")
  if len(encoders) > 1:
    where = ", ".join(path for path, _, _ in encoders.values())
    message = f"{len(encoders)} encoders, at {where}; save one alone, with tf.train.Checkpoint(encoder=...)"
    raise EncoderError(f"{checkpoint.prefix}: {message}")
  _, parts, blocks = next(iter(encoders.values()))
  keys, names = {}, []

  def add(block, layer, node):
    for weight in _WEIGHTS:
      variable = below(node, weight)
      for attribute in graph.nodes[variable].attributes if variable is not None else ():
        if attribute.name == "VARIABLE_VALUE":
          keys[_Place(block, layer, weight)] = attribute.checkpoint_key
          names.append(attribute.full_name)

  for number, block in enumerate(blocks):
    for layer, (paths, _) in _LAYERS.items():
      for path in paths:
        add(number, layer, below(block, path))
  is_shared = any(match and match[1] is None for match in map(_NAME_OF_BLOCK.fullmatch, names))
  for part, node in parts.items():
    add(None, part, node)
  return _Found(keys, is_shared and len(blocks) == 1)


def _parts_of(
  children: list[dict[str, int]], node: int, below: Callable[[int | None, str], int | None]
) -> tuple[dict[str, int], list[int]]:
  """Returns {part: object} and the blocks of an object that may be an encoder."""

  def numbered(names: Mapping[str, int], prefix: str) -> list[int]:
    numbers = {name: name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return [names[name] for name in sorted(numbers, key=lambda name: int(numbers[name])) if numbers[name].isdigit()]

  layers = numbered(children[node], _LAYER)
  blocks = [layer for layer in layers if below(layer, _ATTENTION) is not None]
  if blocks:
    # The embeddings come in the order of _PARTS; a projection is before the blocks, the pooler after them.
    first = layers.index(blocks[0])
    parts = dict(zip(_PARTS, layers[:first], strict=False))
    after = [layer for layer in layers[first:] if layer not in blocks]
    parts |= {_POOLER: after[0]} if after else {}
    return parts, blocks
  named = {part: below(node, attribute) for part, (attribute, _) in _ATTRIBUTES.items()}
  return {part: child for part, child in named.items() if child is not None}, numbered(
    children[blocks_node] if (blocks_node := below(node, _BLOCKS)) is not None else {}, ""
  )
