"""What a Hugging Face folder of a BERT must hold, checked before anything is loaded."""

import json
import math

from bert_flow_tf.errors import EncoderError

# In the order in which transformers looks for them.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# No weight's shape tells the number of heads, so a default in its place could be wrong unnoticed.
_SIZES = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "max_position_embeddings",
)
# {setting: numbers that it may be, from the first to below the second}; one that is absent has a default.
_NUMBERS = {"hidden_dropout_prob": (0, 1), "attention_probs_dropout_prob": (0, 1), "layer_norm_eps": (0, 1)}
# Far above any BERT there is. A layer takes time and memory whatever its width.
_MOST_LAYERS = 1000
# Below this many bytes a wrong size is left to be found by comparing shapes, which says it better.
_SMALL = 2**30
# Weights in half precision take 2 of the 4 bytes that they have here; nothing takes a sixteenth.
_MOST_GROWTH = 16
# Settings that TFBertModel ignores or that make another model of it, with the only value computed right.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
_HOW_TO_CONVERT = (
  'convert it where PyTorch is installed, with BertModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
)


def read_config(folder):
  """Content of a folder's config.json: a dict, its sizes given, its settings such as TFBertModel honours."""
  path = folder / "config.json"
  if not path.is_file():
    raise EncoderError(
      f"{folder}: found no config.json, expected a Hugging Face folder with config.json, vocab.txt and "
      "model.safetensors or tf_model.h5, or Google's with bert_config.json: pass the folder that holds them."
    )
  try:
    values = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}): download or save it again.") from error
  check_config(path, values)
  return values


def check_config(path, values):
  """Refuses a configuration without a BERT's sizes, or with settings that TFBertModel does not honour.

  Args:
    path: its file, for messages.
    values: what is in it, a dict if all is well.

  Raises:
    EncoderError: as said.
  """
  if not isinstance(values, dict) or values.get("model_type") != "bert":
    found = values.get("model_type") if isinstance(values, dict) else type(values).__name__
    raise EncoderError(f'{path}: found model_type {found!r}, expected "bert": pass the folder of a BERT model.')
  for key in (*_SIZES, *(key for key in ("type_vocab_size",) if key in values)):  # that one has a default
    if not isinstance(values.get(key), int) or values[key] < 1:
      raise EncoderError(f"{path}: found {key} = {values.get(key)!r}, expected a positive number: correct it.")
  if values["num_hidden_layers"] > _MOST_LAYERS:
    raise EncoderError(
      f"{path}: found num_hidden_layers = {values['num_hidden_layers']}, expected at most {_MOST_LAYERS}: correct it."
    )
  if values["hidden_size"] % values["num_attention_heads"]:
    raise EncoderError(
      f"{path}: found hidden_size = {values['hidden_size']} and num_attention_heads = "
      f"{values['num_attention_heads']}, expected a multiple: correct them."
    )
  for key, (first, end) in _NUMBERS.items():
    value = values.get(key, first)
    if isinstance(value, bool) or not isinstance(value, int | float) or not first <= value < end:
      raise EncoderError(f"{path}: found {key} = {value!r}, expected a number from {first} to below {end}: correct it.")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(
        f"{path}: found {key} = {values[key]!r}, expected {expected!r}: transformers' TFBertModel would not "
        "compute what this model is, so use another one."
      )


def check_vocabulary(path, vocab_size):
  """Number of lines of a vocab.txt; every one needs a row in the table of word embeddings.

  Raises:
    EncoderError: there are more lines than rows, or no such file.
  """
  if not path.is_file():
    raise EncoderError(f"{path.parent}: found no {path.name}, expected BERT's word pieces, one a line: add the file.")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  if count > vocab_size:
    raise EncoderError(
      f"{path}: found {count} word pieces, expected at most the configuration's vocab_size = {vocab_size}: "
      "use the vocab.txt that the model was trained with."
    )
  return count


def find_weights(folder):
  """Name of the weights file that transformers will read."""
  for name in WEIGHTS:
    if (folder / name).is_file():
      missing = [shard for shard in shards(folder / name) if not (folder / shard).is_file()]
      if missing:
        raise EncoderError(
          f"{folder}: {name} lists {len(missing)} file(s) that are not there, first {missing[0]}: add them."
        )
      return name
  for name in _PYTORCH:
    if (folder / name).is_file():
      raise EncoderError(
        f"{folder}: found only {name}, which needs PyTorch, expected model.safetensors or tf_model.h5: "
        f"{_HOW_TO_CONVERT}."
      )
  raise EncoderError(f"{folder}: found no weights, expected model.safetensors or tf_model.h5: add one of them.")


def check_size(folder, weights, shapes):
  """Refuses a configuration that asks for far more memory than the weights can fill, before any is taken.

  Args:
    folder: the folder.
    weights: of `find_weights`.
    shapes: of the weights that the configuration asks for.

  Raises:
    EncoderError: as said.
  """
  files = shards(folder / weights) or [weights]
  found = sum((folder / name).stat().st_size for name in files)
  needed = 4 * sum(math.prod(shape) for shape in shapes)
  if needed > _SMALL and needed > _MOST_GROWTH * found:
    raise EncoderError(
      f"{folder}: {weights} holds {found} bytes, config.json describes a BERT of {needed}: use the config.json saved "
      "with the weights, or download them again (git lfs pull, if this is a pointer)."
    )


def shards(path):
  """Names of the files with the weights that an index lists, in order; none for a file that is no index."""
  if not path.name.endswith(".index.json"):
    return []
  try:
    names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    if not all(isinstance(name, str) for name in names):
      raise TypeError("weight_map names no files")
    return names
  except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
    raise EncoderError(
      f"{path}: found no list of files ({error}), expected JSON with a weight_map: download or save it again."
    ) from error
