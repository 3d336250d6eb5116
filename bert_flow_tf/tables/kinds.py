"""Kinds of encoders, known from their names; a table says which kinds it has rows of."""

import enum
from typing import NamedTuple

from bert_flow_tf.encoder import kinds


class EncoderKind(enum.Enum):
  """A kind of encoder."""

  BERT = "BERT or a relative of it, with a transformer"
  STATIC = "word embeddings alone, static:NAME"
  SAVED_MODEL = "SavedModel from text to vectors, saved_model:FOLDER"
  WORDS = "averaged word vectors, glove:FILE"
  TUNED = "encoder that was fine-tuned on NLI, of the argument nli_model"


_KINDS = {
  kinds.TRANSFORMER: EncoderKind.BERT,
  kinds.STATIC: EncoderKind.STATIC,
  kinds.SAVED_MODEL: EncoderKind.SAVED_MODEL,
  kinds.WORD_VECTORS: EncoderKind.WORDS,
}


class EncoderName(NamedTuple):
  """Name of an encoder and its kind."""

  name: str
  kind: EncoderKind


def encoder_kind(name: str, is_tuned: bool = False) -> EncoderKind:
  """Returns the kind of an encoder of the argument `model`, or of `nli_model` with `is_tuned`."""
  if is_tuned:
    return EncoderKind.TUNED
  kind, _ = kinds.split_name(name)
  return _KINDS[kind]
