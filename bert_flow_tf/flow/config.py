"""The flow's configuration, read from the original's json files."""

import dataclasses
import os
import pathlib

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.io.checks import is_integer, shown
from bert_flow_tf.io.files import check_path, read_json

CONFIG_FOLDER = pathlib.Path(__file__).parent / "config"

# Keys of the original's files with the only value that the original or this package can compute.
_FIXED = {"latent_architecture": "glow_resnet", "top_prior": "normal", "use_fp16": False}
# Values of a flow's weight `state`: new, loaded from the original, initialized from data.
NEW, LOADED, INITIALIZED = range(3)
MAX_DEPTH = 1000  # steps per level
_ACTNORM_INITS, _PERMUTATIONS = ("data", "glorot"), ("reverse", "random")
_CHOICES = {"activation": ("relu", "gatu"), "coupling": ("additive", "affine")}


@dataclasses.dataclass(frozen=True)
class FlowConfig:
  """Shape of the flow, in the original's keys; the defaults are the paper's (Table 7).

  Attributes:
    activation: second hidden layer of the coupling network, "relu" or "gatu" (tanh times sigmoid).
    coupling: "additive" (the paper) or "affine".
    coupling_width: units of the coupling network's hidden layers.
    coupling_dropout: dropout rate after the coupling network's hidden layers while fitting, in [0, 1).
    n_levels: number of levels; between levels half of the dimensions leaves as latent.
    depth: steps (actnorm, permutation, coupling) per level.
    permutation: True for a fixed permutation, False for Glow's invertible 1x1 convolution.

  Raises:
    ConfigError: a value that is not supported.
  """

  activation: str = "relu"
  coupling: str = "additive"
  coupling_width: int = 32
  coupling_dropout: float = 0.0
  n_levels: int = 2
  depth: int = 3
  permutation: bool = True

  def __post_init__(self):
    for key, allowed in _CHOICES.items():
      _check(getattr(self, key) in allowed, key, getattr(self, key), " or ".join(map(repr, allowed)))
    for key in ("coupling_width", "n_levels", "depth"):
      _check(is_integer(getattr(self, key), 1), key, getattr(self, key), "an integer of at least 1")
    # Each step is at least three layers: a number far above is a mistake, and would take all memory.
    _check(self.depth <= MAX_DEPTH, "depth", self.depth, f"at most {MAX_DEPTH}")
    _check(isinstance(self.permutation, bool), "permutation", self.permutation, "true or false")
    dropout = self.coupling_dropout
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    _check(is_number and 0.0 <= dropout < 1.0, "coupling_dropout", dropout, "a number in [0, 1)")

  @classmethod
  def from_dict(cls, values: object) -> "FlowConfig":
    """Returns the configuration of a dict in the original's keys; a missing key keeps its default."""
    if not isinstance(values, dict):
      raise ConfigError(f"flow config: expected an object of keys and values, got {type(values).__name__}")
    # Keys with one possible value are checked and dropped.
    known = [field.name for field in dataclasses.fields(cls)]
    arguments = {}
    for key, value in values.items():
      if key in known:
        arguments[key] = value
      elif key in _FIXED:
        only = _FIXED[key]
        _check(type(value) is type(only) and value == only, key, value, repr(only))
    unknown = sorted(str(key) for key in values if key not in known and key not in _FIXED)
    if unknown:
      raise ConfigError(f"flow config: unknown key {', '.join(unknown)}; known are {', '.join(known)}")
    return cls(**arguments)

  @classmethod
  def from_json_file(cls, path: str | os.PathLike) -> "FlowConfig":
    """Reads a json file, or a file of `flow/config` by its name with or without ".json"."""
    # A user's file has priority over a packaged file with its name.
    file = check_path(path, "flow_model_config")
    packaged = CONFIG_FOLDER / f"{file.name.removesuffix('.json')}.json"
    if not file.is_file() and str(path) == file.name and packaged.is_file():
      file = packaged
    elif not file.is_file():
      expected = f"expected a json file or one of {', '.join(packaged_configs())}"
      raise ConfigError(f"flow_model_config={path}: no such file; {expected}", "flow_model_config")
    try:
      return cls.from_dict(read_json(file))
    except (OSError, ValueError, ConfigError) as error:
      raise ConfigError(f"flow_model_config={path}: {file} cannot be used ({error})", "flow_model_config") from error

  def to_dict(self) -> dict[str, str | int | float | bool]:
    """Returns keys and values as `from_dict` takes them."""
    return dataclasses.asdict(self)


def packaged_configs() -> list[str]:
  """Returns the sorted names of the configurations in the package."""
  return sorted(file.stem for file in CONFIG_FOLDER.glob("*.json"))


def _check(allowed: bool, key: str, value: object, expected: str) -> None:
  if not allowed:
    raise ConfigError(f"{key}={value!r} in the flow config: expected {expected}", key)


def check_arguments(
  config: FlowConfig, dim: int, actnorm_init: str, permutation: str, seed: int | None, dtype: str
) -> None:
  """Checks the arguments of `Glow`."""
  if not isinstance(config, FlowConfig):
    raise ConfigError(f"config: expected a FlowConfig, got {type(config).__name__}", "config")
  permutations = _PERMUTATIONS if config.permutation else _PERMUTATIONS[:1]
  for argument, value, allowed in (
    ("actnorm_init", actnorm_init, _ACTNORM_INITS),
    ("permutation", permutation, permutations),
    ("dtype", dtype, ("float32", "float64")),
  ):
    if value not in allowed:
      raise ConfigError(f"{argument}={value}: expected {' or '.join(allowed)} for this flow config", argument)
  if seed is not None and not is_integer(seed, 0):
    raise ConfigError(f"seed={shown(seed)}: expected None or an integer of at least 0", "seed")
  # A number of levels may be so large that its power of two takes all memory.
  levels = config.n_levels
  if not is_integer(dim, 1) or levels > 63 or dim % 2**levels:
    reason = f"a positive multiple of 2**{levels}, as each of the {levels} levels halves the dimensions"
    if is_integer(dim, 1):
      reason += "; take another calibration" if dim % 2 else "; use a flow_model_config with fewer levels"
    raise FlowError(f"dim={shown(dim)}: expected {reason}", "dim")
