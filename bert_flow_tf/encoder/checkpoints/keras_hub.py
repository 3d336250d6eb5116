"""Presets of KerasHub and KerasNLP, read as a Hugging Face folder that is made of them in memory.

    config.json          class of the backbone, and its sizes
    model.weights.h5     weights; or shards, which model.weights.json lists
    tokenizer.json       class and settings of the tokenizer (not Hugging Face's file of this name)
    assets/tokenizer/    its vocabulary
    task.json            pooling of a TextEmbedder
    preprocessor.json    length of its texts

Activation and epsilon are constants of a backbone's class. Nothing here needs KerasHub.
"""

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from bert_flow_tf.encoder.checkpoints.declared import Declared, read_declared, read_modules
from bert_flow_tf.encoder.checkpoints.files import (
  CONFIG,
  TOKENIZER_CONFIG,
  VOCAB_TXT,
  EncoderFiles,
  TranslatedFiles,
  capital_pieces,
)
from bert_flow_tf.encoder.checkpoints.hugging_face import HuggingFaceWeights, StoredTensor
from bert_flow_tf.encoder.checkpoints.preset_files import (
  ASSETS,
  PACKAGES,
  PREPROCESSOR,
  TASK,
  TOKENIZER,
  WEIGHTS,
  find_preset_weights,
)
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import SIZES
from bert_flow_tf.encoder.transformer.weight_names import shapes_of
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import Json
from bert_flow_tf.progress import counted

# {key of a backbone's config: key of BERT's config.json}, besides the size of the vocabulary.
_KEYS = {
  "num_layers": "num_hidden_layers",
  "num_heads": "num_attention_heads",
  "hidden_dim": "hidden_size",
  "intermediate_dim": "intermediate_size",
  "max_sequence_length": "max_position_embeddings",
}
_SEGMENTS = {"num_segments": "type_vocab_size"}
_RATE = "dropout"
# Keys of each config of Keras.
_ANY_CLASS = ("name", "trainable", "dtype")
# {layer of a block: its group of arrays below the block's}
_PARTS = {
  **{part: f"_self_attention_layer/{part}_dense" for part in ("query", "key", "value")},
  "attended": "_self_attention_layer/output_dense",
  "attended_norm": "_self_attention_layer_norm",
  "inner": "_feedforward_intermediate_dense",
  "outer": "_feedforward_output_dense",
  "outer_norm": "_feedforward_layer_norm",
}
_DEBERTA_PARTS = {name: group.replace("layer/", "layer/_") for name, group in _PARTS.items()}
# Layers with an axis of heads beside the axis of a head's size.
_ATTENTION = ("query", "key", "value", "attended")
_POSITIONS = "embeddings/position_embeddings"
_EMBEDDINGS = {
  _POSITIONS: "position_embedding",
  "embeddings/token_type_embeddings": "embedding",
}
# Layer of an ELECTRA's pooled output, which no published ELECTRA has and which is left out here.
_UNUSED = "pooler"
# First part of the names of arrays; before Keras 3 another.
_STORED = re.compile("^(?:_layer_checkpoint_dependencies|layers)/")
_INT8 = "int8"
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class _Backbone:
  """A class of backbones.

  Attributes:
    model_type: its model_type in a Hugging Face folder.
    tokenizer: the class of its tokenizer.
    activation: its activation, under Hugging Face's name.
    epsilon: its epsilon of layer normalization.
    vocabulary_size: key of its config with the size of the vocabulary.
    keys: {other key of its config: key of BERT's config.json}.
    values: values of its config.json that are constants of the class.
    only: {key of its config: the only supported value}.
    words: group of arrays of its word embeddings.
    embeddings: {layer here: group of arrays} of its other embeddings.
    block: group of arrays of the first block; the others have _1, _2, ...
    parts: {layer of a block: its group of arrays}.
    has_pooler: whether a dense layer follows, whose output is the pooled one.
    rows_before: rows of the table of positions that its files leave out.
  """

  model_type: str
  tokenizer: str
  activation: str = "gelu_new"  # the tanh form of GELU
  epsilon: float = 1e-12
  vocabulary_size: str = "vocabulary_size"
  keys: Mapping[str, str] = dataclasses.field(default_factory=lambda: _KEYS | _SEGMENTS)
  values: Json = dataclasses.field(default_factory=dict)
  only: Json = dataclasses.field(default_factory=dict)
  words: str = "reversible_embedding"
  embeddings: Mapping[str, str] = dataclasses.field(default_factory=lambda: _EMBEDDINGS)
  block: str = "transformer_encoder"
  parts: Mapping[str, str] = dataclasses.field(default_factory=lambda: _PARTS)
  has_pooler: bool = False
  rows_before: int = 0


