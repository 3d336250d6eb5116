"""Writing of an encoder as a Hugging Face folder, atomically; flag `model` and PyTorch's models load it."""

import fnmatch
import json
import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np
from absl import logging
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bert_flow_tf.encoder.checkpoints.declared import DECLARATION, DOCUMENT, QUERY, declaration
from bert_flow_tf.encoder.checkpoints.files import SAVED_BY_TRANSFORMERS, TOKENIZER_CONFIG
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.encoder.text.token_weights import UNIFORM
from bert_flow_tf.encoder.text_encoder import check_loaded
from bert_flow_tf.encoder.transformer.weight_names import path_of_variable
from bert_flow_tf.encoder.transformer.weights import from_pytorch, name_of_path
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import check_path, replaced_folder, write_text

if TYPE_CHECKING:
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

WEIGHTS = "model.safetensors"
_ALWAYS = ("config.json", "tokenizer_config.json", WEIGHTS)
_VOCABULARIES = ("vocab.txt", "tokenizer.json")


def save_encoder(encoder: "SentenceEncoder", folder: str | os.PathLike) -> None:
  """Writes an encoder's float32 weights, configuration and tokenizer; replaces a folder that was saved here.

  The pooling, length, prompts and number of dimensions that a folder of sentence-transformers declares are declared
  again. Settings of the tokenizer and hidden_act are part of the folder, also as they were given when it was loaded. A
  given precision, prompt, truncate_dim or token_weights is not: a warning names them. The pooling and the length that a
  `SentenceModel` was given are the model's, which `SentenceModel.save` keeps.
  """
  check_loaded(encoder)
  encoder.check_has_transformer("be saved")
  folder = check_path(folder, "folder").resolve()
  architecture = encoder.config.architecture
  name = architecture.name
  config = {**encoder.config.values, "architectures": [f"{name}Model"], "torch_dtype": "float32"}  # of the weights
  for key in (SAVED_BY_TRANSFORMERS, "dtype"):  # which transformers 5 would read in place of torch_dtype
    config.pop(key, None)
  tokenizer = {"model_max_length": encoder.max_tokens, "tokenizer_class": f"{name}Tokenizer"}
  if architecture.vocabularies == ("tokenizer.json",):
    tokenizer["tokenizer_class"] = "PreTrainedTokenizerFast"
  tokenizer |= encoder.loaded.files.json(TOKENIZER_CONFIG)
  # Otherwise the new folder's name and files would decide some of them.
  tokenizer |= encoder.tokenizer.settings | encoder.tokenizer.specials
  tensors, small_files = _tensors(encoder.bert), encoder.tokenizer.files()
  if encoder.loaded.declared_in is not None:
    small_files = small_files | declaration(encoder.loaded.declared_in)
  for name, tensor in tensors.items():
    if not np.isfinite(tensor).all():
      raise EncoderError(f"{name}: not finite, so it is not saved; lower learning_rate")
  # Written into a temporary folder, which is renamed at the end.
  try:
    _check_place(folder)
    with replaced_folder(folder) as temporary:
      _write_json(temporary / "tokenizer_config.json", tokenizer)
      for name, content in small_files.items():
        (temporary / name).parent.mkdir(exist_ok=True)
        (temporary / name).write_bytes(content)
      save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
      names = ["tokenizer_config.json", WEIGHTS]
      names += small_files
      _write_json(temporary / "config.json", checksums.sealed(config, temporary, names))
  except (OSError, SafetensorError) as error:
    raise EncoderError(f"encoder folder {folder}: cannot be written ({error})") from error
  if unsaved := _unsaved(encoder):
    message = (
      "encoder folder %s: it does not hold %s, with which this encoder was loaded; give from_pretrained the same"
    )
    logging.warning(message, folder, ", ".join(unsaved))


def _unsaved(encoder):
  """Returns the settings of an encoder that change embeddings and that its folder does not hold: ["prompt='a '"]."""
  declared, given = encoder.declared, encoder.settings
  values: dict[str, tuple[object, object]] = {  # of the encoder, and of its folder
    # An empty one that was given turns the declared prompts of roles off, too.
    "prompt": (encoder.prompt, None if given.prompt == "" and declared.prompts else declared.prompt),
    "truncate_dim": (encoder.truncate_dim or 0, declared.truncate_dim or 0),
    "precision": (given.precision, EncoderSettings.precision),
  }
  if given.precision != EncoderSettings.precision:  # float32, in which engines round alike
    values["engine"] = (given.engine, EncoderSettings.engine)
  if encoder.token_weights is not None:
    values["token_weights"] = (encoder.token_weights.name, UNIFORM)
    for name in ("frequency_corpus", "number_weight"):
      values[name] = (getattr(given, name), None)
  for role in (QUERY, DOCUMENT):
    prompt = getattr(given, f"{role}_prompt")
    if prompt is not None:
      # A given prompt takes the place of a declared one of documents.
      is_declared = values["prompt"][0] == values["prompt"][1]
      values[f"{role}_prompt"] = (prompt, declared.prompt_of(role) if is_declared else None)
  return [f"{name}={value!r}" for name, (value, of_folder) in values.items() if value != of_folder]


def _tensors(bert):
  """Returns {PyTorch's name: array} of the weights, without the main layer's name."""
  tensors = {}
  for weight in bert.weights:
    path = path_of_variable(weight)
    # safetensors 0.8.0 writes the memory of a transposed array as it lies, under the new shape.
    tensors[name_of_path(path)] = np.ascontiguousarray(from_pytorch(path, weight.numpy()))
  return tensors


def _write_json(path, values):
  write_text(path, json.dumps(values, indent=2, sort_keys=True) + "\n")


def _check_place(folder: str | os.PathLike) -> None:
  """Raises an EncoderError if a folder holds files that were not saved here."""
  folder = pathlib.Path(folder)
  if not folder.exists():
    return
  names = [folder.name]
  if folder.is_dir():
    names = sorted(path.name for path in folder.iterdir())
  ours = (*_ALWAYS, *_VOCABULARIES, *(pattern.partition("/")[0] for pattern in DECLARATION))
  others = [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in ours)]
  missing = set(_ALWAYS).difference(names)
  if others or (names and (missing or not set(_VOCABULARIES).intersection(names))):
    raise EncoderError(
      f"encoder folder {folder}: it holds {(others or names)[0]}, which is not an encoder saved here; choose another "
      "folder"
    )
