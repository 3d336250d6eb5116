"""Hugging Face folders of an encoder: config.json, vocabulary and weights, checked and loaded; none stays random."""

import contextlib
import hashlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import transformers
from absl import logging

from bert_flow_tf.encoder import architectures, static
from bert_flow_tf.encoder.architectures import architecture_of, bare_name
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.checks import is_integer

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
# Keys of a classifier, which transformers expands to lists.
_LABELS = ("num_labels", "id2label", "label2id")
_NEWEST = (4, 53)  # of transformers: later ones cannot load safetensors into TensorFlow's models, or have none
# Settings that the TensorFlow model ignores, or that make another model of it, with the only correct value.
# PyTorch's MPNet has 32 buckets whatever its file says.
_FIXED = {
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
  "relative_attention_num_buckets": 32,
}
# Pattern of the names of a block's weights.
_BLOCK = r"(encoder|transformer)[./](layer|albert_layer_groups)[._/]"
# In the order in which transformers looks for them.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are those of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
# Folder of the hub's cache with the files that its snapshots link to.
_HUB_FILES = "blobs"
_CHECKED = ("*.json", "vocab.txt", "merges.txt", "*.model", "*.safetensors", "tf_model*.h5")
# Files of a tokenizer: any of these, in this order.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json")
TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_LFS_POINTER = b"version https://git-lfs"


def read_json(path: pathlib.Path, kind: type = dict) -> Any:
  """Returns the content of a JSON file of an encoder, a dict or a list."""
  try:
    values = files.read_json(path)
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
  if not isinstance(values, kind):
    raise EncoderError(f"{path}: expected JSON with a {kind.__name__}; download or save it again")
  return values


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the checked content of the config.json of a folder."""
  path = folder / "config.json"
  if not path.is_file():
    raise EncoderError(f"{folder}: no config.json; expected Hugging Face's or Google's folder of a BERT")
  values = read_sealed(path)
  check_config(path, values)
  return values


def read_sealed(path: pathlib.Path) -> dict[str, Any]:
  """Returns the content of a configuration, after a comparison of it and of the files next to it with checksums."""
  # Checksums are in the configuration if this program was the last to write it. The hub's cache has them as names of
  # files: the SHA-256 of a large file, git's SHA-1 of a small one.
  values = read_json(path)
  if SAVED_BY_TRANSFORMERS in values:
    values.pop(checksums.KEY, None)
  try:
    for pattern in _CHECKED:
      for file in sorted(path.parent.glob(pattern)):
        if file.resolve().parent.name == _HUB_FILES and not _has_digest_of_name(file.resolve()):
          raise EncoderError(f"{file}: damaged, its checksum is not its name; delete {file.resolve()} and load again")
    return checksums.opened(values, path.parent)
  except (OSError, ValueError) as error:
    raise EncoderError(f"{path}: damaged ({error}); {checksums.KEEP_CHANGES}") from error


def _has_digest_of_name(blob):
  if re.fullmatch("[0-9a-f]{64}", blob.name):
    return checksums.of_file(blob) == blob.name
  if re.fullmatch("[0-9a-f]{40}", blob.name):
    content = blob.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == blob.name
  return True


def check_config(path: pathlib.Path, values: dict[str, Any]) -> None:
  """Raises an EncoderError unless a configuration, the content of `path`, is a supported encoder's."""
  row = architectures.check_model_type(path, values.get("model_type"))
  known = {_TYPES: 2, **values}
  sizes = {**SIZES, _TYPES: 1 << 16}
  if row.projection:
    sizes[_WORD_SIZE] = SIZES["hidden_size"]
  if row.counts_from_pad:
    known.setdefault("pad_token_id", row.class_of("{}Config")().pad_token_id)
    if not is_integer(known["pad_token_id"], 0):
      raise EncoderError(f"{path}: expected an id as pad_token_id, got {known['pad_token_id']!r}")
  for name, largest in sizes.items():
    key = row.key(name)
    if not key:
      continue
    value: Any = known.get(key)
    if not is_integer(value, 1) or value > largest:
      raise EncoderError(f"{path}: expected an integer from 1 to {largest} as {key}, got {str(value)[:40]}")
  positions = known["max_position_embeddings"]
  if row.counts_from_pad and row.pad_id is None and positions - known["pad_token_id"] < 4:
    counted = f"max_position_embeddings is {positions}, and tokens count from pad_token_id={known['pad_token_id']} on"
    raise EncoderError(f"{path}: {counted}, expected positions for 3 tokens; use the config.json of the weights")
  act = row.key("hidden_act")
  if not isinstance(values.get(act, "gelu"), str):
    raise EncoderError(f"{path}: expected a name as {act}, got {values[act]!r}")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      model = row.class_of("TF{}Model").__name__
      raise EncoderError(f"{path}: {key} is {values[key]!r}, and {model} supports only {expected!r}")


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


