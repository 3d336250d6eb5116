"""The flow: invertible Keras layers between sentence embeddings and a normal latent, and their bijectors.

It knows nothing of encoders and trainers. `Glow` is the whole flow, `NegativeLogLikelihood` its loss.

Files in reading order:

    config          FlowConfig: levels, steps, coupling; config/ has the published settings
    keras           the Keras of the process, 3 or 2, and all that differs between the two
    layer           FlowLayer: the base class of the flow's layers
    actnorm         shift and scale of each dimension
    permutation     a fixed order, or an invertible 1x1 convolution
    coupling        one half of the dimensions moved by a network of the other half
    chain           steps, levels and splits
    glow            Glow: the chain with its density, initialization and files
    likelihood      NegativeLogLikelihood: the loss as a layer
    named_weights   weights under the names of the original's checkpoint
    bijectors, base TensorFlow Probability: the layers as bijectors, other distributions of the latents
"""

from typing import TYPE_CHECKING

from bert_flow_tf.flow.config import FlowConfig

if TYPE_CHECKING:
  from bert_flow_tf.flow.chain import ActNorm, AdditiveCoupling, AffineCoupling, Invertible1x1, Permutation
  from bert_flow_tf.flow.glow import Glow
  from bert_flow_tf.flow.likelihood import NegativeLogLikelihood

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


def __getattr__(name: str) -> type:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

  # Imported at the first use: configurations are read without TensorFlow. This registers every class with Keras.
  from bert_flow_tf.flow.chain import ActNorm, AdditiveCoupling, AffineCoupling, Invertible1x1, Permutation
  from bert_flow_tf.flow.glow import Glow
  from bert_flow_tf.flow.likelihood import NegativeLogLikelihood

  layers = (ActNorm, AdditiveCoupling, AffineCoupling, Glow, Invertible1x1, NegativeLogLikelihood, Permutation)
  return {layer.__name__: layer for layer in layers}[name]
