"""The architectures of encoders: all that differs between them, a row each."""

import dataclasses
import operator
import re
from collections.abc import Mapping
from typing import Any

import transformers

from bert_flow_tf.errors import EncoderError

_BERT_SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}
_ROBERTA_SPECIALS = {
  "unk_token": "<unk>",
  "sep_token": "</s>",
  "pad_token": "<pad>",
  "cls_token": "<s>",
  "mask_token": "<mask>",
}


@dataclasses.dataclass(frozen=True)
class Architecture:
  """Row of the table.

  Attributes:
    name: name in transformers' classes, "Roberta" of TFRobertaModel, RobertaConfig and RobertaTokenizerFast.
    main: attribute of a model for the layer with embeddings and blocks, which the names of weights contain.
    blocks: path from `main` to the list of blocks; "" if blocks share weights.
    has_pooler: whether it can have a pooled output.
    projection: path from `main` to the layer that widens word embeddings; "" if they are as wide as hidden states.
    counts_from_pad: whether the first token's position is the id of the padding token plus 1, instead of 0.
    pad_id: id that transformers' code takes for the padding token in positions, whatever config.json says; or None.
    keys: {key of BERT's config.json: the key with that meaning, "" for none}.
    specials: special tokens, if the tokenizer's files name none.
  """

  name: str
  main: str
  blocks: str = "encoder.layer"
  has_pooler: bool = True
  projection: str = ""
  counts_from_pad: bool = False
  pad_id: int | None = None
  keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
  specials: Mapping[str, str] = dataclasses.field(default_factory=lambda: _BERT_SPECIALS)

  def key(self, name: str) -> str:
    """Returns the key of config.json for one of BERT's; "" for none."""
    return self.keys.get(name, name)

  def class_of(self, pattern: str) -> Any:
    """Returns a class of transformers: "TF{}Model", "{}Config", "{}TokenizerFast"."""
    return getattr(transformers, pattern.format(self.name))

  def blocks_of(self, main: Any) -> list[Any]:
    """Returns the blocks of a model's main layer that have weights of their own, the first one first."""
    if not self.blocks:
      return []
    return list(operator.attrgetter(self.blocks)(main))

  def first_position(self, config: Any) -> int:
    """Returns the position of a sentence's first token."""
    if not self.counts_from_pad:
      return 0
    if self.pad_id is not None:
      return self.pad_id + 1
    return int(config.pad_token_id) + 1


_OF_DISTILBERT = {
  "hidden_size": "dim",
  "num_hidden_layers": "n_layers",
  "num_attention_heads": "n_heads",
  "intermediate_size": "hidden_dim",
  "hidden_act": "activation",
  "type_vocab_size": "",
  "layer_norm_eps": "",
}
# {model_type in config.json: its row}
ARCHITECTURES = {
  "bert": Architecture("Bert", "bert"),
  "roberta": Architecture("Roberta", "roberta", counts_from_pad=True, specials=_ROBERTA_SPECIALS),
  "xlm-roberta": Architecture("XLMRoberta", "roberta", counts_from_pad=True, specials=_ROBERTA_SPECIALS),
  "mpnet": Architecture(
    "MPNet",
    "mpnet",
    counts_from_pad=True,
    pad_id=1,
    keys={"type_vocab_size": ""},
    specials=_ROBERTA_SPECIALS | {"unk_token": "[UNK]"},
  ),
  "distilbert": Architecture("DistilBert", "distilbert", "transformer.layer", has_pooler=False, keys=_OF_DISTILBERT),
  "electra": Architecture("Electra", "electra", has_pooler=False, projection="embeddings_project"),
  "albert": Architecture(
    "Albert",
    "albert",
    blocks="",
    projection="encoder.embedding_hidden_mapping_in",
    specials=_BERT_SPECIALS | {"unk_token": "<unk>", "pad_token": "<pad>"},
  ),
}
BERT = "bert"
_MAINS = "|".join(sorted({row.main for row in ARCHITECTURES.values()}))
_SCOPE = re.compile(rf".*/(?=(?:{_MAINS})/)")


def architecture_of(config: Any) -> Architecture:
  """Returns the row of a transformers' configuration."""
  return ARCHITECTURES[config.model_type]


def check_model_type(where: Any, model_type: Any) -> Architecture:
  """Returns the row of a model_type, or raises an EncoderError."""
  if model_type not in tuple(ARCHITECTURES):
    expected = ", ".join(ARCHITECTURES)
    raise EncoderError(f"{where}: model_type is {model_type!r}, expected an encoder of text: {expected}")
  return ARCHITECTURES[model_type]


def main_layer(model: Any) -> Any:
  """Returns the layer of a transformers' model that has its embeddings, blocks and pooler."""
  return getattr(model, model.base_model_prefix)


def bare_name(weight: Any) -> str:
  """Returns a weight's name from the main layer's on ("bert/..."), without that of the model (tf_bert_model_1/...)."""
  return _SCOPE.sub("", weight.name, count=1)
