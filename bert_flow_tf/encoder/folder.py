"""Checks of a Hugging Face folder of a BERT, before its weights are loaded."""

import hashlib
import itertools
import pathlib
import re
from typing import Any

from absl import logging

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io import checksums, files

# In the order in which transformers looks for them.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are those of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
# Folder of the hub's cache with the files that its snapshots link to.
_HUB_FILES = "blobs"
_CHECKED = ("*.json", "vocab.txt", "*.safetensors", "tf_model*.h5")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Required: no weight's shape depends on the number of heads, so a wrong default would not be noticed.
_SIZES = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "max_position_embeddings",
)
# Settings that TFBertModel ignores or that make another model of it, with the only value that it computes correctly.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Reads the config.json of a folder, and checks the checksums that it holds.

  Raises:
    EncoderError: it is missing, damaged or not of a BERT that TFBertModel computes, or another file is damaged.
  """
  path = folder / "config.json"
  if not path.is_file():
    raise EncoderError(
      f"{folder}: no config.json; expected a Hugging Face folder with config.json, vocab.txt and model.safetensors or "
      "tf_model.h5, or Google's with bert_config.json"
    )
  values = check_files(path, read_json(path))
  check_config(path, values)
  return values


def check_files(path: pathlib.Path, values: Any) -> Any:
  """Checks the files of an encoder's folder, as far as checksums exist.

  Those are in its configuration if this program was the last to write it. The hub's cache has them as names of files:
  the SHA-256 of a large file, git's SHA-1 of a small one.

  Args:
    path: the configuration's file.
    values: its content.

  Returns:
    The content without checksums.

  Raises:
    EncoderError: a file is missing or damaged.
  """
  try:
    for file in sorted(itertools.chain(*map(path.parent.glob, _CHECKED))):
      blob = file.resolve()
      if blob.parent.name == _HUB_FILES and blob.is_file() and not _has_digest_of_name(blob):
        raise EncoderError(f"{file}: damaged, its checksum is not its name {blob.name}; delete {blob} and load again")
    if not isinstance(values, dict):
      return values
    if SAVED_BY_TRANSFORMERS in values:
      return {name: value for name, value in values.items() if name != checksums.KEY}
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


def read_json(path: pathlib.Path) -> Any:
  """Reads a JSON file.

  Raises:
    EncoderError: it cannot be read or is not JSON.
  """
  try:
    return files.read_json(path)
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error


def check_config(path: pathlib.Path, values: Any) -> None:
  """Checks that a configuration has a BERT's sizes and only settings that TFBertModel supports.

  Args:
    path: its file, for messages.
    values: content of the file.

  Raises:
    EncoderError: it is not a dict, a size is missing or not positive, or a setting is not supported.
  """
  model_type = values.get("model_type") if isinstance(values, dict) else type(values).__name__
  if model_type != "bert":
    raise EncoderError(f'{path}: expected model_type "bert", got {model_type!r}; use the folder of a BERT')
  for key in _SIZES:
    if not isinstance(values.get(key), int) or values[key] < 1:
      raise EncoderError(f"{path}: expected a positive integer as {key}, got {values.get(key)!r}")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(
        f"{path}: expected {expected!r} as {key}, got {values[key]!r}; transformers' TFBertModel does not support it"
      )


def check_vocabulary(path: pathlib.Path, vocab_size: int, least_share: float = 0.9) -> None:
  """Checks a vocab.txt; logs a warning if it has far fewer lines than word embeddings exist.

  Args:
    path: path of vocab.txt.
    vocab_size: number of word embeddings, of the configuration.
    least_share: smallest usual share of word embeddings that have a line; some models have a few to spare.

  Raises:
    EncoderError: the file is missing, has more lines than word embeddings exist, or has less than half as many.
  """
  if not path.is_file():
    raise EncoderError(f"{path.parent}: no {path.name}; expected BERT's word pieces in this file, a line for each")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  if count > vocab_size:
    raise EncoderError(
      f"{path}: expected at most {vocab_size} word pieces, the configuration's vocab_size, got {count}; use the "
      "vocab.txt that the model was trained with"
    )
  if 2 * count < vocab_size:
    raise EncoderError(
      f"{path}: {count} word pieces for {vocab_size} word embeddings, so the file is cut or of another model; download "
      "or save it again"
    )
  if count < least_share * vocab_size:
    logging.warning(
      "%s has %d word pieces for %d word embeddings: is it the whole vocabulary of this model?", path, count, vocab_size
    )


def find_weights(folder: pathlib.Path) -> str:
  """Returns the name of the weights file that transformers will read.

  Raises:
    EncoderError: it does not exist, needs PyTorch, or is an index that lists missing files.
  """
  for name in WEIGHTS:
    if (folder / name).is_file():
      missing = [shard for shard in shards(folder / name) if not (folder / shard).is_file()]
      if missing:
        raise EncoderError(f"{folder}: {len(missing)} files that {name} lists are missing, first {missing[0]}")
      return name
  for name in _PYTORCH:
    if (folder / name).is_file():
      raise EncoderError(
        f"{folder}: expected model.safetensors or tf_model.h5, got only {name}, which needs PyTorch; convert it where "
        'PyTorch is installed, with BertModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
      )
  raise EncoderError(f"{folder}: no weights; expected model.safetensors or tf_model.h5")


def shards(path: pathlib.Path) -> list[str]:
  """Returns the sorted names of the weights files that an index lists; empty for a file that is not an index.

  Raises:
    EncoderError: the index is damaged.
  """
  if not path.name.endswith(".index.json"):
    return []
  try:
    return sorted(set(read_json(path)["weight_map"].values()))
  except (KeyError, TypeError, AttributeError) as error:
    raise EncoderError(f"{path}: expected JSON with a weight_map; download or save it again") from error


def reason(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why weights cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(b"version https://git-lfs"):
      return "the file is a Git LFS pointer; run git lfs pull"
  while error.__context__ is not None:  # transformers replaces h5py's reason by advice about PyTorch
    error = error.__context__
  lines = str(error).strip().splitlines() or [""]
  return f"{type(error).__name__}: {lines[0][:200]}"
