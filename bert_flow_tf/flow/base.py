"""Base distributions of the latents, as arguments of `Glow` and in saved configurations."""

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bert_flow_tf.errors import ConfigError


def latent_distribution(base: tfd.Distribution | None, dim: int, dtype: str) -> tfd.Distribution:
  """Returns the distribution of z [dim]: standard normal; or `base`, of vectors [dim] or of each number of them."""
  if base is None:
    base = tfd.Normal(tf.zeros([], dtype), tf.ones([], dtype))
  if not isinstance(base, tfd.Distribution):
    raise ConfigError(f"base: expected a distribution of TensorFlow Probability, got {type(base).__name__}", "base")
  if base.event_shape.rank == 0:
    base = tfd.Sample(base, sample_shape=[dim])
  if base.dtype != dtype or base.event_shape != [dim] or base.batch_shape.rank != 0:
    given = f"{base.dtype.name} of event shape {base.event_shape} and batch shape {base.batch_shape}"
    raise ConfigError(f"base: expected {dtype} of event shape [] or [{dim}] without a batch shape, got {given}", "base")
  return base


def to_config(value: object) -> object:
  """Returns a distribution of `tfp.distributions`, or a parameter of one, as JSON values."""
  if value is None or isinstance(value, bool | int | float | str):
    return value
  if isinstance(value, list | tuple):
    return [to_config(item) for item in value]
  if isinstance(value, tf.DType):
    return {"dtype": value.name}
  if isinstance(value, tfd.Distribution):
    name = type(value).__name__.removeprefix("_")
    if hasattr(tfd, name):
      parameters = {key: to_config(parameter) for key, parameter in value.parameters.items()}
      return {"distribution": name, "parameters": parameters}
  elif not callable(value) and not isinstance(value, tf.Variable):  # the copy would lack the variable
    array = np.asarray(value)
    return {"dtype": array.dtype.name, "values": array.tolist()}
  raise ConfigError(f"base: {type(value).__name__} cannot be saved; expected distributions of TFP with numbers", "base")


def from_config(config: object) -> object:
  """Returns the distribution or parameter of `to_config`."""
  if isinstance(config, list):
    return [from_config(item) for item in config]
  if not isinstance(config, dict):
    return config
  if "values" in config:
    return np.asarray(config["values"], config["dtype"])
  if "dtype" in config:
    return tf.as_dtype(config["dtype"])
  parameters = {key: from_config(parameter) for key, parameter in config["parameters"].items()}
  return getattr(tfd, config["distribution"])(**parameters)
