"""The Glow-style flow: Keras layers that give `tfp.bijectors`."""

from typing import Any

from bert_flow_tf.flow.config import FlowConfig

__all__ = [
  "ActNorm",
  "AdditiveCoupling",
  "AffineCoupling",
  "FlowConfig",
  "Glow",
  "Invertible1x1",
  "NegativeLogLikelihood",
  "Permutation",
]


def __getattr__(name: str) -> Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

  # Imported at the first use: configurations are read without TensorFlow. This registers every class with Keras.
  from bert_flow_tf.flow.chain import ActNorm, AdditiveCoupling, AffineCoupling, Invertible1x1, Permutation
  from bert_flow_tf.flow.glow import Glow
  from bert_flow_tf.flow.likelihood import NegativeLogLikelihood

  layers = (ActNorm, AdditiveCoupling, AffineCoupling, Glow, Invertible1x1, NegativeLogLikelihood, Permutation)
  return {layer.__name__: layer for layer in layers}[name]
