"""Folder of an encoder's files: each small file is read once, and checked where it enters."""

import functools
import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.encoder.transformer import activations, architectures
from bert_flow_tf.encoder.transformer.architectures import Architecture
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.checks import is_integer

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
# Files of a tokenizer: any of these, in this order.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model")
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", TOKENIZER_CONFIG, "special_tokens_map.json")
TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")
# The first of these has the weights.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are those of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
_LFS_POINTER = b"version https://git-lfs"

# Required keys of config.json: a wrong default of the number of heads would change no weight's shape. Larger values
# than these would fill the memory before a weight is read.
SIZES = {
  "vocab_size": 1 << 22,
  "hidden_size": 1 << 16,
  "num_hidden_layers": 1 << 10,
  "num_attention_heads": 1 << 10,
  "intermediate_size": 1 << 18,
  "max_position_embeddings": 1 << 20,
}
_TYPES = "type_vocab_size"
_WORD_SIZE = "embedding_size"  # of word embeddings that are not as wide as hidden states
# Settings that make another model, with the only supported value. PyTorch's MPNet has 32 buckets whatever its file
# says.
_FIXED = {
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
  "relative_attention_num_buckets": 32,
  "num_hidden_groups": 1,
  "inner_group_num": 1,
}


# Keys of numbers from 0 on, and what they are below.
_NUMBERS = {
  "layer_norm_eps": 1,
  "hidden_dropout_prob": 1,
  "attention_probs_dropout_prob": 1,
  "embedding_dropout": 1,
  "initializer_range": 1000,
}


_MAX_BUCKETS, _MAX_THETA = 1 << 16, 1e12


class EncoderFiles:
  """Files of an encoder in a folder.

  Attributes:
    folder: the folder.
  """

  def __init__(self, folder: pathlib.Path) -> None:
    self.folder = folder
    self._contents: dict[str, Any] = {}

  def has(self, name: str) -> bool:
    """Returns whether the folder has a file."""
    return (self.folder / name).is_file()

  def json(self, name: str) -> dict[str, Any]:
    """Returns the content of a JSON file, {} if it is missing."""
    if name not in self._contents:
      content = {}
      if (self.folder / name).exists():
        content = read_json(self.folder / name)
      self._contents[name] = content
    return self._contents[name]

  @functools.cached_property
  def config(self) -> dict[str, Any]:
    """The checked content of config.json, without checksums, which are compared with the files."""
    if not self.has(CONFIG):
      raise EncoderError(f"{self.folder}: no config.json; expected Hugging Face's or Google's folder of a BERT")
    path = self.folder / CONFIG
    values = without_checksums(path, self.json(CONFIG))
    check_config(path, values)
    return values

  @functools.cached_property
  def architecture(self) -> Architecture:
    """The architecture of config.json."""
    return architectures.check_model_type(self.folder / CONFIG, self.json(CONFIG).get("model_type"))

  @functools.cached_property
  def reads_vocab_txt(self) -> bool:
    """True if the vocabulary is a vocab.txt that is read as Google's; EncoderError for no vocabulary."""
    if not self.has(CONFIG):
      return True
    for name in (CONFIG, TOKENIZER_CONFIG):
      if self.json(name).get("tokenizer_class") == "BertJapaneseTokenizer":
        raise EncoderError(f"{self.folder / name}: tokenizer_class is BertJapaneseTokenizer, which is not supported")
    available = [name for name in VOCABULARIES if self.has(name)]
    if self.json(CONFIG).get("model_type") == architectures.BERT:
      if "vocab.txt" not in available:
        return not available
      kind = self.json(TOKENIZER_CONFIG).get("tokenizer_class")
      return kind is None or kind in TOKENIZERS or available[0] == "vocab.txt"
    if not available:
      expected = "tokenizer.json, vocab.txt, vocab.json with merges.txt, sentencepiece.bpe.model or spiece.model"
      raise EncoderError(f"{self.folder}: no tokenizer; expected {expected}, which was saved with the model")
    return False

  def find_weights(self) -> list[pathlib.Path]:
    """Returns the paths of the weights: of the only file, or of an index and the files that it lists."""
    for name in WEIGHTS:
      if self.has(name):
        paths = self._paths_of(name)
        missing = [path for path in paths if not path.is_file()]
        if missing:
          raise EncoderError(
            f"{self.folder}: {len(missing)} files that {name} lists are missing, first {missing[0].name}"
          )
        return paths
    hint = ""
    for name in _PYTORCH:
      if self.has(name):
        convert = 'AutoModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
        hint = f"; got only {name}, which needs PyTorch; convert it: {convert}"
    raise EncoderError(f"{self.folder}: no weights; expected model.safetensors or tf_model.h5{hint}")

  def _paths_of(self, name):
    """Returns the path of a weights file, or those of an index and of the files that it lists."""
    if not name.endswith(".index.json"):
      return [self.folder / name]
    path = self.folder / name
    try:
      names = sorted(set(self.json(name)["weight_map"].values()))
      paths = [self.folder / pathlib.PurePath(listed).name for listed in names]
    except (KeyError, TypeError, AttributeError) as error:
      raise EncoderError(f"{path}: expected JSON with a weight_map; download or save it again") from error
    if [listed.name for listed in paths] != names:
      raise EncoderError(f"{path}: its weight_map names a file of another folder; download it again")
    return [path, *paths]


