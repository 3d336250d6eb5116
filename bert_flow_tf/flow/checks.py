"""Checks of `Glow`'s arguments and input."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.checks import is_integer

ACTNORM_INITS = ("data", "glorot")
PERMUTATIONS = ("reverse", "random")


def check_arguments(config: Any, dim: Any, actnorm_init: Any, permutation: Any, seed: Any, dtype: Any) -> None:
  """Checks the arguments of `Glow`.

  Raises:
    ConfigError: an argument is outside its allowed values.
    FlowError: `dim` does not fit the levels.
  """
  if not isinstance(config, FlowConfig):
    raise ConfigError(f"config: expected a FlowConfig, got {type(config).__name__}", argument="config")
  choices = {"actnorm_init": ACTNORM_INITS, "permutation": PERMUTATIONS, "dtype": ("float32", "float64")}
  for argument, value in (("actnorm_init", actnorm_init), ("permutation", permutation), ("dtype", dtype)):
    if value not in choices[argument]:
      raise ConfigError(f"{argument}={value}: expected {' or '.join(choices[argument])}", argument=argument)
  if permutation == "random" and not config.permutation:
    raise ConfigError(
      "permutation=random: the flow config has permutation false, which is a 1x1 convolution", argument="permutation"
    )
  if seed is not None and not is_integer(seed, 0):
    raise ConfigError(f"seed={seed}: expected None or an integer of at least 0", argument="seed")
  if not is_integer(dim, 1):
    raise FlowError(f"dim={dim}: expected a positive integer", argument="dim")
  if config.n_levels > 63 or dim % 2**config.n_levels:
    multiple = f"2**{config.n_levels}" if config.n_levels > 20 else 2**config.n_levels
    raise FlowError(
      f"dim={dim}: expected a multiple of {multiple}, as each of the {config.n_levels} levels halves the dimensions; "
      "use a configuration with fewer levels",
      argument="dim",
    )


def check_batch(values: Any, dim: int, dtype: str) -> tf.Tensor:
  """Returns a new tensor [batch, dim] with these values.

  It is new because bijectors cache their results by tensor: with the same tensor a round trip would prove nothing.

  Raises:
    FlowError: not numbers of this shape.
  """
  try:
    batch = tf.identity(tf.cast(values, dtype))
  except (TypeError, ValueError, tf.errors.OpError) as error:
    message = f"embeddings: expected numbers of shape [batch, {dim}], got {type(values).__name__}"
    raise FlowError(message, "embeddings") from error
  if batch.shape.rank != 2 or batch.shape[1] != dim:
    raise FlowError(f"embeddings: expected shape [batch, {dim}], got {batch.shape}", "embeddings")
  return batch
