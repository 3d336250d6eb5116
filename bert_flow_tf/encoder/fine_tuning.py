"""Training of a BERT: its trained weights, their precision, and embeddings with gradients."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder import precision as precision_lib
from bert_flow_tf.encoder.bert import BertEncoder
from bert_flow_tf.errors import ConfigError


def check_pooling(pooling: pooling_lib.Pooling, token_weights: Any) -> None:
  """Raises a ConfigError if the pooling reads the word embeddings themselves, or if tokens have weights."""
  if pooling.reads_words:
    argument, value = "sentence_embedding_type", pooling.name
  elif token_weights:
    argument, value = "token_weights", token_weights.name
  else:
    return
  raise ConfigError(
    f"{argument}={value}: only a frozen encoder is used so, as in run_flow; to train an encoder, expected a mean of "
    "blocks or cls, and token_weights=uniform",
    argument=argument,
  )


def use_mixed_precision(bert: BertEncoder, precision: str) -> None:
  """Sets the precision of the dense layers of a BERT that was loaded in float32; its weights stay float32."""
  precision_lib.compute_in(bert.model, precision, frozen=False)
  bert.precision = precision


def trained_weights(bert: BertEncoder, pooling: pooling_lib.Pooling) -> list[tf.Variable]:
  """Returns the weights that the embedding depends on, float32 variables.

  As in the published code, a weight without a gradient (the pooler with an average, blocks above the pooled ones) is
  neither updated nor decayed.
  """
  main: Any = bert.model.bert
  # Blocks above the highest one that is pooled do not change the embedding.
  layers = [main.embeddings]
  if pooling.kind == "cls":
    layers += [*main.encoder.layer, main.pooler]
  else:
    layers += main.encoder.layer[: max(pooling.blocks)]
  return [weight for layer in layers for weight in layer.weights]


def embed(
  bert: BertEncoder,
  ids: tf.Tensor,
  mask: tf.Tensor,
  pooling: pooling_lib.Pooling,
  dropout_seed: tf.Tensor | None = None,
) -> tf.Tensor:
  """Returns embeddings, float32 [batch, dim], of ids and mask, int32 [batch, seq_len]; gradients flow into BERT.

  `dropout_seed`, int32 [2], decides the masks of BERT's dropout; None for no dropout.
  """
  hidden_states, pooled_output = bert(ids, mask, dropout_seed)
  return pooling.pool(hidden_states, mask, pooled_output)