def read_json(path: pathlib.Path, kind: type = dict) -> Any:
  """Returns the content of a JSON file of an encoder, a dict or a list."""
  try:
    values = files.read_json(path)
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
  if not isinstance(values, kind):
    raise EncoderError(f"{path}: expected JSON with a {kind.__name__}; download or save it again")
  return values


def without_checksums(path: pathlib.Path, values: dict[str, Any]) -> dict[str, Any]:
  """Returns the values of a configuration without checksums, after a comparison of it and its folder's files."""
  # Checksums are there if this program was the last to write it.
  values = dict(values)
  if SAVED_BY_TRANSFORMERS in values:
    values.pop(checksums.KEY, None)
  try:
    return checksums.opened(values, path.parent)
  except (OSError, ValueError) as error:
    raise EncoderError(f"{path}: damaged ({error}); {checksums.KEEP_CHANGES}") from error


def check_config(path: pathlib.Path, values: dict[str, Any]) -> None:
  """Raises an EncoderError unless a configuration, the content of `path`, is a supported encoder's."""
  architecture = architectures.check_model_type(path, values.get("model_type"))
  known = {_TYPES: 2, "pad_token_id": architecture.defaults.get("pad_token_id"), **values}
  sizes = {**SIZES, _TYPES: 1 << 16}
  if architecture.projection:
    sizes[_WORD_SIZE] = SIZES["hidden_size"]
  if architecture.counts_from_pad and not is_integer(known["pad_token_id"], 0):
    raise EncoderError(f"{path}: expected an id as pad_token_id, got {known['pad_token_id']!r}")
  for name, largest in sizes.items():
    key = architecture.key(name)
    if not key:
      continue
    value: Any = known.get(key)
    if not is_integer(value, 1) or value > largest:
      raise EncoderError(f"{path}: expected an integer from 1 to {largest} as {key}, got {str(value)[:40]}")
  positions = known["max_position_embeddings"]
  if architecture.counts_from_pad and architecture.pad_id is None and positions - known["pad_token_id"] < 4:
    counted = f"max_position_embeddings is {positions}, and tokens count from pad_token_id={known['pad_token_id']} on"
    raise EncoderError(f"{path}: {counted}, expected positions for 3 tokens; use the config.json of the weights")
  heads = architecture.key("num_attention_heads")
  if known[architecture.key("hidden_size")] % known[heads]:
    raise EncoderError(f"{path}: {known[heads]} attention heads do not divide the width of the hidden states")
  act = architecture.key("hidden_act")
  if known.get(act, architecture.default("hidden_act")) not in activations.NAMES:
    expected = ", ".join(activations.NAMES)
    raise EncoderError(f"{path}: {act} is {str(known[act])[:40]!r}, expected one of {expected}")
  for name, limit in _NUMBERS.items():
    value = known.get(architecture.key(name), 0.0)
    if not isinstance(value, int | float) or not 0 <= value < limit:
      expected = f"expected a number from 0 to below {limit} as {architecture.key(name)}"
      raise EncoderError(f"{path}: {expected}, got {str(value)[:40]}")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(f"{path}: {key} is {values[key]!r}, and only {expected!r} is supported")
  for key, (supported, default) in architecture.fixed.items():
    if values.get(key, default) != supported:
      got = f"is {values[key]!r}" if key in values else f"is missing, which means {default!r}"
      raise EncoderError(f"{path}: {key} {got}, and only {supported!r} is supported")
  if "position_buckets" in architecture.attention:
    _check_distances(path, values)
  if "local_attention" in architecture.attention:
    _check_windows(path, values)


