"""The config.json of an encoder: its checks, and its settings under the keys of BERT's."""

import pathlib
from typing import Any

from bert_flow_tf.encoder.transformer.architectures import ACTIVATIONS, ARCHITECTURES, DEFAULTS, check_model_type
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer, is_number
from bert_flow_tf.io.files import Json

# Keys of ModernBERT's config.json, all of which have a default.
_MODERNBERT = {
  "embedding_dropout": 0.0,
  "local_attention": 128,
  "global_attn_every_n_layers": 3,
  "global_rope_theta": 160000.0,
  "local_rope_theta": 10000.0,
}
_FULL = "full_attention"
# {kind of attention in rope_parameters, which transformers 5 writes: key of the published files}
THETAS = {_FULL: "global_rope_theta", "sliding_attention": "local_rope_theta"}
# Required keys of config.json: a wrong default of the number of heads would change no weight's shape. Larger values
# than these would fill the memory before a weight is read.
SIZES = {
  "vocab_size": 1 << 22,
  "hidden_size": 1 << 16,
  "num_hidden_layers": 1 << 10,
  "num_attention_heads": 1 << 10,
  "intermediate_size": 1 << 18,
  "max_position_embeddings": 1 << 20,
}
_TYPES = "type_vocab_size"
_WORD_SIZE = "embedding_size"  # of word embeddings that are not as wide as hidden states
# Settings that make another model, with the only supported value. PyTorch's MPNet has 32 buckets whatever its file
# says.
_FIXED = {
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
  "relative_attention_num_buckets": 32,
  "num_hidden_groups": 1,
  "inner_group_num": 1,
}
# {key of a number: bound}: the number is at least 0 and below the bound.
_NUMBERS = {
  "layer_norm_eps": 1,
  "hidden_dropout_prob": 1,
  "attention_probs_dropout_prob": 1,
  "embedding_dropout": 1,
  "initializer_range": 1000,
}
_MAX_BUCKETS, _MAX_THETA = 1 << 16, 1e12


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
    if "local_attention" in architecture.attention:
      attributes = _rotary_attributes(attributes)
    if "longest_distance" in architecture.attention:
      attributes["longest_distance"] = attributes.get("max_relative_positions", -1)
      if attributes["longest_distance"] < 1:
        attributes["longest_distance"] = attributes["max_position_embeddings"]
    vars(self).update(attributes)
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


def _rotary_attributes(attributes):
  """Returns the attributes of a ModernBERT, from either form of its config.json."""
  attributes = _MODERNBERT | attributes
  for kind, key in THETAS.items():
    parameters = (attributes.get("rope_parameters") or {}).get(kind) or {}
    attributes[key] = parameters.get("rope_theta", attributes[key])
  blocks = range(attributes["num_hidden_layers"])
  every = attributes["global_attn_every_n_layers"]
  kinds = attributes.get("layer_types") or [_FULL if number % every == 0 else "" for number in blocks]
  attributes["global_blocks"] = [number for number in blocks if kinds[number] == _FULL]
  return attributes


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
  for name, limit in _NUMBERS.items():
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
  if "position_buckets" in architecture.attention:
    _check_distances(path, values)
  if "local_attention" in architecture.attention:
    _check_windows(path, values)


def _check_distances(path, values):
  """Checks the keys of DeBERTa's attention."""
  terms = values.get("pos_att_type") or []
  if isinstance(terms, str):
    terms = [term.strip() for term in terms.lower().split("|")]
  if not isinstance(terms, list) or sorted(map(str, terms)) != ["c2p", "p2c"]:
    raise EncoderError(f"{path}: pos_att_type is {values.get('pos_att_type')!r}, and only c2p with p2c is supported")
  buckets = values.get("position_buckets")
  if not is_integer(buckets, 4) or buckets > _MAX_BUCKETS:
    expected = f"expected an integer from 4 to {_MAX_BUCKETS} as position_buckets"
    raise EncoderError(f"{path}: {expected}, got {str(buckets)[:40]}")
  longest = values.get("max_relative_positions", -1)
  if not is_integer(longest, -1):
    raise EncoderError(f"{path}: expected an integer as max_relative_positions, got {str(longest)[:40]}")
  if longest < 1:
    longest = values["max_position_embeddings"]
  if longest <= buckets // 2 + 1:
    expected = "max_relative_positions, or else max_position_embeddings, above half of them"
    raise EncoderError(f"{path}: position_buckets is {buckets}; expected {expected}, got {longest}")
  width = values.get("embedding_size", values["hidden_size"])
  if width != values["hidden_size"]:
    raise EncoderError(
      f"{path}: embedding_size is {width}, and only hidden_size, {values['hidden_size']}, is supported"
    )


def _check_windows(path, values):
  """Checks the keys of ModernBERT's attention, in the published form and in the form of transformers 5."""
  for key in ("local_attention", "global_attn_every_n_layers"):
    value = values.get(key, 2)
    if not is_integer(value, 1) or value > SIZES["max_position_embeddings"]:
      raise EncoderError(f"{path}: expected an integer from 1 on as {key}, got {str(value)[:40]}")
  kinds = values.get("layer_types")
  blocks = values["num_hidden_layers"]
  if kinds is not None:
    is_list = isinstance(kinds, list) and len(kinds) == blocks
    if not is_list or set(map(str, kinds)) - set(THETAS):
      expected = f"a list of {blocks}, each {' or '.join(THETAS)}"
      raise EncoderError(f"{path}: layer_types is {str(kinds)[:60]}, expected {expected}")
  rotary = values.get("rope_parameters") or dict.fromkeys(THETAS)
  is_nested = isinstance(rotary, dict) and not set(THETAS).isdisjoint(rotary)
  if not is_nested or not all(isinstance(rotary.get(kind) or {}, dict) for kind in THETAS):
    expected = f"a dict for each of {' and '.join(THETAS)}"
    raise EncoderError(f"{path}: rope_parameters is {str(rotary)[:60]}, expected {expected}")
  for kind, key in THETAS.items():
    parameters = rotary.get(kind) or {}
    form = parameters.get("rope_type", "default")
    if form != "default":
      raise EncoderError(f"{path}: rope_type of {kind} is {form!r}, and only 'default' is supported")
    theta = parameters.get("rope_theta", values.get(key, 1.0))
    if not is_number(theta) or not 0 < theta < _MAX_THETA:
      raise EncoderError(f"{path}: expected a positive number as {key} (rope_theta of {kind}), got {str(theta)[:40]}")
  heads = values["num_attention_heads"]
  if values["hidden_size"] // heads % 2:
    raise EncoderError(
      f"{path}: {values['hidden_size']} dimensions of {heads} heads; rotary positions need an even number each"
    )
