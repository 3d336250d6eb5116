"""BERT's variables under the names of Google's checkpoints.

bert/encoder/layer_0/attention/self/query/kernel           TensorFlow 1
bert/encoder/layer_._0/attention/self/query/kernel:0       `Transformer` and TFBertModel, without the model's own name
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.weight_names import shapes_of
from bert_flow_tf.errors import EncoderError

POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
FLOW = "bert/flow/"
GLOBAL_STEP = "global_step"
# The classifier of siamese fine-tuning.
CLASSIFIER = "loss/output_weights"
_TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")
_TRANSFORM = "cls/predictions/transform"
# Heads of the pre-training of Google's checkpoints: masked words and next sentence.
_HEADS = (
  "cls/predictions/output_bias",
  f"{_TRANSFORM}/dense/kernel",
  f"{_TRANSFORM}/dense/bias",
  f"{_TRANSFORM}/LayerNorm/beta",
  f"{_TRANSFORM}/LayerNorm/gamma",
  "cls/seq_relationship/output_weights",
  "cls/seq_relationship/output_bias",
)
# Suffixes of the slots of Google's AdamWeightDecayOptimizer and of TensorFlow's AdamOptimizer.
_SLOTS = ("/adam_m", "/adam_v", "/Adam", "/Adam_1")
_POWERS = ("beta1_power", "beta2_power")


def bert_shapes(values: Mapping[str, Any], pooler: bool = True) -> dict[str, tuple[int, ...]]:
  """Returns {variable: shape} of Google's BERT by the values of its bert_config.json."""
  config = EncoderConfig({"model_type": BERT, **values})
  return {of_keras(f"bert/{path}"): shape for path, shape in shapes_of(config, pooler).items()}


def of_keras(name: str) -> str:
  """Returns TensorFlow 1's name of a TFBertModel weight, "bert/encoder/layer_._0/...:0"."""
  name = name.partition(":")[0].replace("/layer_._", "/layer_")
  tables = "|".join(_TABLES)
  return re.sub(rf"^(bert/embeddings/(?:{tables}))/(?:weight|embeddings)$", r"\1", name)


def has_pooler(names: Collection[str]) -> bool:
  """Returns whether a checkpoint has variables of the pooled output."""
  return any(name in names for name in POOLER)


def left_out(name: str, names: Collection[str]) -> str | None:
  """Returns the kind of a variable that a converted folder does not keep, or None for other variables."""
  if name == GLOBAL_STEP:
    return GLOBAL_STEP
  if name in _HEADS:
    return "pre-training heads"
  if name in _POWERS:
    return "Adam slots"
  for end in _SLOTS:
    if name.endswith(end) and name.removesuffix(end) in names:
      return "Adam slots"
  return None


def check_variables(names: Collection[str], expected: Collection[str], where: str) -> None:
  """Raises an EncoderError that lists all variables that are missing or unknown in a checkpoint."""
  groups = {"missing": sorted(set(expected) - set(names)), "unknown": sorted(set(names) - set(expected))}
  lists = [f"{len(group)} {kind}: {', '.join(group)}" for kind, group in groups.items() if group]
  if lists:
    raise EncoderError(f"{where}: bert_config.json describes a BERT of other variables; {'; '.join(lists)}")