def reads_vocab_txt(folder: pathlib.Path) -> bool:
  """Returns whether a folder's vocabulary is a vocab.txt that is read as Google's; EncoderError for no vocabulary."""
  if not (folder / "config.json").is_file():
    return True
  available = [name for name in VOCABULARIES if (folder / name).is_file()]
  if read_json(folder / "config.json").get("model_type") == architectures.BERT:
    if "vocab.txt" not in available:
      return not available
    path = folder / "tokenizer_config.json"
    kind = None
    if path.is_file():
      kind = read_json(path).get("tokenizer_class")
    return kind is None or kind in TOKENIZERS or available[0] == "vocab.txt"
  if not available:
    expected = "tokenizer.json, vocab.txt, vocab.json with merges.txt, sentencepiece.bpe.model or spiece.model"
    raise EncoderError(f"{folder}: no tokenizer; expected {expected}, which was saved with the model")
  return False


def is_japanese(folder: pathlib.Path) -> bool:
  """Returns whether the tokenizer of a folder is BertJapaneseTokenizer."""
  kinds = []
  for name in ("config.json", "tokenizer_config.json"):
    if (folder / name).is_file():
      kinds.append(read_json(folder / name).get("tokenizer_class"))
  return "BertJapaneseTokenizer" in kinds


def find_weights(folder: pathlib.Path) -> str:
  """Returns the name of the weights file, or of the index of several, that transformers will read."""
  for name in WEIGHTS:
    if (folder / name).is_file():
      missing = [file for file in _files_of(folder / name) if not file.is_file()]
      if missing:
        raise EncoderError(f"{folder}: {len(missing)} files that {name} lists are missing, first {missing[0].name}")
      return name
  hint = ""
  for name in _PYTORCH:
    if (folder / name).is_file():
      convert = 'AutoModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
      hint = f"; got only {name}, which needs PyTorch; convert it: {convert}"
  raise EncoderError(f"{folder}: no weights; expected model.safetensors or tf_model.h5{hint}")


def _files_of(path):
  """Returns the paths of the weights files that an index lists, or that of the only file."""
  if not path.name.endswith(".index.json"):
    return [path]
  try:
    names = sorted(set(read_json(path)["weight_map"].values()))
    files_of_folder = [path.parent / pathlib.PurePath(name).name for name in names]
  except (KeyError, TypeError, AttributeError) as error:
    raise EncoderError(f"{path}: expected JSON with a weight_map; download or save it again") from error
  if [file.name for file in files_of_folder] != names:
    raise EncoderError(f"{path}: its weight_map names a file of another folder; download it again")
  return files_of_folder


def load(folder: pathlib.Path, changes: dict[str, Any], word_rows: bool = False) -> tuple[Any, bool]:
  """Returns the model of a folder, with `changes` of config.json (or `WordRows`), and whether it has a pooler."""
  values = read_config(folder)
  row = architectures.ARCHITECTURES[values["model_type"]]
  values |= {row.key(name): value for name, value in changes.items()}
  if reads_vocab_txt(folder):
    check_vocabulary(folder / "vocab.txt", values["vocab_size"])
  weights = find_weights(folder)
  has_pooler = False
  if word_rows and ".safetensors" in weights:
    model = static_model(values, _read_word_rows(folder / weights, values))
  else:
    model, info = _from_pretrained(folder / weights, values)
    _check_loading(folder / weights, info)
    has_pooler = row.has_pooler and not any("pooler" in key for key in info["missing_keys"])
    if word_rows:
      model = static_model(values, model.get_input_embeddings().weight.numpy())
  for weight in model.weights:
    if not np.isfinite(weight.numpy()).all():
      raise EncoderError(f"{folder}: {weights} holds NaN or infinity in {bare_name(weight)}; use another checkpoint")
  return model, has_pooler


