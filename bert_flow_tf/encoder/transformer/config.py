"""The config.json of an encoder: its checks, and its settings under the keys of BERT's."""

import pathlib
from typing import Any

from bert_flow_tf.encoder.transformer.activations import ACTIVATIONS
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES, check_model_type
from bert_flow_tf.encoder.transformer.families.architecture import DEFAULTS, SIZES
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer, is_number
from bert_flow_tf.io.files import Json

_TYPES = "type_vocab_size"
_WORD_SIZE = "embedding_size"  # of word embeddings that are not as wide as hidden states
# Settings that make another model, with the only supported value.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


class EncoderConfig:
  """Values of a checked config.json, as attributes under the keys of BERT's; defaults in place of missing ones.

  Attributes:
    architecture: the architecture of its model_type.
    word_size: width of the word embeddings.
    projection: path of the dense layer that widens them; "" for none.
    first_position: position of a sentence's first token.
    embedding_dropout: rate of dropout after ModernBERT's embeddings.
    local_attention, global_rope_theta, local_rope_theta: window and rotary positions of ModernBERT's attention.
    global_blocks: numbers of ModernBERT's blocks in which all tokens attend to all others.
    position_buckets, longest_distance: distances of DeBERTa's attention.
    values: the content of config.json.
  """

  model_type: str
  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  max_position_embeddings: int
  type_vocab_size: int
  pad_token_id: int
  hidden_act: str
  layer_norm_eps: float
  initializer_range: float
  local_attention: int
  global_rope_theta: float
  local_rope_theta: float
  global_blocks: list[int]
  position_buckets: int
  longest_distance: int

  def __init__(self, values: Json) -> None:
    architecture = ARCHITECTURES[values["model_type"]]
    attributes = {name: architecture.default(name) for name in DEFAULTS} | dict(values)
    for name, key in architecture.keys.items():
      attributes[name] = values.get(key, architecture.default(name))
    vars(self).update(architecture.complete(attributes))
    self.values, self.architecture = dict(values), architecture
    self.word_size, self.projection = self.hidden_size, architecture.projection
    if self.projection:
      self.word_size = attributes["embedding_size"]
    if self.word_size == self.hidden_size and not architecture.always_projects:
      self.projection = ""
    self.first_position = 0
    if architecture.counts_from_pad:
      self.first_position = 1 + self.pad_token_id
      if architecture.pad_id is not None:
        self.first_position = 1 + architecture.pad_id

  @property
  def deciding_settings(self) -> Json:
    """Settings that change the output and no weight, for cache keys."""
    settings = {}
    for name in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
      if self.architecture.key(name):
        settings[name] = getattr(self, name)
    if self.model_type != "bert":
      settings |= {"model_type": self.model_type, "first_position": self.first_position}
    for key in self.architecture.attention:
      settings[key] = getattr(self, key)
    if self.architecture.shares_weights:  # the weights do not show how often the block is applied
      settings["num_hidden_layers"] = int(self.num_hidden_layers)
    return settings


def check_config(path: pathlib.Path, values: Json) -> None:
  """Raises an EncoderError unless a configuration, the content of `path`, is a supported encoder's."""
  architecture = check_model_type(path, values.get("model_type"))
  known = {_TYPES: 2, "pad_token_id": architecture.defaults.get("pad_token_id"), **values}
  sizes = {**SIZES, _TYPES: 1 << 16}
  if architecture.projection:
    sizes[_WORD_SIZE] = SIZES["hidden_size"]
  if architecture.counts_from_pad and not is_integer(known["pad_token_id"], 0):
    raise EncoderError(f"{path}: expected an id as pad_token_id, got {known['pad_token_id']!r}")
  for name, largest in sizes.items():
    key = architecture.key(name)
    if not key:
      continue
    value: Any = known.get(key)
    if not is_integer(value, 1) or value > largest:
      raise EncoderError(f"{path}: expected an integer from 1 to {largest} as {key}, got {str(value)[:40]}")
  positions = known["max_position_embeddings"]
  if architecture.counts_from_pad and architecture.pad_id is None and positions - known["pad_token_id"] < 4:
    counted = f"max_position_embeddings is {positions}, and tokens count from pad_token_id={known['pad_token_id']} on"
    raise EncoderError(f"{path}: {counted}, expected positions for 3 tokens; use the config.json of the weights")
  heads = architecture.key("num_attention_heads")
  if known[architecture.key("hidden_size")] % known[heads]:
    raise EncoderError(f"{path}: {known[heads]} attention heads do not divide the width of the hidden states")
  act = architecture.key("hidden_act")
  if known.get(act, architecture.default("hidden_act")) not in list(ACTIVATIONS):
    expected = ", ".join(ACTIVATIONS)
    raise EncoderError(f"{path}: {act} is {str(known[act])[:40]!r}, expected one of {expected}")
  numbers = {"layer_norm_eps": 1, "initializer_range": 1000, **dict.fromkeys(architecture.dropouts.values(), 1)}
  for name, limit in numbers.items():
    value = known.get(architecture.key(name), 0.0)
    if not is_number(value) or not 0 <= value < limit:
      expected = f"expected a number from 0 to below {limit} as {architecture.key(name)}"
      raise EncoderError(f"{path}: {expected}, got {str(value)[:40]}")
  for key, expected in _FIXED.items():
    if values.get(key, expected) != expected:
      raise EncoderError(f"{path}: {key} is {values[key]!r}, and only {expected!r} is supported")
  for key, (supported, default) in architecture.fixed.items():
    if values.get(key, default) != supported:
      got = f"is {values[key]!r}" if key in values else f"is missing, which means {default!r}"
      raise EncoderError(f"{path}: {key} {got}, and only {supported!r} is supported")
  architecture.check(path, values)
