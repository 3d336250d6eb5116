"""Shared data of the flow's tests: embeddings shaped like BERT's, weights that hide nothing, and a list of layers."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.permutation import Invertible1x1, Permutation

DIM = 8


def config(**changes):
  """Returns a small `FlowConfig`: 2 levels of 2 steps, 5 units. A step of an eager bijector takes 0.1 s."""
  return FlowConfig(**{"coupling_width": 5, "n_levels": 2, "depth": 2, **changes})


def cone(rows, dim, seed=0):
  """Embeddings [rows, dim], float64: a large common mean, a decaying spectrum, two heavy dimensions."""
  rng = np.random.default_rng(seed)
  spectrum = np.linspace(1.0, 0.05, dim)
  u = rng.standard_normal([rows, dim]) * spectrum @ np.linalg.qr(rng.standard_normal([dim, dim]))[0]
  u += rng.standard_normal(dim)
  u[:, :2] *= 5.0
  return u


def randomize(layer, seed=0):
  """Gives every trainable weight of a layer or flow a value that hides nothing; returns the layer."""
  rng = np.random.default_rng(seed)
  for weight in layer.trainable_variables:
    scale = 0.1 if "logs" in weight.name else 0.4
    weight.assign(scale * rng.standard_normal(weight.shape))
  return layer


def tf1_weights(flow, seed=0):
  """Returns weights for `load_tf1_variables` that hide nothing, also in triangles of L and U that must not count."""
  return randomize(flow.copy(), seed).tf1_variables()


@dataclasses.dataclass(frozen=True)
class Case:
  """Entry of the list.

  Attributes:
    name: shown where it fails.
    make: (seed, dtype) -> layer or flow, as its author would construct it.
    is_flow: whether that is a `Glow`.
  """

  name: str
  make: callable
  is_flow: bool = False

  def build(self, seed=0, dtype="float64"):
    """Returns the layer, built for `DIM` dimensions, with random weights."""
    layer = self.make(seed, dtype)
    if not layer.built:
      layer.build([None, DIM])
    return randomize(layer, seed)


def _layer(cls, *args, **kwargs):
  return lambda seed, dtype: cls(*args, seed=seed, dtype=dtype, **kwargs)


def _actnorm(seed, dtype):
  return ActNorm("glorot", seed=seed, dtype=dtype)


def _glow(order="reverse", **changes):
  return lambda seed, dtype: Glow(config(**changes), DIM, permutation=order, seed=seed, dtype=dtype)


CASES = [
  Case("actnorm", _actnorm),
  Case("permutation reverse", _layer(Permutation, "reverse")),
  Case("permutation random", _layer(Permutation, "random")),
  Case("invertible 1x1", _layer(Invertible1x1)),
  Case("additive relu", _layer(AdditiveCoupling, 5, "relu")),
  Case("additive gatu", _layer(AdditiveCoupling, 5, "gatu")),
  Case("affine relu", _layer(AffineCoupling, 5, "relu")),
  Case("affine gatu", _layer(AffineCoupling, 5, "gatu")),
  Case("flow of the paper", _glow(depth=1), True),
  Case("flow of three levels, random permutations", _glow("random", n_levels=3, depth=1), True),
  Case("flow with other options", _glow(n_levels=1, coupling="affine", activation="gatu", permutation=False), True),
]


def fresh(values, dtype=None):
  """Returns a tensor that no bijector has seen: bijectors remember results by tensor identity."""
  return tf.identity(tf.convert_to_tensor(values, dtype))
