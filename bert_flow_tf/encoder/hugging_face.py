"""Hugging Face folders of an encoder: config.json, vocab.txt and weights, checked and loaded; none stays random."""

import contextlib
import hashlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import transformers
from absl import logging

from bert_flow_tf.encoder import static
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io import checksums, files

# Required keys of config.json: a wrong default of the number of heads would change no weight's shape.
SIZES = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "max_position_embeddings",
)
# Settings that the TensorFlow model ignores, or that make another model of it, with the only correct value.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
# Pattern of the names of a block's weights.
_BLOCK = r"encoder[./]layer[._/]"
# In the order in which transformers looks for them.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are those of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
# Folder of the hub's cache with the files that its snapshots link to.
_HUB_FILES = "blobs"
_CHECKED = ("*.json", "vocab.txt", "*.safetensors", "tf_model*.h5")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# No position has an embedding in a static encoder; the limit bounds the memory of a long text.
_STATIC_LENGTH = 65536
_LFS_POINTER = b"version https://git-lfs"


def read_json(path: pathlib.Path) -> Any:
  """Returns the content of a JSON file of an encoder."""
  try:
    return files.read_json(path)
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the checked content of the config.json of a folder, whose files have the checksums that are known."""
  path = folder / "config.json"
  if not path.is_file():
    raise EncoderError(f"{folder}: no config.json; expected Hugging Face's or Google's folder of a BERT")
  values = check_files(path, read_json(path))
  check_config(path, values)
  return values


def check_files(path: pathlib.Path, values: Any) -> Any:
  """Checks the files next to a configuration, and returns its content without checksums."""
  # Checksums are in the configuration if this program was the last to write it. The hub's cache has them as names of
  # files: the SHA-256 of a large file, git's SHA-1 of a small one.
  try:
    for pattern in _CHECKED:
      for file in sorted(path.parent.glob(pattern)):
        blob = file.resolve()
        if blob.parent.name == _HUB_FILES and blob.is_file() and not _has_digest_of_name(blob):
          raise EncoderError(f"{file}: damaged, its checksum is not its name {blob.name}; delete {blob} and load again")
    if not isinstance(values, dict):
      return values
    if SAVED_BY_TRANSFORMERS in values:
      values.pop(checksums.KEY, None)
      return values
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


def check_config(path: pathlib.Path, values: Any) -> None:
  """Raises an EncoderError unless a configuration, the content of `path`, is a supported BERT's."""
  model_type = type(values).__name__
  if isinstance(values, dict):
    model_type = values.get("model_type")
  if model_type != "bert":
    raise EncoderError(f'{path}: expected model_type "bert", got {model_type!r}; use the folder of a BERT')
  for key in SIZES:
    if not isinstance(values.get(key), int) or values[key] < 1:
      raise EncoderError(f"{path}: expected a positive integer as {key}, got {values.get(key)!r}")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(
        f"{path}: expected {expected!r} as {key}, got {values[key]!r}, which TFBertModel does not support"
      )


def check_vocabulary(path: pathlib.Path, vocab_size: int, least_share: float = 0.9) -> None:
  """Checks that a vocab.txt has at most `vocab_size` lines, and half as many; warns of less than `least_share`."""
  if not path.is_file():
    raise EncoderError(f"{path.parent}: no {path.name}; expected BERT's word pieces in this file, a line for each")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  if count > vocab_size:
    raise EncoderError(
      f"{path}: expected at most {vocab_size} word pieces, vocab_size of the configuration, got {count}"
    )
  if 2 * count < vocab_size:
    raise EncoderError(f"{path}: {count} word pieces for {vocab_size} word embeddings: it is cut; download it again")
  if count < least_share * vocab_size:
    logging.warning(
      "%s has %d word pieces for %d word embeddings: is it the whole vocabulary of this model?", path, count, vocab_size
    )


def find_weights(folder: pathlib.Path) -> str:
  """Returns the name of the weights file, or of the index of several, that transformers will read."""
  for name in WEIGHTS:
    if (folder / name).is_file():
      missing = [shard for shard in shards(folder / name) if not (folder / shard).is_file()]
      if missing:
        raise EncoderError(f"{folder}: {len(missing)} files that {name} lists are missing, first {missing[0]}")
      return name
  for name in _PYTORCH:
    if (folder / name).is_file():
      raise EncoderError(
        f"{folder}: expected model.safetensors or tf_model.h5, got only {name}, which needs PyTorch; convert it: "
        'BertModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
      )
  raise EncoderError(f"{folder}: no weights; expected model.safetensors or tf_model.h5")


def shards(path: pathlib.Path) -> list[str]:
  """Returns the sorted names of the weights files that an index lists; empty for a file that is not an index."""
  if not path.name.endswith(".index.json"):
    return []
  try:
    return sorted(set(read_json(path)["weight_map"].values()))
  except (KeyError, TypeError, AttributeError) as error:
    raise EncoderError(f"{path}: expected JSON with a weight_map; download or save it again") from error


