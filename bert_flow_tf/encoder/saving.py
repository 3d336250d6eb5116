"""Writing of a BERT as a Hugging Face folder, atomically; flag `model` and PyTorch's BertModel load it."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bert_flow_tf.encoder import hugging_face, tf1_names
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import replaced_folder, write_text

if TYPE_CHECKING:
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

WEIGHTS = "model.safetensors"
FILES = ("config.json", "vocab.txt", "tokenizer_config.json", WEIGHTS)


def save_encoder(encoder: "SentenceEncoder", folder: str | os.PathLike) -> None:
  """Writes an encoder's float32 weights, with the tokenizer and configuration of the folder it was loaded from."""
  source = pathlib.Path(encoder.bert.folder)
  config = encoder.bert.config.to_dict()
  if (source / "config.json").exists():  # Google's folders have none
    config = hugging_face.read_config(source)
  config["hidden_act"] = encoder.bert.config.hidden_act  # that of the loaded encoder, which may not be the files'
  path = source / "tokenizer_config.json"
  tokenizer = {}
  if path.exists():
    tokenizer = hugging_face.read_json(path)
  # Otherwise the new folder's name and files would decide some of them.
  tokenizer |= encoder.tokenizer.settings
  write_encoder(folder, config, encoder.bert.tf1_variables(), encoder.tokenizer.vocab_file.read_bytes(), tokenizer)


def write_encoder(
  folder: str | os.PathLike,
  config: Mapping[str, Any],
  variables: Mapping[str, np.ndarray],
  vocabulary: bytes,
  tokenizer: Mapping[str, Any],
) -> None:
  """Writes a folder of an encoder; replaces one that was saved here.

  `config` is the content of config.json, `variables` {TensorFlow 1's name: float32 array}, `vocabulary` the content of
  vocab.txt, `tokenizer` that of tokenizer_config.json, do_lower_case included.
  """
  folder = pathlib.Path(folder).resolve()
  tensors = pytorch_weights(variables)
  config = {**config, "architectures": ["BertModel"], "torch_dtype": "float32"}  # the type in which they are loaded
  config.pop(hugging_face.SAVED_BY_TRANSFORMERS, None)
  tokenizer = {"model_max_length": config["max_position_embeddings"], "tokenizer_class": "BertTokenizer", **tokenizer}
  for name, tensor in tensors.items():
    if not np.isfinite(tensor).all():
      raise EncoderError(f"{name}: not finite, so it is not saved; lower learning_rate")
  # Written into a temporary folder, which is renamed at the end.
  try:
    check_place(folder)
    with replaced_folder(folder) as temporary:
      _write_json(temporary / "tokenizer_config.json", tokenizer)
      (temporary / "vocab.txt").write_bytes(vocabulary)
      save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
      _write_json(temporary / "config.json", checksums.sealed(config, temporary, FILES[1:]))
      hugging_face.read_config(temporary)  # rejects now what would be rejected on loading
  except (OSError, SafetensorError) as error:
    raise EncoderError(f"encoder folder {folder}: cannot be written ({error})") from error


def _write_json(path, values):
  write_text(path, json.dumps(values, indent=2, sort_keys=True) + "\n")


def is_encoder(folder: str | os.PathLike) -> bool:
  """Returns whether a folder holds an encoder that was saved here."""
  return all((pathlib.Path(folder) / name).is_file() for name in FILES)


def pytorch_weights(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns {PyTorch's name in a BertModel: array} for {TensorFlow 1's name: array}."""
  weights = {}
  for name, array in variables.items():
    if name.endswith("/kernel"):
      array = array.T
    weights[tf1_names.of_torch(name).removeprefix("bert.")] = np.ascontiguousarray(array)
  return weights


def check_place(folder: str | os.PathLike) -> None:
  """Raises an EncoderError if a folder holds files that were not saved here; called before a long training, too."""
  folder = pathlib.Path(folder)
  if not folder.exists():
    return
  names = [folder.name]
  if folder.is_dir():
    names = sorted(path.name for path in folder.iterdir())
  others = [name for name in names if name not in FILES]
  if others or (names and not is_encoder(folder)):
    raise EncoderError(
      f"encoder folder {folder}: it holds {(others or names)[0]}, which is not an encoder saved here; choose another "
      "folder"
    )
