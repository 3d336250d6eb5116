"""What may differ between two families of encoders: the form of a family's row, with BERT's values as defaults."""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bert_flow_tf.io.files import Json

BERT_SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}
# {layer of a block: its path below the block}
BERT_LAYERS = {
  "query": "attention/self/query",
  "key": "attention/self/key",
  "value": "attention/self/value",
  "attended": "attention/output/dense",
  "attended_norm": "attention/output/LayerNorm",
  "inner": "intermediate/dense",
  "outer": "output/dense",
  "outer_norm": "output/LayerNorm",
}
# Keys of config.json that have a default, with BERT's.
DEFAULTS = {
  "hidden_act": "gelu",
  "layer_norm_eps": 1e-12,
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "initializer_range": 0.02,
  "type_vocab_size": 2,
  "pad_token_id": 0,
}
# Places of dropout: after the embeddings, on the attention's probabilities, after each of the two sums of a block.
EMBEDDED, PROBABILITIES, ATTENDED, OUTER = DROPOUTS = ("embedded", "probabilities", "attended", "outer")
# Place of dropout in DeBERTa's blocks: on the embeddings of distances.
DISTANCES = "distances"
# {place of dropout: key of BERT's config.json with its rate}
BERT_DROPOUTS = {
  EMBEDDED: "hidden_dropout_prob",
  PROBABILITIES: "attention_probs_dropout_prob",
  ATTENDED: "hidden_dropout_prob",
  OUTER: "hidden_dropout_prob",
}
# Largest values of the required keys of config.json, of which a wrong default of the number of heads would change no
# weight's shape. Larger values than these would fill the memory before a weight is read.
SIZES = {
  "vocab_size": 1 << 22,
  "hidden_size": 1 << 16,
  "num_hidden_layers": 1 << 10,
  "num_attention_heads": 1 << 10,
  "intermediate_size": 1 << 18,
  "max_position_embeddings": 1 << 20,
}


def _check_nothing(path, values):
  """Accepts a config.json: the family has no keys of its own."""


def _add_nothing(attributes):
  """Returns the attributes: the family has none of its own."""
  return attributes


@dataclasses.dataclass(frozen=True)
class Architecture:
  """Differences of an architecture from BERT, whose values are the defaults.

  Paths of weights are named as in transformers' TensorFlow models, below the main layer.

  Attributes:
    name: name in transformers' classes, "Roberta" of TFRobertaModel and RobertaTokenizerFast.
    main: name of the main layer, with which the names of weights begin.
    block: path of a block; without {} for its number, all blocks share their weights.
    layers: {layer of a block: its path below the block}.
    words: path of the word embeddings.
    norm: path of the normalization of the embeddings.
    pooler: path of the pooled output's dense layer; "" for none.
    projection: path of the dense layer that widens word embeddings; "" if they are always as wide as hidden states.
    always_projects: whether it has this layer, too, where word embeddings are as wide as hidden states.
    has_positions: whether it has embeddings of positions.
    has_biases: whether dense layers and normalizations have biases.
    final_norm: path of the normalization of the last hidden state; "" for none.
    has_relative_positions: whether attention depends on the distance of two tokens, by a table as MPNet's.
    counts_from_pad: whether the first token's position is the id of the padding token plus 1, instead of 0.
    pad_id: id that PyTorch's code takes for the padding token in positions, whatever config.json says; or None.
    keys: {key of BERT's config.json: the key with that meaning, "" for none}.
    defaults: {key of BERT's config.json: its default}, where it is not BERT's.
    attention: attributes of `EncoderConfig` that change its attention and no weight.
    fixed: {key of its config.json: (the only supported value, the value where it is missing)}.
    dropouts: {place of dropout: key of BERT's config.json with its rate}.
    specials: special tokens, if the tokenizer's files name none.
    vocabularies: files of a vocabulary that its tokenizer reads.
    blocks: name of its blocks in `transformer.BLOCKS`.
    check: raises an EncoderError for the path and the content of a config.json with wrong values of keys that only this
      family has.
    complete: adds the attributes of `EncoderConfig` that only this family has to {key: value}.
  """

  name: str
  main: str
  block: str = "encoder/layer_._{}"
  layers: Mapping[str, str] = dataclasses.field(default_factory=lambda: BERT_LAYERS)
  words: str = "embeddings/word_embeddings/weight"
  norm: str = "embeddings/LayerNorm"
  pooler: str = "pooler/dense"
  projection: str = ""
  always_projects: bool = False
  has_positions: bool = True
  has_biases: bool = True
  final_norm: str = ""
  has_relative_positions: bool = False
  counts_from_pad: bool = False
  pad_id: int | None = None
  keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  attention: Collection[str] = ()
  fixed: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
  dropouts: Mapping[str, str] = dataclasses.field(default_factory=lambda: BERT_DROPOUTS)
  specials: Mapping[str, str] = dataclasses.field(default_factory=lambda: BERT_SPECIALS)
  vocabularies: Collection[str] = ("tokenizer.json", "vocab.txt")
  blocks: str = "bert"
  check: Callable[[pathlib.Path, Json], None] = _check_nothing
  complete: Callable[[Json], Json] = _add_nothing

  @property
  def shares_weights(self) -> bool:
    """True if all blocks share their weights."""
    return "{}" not in self.block

  def key(self, name: str) -> str:
    """Returns the key of config.json for a key of BERT's; "" for none."""
    return self.keys.get(name, name)

  def default(self, name: str) -> Any:
    """Returns the default of a key of BERT's config.json; None for a key that is required."""
    return self.defaults.get(name, DEFAULTS.get(name))