def load(folder: pathlib.Path, changes: dict[str, Any], word_rows: bool = False) -> tuple[Any, bool]:
  """Returns the model of a folder, with `changes` of config.json (or `WordRows`), and whether it has a pooler."""
  values = read_config(folder) | changes
  check_vocabulary(folder / "vocab.txt", values["vocab_size"])
  weights = find_weights(folder)
  if word_rows and ".safetensors" in weights:
    shape = (values["vocab_size"], values["hidden_size"])
    return static_model(values, _read_word_rows(folder, weights, shape)), False
  model, info = _from_pretrained(folder, weights, values)
  _check_loading(folder, weights, info)
  for weight in model.weights:
    if not np.isfinite(weight.numpy()).all():
      raise EncoderError(f"{folder}: {weights} holds NaN or infinity in {bare_name(weight)}; use another checkpoint")
  if word_rows:
    return static_model(values, model.get_input_embeddings().weight.numpy()), False
  return model, not any("pooler" in key for key in info["missing_keys"])


def _from_pretrained(folder, weights, values):
  """Returns the model that transformers loads, and its lists of missing, mismatched and unexpected weights."""
  try:
    with _quiet():
      return transformers.TFBertModel.from_pretrained(
        str(folder),
        config=transformers.BertConfig.from_dict(values),
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # lists them, so that `_check_loading` can name them
      )
  except Exception as error:  # safetensors, h5py, json and TensorFlow raise errors of many classes
    raise EncoderError(
      f"{folder}: cannot load {weights} as the BERT that config.json describes ({reason(folder / weights, error)}); "
      "download or save it again"
    ) from error


def _check_loading(folder, weights, info):
  """Raises EncoderError if a weight stayed random, or if config.json lacks blocks of the weights."""
  mismatched = info["mismatched_keys"]
  if mismatched:
    key, shape, expected = mismatched[0]
    raise EncoderError(
      f"{folder}: {len(mismatched)} weights of {weights} differ in shape from config.json, first {key}: expected "
      f"{tuple(expected)}, got {tuple(shape)}; use the config.json that was saved with the weights"
    )
  missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
  if missing:
    raise EncoderError(
      f"{folder}: {weights} lacks {len(missing)} weights that config.json requires, first {missing[0]}; use the "
      "config.json that was saved with the weights, or download or save the model again"
    )
  # Heads (MLM, next sentence, classifiers) are not needed; without a block it would be another encoder.
  blocks = sorted(key for key in info["unexpected_keys"] if re.search(_BLOCK, key))
  if blocks:
    raise EncoderError(
      f"{folder}: {weights} holds {len(blocks)} weights of blocks that config.json does not have, first {blocks[0]}; "
      "correct num_hidden_layers in config.json"
    )


def _read_word_rows(folder, weights, shape):
  """Returns the word-embedding matrix of safetensors files, float32 [vocab, hidden], and reads no other weight."""
  rows = None
  try:
    for file in shards(folder / weights) or [weights]:
      if rows is None:
        rows = static.find_word_rows(folder / file)
  except Exception as error:  # safetensors raises errors of many classes
    raise EncoderError(
      f"{folder}: cannot read the word embeddings from {weights} ({reason(folder / weights, error)}); "
      "download or save it again"
    ) from error
  if rows is None or rows.shape != shape:
    raise EncoderError(
      f"{folder}: expected word embeddings of config.json's shape {list(shape)} in {weights}, got "
      f"{list(np.shape(rows)) or 'none'}; use the config.json that was saved with the weights"
    )
  if not np.isfinite(rows).all():
    raise EncoderError(f"{folder}: {weights} holds NaN or infinity in {static.NAME}:0; use another checkpoint")
  return rows


def static_model(values: dict[str, Any], rows: np.ndarray) -> static.WordRows:
  """Returns the static model of a configuration's values and a matrix [vocab, hidden]."""
  values = {**values, "num_hidden_layers": 0, "max_position_embeddings": _STATIC_LENGTH}
  return static.WordRows(transformers.BertConfig.from_dict(values), rows)


def bare_name(weight: Any) -> str:
  """Returns a weight's name without its first part, which counts the models of this process (tf_bert_model_1/...)."""
  return weight.name.split("/", 1)[1]


def main_layer(model: Any) -> Any:
  """Returns the layer of a transformers' model that has its embeddings, blocks and pooler."""
  return getattr(model, model.base_model_prefix)


def reason(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why a file cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(_LFS_POINTER):
      return "the file is a Git LFS pointer; run git lfs pull"
  while error.__context__ is not None:  # transformers replaces h5py's reason by advice about PyTorch
    error = error.__context__
  lines = str(error).strip().splitlines() or [""]
  return f"{type(error).__name__}: {lines[0][:200]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Silences transformers' warnings about heads that are not loaded; `_check_loading` checks the other weights."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity_error()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)
