"""The Glow-style flow: Keras layers that give `tfp.bijectors`."""

from typing import Any

from bert_flow_tf.flow.config import FlowConfig

__all__ = ["ActNorm", "AdditiveCoupling", "AffineCoupling", "FlowConfig", "Glow", "Invertible1x1", "Permutation"]


def __getattr__(name: str) -> Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

  # Imported at the first use: configurations are read without TensorFlow.
  from bert_flow_tf.flow import glow
  from bert_flow_tf.flow.chain import ActNorm, AdditiveCoupling, AffineCoupling, Invertible1x1, Permutation

  layers = {layer.__name__: layer for layer in (ActNorm, AdditiveCoupling, AffineCoupling, Invertible1x1, Permutation)}
  return {**layers, "Glow": glow.Glow}[name]