def _check_distances(path, values):
  """Checks the keys of DeBERTa's attention."""
  terms = values.get("pos_att_type") or []
  if isinstance(terms, str):
    terms = [term.strip() for term in terms.lower().split("|")]
  if sorted(map(str, terms)) != ["c2p", "p2c"]:
    raise EncoderError(f"{path}: pos_att_type is {values.get('pos_att_type')!r}, and only c2p with p2c is supported")
  buckets = values.get("position_buckets")
  if not is_integer(buckets, 4) or buckets > _MAX_BUCKETS:
    expected = f"expected an integer from 4 to {_MAX_BUCKETS} as position_buckets"
    raise EncoderError(f"{path}: {expected}, got {str(buckets)[:40]}")
  longest = values.get("max_relative_positions", -1)
  if not is_integer(longest, -1):
    raise EncoderError(f"{path}: expected an integer as max_relative_positions, got {str(longest)[:40]}")
  if longest < 1:
    longest = values["max_position_embeddings"]
  if longest <= buckets // 2 + 1:
    expected = "max_relative_positions, or else max_position_embeddings, above half of them"
    raise EncoderError(f"{path}: position_buckets is {buckets}; expected {expected}, got {longest}")
  width = values.get("embedding_size", values["hidden_size"])
  if width != values["hidden_size"]:
    raise EncoderError(
      f"{path}: embedding_size is {width}, and only hidden_size, {values['hidden_size']}, is supported"
    )


def _check_windows(path, values):
  """Checks the keys of ModernBERT's attention, in the published form and in that of transformers 5."""
  for key in ("local_attention", "global_attn_every_n_layers"):
    value = values.get(key, 2)
    if not is_integer(value, 1) or value > SIZES["max_position_embeddings"]:
      raise EncoderError(f"{path}: expected an integer from 1 on as {key}, got {str(value)[:40]}")
  kinds = values.get("layer_types")
  blocks = values["num_hidden_layers"]
  if kinds is not None:
    is_list = isinstance(kinds, list) and len(kinds) == blocks
    if not is_list or set(map(str, kinds)) - set(architectures.THETAS):
      expected = f"a list of {blocks}, each {' or '.join(architectures.THETAS)}"
      raise EncoderError(f"{path}: layer_types is {str(kinds)[:60]}, expected {expected}")
  rotary = values.get("rope_parameters") or dict.fromkeys(architectures.THETAS)
  is_nested = isinstance(rotary, dict) and not set(architectures.THETAS).isdisjoint(rotary)
  if not is_nested or not all(isinstance(rotary.get(kind) or {}, dict) for kind in architectures.THETAS):
    expected = f"a dict for each of {' and '.join(architectures.THETAS)}"
    raise EncoderError(f"{path}: rope_parameters is {str(rotary)[:60]}, expected {expected}")
  for kind, key in architectures.THETAS.items():
    parameters = rotary.get(kind) or {}
    form = parameters.get("rope_type", "default")
    if form != "default":
      raise EncoderError(f"{path}: rope_type of {kind} is {form!r}, and only 'default' is supported")
    theta = parameters.get("rope_theta", values.get(key, 1.0))
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not 0 < theta < _MAX_THETA:
      raise EncoderError(f"{path}: expected a positive number as {key} (rope_theta of {kind}), got {str(theta)[:40]}")
  heads = values["num_attention_heads"]
  if values["hidden_size"] // heads % 2:
    raise EncoderError(
      f"{path}: {values['hidden_size']} dimensions of {heads} heads; rotary positions need an even number each"
    )


def check_vocabulary(path: pathlib.Path, vocab_size: int, least_share: float = 0.9) -> None:
  """Checks that a vocab.txt has at most `vocab_size` lines, and half as many; warns of less than `least_share`."""
  if not path.is_file():
    raise EncoderError(f"{path.parent}: no {path.name}; expected BERT's word pieces in this file, a line for each")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  counted = f"{path}: {count} word pieces for {vocab_size} word embeddings"
  if not vocab_size <= 2 * count <= 2 * vocab_size:
    raise EncoderError(f"{counted}; use the vocabulary of this model, or download it again")
  if count < least_share * vocab_size:
    logging.warning("%s: is it the whole vocabulary of this model?", counted)


def reason(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why a file cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(_LFS_POINTER):
      return "the file is a Git LFS pointer; run git lfs pull"
  return f"{type(error).__name__}: {one_line(error)}"
