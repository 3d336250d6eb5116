"""The architectures of encoders, by the model_type of a config.json: a row each, of the families' files."""

import re
from typing import Any

from bert_flow_tf.encoder.transformer.families import (
  albert,
  bert,
  deberta,
  distilbert,
  electra,
  modernbert,
  mpnet,
  roberta,
)
from bert_flow_tf.encoder.transformer.families.architecture import Architecture
from bert_flow_tf.errors import EncoderError

FAMILIES = (bert, roberta, mpnet, distilbert, electra, albert, modernbert, deberta)
# {model_type in config.json: its architecture}
ARCHITECTURES: dict[str, Architecture] = {}
for _family in FAMILIES:
  ARCHITECTURES |= _family.ARCHITECTURES
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
