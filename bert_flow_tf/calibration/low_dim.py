"""Mean of neighboring dimensions, the last step of a model (the published code's `low_dim`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.calibration.step import Affine, Contents, Features, Step, check_features
from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import is_integer, shown
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  from bert_flow_tf.calibration.step import Array

_LOW_DIM = "low_dim"


class LowDim(Step, methods=(_LOW_DIM,)):
  """Means of `n` groups of neighboring dimensions: [.., dim] -> [.., n]."""

  def __init__(self, n: int) -> None:
    self._n = n

  def output_dim_of(self, dim: int) -> int:
    """Returns n; raises a ConfigError if it does not divide the dimensions."""
    if not is_integer(self._n, 1) or dim % self._n:
      divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
      raise ConfigError(f"low_dim={shown(self._n)}: expected a divisor of the {dim} dimensions: {divisors}", "low_dim")
    return int(self._n)

  def __call__(self, features: Features) -> Array:
    """embedding [n, dim] -> means [n, output_dim]."""
    check_features(features)
    tf = functions_for(features.embedding)
    dim = features.embedding.shape[-1]
    self.output_dim_of(dim)
    return tf.reduce_mean(tf.reshape(features.embedding, [-1, self._n, dim // self._n]), axis=-1)

  def affine_of(self, dim: int) -> Affine:
    """See the base class."""
    groups = self.output_dim_of(dim)
    means = np.full([dim // groups, 1], groups / dim)
    return np.zeros(dim), np.kron(np.eye(groups), means)

  def contents(self) -> Contents:
    """Returns n."""
    return {"method": _LOW_DIM, "n": self._n}, {}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> LowDim:
    """Returns the step of `contents`."""
    del arrays
    return cls(settings["n"])