class _Place(NamedTuple):
  """Place of a layer's weights in a file: its group, whether an axis of heads is apart, rows that are left out."""

  group: str
  has_heads: bool = False
  rows_before: int = 0


_JOINED = "token_and_position_embedding"
_ROBERTA = _Backbone(
  "roberta",
  "RobertaTokenizer",
  activation="gelu",
  epsilon=1e-5,
  keys=_KEYS,
  values={"type_vocab_size": 1, "pad_token_id": 1},
  words=f"{_JOINED}/token_embedding",
  embeddings={_POSITIONS: f"{_JOINED}/position_embedding"},
  rows_before=2,
)
_BACKBONES = {
  "BertBackbone": _Backbone("bert", "BertTokenizer", has_pooler=True),
  "RobertaBackbone": _ROBERTA,
  "XLMRobertaBackbone": dataclasses.replace(_ROBERTA, model_type="xlm-roberta", tokenizer="XLMRobertaTokenizer"),
  "DistilBertBackbone": dataclasses.replace(
    _ROBERTA, model_type="distilbert", tokenizer="DistilBertTokenizer", epsilon=1e-12, values={}, rows_before=0
  ),
  "AlbertBackbone": _Backbone(
    "albert",
    "AlbertTokenizer",
    keys=_KEYS | _SEGMENTS | {"embedding_dim": "embedding_size"},
    only={"num_groups": 1, "num_inner_repetitions": 1},
    has_pooler=True,
  ),
  "ElectraBackbone": _Backbone(
    "electra",
    "ElectraTokenizer",
    vocabulary_size="vocab_size",
    keys=_KEYS | _SEGMENTS | {"embedding_dim": "embedding_size"},
    has_pooler=True,
  ),
  "DebertaV3Backbone": _Backbone(
    "deberta-v2",
    "DebertaV3Tokenizer",
    activation="gelu",
    epsilon=1e-7,
    keys=_KEYS | {"bucket_size": "position_buckets"},
    values={
      "relative_attention": True,
      "position_biased_input": False,
      "share_att_key": True,
      "norm_rel_ebd": "layer_norm",
      "pos_att_type": ["p2c", "c2p"],
      "max_relative_positions": -1,
    },
    embeddings={"encoder/rel_embeddings": "relative_embedding", "encoder/LayerNorm": "relative_embedding/layer_norm"},
    block="disentangled_attention_encoder",
    parts=_DEBERTA_PARTS,
  ),
}


@dataclasses.dataclass(frozen=True)
class _Tokenizer:
  """A class of tokenizers.

  Attributes:
    model_type: model_type of the encoders that have it in Hugging Face's folders.
    file: file of its vocabulary.
    name: name of this file in a Hugging Face folder.
    values: values of tokenizer_config.json that are constants of the class.
    switches: {key of its config, a bool: (key of tokenizer_config.json, default)}.
  """

  model_type: str
  file: str = "vocabulary.txt"
  name: str = VOCAB_TXT
  values: Json = dataclasses.field(default_factory=dict)
  switches: Mapping[str, tuple[str, bool]] = dataclasses.field(default_factory=dict)


