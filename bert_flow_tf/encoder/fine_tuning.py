"""Training of a BERT: its trained weights, their precision, and embeddings with gradients."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder import precision as precision_lib
from bert_flow_tf.encoder.bert import BertEncoder
from bert_flow_tf.errors import ConfigError


def check_precision(precision: str) -> None:
  """Checks that an encoder can be trained in a precision.

  Raises:
    ConfigError: an unknown precision, or float16, whose gradients would underflow without a scaled loss.
  """
  precision_lib.check_precision(precision)
  if precision == "float16":
    raise ConfigError(
      "precision=float16: small gradients underflow, so that an encoder cannot be trained; use bfloat16, which has "
      "float32's range, or float32",
      argument="precision",
    )


def check_pooling(pooling: pooling_lib.Pooling, token_weights: Any) -> None:
  """Checks that an encoder can be trained with a pooling.

  Args:
    pooling: the pooling.
    token_weights: the encoder's `TokenWeights`, or None.

  Raises:
    ConfigError: it reads the word embeddings themselves, or tokens have weights.
  """
  argument = "sentence_embedding_type" if pooling.reads_words else "token_weights" if token_weights else None
  if argument:
    value = pooling.name if pooling.reads_words else token_weights.name
    raise ConfigError(
      f"{argument}={value}: only a frozen encoder is used so, as in run_flow; to train an encoder, expected a mean of "
      "blocks or cls, and token_weights=uniform",
      argument=argument,
    )


def use_mixed_precision(bert: BertEncoder, precision: str) -> None:
  """Sets the precision of BERT's dense layers, forward and backward; weights and their updates are float32.

  Args:
    bert: a BERT that was loaded in float32.
    precision: float32 or bfloat16.
  """
  check_precision(precision)
  precision_lib.compute_in(bert.model, precision, frozen=False)
  bert.precision = precision


def trained_weights(bert: BertEncoder, pooling: pooling_lib.Pooling) -> list[tf.Variable]:
  """Returns the weights that the embedding depends on, a list of float32 variables.

  As in the published code, a weight without a gradient (the pooler with an average, blocks above the pooled ones) is
  neither updated nor decayed.
  """
  main: Any = bert.model.bert
  blocks = main.encoder.layer
  if pooling.kind != "cls":
    blocks = blocks[: max(pooling.blocks)]
  layers = [main.embeddings, *blocks, *([main.pooler] if pooling.kind == "cls" else [])]
  return [weight for layer in layers for weight in layer.weights]


def embed(
  bert: BertEncoder,
  ids: tf.Tensor,
  mask: tf.Tensor,
  pooling: pooling_lib.Pooling,
  dropout_seed: tf.Tensor | None = None,
) -> tf.Tensor:
  """Embeds a padded batch; gradients flow into BERT.

  Args:
    bert: the BERT.
    ids: int32 Tensor of shape [batch, seq_len].
    mask: int32 Tensor of shape [batch, seq_len], 1 for tokens, 0 for padding.
    pooling: the pooling.
    dropout_seed: int32 Tensor of shape [2] for BERT's dropout masks; None for no dropout.

  Returns:
    float32 Tensor of shape [batch, dim], of the pooling's full width.
  """
  hidden_states, pooled_output = bert(ids, mask, dropout_seed)
  return pooling.pool(hidden_states, mask, pooled_output)
