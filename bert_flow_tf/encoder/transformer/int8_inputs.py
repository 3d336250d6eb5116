"""What int8 knows of the inputs of dense layers, and the divisors that follow from it; without TensorFlow.

Inputs that are far larger in some channels than in others are divided by a factor per channel, by which the kernel is
multiplied (Xiao et al. 2023, "SmoothQuant").
"""

from typing import NamedTuple

import numpy as np

from bert_flow_tf.encoder.transformer.config import EncoderConfig

SMALLEST_RANGE = 1e-12
# The divisor of a channel: its largest input, relative to the median channel's, to this power. At 1 the kernel would
# lose what the inputs win. Chosen by the errors of MiniLM-MLM's embeddings: 3.0 %, at .5 4.0 % and at 1 3.1 %.
_POWER = 0.75
# Number of texts of random tokens, and their tokens, that show which channels have large values.
_RANDOM_TEXTS, _RANDOM_TOKENS = 16, 32


class Inputs(NamedTuple):
  """What is known of the inputs of a dense layer.

  Attributes:
    least: a value below which none can be; None if there is no such value.
    largest: the largest absolute values seen, float32 [size]; None if none was seen.
  """

  least: float | None = None
  largest: np.ndarray | None = None


def divisors_of(inputs: Inputs) -> np.ndarray | None:
  """Returns the divisors of inputs, powers of 2, float32 [size]; None if all are 1, or are not known."""
  # Inputs with a least value come from an activation: few of them are far from 0, and dividing makes them worse.
  if inputs.largest is None or inputs.least is not None:
    return None
  relative = inputs.largest / max(float(np.median(inputs.largest)), SMALLEST_RANGE)
  powers = np.round(_POWER * np.log2(np.maximum(relative, 1)))
  if not powers.any():
    return None
  return np.exp2(powers).astype(np.float32)


def random_ids(config: EncoderConfig) -> np.ndarray:
  """Returns the ids of the texts whose inputs of dense layers are seen, int32 [texts, seq_len]."""
  length = min(_RANDOM_TOKENS, config.max_position_embeddings - config.first_position)
  return np.random.default_rng(0).integers(config.vocab_size, size=[_RANDOM_TEXTS, length], dtype=np.int32)
