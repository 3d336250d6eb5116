"""DeBERTa-v3 (He et al. 2023): attention depends on the distance of two tokens, by learned embeddings."""

from bert_flow_tf.encoder.transformer.families.architecture import (
  BERT_DROPOUTS,
  BERT_LAYERS,
  DISTANCES,
  Architecture,
)
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer

_LAYERS = BERT_LAYERS | {
  "query": "attention/self/query_proj",
  "key": "attention/self/key_proj",
  "value": "attention/self/value_proj",
}
_MAX_BUCKETS = 1 << 16


def _longest_distance(values):
  """Returns the distance from which all share a bucket: max_relative_positions, or that of the positions."""
  longest = values.get("max_relative_positions", -1)
  if longest < 1:
    longest = values["max_position_embeddings"]
  return longest


def _add_distances(attributes):
  """Returns the attributes with the longest distance."""
  return attributes | {"longest_distance": _longest_distance(attributes)}


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
  longest = _longest_distance(values)
  if longest <= buckets // 2 + 1:
    expected = "max_relative_positions, or else max_position_embeddings, above half of them"
    raise EncoderError(f"{path}: position_buckets is {buckets}; expected {expected}, got {longest}")
  width = values.get("embedding_size", values["hidden_size"])
  if width != values["hidden_size"]:
    raise EncoderError(
      f"{path}: embedding_size is {width}, and only hidden_size, {values['hidden_size']}, is supported"
    )


ARCHITECTURES = {
  "deberta-v2": Architecture(
    "DebertaV2",
    "deberta",
    blocks="deberta",
    layers=_LAYERS,
    pooler="",
    has_positions=False,
    keys={"type_vocab_size": ""},
    defaults={"layer_norm_eps": 1e-7},
    attention=("position_buckets", "longest_distance"),
    fixed={
      "relative_attention": (True, False),
      "position_biased_input": (False, True),
      "share_att_key": (True, False),
      "norm_rel_ebd": ("layer_norm", "none"),
      "type_vocab_size": (0, 0),
      "conv_kernel_size": (0, 0),
    },
    dropouts=BERT_DROPOUTS | {DISTANCES: "hidden_dropout_prob"},
    vocabularies=("tokenizer.json", "spm.model"),
    check=_check_distances,
    complete=_add_distances,
  )
}
