"""A fine-tuned BERT as a Hugging Face folder, which `--model` takes, and PyTorch's BertModel too."""

import json
import pathlib
import re
import shutil

import tensorflow as tf
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.errors import EncoderError

WEIGHTS = "model.safetensors"
FILES = ("config.json", "vocab.txt", "tokenizer_config.json", WEIGHTS)

# Keras's names of weights -> PyTorch's, in this order; matrices of dense layers are transposed there.
_RENAMED = (
  (r"^.*?bert/(?=embeddings/|encoder/|pooler/)", ""),
  (r"layer_\._", "layer/"),
  (r"_embeddings/(weight|embeddings)$", "_embeddings/weight"),
  (r"/(kernel|gamma)$", "/weight"),
  (r"/beta$", "/bias"),
)


def save_encoder(encoder, folder):
  """Writes an encoder in one step; an older one that this wrote there is replaced.

  Tokenizer and configuration are those of the folder that it was loaded from. Weights are float32, in PyTorch's names.

  Args:
    encoder: a `SentenceEncoder`.
    folder: the folder.

  Raises:
    EncoderError: a weight is not finite; the folder cannot be written, or holds something else.
  """
  folder = pathlib.Path(folder).resolve()
  source = pathlib.Path(encoder.bert.folder)
  # Names without a process number: what a killed process left is cleared away here.
  beside, older = (folder.with_name(f".{folder.name}.{what}") for what in ("writing", "older"))
  try:
    _check_place(folder)
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    # Google's folders have no config.json.
    config = folder_lib.read_config(source) if (source / "config.json").exists() else encoder.bert.config.to_dict()
    _write_json(beside / "config.json", {**config, "architectures": ["BertModel"], "torch_dtype": "float32"})
    _write_json(beside / "tokenizer_config.json", _tokenizer_config(source, encoder.tokenizer))
    shutil.copyfile(source / "vocab.txt", beside / "vocab.txt")
    save_file(pytorch_weights(encoder.bert.model), beside / WEIGHTS, metadata={"format": "pt"})
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
      folder.rename(older)
    beside.rename(folder)
  except (OSError, SafetensorError) as error:
    if older.exists() and not folder.exists():
      older.rename(folder)
    raise EncoderError(f"encoder folder {folder}: cannot be written ({error})") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)


def is_encoder(folder):
  """Whether `save_encoder` wrote a folder there."""
  return all((pathlib.Path(folder) / name).is_file() for name in FILES)


def pytorch_weights(model):
  """{PyTorch's name in a BertModel: float32 array} of a TFBertModel's weights.

  Raises:
    EncoderError: one is NaN or infinite.
  """
  weights = {}
  for weight in model.weights:
    keras = weight.name.removesuffix(":0")
    name = keras
    for pattern, replacement in _RENAMED:
      name = re.sub(pattern, replacement, name)
    name = name.replace("/", ".")
    value = tf.convert_to_tensor(weight)
    if not tf.reduce_all(tf.math.is_finite(value)):
      raise EncoderError(f"{name} is not finite: the encoder is not worth saving; lower learning_rate")
    if keras.endswith("/kernel"):
      value = tf.transpose(value)
    weights[name] = value.numpy().astype("float32", order="C")
  return weights


def _tokenizer_config(source, tokenizer):
  """What the tokenizer was made of, its case said: without it the folder's name would decide."""
  path = source / "tokenizer_config.json"
  config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tokenizer_class": "BertTokenizer"}
  return {**config, "do_lower_case": tokenizer.do_lower_case}


def _check_place(folder):
  if not folder.exists():
    return
  names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
  others = [name for name in names if name not in FILES]
  if others or (names and not is_encoder(folder)):
    raise EncoderError(
      f"encoder folder {folder}: it holds something that is not an encoder saved here ({(others or names)[0]}); choose "
      "another folder"
    )


def _write_json(path, values):
  path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
