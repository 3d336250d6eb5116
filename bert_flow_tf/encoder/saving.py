"""A BERT as a Hugging Face folder, which `--model` takes, and PyTorch's BertModel too: written whole or not at all."""

import json
import pathlib

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.encoder import tf1_names
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import replaced_folder, write_text

WEIGHTS = "model.safetensors"
CARD = "README.md"
FILES = ("config.json", "vocab.txt", "tokenizer_config.json", WEIGHTS)


def save_encoder(encoder, folder):
  """Writes an encoder; an older one that this wrote there is replaced.

  Tokenizer and configuration are those of the folder that it was loaded from. Weights are float32, in PyTorch's names.

  Args:
    encoder: a `SentenceEncoder`.
    folder: the folder.

  Raises:
    EncoderError: a weight is not finite; the folder cannot be written, or holds something else.
  """
  source = pathlib.Path(encoder.bert.folder)
  # Google's folders have no config.json.
  config = folder_lib.read_config(source) if (source / "config.json").exists() else encoder.bert.config.to_dict()
  path = source / "tokenizer_config.json"
  tokenizer = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
  # The case is said: without it the folder's name would decide.
  tokenizer["do_lower_case"] = encoder.tokenizer.do_lower_case
  write_encoder(folder, config, encoder.bert.tf1_variables(), (source / "vocab.txt").read_bytes(), tokenizer)


def write_encoder(folder, config, variables, vocabulary, tokenizer):
  """Writes an encoder that is no `SentenceEncoder` yet; otherwise as `save_encoder`.

  Args:
    folder: the folder.
    config: dict, the content of config.json.
    variables: {TensorFlow 1's name: float32 array} of the encoder.
    vocabulary: bytes, the content of vocab.txt.
    tokenizer: dict, what tokenizer_config.json says beside the tokenizer's class; do_lower_case in any case.

  Raises:
    EncoderError: as `save_encoder`.
  """
  write_folder(folder, {**config, "architectures": ["BertModel"]}, pytorch_weights(variables), vocabulary, tokenizer)


def write_folder(folder, config, tensors, vocabulary, tokenizer, card=None):
  """Writes a folder of any model with a BERT in it.

  Args:
    folder: the folder; an older one with the same files is replaced.
    config: dict, the content of config.json, but for the weights' type.
    tensors: {PyTorch's name: array}.
    vocabulary: bytes, the content of vocab.txt.
    tokenizer: as in `write_encoder`.
    card: text of README.md; None for no such file.

  Raises:
    EncoderError: a tensor is not finite; the folder cannot be written, or holds something else.
  """
  folder = pathlib.Path(folder).resolve()
  config = {**config, "torch_dtype": "float32"}  # what they are loaded as
  tokenizer = {"model_max_length": config["max_position_embeddings"], "tokenizer_class": "BertTokenizer", **tokenizer}
  for name, tensor in tensors.items():
    if not np.isfinite(tensor).all():
      raise EncoderError(
        f"{name} is not finite as {tensor.dtype}: the model is not worth saving; lower learning_rate, or store float32"
      )
  try:
    check_place(folder)
    with replaced_folder(folder) as beside:
      for name, content in {"config.json": config, "tokenizer_config.json": tokenizer}.items():
        write_text(beside / name, json.dumps(content, indent=2, sort_keys=True) + "\n")
      (beside / "vocab.txt").write_bytes(vocabulary)
      save_file(tensors, beside / WEIGHTS, metadata={"format": "pt"})
      if card is not None:
        write_text(beside / CARD, card)
      folder_lib.read_config(beside)  # what would be refused on loading is refused now
  except (OSError, SafetensorError) as error:
    raise EncoderError(f"encoder folder {folder}: cannot be written ({error})") from error


def is_encoder(folder):
  """Whether a folder that was written here is there."""
  return all((pathlib.Path(folder) / name).is_file() for name in FILES)


def pytorch_weights(variables):
  """{PyTorch's name in a BertModel: array} of {TensorFlow 1's name: array}."""
  weights = {}
  for name, array in variables.items():
    array = array.T if tf1_names.is_kernel(name) else array
    weights[tf1_names.of_torch(name).removeprefix("bert.")] = np.ascontiguousarray(array)
  return weights


def check_place(folder):
  """Refuses a place that nothing can be written to later: for those who train long before they save.

  Raises:
    EncoderError: something stands there that was not written here.
  """
  folder = pathlib.Path(folder)
  if not folder.exists():
    return
  names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
  others = [name for name in names if name not in (*FILES, CARD)]
  if others or (names and not is_encoder(folder)):
    raise EncoderError(
      f"encoder folder {folder}: it holds something that is not an encoder saved here ({(others or names)[0]}); choose "
      "another folder"
    )
