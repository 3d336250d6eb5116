"""The architectures of encoders: all that differs between them, an entry each; and their activations, by name."""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

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
# {layer of a block: its path below the block}
_BERT_LAYERS = {
  "query": "attention/self/query",
  "key": "attention/self/key",
  "value": "attention/self/value",
  "attended": "attention/output/dense",
  "attended_norm": "attention/output/LayerNorm",
  "inner": "intermediate/dense",
  "outer": "output/dense",
  "outer_norm": "output/LayerNorm",
}
_MPNET_LAYERS = _BERT_LAYERS | {
  "query": "attention/attn/q",
  "key": "attention/attn/k",
  "value": "attention/attn/v",
  "attended": "attention/attn/o",
  "attended_norm": "attention/LayerNorm",
}
_DISTILBERT_LAYERS = {
  "query": "attention/q_lin",
  "key": "attention/k_lin",
  "value": "attention/v_lin",
  "attended": "attention/out_lin",
  "attended_norm": "sa_layer_norm",
  "inner": "ffn/lin1",
  "outer": "ffn/lin2",
  "outer_norm": "output_layer_norm",
}
_DEBERTA_LAYERS = _BERT_LAYERS | {
  "query": "attention/self/query_proj",
  "key": "attention/self/key_proj",
  "value": "attention/self/value_proj",
}
_ALBERT_LAYERS = {
  "query": "attention/query",
  "key": "attention/key",
  "value": "attention/value",
  "attended": "attention/dense",
  "attended_norm": "attention/LayerNorm",
  "inner": "ffn",
  "outer": "ffn_output",
  "outer_norm": "full_layer_layer_norm",
}


def _gelu_tanh(tf: Any, x: Any) -> Any:
  return tf.nn.gelu(x, approximate=True)


