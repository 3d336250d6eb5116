"""Configurations beside an encoder of the Model Garden: bert_config.json, params.yaml, metadata of a SavedModel."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from bert_flow_tf.encoder.checkpoints import google
from bert_flow_tf.encoder.transformer.config import check_config
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io.files import Json

PARAMS, METADATA = "params.yaml", "keras_metadata.pb"
_ALBERT_CONFIG = "albert_config.json"
# {key of an encoder in params.yaml: key of config.json}
_KEYS = {
  "num_layers": "num_hidden_layers",
  "hidden_activation": "hidden_act",
  "dropout_rate": "hidden_dropout_prob",
  "attention_dropout_rate": "attention_probs_dropout_prob",
  "embedding_width": "embedding_size",
  **{
    key: key
    for key in (
      "vocab_size",
      "hidden_size",
      "num_attention_heads",
      "intermediate_size",
      "max_position_embeddings",
      "type_vocab_size",
      "initializer_range",
      "embedding_size",
      "norm_first",
    )
  },
}
_TYPES = ("bert", "albert")
# GELU in the Model Garden is the tanh form.
_DEFAULTS = {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12}
_FROM_METADATA = re.compile(rb'"(inner_activation|norm_first|num_layers)": ?("[^"]*"|true|false|\d+)')


@dataclasses.dataclass(frozen=True)
class DeclaredConfig:
  """Values that a file beside an encoder declares, under the keys of a config.json.

  Attributes:
    values: the values.
    path: the file; None for none.
    is_albert: whether it says that the encoder is an ALBERT.
  """

  values: Json
  path: pathlib.Path | None = None
  is_albert: bool = False

  def check(self, sizes: Mapping[str, int], model_type: str, where: str) -> None:
    """Raises an EncoderError if the weights of `where` have other sizes, or compute another function."""
    for key, size in sizes.items():
      value = self.values.get(key)
      if value not in (None, size):
        message = f"{key} is {value}, and the weights of {where} have {size}"
        raise EncoderError(f"{self.path}: {message}; use the configuration of this encoder, or delete the file")
    if self.values.get("norm_first"):
      raise EncoderError(f"{self.path}: norm_first is true, a BERT that normalizes before its layers, not supported")
    declared = self.values.get("model_type", model_type)
    if declared != model_type:
      message = f"model_type is {declared}, and the weights of {where} are those of a {model_type}"
      raise EncoderError(f"{self.path}: {message}; use the configuration of this encoder, or delete the file")

  def checked(self, values: Json, where: str) -> Json:
    """Returns values, the defaults in place of missing ones; EncoderError for a value that is not supported."""
    values = _DEFAULTS | {key: value for key, value in values.items() if value is not None}
    values.pop("norm_first", None)
    check_config(self.path or pathlib.Path(where), values)
    return values


def read_declared_config(folder: pathlib.Path, given: pathlib.Path | None, is_saved_model: bool) -> DeclaredConfig:
  """Returns what the given file or the first one in a folder declares."""
  params = folder / PARAMS
  if given is not None and given.suffix in (".yaml", ".yml"):
    return _read_params(given)
  path = given or next(filter(pathlib.Path.is_file, (google.config_file(folder), folder / _ALBERT_CONFIG)), None)
  if path is not None:
    values = google.read_values(path)
    is_albert = values.get("model_type") == "albert" or path.name == _ALBERT_CONFIG
    return DeclaredConfig(values, path, is_albert or values.get("embedding_size") is not None)
  if params.is_file():
    return _read_params(params)
  if is_saved_model:
    return _read_metadata(folder)
  return DeclaredConfig({})


def _read_params(path):
  """Returns what the params.yaml of a Trainer declares of its encoder."""
  import yaml  # of transformers and huggingface_hub

  try:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
  except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
    raise EncoderError(f"{path}: cannot be read as YAML ({one_line(error)}); restore it, or delete it") from error
  encoder = _find_encoder(content)
  if encoder is None:
    return DeclaredConfig({}, path)
  kind = encoder.get("type") or next(iter(encoder))
  if kind not in _TYPES:
    raise EncoderError(f"{path}: the encoder is of the type {kind}, expected {' or '.join(_TYPES)}")
  values = {_KEYS[key]: value for key, value in (encoder.get(kind) or {}).items() if key in _KEYS and value is not None}
  if values.get("hidden_act") == "gelu":
    values["hidden_act"] = "gelu_new"
  return DeclaredConfig(values, path, kind == "albert")


def _find_encoder(content: Any) -> Json | None:
  """Returns the first dict under a key "encoder" that has an encoder's sizes, at any depth."""
  if not isinstance(content, dict):
    return None
  encoder = content.get("encoder")
  if isinstance(encoder, dict) and encoder:
    return encoder
  return next(filter(None, map(_find_encoder, content.values())), None)


def _read_metadata(folder):
  """Returns what Keras noted of the layers in a SavedModel."""
  # Releases before 2.5 keep these JSON values in saved_model.pb.
  path = folder / METADATA
  if not path.is_file():
    path = folder / "saved_model.pb"
  found = {}
  for key, value in _FROM_METADATA.findall(path.read_bytes()):
    found.setdefault(key.decode(), value.decode().strip('"'))
  values: Json = {}
  if found.get("norm_first") == "true":
    values["norm_first"] = True
  if found.get("num_layers", "").isdigit():
    values["num_hidden_layers"] = int(found["num_layers"])
  activation = found.get("inner_activation")
  if activation is not None:
    values["hidden_act"] = "gelu_new" if activation == "Text>gelu" else activation
  return DeclaredConfig(values, path)