_WORD_PIECE = _Tokenizer(
  "bert",
  switches={
    "lowercase": ("do_lower_case", False),
    "strip_accents": ("strip_accents", False),
    "split_on_cjk": ("tokenize_chinese_chars", True),
  },
)
_MERGES = "merges.txt"
_SENTENCE_PIECE = "vocabulary.spm"
_TOKENIZERS = {
  "BertTokenizer": _WORD_PIECE,
  "DistilBertTokenizer": dataclasses.replace(_WORD_PIECE, model_type="distilbert"),
  "ElectraTokenizer": dataclasses.replace(_WORD_PIECE, model_type="electra"),
  "RobertaTokenizer": _Tokenizer(
    "roberta", "vocabulary.json", "vocab.json", switches={"add_prefix_space": ("add_prefix_space", False)}
  ),
  "XLMRobertaTokenizer": _Tokenizer(
    "xlm-roberta", _SENTENCE_PIECE, "sentencepiece.bpe.model", {"tokenizer_class": "XLMRobertaTokenizer"}
  ),
  "AlbertTokenizer": _Tokenizer(
    "albert", _SENTENCE_PIECE, "spiece.model", {"do_lower_case": False, "keep_accents": True}
  ),
  "DebertaV3Tokenizer": _Tokenizer("deberta-v2", _SENTENCE_PIECE, "spm.model"),
}
# {key of a tokenizer's config: the only supported value}
_ONLY = {"split": True, "suffix_indicator": "##", "sequence_length": None, "add_bos": False, "add_eos": False}
# Keys of a tokenizer's config that are read elsewhere, or say nothing of a text.
_OTHERS = ("config_file", "vocabulary", "merges", "proto", "oov_token", "special_tokens", "special_tokens_in_strings")
_OTHERS += ("unsplittable_tokens",)
# Names in files of sentence-transformers, in which the declaration is told.
_MODULES, _POOLING, _LENGTH = "modules.json", "1_Pooling", "sentence_bert_config.json"
_MODULE_TYPE = "sentence_transformers.models."
# {pooling of a TextEmbedder: its flag there}, which all versions read, and KerasHub too.
_FLAGS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}


def read_preset(
  files: EncoderFiles, vocab_file: pathlib.Path | None, changes: Json
) -> tuple[Declared, TranslatedFiles, HuggingFaceWeights]:
  """Returns the declaration, the files in a Hugging Face folder's form, and the weights of a preset.

  Args:
    files: files of the preset.
    vocab_file: vocabulary in place of the preset's.
    changes: values in place of config.json's, under the keys of BERT's.

  Raises:
    EncoderError: the preset is of another class, incomplete or damaged.
  """
  name, backbone, values = _read_config(files)
  config = _encoded(_translate(files, name, backbone, values))
  contents, paths = _declaration(files, values["hidden_dim"])
  contents[CONFIG] = config
  tokenizer, settings = _read_tokenizer(files, backbone, vocab_file)
  vocabulary = _find_vocabulary(files, tokenizer, vocab_file)
  if not settings and tokenizer.name == VOCAB_TXT:
    # The vocabulary of an uncased model has no capital letters.
    settings = {"lowercase": not capital_pieces(vocabulary.read_bytes())}
  paths |= {CONFIG: files.path(CONFIG), TOKENIZER_CONFIG: files.path(TOKENIZER), tokenizer.name: vocabulary}
  contents[TOKENIZER_CONFIG] = _encoded(_tokenizer_config(tokenizer, settings))
  settings = {"class": tokenizer.file} | settings
  translated = TranslatedFiles(files.folder, contents, paths, tokenizer.model_type, settings)
  weights = _PresetWeights(translated, changes, name, backbone)
  declared, _ = read_declared(translated)
  length = translated.json(_LENGTH).get("max_seq_length")
  if length is not None and not read_modules(translated):
    declared = Declared(max_seq_length=length, source=str(translated.path(_LENGTH)))
  return declared, translated, weights


def _encoded(values):
  return json.dumps(values).encode()


def _config_of(files, name):
  """Returns the class of the object that a file holds, without its package, and the object's config."""
  values = files.json(name)
  package, _, kind = str(values.get("registered_name")).rpartition(">")
  config = values.get("config")
  if not isinstance(config, dict):
    raise EncoderError(f"{files.path(name)}: config is {str(config)[:40]!r}, expected a dict; save the preset again")
  if package not in PACKAGES:
    kind = str(values.get("registered_name"))
  return kind, config


def _read_config(files):
  """Returns the class of the backbone, its row and its config."""
  if not files.has(CONFIG):
    found = next(name for name in (TASK, PREPROCESSOR, TOKENIZER) if files.has(name))
    raise EncoderError(
      f"{files.folder}: {found} of a KerasHub preset without its backbone; expected {CONFIG} and {WEIGHTS} beside it, "
      "which backbone.save_to_preset(FOLDER) writes"
    )
  name, values = _config_of(files, CONFIG)
  if name not in _BACKBONES:
    raise EncoderError(
      f"{files.path(CONFIG)}: a KerasHub preset of {name[:60]}, expected an encoder of text: {', '.join(_BACKBONES)}; "
      "any other model from texts to vectors is given as a SavedModel, saved_model:FOLDER"
    )
  return name, _BACKBONES[name], values