# {name in config.json: (module tensorflow, x) -> y of x's shape}
ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
  "gelu": lambda tf, x: tf.nn.gelu(x),
  "gelu_10": lambda tf, x: tf.clip_by_value(tf.nn.gelu(x), -10.0, 10.0),
  "gelu_fast": _gelu_tanh,
  "gelu_new": _gelu_tanh,
  "gelu_python": lambda tf, x: tf.nn.gelu(x),
  "gelu_pytorch_tanh": _gelu_tanh,
  "mish": lambda tf, x: x * tf.tanh(tf.math.softplus(x)),
  "quick_gelu": lambda tf, x: x * tf.sigmoid(1.702 * x),
  "relu": lambda tf, x: tf.nn.relu(x),
  "sigmoid": lambda tf, x: tf.sigmoid(x),
  "silu": lambda tf, x: tf.nn.silu(x),
  "swish": lambda tf, x: tf.nn.silu(x),
  "tanh": lambda tf, x: tf.tanh(x),
}
# Names of GELU's erf form.
EXACT_GELU = ("gelu", "gelu_python")
# Values below which no value of an activation is: GELU's minimum is -0.16997, and -0.17004 in the form by tanh.
LEAST_VALUES = {"relu": 0.0, **dict.fromkeys([*EXACT_GELU, "gelu_fast", "gelu_new", "gelu_pytorch_tanh"], -0.1701)}
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
_BERT_DROPOUTS = {
  EMBEDDED: "hidden_dropout_prob",
  PROBABILITIES: "attention_probs_dropout_prob",
  ATTENDED: "hidden_dropout_prob",
  OUTER: "hidden_dropout_prob",
}
_DISTILBERT_DROPOUTS = {place: key for place, key in _BERT_DROPOUTS.items() if place != ATTENDED}
_DEBERTA_DROPOUTS = _BERT_DROPOUTS | {DISTANCES: "hidden_dropout_prob"}
_MODERNBERT_DROPOUTS = {
  EMBEDDED: "embedding_dropout",
  PROBABILITIES: "attention_probs_dropout_prob",
  ATTENDED: "attention_probs_dropout_prob",
  OUTER: "hidden_dropout_prob",
}


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
  """

  name: str
  main: str
  block: str = "encoder/layer_._{}"
  layers: Mapping[str, str] = dataclasses.field(default_factory=lambda: _BERT_LAYERS)
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
  dropouts: Mapping[str, str] = dataclasses.field(default_factory=lambda: _BERT_DROPOUTS)
  specials: Mapping[str, str] = dataclasses.field(default_factory=lambda: _BERT_SPECIALS)
  vocabularies: Collection[str] = ("tokenizer.json", "vocab.txt")

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


_ROBERTA_DEFAULTS = {"pad_token_id": 1}
_XLM_ROBERTA = Architecture(
  "XLMRoberta",
  "roberta",
  counts_from_pad=True,
  defaults=_ROBERTA_DEFAULTS,
  specials=_ROBERTA_SPECIALS,
  vocabularies=("tokenizer.json", "sentencepiece.bpe.model"),
)
# {model_type in config.json: its architecture}
ARCHITECTURES = {
  "bert": Architecture("Bert", "bert"),
  "roberta": Architecture(
    "Roberta",
    "roberta",
    counts_from_pad=True,
    defaults=_ROBERTA_DEFAULTS,
    specials=_ROBERTA_SPECIALS,
    vocabularies=("tokenizer.json", "vocab.json"),
  ),
  "xlm-roberta": _XLM_ROBERTA,
  "camembert": dataclasses.replace(_XLM_ROBERTA, name="Camembert"),
  "mpnet": Architecture(
    "MPNet",
    "mpnet",
    layers=_MPNET_LAYERS,
    has_relative_positions=True,
    counts_from_pad=True,
    pad_id=1,
    keys={"type_vocab_size": ""},
    defaults=_ROBERTA_DEFAULTS,
    specials=_ROBERTA_SPECIALS | {"unk_token": "[UNK]"},
  ),
  "distilbert": Architecture(
    "DistilBert",
    "distilbert",
    block="transformer/layer_._{}",
    layers=_DISTILBERT_LAYERS,
    pooler="",
    keys={
      "hidden_size": "dim",
      "num_hidden_layers": "n_layers",
      "num_attention_heads": "n_heads",
      "intermediate_size": "hidden_dim",
      "hidden_act": "activation",
      "hidden_dropout_prob": "dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "type_vocab_size": "",
      "layer_norm_eps": "",
    },
    dropouts=_DISTILBERT_DROPOUTS,
  ),
  "electra": Architecture("Electra", "electra", pooler="", projection="embeddings_project"),
  "albert": Architecture(
    "Albert",
    "albert",
    block="encoder/albert_layer_groups_._0/albert_layers_._0",
    layers=_ALBERT_LAYERS,
    pooler="pooler",
    projection="encoder/embedding_hidden_mapping_in",
    always_projects=True,
    defaults={"hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    specials=_BERT_SPECIALS | {"unk_token": "<unk>", "pad_token": "<pad>"},
    vocabularies=("tokenizer.json", "spiece.model"),
  ),
  "modernbert": Architecture(
    "ModernBert",
    "model",
    block="layers_._{}",
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
    dropouts=_MODERNBERT_DROPOUTS,
    vocabularies=("tokenizer.json",),
  ),
  "deberta-v2": Architecture(
    "DebertaV2",
    "deberta",
    layers=_DEBERTA_LAYERS,
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
    dropouts=_DEBERTA_DROPOUTS,
    specials=_BERT_SPECIALS,
    vocabularies=("tokenizer.json", "spm.model"),
  ),
}
BERT = "bert"
_MAINS = "|".join(sorted({architecture.main for architecture in ARCHITECTURES.values()}))
_SCOPE = re.compile(rf".*/(?=(?:{_MAINS})/)")


def check_model_type(where: Any, model_type: Any) -> Architecture:
  """Returns the architecture of a model_type, or raises an EncoderError."""
  if model_type not in tuple(ARCHITECTURES):
    expected = ", ".join(ARCHITECTURES)
    raise EncoderError(f"{where}: model_type is {model_type!r}, expected an encoder of text: {expected}")
  return ARCHITECTURES[model_type]


def bare_name(weight: Any) -> str:
  """Returns a weight's name from the main layer's on ("bert/..."), without the model's (tf_bert_model_1/...)."""
  return _SCOPE.sub("", weight.name, count=1)


def activate(name: str, x: Any) -> Any:
  """Returns the activation of a tensor, by its name."""
  import tensorflow as tf

  return ACTIVATIONS[name](tf, x)
