"""Weights under the names and shapes of the original's checkpoint."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import FlowError


@dataclasses.dataclass(frozen=True)
class NamedWeight:
  """Weight with its shape in the original, for instance [1, 1, 1, C] for a vector [C]."""

  weight: tf.Variable
  shape: tuple[int, ...]
  original: bool = True  # False for a weight that exists only in this package's files

  problem: ClassVar[str] = "has values that are not finite numbers"

  def read(self) -> np.ndarray:
    """Returns the weight as an array of the original's shape."""
    return np.reshape(tf.convert_to_tensor(self.weight).numpy(), self.shape)

  def parse(self, name: str, array: np.ndarray) -> np.ndarray:
    """Converts the original's array to a value of the weight, which stays unchanged."""
    array = np.asarray(array)
    if array.shape != tuple(self.shape):
      raise FlowError(f"variable {name} has shape {array.shape}, expected {tuple(self.shape)} for this flow")
    value = None
    if array.dtype.kind in "fiu":
      with np.errstate(over="ignore"):  # numbers beyond the weight's dtype become infinite
        value = self.convert(array)
    if value is None:
      raise FlowError(f"variable {name} {self.problem} ({array.dtype})")
    return value

  def convert(self, array: np.ndarray) -> np.ndarray | None:
    """Returns the value of the weight for numbers of the original's shape; None if it cannot have them."""
    value = array.reshape(self.weight.shape).astype(tf.as_dtype(self.weight.dtype).as_numpy_dtype)
    if not np.isfinite(value).all():
      return None
    return value


@dataclasses.dataclass(frozen=True)
class Signs(NamedWeight):
  """Weight of values 1 and -1; the log-determinant assumes it."""

  problem = "has values other than 1 and -1"

  def convert(self, array: np.ndarray) -> np.ndarray | None:
    """Returns the values; None if any value is not a sign."""
    if not np.isin(array, (-1, 1)).all():
      return None
    return super().convert(array)


@dataclasses.dataclass(frozen=True)
class PermutationMatrix(NamedWeight):
  """Permutation matrix [C, C]; the log-determinant assumes it."""

  problem = "is not a permutation matrix, but the flow's configuration has a permutation"

  def convert(self, array: np.ndarray) -> np.ndarray | None:
    """Returns the matrix; None if it is not a permutation."""
    if permutation_of(array) is None:
      return None
    return super().convert(array)


@dataclasses.dataclass(frozen=True)
class PermutationIndices(PermutationMatrix):
  """A permutation, stored as indices [C]; the original stores the matrix w [C, C] of z = u w."""

  def read(self) -> np.ndarray:
    """Returns the permutation as a matrix of zeros and ones, float32 [C, C]."""
    indices = tf.convert_to_tensor(self.weight).numpy()
    return np.eye(len(indices), dtype=np.float32)[:, indices]

  def convert(self, array: np.ndarray) -> np.ndarray | None:
    """Returns the indices of a matrix; None if it is not a permutation."""
    indices = permutation_of(array)
    return None if indices is None else indices.astype(tf.as_dtype(self.weight.dtype).as_numpy_dtype)


def permutation_of(matrix: np.ndarray) -> np.ndarray | None:
  """Returns indices p [C] with (u matrix)[i] = u[p[i]]; None if the matrix [C, C] is not a permutation."""
  indices = np.argmax(matrix, axis=0)
  is_permutation = np.array_equal(matrix, np.eye(len(indices))[:, indices]) and len(set(indices)) == len(indices)
  return indices if is_permutation else None


def prefixed(prefix: str, weights: dict[str, NamedWeight]) -> dict[str, NamedWeight]:
  """Returns {`prefix`/name: weight} of {name: weight}."""
  return {f"{prefix}/{name}": weight for name, weight in weights.items()}


def check_names(names: Iterable[str], expected: Iterable[str], description: str) -> None:
  """Raises a FlowError that lists missing and unknown names if two sets of names differ."""
  differences = {"missing": set(expected) - set(names), "unknown": set(names) - set(expected)}
  parts = [f"{kind}: {', '.join(sorted(different))}" for kind, different in differences.items() if different]
  if parts:
    raise FlowError(f"{description} do not fit this flow's configuration; {'; '.join(parts)}")


def assign_original(weights: Mapping[str, NamedWeight], variables: Mapping[str, np.ndarray]) -> None:
  """Sets weights from {name in the original: array}, all or none; weights that the original lacks become ones."""
  # The names may begin with `bert/flow/`.
  arrays = {name.removeprefix("bert/flow/"): array for name, array in variables.items()}
  if len(arrays) < len(variables):
    twice = next(name for name in arrays if name in variables and f"bert/flow/{name}" in variables)
    raise FlowError(f"variable {twice} stands twice in the file, with and without bert/flow/")
  # All arrays are parsed before the first is assigned.
  original = {name: weight for name, weight in weights.items() if weight.original}
  check_names(arrays, original, "variables of the original's flow")
  values = {name: weight.parse(name, arrays[name]) for name, weight in original.items()}
  for name, named in weights.items():
    named.weight.assign(values[name] if name in values else tf.ones_like(named.weight))
