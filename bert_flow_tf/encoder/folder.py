"""What a Hugging Face folder of a BERT must hold, checked before anything is loaded."""

import json

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
      "model.safetensors or tf_model.h5: pass the folder that holds them."
    )
  try:
    values = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}): download or save it again.") from error
  if not isinstance(values, dict) or values.get("model_type") != "bert":
    found = values.get("model_type") if isinstance(values, dict) else type(values).__name__
    raise EncoderError(f'{path}: found model_type {found!r}, expected "bert": pass the folder of a BERT model.')
  for key in _SIZES:
    if not isinstance(values.get(key), int) or values[key] < 1:
      raise EncoderError(f"{path}: found {key} = {values.get(key)!r}, expected a positive number: correct it.")
  if values["hidden_size"] % values["num_attention_heads"]:
    raise EncoderError(
      f"{path}: found hidden_size = {values['hidden_size']} and num_attention_heads = "
      f"{values['num_attention_heads']}, expected a multiple: correct them."
    )
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(
        f"{path}: found {key} = {values[key]!r}, expected {expected!r}: transformers' TFBertModel would not "
        "compute what this model is, so use another one."
      )
  return values


def check_vocabulary(folder, vocab_size):
  """Every line of vocab.txt needs a row in the table of word embeddings."""
  path = folder / "vocab.txt"
  if not path.is_file():
    raise EncoderError(f"{folder}: found no vocab.txt, expected BERT's word pieces, one a line: add the file.")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  if count > vocab_size:
    raise EncoderError(
      f"{path}: found {count} word pieces, expected at most config.json's vocab_size = {vocab_size}: "
      "use the vocab.txt that the model was trained with."
    )


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


def shards(path):
  """Names of the files with the weights that an index lists, in order; none for a file that is no index."""
  if not path.name.endswith(".index.json"):
    return []
  try:
    return sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
  except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
    raise EncoderError(
      f"{path}: found no list of files ({error}), expected JSON with a weight_map: download or save it again."
    ) from error