def _translate(files, name, backbone, values):
  """Returns the content of a config.json for the config of a backbone."""
  path, architecture = files.path(CONFIG), ARCHITECTURES[backbone.model_type]
  keys = {backbone.vocabulary_size: "vocab_size", **backbone.keys}
  unknown = sorted(set(values).difference(_ANY_CLASS, [_RATE], keys, backbone.only))
  if unknown:
    raise EncoderError(f"{path}: {name} has the setting {unknown[0]}={values[unknown[0]]!r}, which is not supported")
  for key, supported in backbone.only.items():
    if values.get(key, supported) != supported:
      raise EncoderError(f"{path}: {key} is {values[key]!r}, and only {supported!r} is supported")
  for mode in _modes(values.get("dtype")):
    if mode != _INT8:
      raise EncoderError(
        f"{path}: its weights are quantized to {mode}, expected float32, float16, bfloat16 or int8; give the preset of "
        "the model before it was quantized"
      )
  result = {"model_type": backbone.model_type, **backbone.values}
  for key, name_in_bert in keys.items():
    value, largest = values.get(key), SIZES.get(name_in_bert, 1 << 16)
    if not is_integer(value, 1) or value > largest:
      raise EncoderError(f"{path}: expected an integer from 1 to {largest} as {key}, got {str(value)[:40]}")
    result[architecture.key(name_in_bert)] = value
  result["max_position_embeddings"] += backbone.rows_before
  constants = {"hidden_act": backbone.activation, "layer_norm_eps": backbone.epsilon}
  for key in architecture.dropouts.values():
    constants[key] = values.get(_RATE, 0.0)
  for key, value in constants.items():
    if architecture.key(key):
      result[architecture.key(key)] = value
  return result


def _modes(dtype: Any) -> Iterator[str]:
  """Yields the quantizations of a config of dtypes: "int8" for a layer, "int4/128" or "float8" for others."""
  if isinstance(dtype, str) and "_from_" in dtype:
    yield dtype.partition("_from_")[0]
  if isinstance(dtype, dict):
    for key, value in dtype.items():
      if key == "mode" and isinstance(value, str):
        yield value.partition("/")[0]
      elif key != "source_name":
        yield from _modes(value)


def _read_tokenizer(files, backbone, vocab_file):
  """Returns the row of the tokenizer and its checked config, empty if the preset has none."""
  if not files.has(TOKENIZER):
    tokenizer = _TOKENIZERS[backbone.tokenizer]
    if vocab_file is None:
      raise EncoderError(
        f"{files.folder}: a KerasHub preset without a tokenizer; save it there, tokenizer.save_to_preset(FOLDER), or "
        f"give vocab_file={tokenizer.file}, the vocabulary of its training",
        argument="vocab_file",
      )
    return tokenizer, {}
  path = files.path(TOKENIZER)
  name, config = _config_of(files, TOKENIZER)
  if name not in _TOKENIZERS:
    raise EncoderError(f"{path}: the tokenizer is {name[:60]}, expected one of {', '.join(_TOKENIZERS)}")
  tokenizer = _TOKENIZERS[name]
  for key, supported in _ONLY.items():
    if config.get(key, supported) != supported:
      raise EncoderError(f"{path}: {key} is {str(config[key])[:40]!r}, and only {supported!r} is supported")
  unknown = sorted(set(config).difference(_ANY_CLASS, _ONLY, _OTHERS, tokenizer.switches))
  if unknown:
    raise EncoderError(f"{path}: {name} has the setting {unknown[0]}={config[unknown[0]]!r}, which is not supported")
  for key in (*tokenizer.switches, "special_tokens_in_strings"):
    if not isinstance(config.get(key, False), bool):
      raise EncoderError(f"{path}: {key} is {str(config[key])[:40]!r}, expected true or false; save the preset again")
  return tokenizer, config


