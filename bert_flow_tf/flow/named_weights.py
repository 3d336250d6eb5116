"""Weights under the names and shapes of the original's checkpoint."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import FlowError


@dataclasses.dataclass(frozen=True)
class NamedWeight:
  """Weight with its shape in the original, for instance [1, 1, 1, C] for a vector [C].

  Attributes:
    weight: the `tf.Variable`.
    shape: shape in the original.
    original: whether the original has it; the others exist only in our own folders.
  """

  weight: tf.Variable
  shape: tuple[int, ...]
  original: bool = True

  def read(self) -> np.ndarray:
    """Returns the weight as an array of the original's shape."""
    return np.reshape(tf.convert_to_tensor(self.weight).numpy(), self.shape)

  def parse(self, name: str, array: np.ndarray) -> np.ndarray:
    """Converts the original's array to a value of the weight, which stays unchanged.

    Raises:
      FlowError: another shape, or values that are not real numbers or not finite in the weight's dtype.
    """
    array = _of_shape(self.shape, name, array)
    if array.dtype.kind in "fiu":
      with np.errstate(over="ignore"):
        value = array.reshape(self.weight.shape).astype(self.weight.dtype.as_numpy_dtype)
      if np.isfinite(value).all():
        return value
    raise FlowError(f"variable {name} ({array.dtype}) has values that are not finite numbers")


@dataclasses.dataclass(frozen=True)
class Signs(NamedWeight):
  """Weight of values 1 and -1; the log-determinant assumes it."""

  def parse(self, name: str, array: np.ndarray) -> np.ndarray:
    """Converts as `NamedWeight.parse`; FlowError for other values too."""
    value = super().parse(name, array)
    if not np.isin(value, (-1, 1)).all():
      raise FlowError(f"variable {name} has values other than 1 and -1")
    return value


@dataclasses.dataclass(frozen=True)
class PermutationMatrix(NamedWeight):
  """Permutation matrix [C, C]; the log-determinant assumes it."""

  def parse(self, name: str, array: np.ndarray) -> np.ndarray:
    """Converts as `NamedWeight.parse`; FlowError if the matrix is not a permutation."""
    _permutation_indices(self.shape, name, array)
    return super().parse(name, array)


@dataclasses.dataclass(frozen=True)
class PermutationIndices(NamedWeight):
  """Permutation, [C] indices, in the original the matrix w [C, C] of z = u w."""

  def read(self) -> np.ndarray:
    """Returns the permutation as a matrix of zeros and ones, float32 [C, C]."""
    indices = tf.convert_to_tensor(self.weight).numpy()
    return np.eye(len(indices), dtype=np.float32)[:, indices]

  def parse(self, name: str, array: np.ndarray) -> np.ndarray:
    """Converts the matrix to indices.

    Raises:
      FlowError: another shape, or the matrix is not a permutation.
    """
    return _permutation_indices(self.shape, name, array).astype(self.weight.dtype.as_numpy_dtype)


def prefixed(prefix: str, weights: dict[str, NamedWeight]) -> dict[str, NamedWeight]:
  """Returns the same dict with `prefix/` before every name."""
  return {f"{prefix}/{name}": weight for name, weight in weights.items()}


def check_names(names: Iterable[str], expected: Iterable[str], description: str) -> None:
  """Checks that two sets of names are the same.

  Raises:
    FlowError: names are missing or unknown; the message lists them.
  """
  missing = sorted(set(expected) - set(names))
  unknown = sorted(set(names) - set(expected))
  if missing or unknown:
    parts = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
    raise FlowError(f"{description} do not fit this flow's configuration; {'; '.join(parts)}")


def assign_original(weights: Mapping[str, NamedWeight], variables: Mapping[str, np.ndarray]) -> None:
  """Sets weights from the original's variables; weights that the original lacks become ones.

  Args:
    weights: all weights of a flow by name.
    variables: {name: array}; the names may begin with `bert/flow/`.

  Raises:
    FlowError: a variable is missing, unknown, of another shape or not finite; then nothing changes.
  """
  arrays = {name.removeprefix("bert/flow/"): array for name, array in variables.items()}
  if len(arrays) < len(variables):
    twice = next(name for name in arrays if name in variables and f"bert/flow/{name}" in variables)
    raise FlowError(f"variable {twice} is given twice, with and without bert/flow/")
  original = {name: weight for name, weight in weights.items() if weight.original}
  check_names(arrays, original, "variables of the original's flow")
  values = {name: weight.parse(name, arrays[name]) for name, weight in original.items()}
  for name, named in weights.items():
    named.weight.assign(values[name] if name in values else tf.ones_like(named.weight))


def _of_shape(shape, name, array):
  array = np.asarray(array)
  if array.shape != tuple(shape):
    raise FlowError(f"variable {name} has shape {array.shape}, expected {tuple(shape)} for this flow")
  return array


def _permutation_indices(shape, name, array):
  matrix = _of_shape(shape, name, array)
  if matrix.dtype.kind in "fiu":
    indices = np.argmax(matrix, axis=0)
    if np.array_equal(matrix, np.eye(len(indices))[:, indices]) and len(set(indices)) == len(indices):
      return indices
  raise FlowError(f"variable {name} is not a permutation matrix, but the flow's configuration has a permutation")