def _from_pretrained(weights, values):
  """Returns the model that transformers loads, and its lists of missing, mismatched and unexpected weights."""
  with _reading(weights), _quiet():
    return (
      architectures.ARCHITECTURES[values["model_type"]]
      .class_of("TF{}Model")
      .from_pretrained(
        str(weights.parent),
        config=make_config(values),
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # lists them, so that `_check_loading` can name them
      )
    )


def _check_loading(weights, info):
  """Raises EncoderError if a weight stayed random, or if config.json lacks blocks of the weights."""
  mismatched = info["mismatched_keys"]
  missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
  # Heads (MLM, next sentence, classifiers) are not needed; without a block it would be another encoder.
  blocks = sorted(key for key in info["unexpected_keys"] if re.search(_BLOCK, key))
  if mismatched:
    key, shape, expected = mismatched[0]
    shapes = f"{key}: expected {tuple(expected)}, got {tuple(shape)}"
    problem = f"{len(mismatched)} weights of another shape than in config.json, first {shapes}"
  elif missing:
    problem = f"not the {len(missing)} weights that config.json requires, first {missing[0]}"
  elif blocks:
    problem = f"{len(blocks)} weights of blocks that config.json does not have, first {blocks[0]}"
  else:
    return
  raise EncoderError(f"{weights} holds {problem}; use the config.json that was saved with the weights")


def _read_word_rows(weights, values):
  """Returns the word-embedding matrix of safetensors files, float32 [vocab, hidden], and reads no other weight."""
  rows = None
  with _reading(weights):
    for file in _files_of(weights):
      if rows is None:
        rows = static.find_word_rows(file)
  shape = (values["vocab_size"], word_size(make_config(values)))
  if rows is None or rows.shape != shape:
    raise EncoderError(
      f"{weights}: expected word embeddings of config.json's shape {list(shape)}, got {list(np.shape(rows)) or 'none'}"
    )
  return rows


@contextlib.contextmanager
def _reading(weights: pathlib.Path) -> Iterator[None]:
  """Makes one EncoderError of the many that safetensors, h5py, json and TensorFlow raise in the block."""
  try:
    yield
  except Exception as error:
    about = f"cannot be loaded as the model that config.json describes ({reason(weights, error)})"
    raise EncoderError(f"{weights} {about}; download or save it again") from error


def static_model(values: dict[str, Any], rows: np.ndarray) -> static.WordRows:
  """Returns the static model of a configuration's values and a matrix [vocab, hidden]."""
  sizes = {"hidden_size": rows.shape[1], "num_hidden_layers": 0, "max_position_embeddings": STATIC_MAX_SEQ_LENGTH}
  return static.WordRows(transformers.BertConfig(vocab_size=values["vocab_size"], **sizes), rows)


def make_config(values: dict[str, Any]) -> Any:
  """Returns the configuration of transformers for the values of a config.json, without labels."""
  kind = architectures.ARCHITECTURES[values["model_type"]].class_of("{}Config")
  return kind.from_dict({key: value for key, value in values.items() if key not in _LABELS})


def word_size(config: Any) -> int:
  """Returns the width of a configuration's word embeddings."""
  if architecture_of(config).projection:
    return int(config.embedding_size)
  return int(config.hidden_size)


def check_transformers() -> None:
  """Raises an EncoderError if the installed transformers cannot load BERT into TensorFlow."""
  version = transformers.__version__
  if tuple(map(int, version.split(".")[:2])) > _NEWEST:
    install = "pip install 'transformers>=4.53.3,<4.54' 'huggingface_hub<1'"
    raise EncoderError(f"transformers {version} is installed, which cannot load BERT into TensorFlow: {install}")


def reason(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why a file cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(_LFS_POINTER):
      return "the file is a Git LFS pointer; run git lfs pull"
  while error.__context__ is not None:  # transformers replaces h5py's reason by advice about PyTorch
    error = error.__context__
  return f"{type(error).__name__}: {one_line(error)}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Silences transformers' warnings about heads that are not loaded; `_check_loading` checks the other weights."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity_error()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)