def _find_vocabulary(files, tokenizer, vocab_file):
  """Returns the path of the vocabulary."""
  path = vocab_file or files.folder / ASSETS / tokenizer.file
  expected = [path]
  if tokenizer.name == "vocab.json":
    expected.append(path.with_name(_MERGES))
  for file in expected:
    if not file.is_file():
      raise EncoderError(f"{file}: no such file, which tokenizer.save_to_preset(FOLDER) writes")
  return path


def _tokenizer_config(tokenizer, settings):
  """Returns the content of a tokenizer_config.json for the config of a tokenizer."""
  result = dict(tokenizer.values)
  for key, (name, default) in tokenizer.switches.items():
    result[name] = settings.get(key, default)
  if tokenizer.name == VOCAB_TXT and "oov_token" in settings:
    result["unk_token"] = settings["oov_token"]
  return result


def _declaration(files, hidden_size):
  """Returns {name: content} of files of sentence-transformers that say what the preset declares, and their sources."""
  contents: dict[str, bytes] = {}
  paths: dict[str, pathlib.Path] = {}
  if files.has(TASK):
    name, task = _config_of(files, TASK)
    if name.endswith("TextEmbedder"):
      modules = ["Transformer", "Pooling"]
      if task.get("normalize", True):
        modules.append("Normalize")
      listed = []
      for number, module in enumerate(modules):
        folder = f"{number}_{module}" if number else ""
        listed.append({"idx": number, "name": str(number), "path": folder, "type": _MODULE_TYPE + module})
      contents[_MODULES] = _encoded(listed)
      pooling = task.get("pooling_mode", "mean")
      flags = {flag: name == pooling for name, flag in _FLAGS.items()}
      if not any(flags.values()):
        flags["pooling_mode"] = pooling
      contents[f"{_POOLING}/{CONFIG}"] = _encoded({"word_embedding_dimension": hidden_size, **flags})
      paths = dict.fromkeys(contents, files.path(TASK))
  if files.has(PREPROCESSOR):
    _, config = _config_of(files, PREPROCESSOR)
    length, path = config.get("sequence_length"), files.path(PREPROCESSOR)
    if length is not None:
      if not is_integer(length, 3):
        raise EncoderError(f"{path}: sequence_length is {str(length)[:40]!r}, expected an integer of at least 3")
      contents[_LENGTH], paths[_LENGTH] = _encoded({"max_seq_length": length}), path
  return contents, paths


