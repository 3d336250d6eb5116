"""ModernBERT (Warner et al. 2024): rotary positions, global and local attention, no biases."""

from bert_flow_tf.encoder.transformer.families.architecture import (
  ATTENDED,
  EMBEDDED,
  OUTER,
  PROBABILITIES,
  SIZES,
  Architecture,
)
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer, is_number

# Keys that only its config.json has, with their defaults.
_DEFAULTS = {
  "embedding_dropout": 0.0,
  "local_attention": 128,
  "global_attn_every_n_layers": 3,
  "global_rope_theta": 160000.0,
  "local_rope_theta": 10000.0,
}
_FULL = "full_attention"
# {kind of attention in rope_parameters, which transformers 5 writes: key of the published files}
_THETAS = {_FULL: "global_rope_theta", "sliding_attention": "local_rope_theta"}
_MAX_THETA = 1e12


def _rotary_attributes(attributes):
  """Returns the attributes of a ModernBERT, from either form of its config.json."""
  attributes = _DEFAULTS | attributes
  for kind, key in _THETAS.items():
    parameters = (attributes.get("rope_parameters") or {}).get(kind) or {}
    attributes[key] = parameters.get("rope_theta", attributes[key])
  blocks = range(attributes["num_hidden_layers"])
  every = attributes["global_attn_every_n_layers"]
  kinds = attributes.get("layer_types") or [_FULL if number % every == 0 else "" for number in blocks]
  attributes["global_blocks"] = [number for number in blocks if kinds[number] == _FULL]
  return attributes


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
    if not is_list or set(map(str, kinds)) - set(_THETAS):
      expected = f"a list of {blocks}, each {' or '.join(_THETAS)}"
      raise EncoderError(f"{path}: layer_types is {str(kinds)[:60]}, expected {expected}")
  rotary = values.get("rope_parameters") or dict.fromkeys(_THETAS)
  is_nested = isinstance(rotary, dict) and not set(_THETAS).isdisjoint(rotary)
  if not is_nested or not all(isinstance(rotary.get(kind) or {}, dict) for kind in _THETAS):
    expected = f"a dict for each of {' and '.join(_THETAS)}"
    raise EncoderError(f"{path}: rope_parameters is {str(rotary)[:60]}, expected {expected}")
  for kind, key in _THETAS.items():
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


ARCHITECTURES = {
  "modernbert": Architecture(
    "ModernBert",
    "model",
    block="layers_._{}",
    blocks="modernbert",
    words="embeddings/tok_embeddings/weight",
    norm="embeddings/norm",
    pooler="",
    has_positions=False,
    has_biases=False,
    final_norm="final_norm",
    keys={
      "hidden_act": "hidden_activation",
      "layer_norm_eps": "norm_eps",
      "hidden_dropout_prob": "mlp_dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "type_vocab_size": "",
    },
    defaults={"layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    attention=("local_attention", "global_rope_theta", "local_rope_theta", "global_blocks"),
    fixed={
      "attention_bias": (False, False),
      "mlp_bias": (False, False),
      "norm_bias": (False, False),
      "rope_scaling": (None, None),
    },
    dropouts={
      EMBEDDED: "embedding_dropout",
      PROBABILITIES: "attention_probs_dropout_prob",
      ATTENDED: "attention_probs_dropout_prob",
      OUTER: "hidden_dropout_prob",
    },
    vocabularies=("tokenizer.json",),
    check=_check_windows,
    complete=_rotary_attributes,
  )
}
