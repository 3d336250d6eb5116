"""What a flow can be built and initialised from."""

import numpy as np

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig

ACTNORM_INITS = ("data", "glorot")
PERMUTATIONS = ("reverse", "random")


def check_arguments(config, dim, actnorm_init, permutation, seed, dtype):
  """Refuses what `Glow` cannot be built from, with a ConfigError or FlowError."""
  if not isinstance(config, FlowConfig):
    raise ConfigError(f"config is {type(config).__name__}, expected a FlowConfig")
  if actnorm_init not in ACTNORM_INITS:
    raise ConfigError(f"actnorm_init is {actnorm_init!r}, expected one of {', '.join(ACTNORM_INITS)}")
  if permutation not in PERMUTATIONS:
    raise ConfigError(f"permutation is {permutation!r}, expected one of {', '.join(PERMUTATIONS)}")
  if permutation == "random" and not config.permutation:
    raise ConfigError("permutation is 'random', but the flow config has permutation false: a 1x1 convolution")
  if seed is not None and not (is_whole(seed) and seed >= 0):
    raise ConfigError(f"seed is {seed!r}, expected None or a whole number of at least 0")
  if dtype not in ("float32", "float64"):
    raise ConfigError(f"dtype is {dtype!r}, expected float32 or float64")
  if not is_whole(dim) or dim < 1:
    raise FlowError(f"dim is {dim!r}, expected a positive whole number")
  if config.n_levels > 63 or dim % 2**config.n_levels:
    multiple = f"2**{config.n_levels}" if config.n_levels > 20 else 2**config.n_levels
    raise FlowError(
      f"dim is {dim}, expected a multiple of {multiple}: each of the {config.n_levels} levels halves "
      "the dimensions; use fewer levels or another low_dim"
    )


def is_whole(value):
  """Whether a value is an integer, Python's or NumPy's, and no bool."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_rows(rows):
  """Refuses embeddings [n, dim] that cannot initialise a flow, with a FlowError."""
  if len(rows) < 2:
    raise FlowError(f"initialisation needs at least 2 rows of embeddings, found {len(rows)}")
  bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
  if bad.size:
    raise FlowError(f"initialisation needs finite embeddings, found NaN or infinity in row {bad[0]}")
  if (rows == rows[0]).all():
    raise FlowError(f"initialisation needs embeddings that differ, found {len(rows)} rows that are all alike")