class _PresetWeights(HuggingFaceWeights):
  """Weights of a preset, which are read when they are asked for."""

  def __init__(self, files: TranslatedFiles, changes: Json, name: str, backbone: _Backbone) -> None:
    """Opens the files of a backbone of the class `name`; see the base class."""
    self._name, self._backbone = name, backbone
    super().__init__(files, changes)

  def _find(self, files: EncoderFiles) -> list[pathlib.Path]:
    """See the base class."""
    return find_preset_weights(files)

  def _open(self, paths: list[pathlib.Path]) -> dict[str, StoredTensor]:
    """See the base class."""
    groups, config = _read_groups(paths), self._config
    layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}  # {layer: the paths and shapes of its weights}
    for path, shape in shapes_of(config, self._backbone.has_pooler and bool(config.architecture.pooler)).items():
      layers.setdefault(re.split(r"[/.](?=\w+$)", path)[0], []).append((path, shape))
    places = _places(self._backbone, config)
    self._check_names(set(groups), {place.group for place in places.values()})
    tensors: dict[str, StoredTensor] = {}
    for layer, weights in layers.items():
      if layer in places:
        tensors |= self._read_layer(places[layer], groups[places[layer].group], weights)
      else:  # RoBERTa's only segment, which KerasHub does not have
        (path, shape), *_ = weights
        tensors[path] = StoredTensor(shape, functools.partial(np.zeros, shape, np.float32))
    return tensors

  def _check_names(self, found, expected):
    """Raises an EncoderError that names groups of arrays that are missing or unknown."""
    lists = []
    for kind, names in {"missing": sorted(expected - found), "unknown": sorted(found - expected)}.items():
      if names:
        lists.append(f"{len(names)} {kind}, first {names[0]}")
    if lists:
      raise EncoderError(
        f"{self._where}: config.json describes a {self._name} of other weights: {'; '.join(lists)}; use the files that "
        "were saved together"
      )

  def _read_layer(self, place, group, weights):
    """Returns {path: tensor} of a layer, whose arrays {number: array} are a group of the file."""
    types = {number: _type_of(array) for number, array in group.items()}
    scale = None
    expected = set(range(len(weights)))
    if types.get(0) == _INT8:
      scale, types[0] = group.get(len(weights)), "float32"
      expected.add(len(weights))
    if set(types) != expected or not set(types.values()) <= set(_FLOATS):
      found = ", ".join(f"{_type_of(group[number])} {list(group[number].shape)}" for number in sorted(group))
      raise EncoderError(
        f"{self._where}: {place.group} has {found}; expected {counted(len(weights), 'array')} of float32, float16 or "
        "bfloat16, or of int8 with a scale; give the preset of the model before it was quantized"
      )
    config = self._config
    heads = (config.num_attention_heads, config.hidden_size // config.num_attention_heads)
    tensors = {}
    for number, (path, _) in enumerate(weights):
      array = group[number]
      shape = tuple(array.shape)
      if place.has_heads:
        shape = _joined(shape, heads)
      if place.rows_before:
        shape = (shape[0] + place.rows_before, *shape[1:])
      per_row = len(weights) == 1
      read = functools.partial(_read, array, scale if number == 0 else None, per_row, shape)
      tensors[path] = StoredTensor(shape, read)
    return tensors


def _places(backbone: _Backbone, config: EncoderConfig) -> dict[str, _Place]:
  """Returns {layer here: its place in the file}."""
  architecture = config.architecture
  places = {
    architecture.words.rpartition("/")[0]: _Place(backbone.words),
    architecture.norm: _Place("layer_normalization"),
  }
  for layer, group in backbone.embeddings.items():
    places[layer] = _Place(group)
    if layer == _POSITIONS:
      places[layer] = _Place(group, rows_before=backbone.rows_before)
  # Keras numbers layers of a class in the order of their creation.
  dense = []
  if config.projection:
    dense.append(config.projection)
  if backbone.has_pooler:
    dense.append(architecture.pooler or _UNUSED)
  for number, layer in enumerate(dense):
    places[layer] = _Place(_numbered("dense", number))
  blocks = config.num_hidden_layers
  if architecture.shares_weights:
    blocks = 1
  for number in range(blocks):
    block = _numbered(backbone.block, number)
    for name, group in backbone.parts.items():
      layer = f"{architecture.block.format(number)}/{architecture.layers[name]}"
      places[layer] = _Place(f"{block}/{group}", has_heads=name in _ATTENTION)
  return places


def _numbered(name, number):
  """Returns the name of a layer that is the number-th of its class, from 0."""
  if number == 0:
    return name
  return f"{name}_{number}"


def _read_groups(paths):
  """Returns {layer: {number: array}} of the arrays of files."""
  import h5py

  groups: dict[str, dict[int, Any]] = {}

  def add(name, item):
    if isinstance(item, h5py.Dataset):
      layer, _, number = _STORED.sub("", name).rpartition("/")
      groups.setdefault(layer.removesuffix("/vars"), {})[int(number)] = item

  for path in paths:
    if path.suffix == ".h5":
      h5py.File(path).visititems(add)
  return groups


def _type_of(array):
  """Returns the name of the type of an array; HDF5 knows no bfloat16, so Keras writes bytes and the name."""
  return str(array.attrs.get("dtype", array.dtype.name))


def _joined(shape, heads):
  """Returns the shape of an array with one axis in place of the axes of the heads and of a head's size."""
  for axis in range(len(shape) - 1):
    if shape[axis : axis + 2] == heads:
      return (*shape[:axis], heads[0] * heads[1], *shape[axis + 2 :])
  return shape


def _read(array, scale, per_row, shape):
  """Returns an array as float32 of a shape, whose first rows are zeros where the file has fewer.

  `scale`: of int8, for each row or else for each column; None for floats.
  """
  values = array[()]
  if _type_of(array) == "bfloat16":
    values = values.view(ml_dtypes.bfloat16)
  values = values.astype(np.float32)
  if scale is not None:
    scales = np.asarray(scale[()], np.float32)
    if per_row:
      scales = scales.reshape(-1, 1)
    values = values / scales.reshape(scales.shape[max(scales.ndim - values.ndim, 0) :])
  missing = int(np.prod(shape)) - values.size
  return np.concatenate([np.zeros(missing, np.float32), values.ravel()]).reshape(shape)
