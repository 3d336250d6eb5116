"""Mean of neighboring dimensions, the last step of a model (the published code's `low_dim`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.calibration.step import Contents, Features, Step, check_features
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  import tensorflow as tf


_LOW_DIM = "low_dim"


class LowDim(Step, methods=(_LOW_DIM,)):
  """Means of `n` groups of neighboring dimensions: [.., dim] -> [.., n]."""

  def __init__(self, n: int) -> None:
    self._n = n

  def output_dim_of(self, dim: int) -> int:
    """Returns n; raises a ConfigError if it does not divide the dimensions."""
    if not is_integer(self._n, 1) or dim % self._n:
      divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
      raise ConfigError(f"low_dim={self._n}: expected a divisor of the {dim} dimensions: {divisors}", "low_dim")
    return int(self._n)

  def __call__(self, features: Features) -> tf.Tensor:
    """embedding [n, dim] -> [n, output_dim]."""
    check_features(features)
    return low_dim(features.embedding, self._n)

  def contents(self) -> Contents:
    """Returns n."""
    return {"method": _LOW_DIM, "n": self._n}, {}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> LowDim:
    """Returns the step of `contents`."""
    del arrays
    return cls(settings["n"])


def check_low_dim(dim: int, low_dim: int | None) -> None:
  """Raises ConfigError unless `low_dim` is None or a positive divisor of `dim`."""
  if low_dim is not None:
    LowDim(low_dim).output_dim_of(dim)


def low_dim(embeddings: tf.Tensor, n: int | None) -> tf.Tensor:
  """Returns the means of n groups of neighboring dimensions of [batch, dim], [batch, n]; the embeddings for None."""
  import tensorflow as tf

  if n is None:
    return embeddings
  dim = embeddings.shape[-1]
  check_low_dim(dim, n)
  return tf.reduce_mean(tf.reshape(embeddings, [-1, n, dim // n]), axis=-1)
