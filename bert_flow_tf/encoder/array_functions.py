"""Functions of TensorFlow's names on NumPy arrays: poolings and steps are one code in graphs and without it."""

import types
from typing import Any

import numpy as np

# Of `tf.math.l2_normalize`.
_EPSILON = np.float32(1e-12)


def functions_for(*values: Any) -> Any:
  """Returns what has the functions for values: `tensorflow`, or for NumPy arrays those of NumPy under their names."""
  if all(isinstance(value, np.ndarray) for value in values):
    return _ON_ARRAYS
  import tensorflow as tf

  return tf


def _cast(array, dtype):
  """Returns an array in one of the types below, or a type of NumPy; what exceeds it becomes infinite."""
  with np.errstate(over="ignore"):
    return array.astype(getattr(dtype, "as_numpy_dtype", dtype), copy=False)


def _divide_no_nan(dividend, divisor):
  return np.divide(dividend, divisor, out=np.zeros_like(dividend), where=divisor != 0)


def _l2_normalize(rows, axis):
  squares = np.sum(np.square(rows), axis=axis, keepdims=True)
  return rows / np.sqrt(np.maximum(squares, _EPSILON))


_ON_ARRAYS = types.SimpleNamespace(
  float32=types.SimpleNamespace(as_numpy_dtype=np.float32, min=np.finfo(np.float32).min),
  float64=types.SimpleNamespace(as_numpy_dtype=np.float64),
  cast=_cast,
  constant=np.asarray,
  shape=np.shape,
  sequence_mask=lambda lengths, longest: np.arange(longest) < lengths[:, np.newaxis],
  gather=lambda table, rows: table[rows],
  expand_dims=np.expand_dims,
  where=np.where,
  concat=np.concatenate,
  add_n=sum,
  matmul=np.matmul,
  norm=np.linalg.norm,
  reshape=np.reshape,
  reduce_sum=np.sum,
  reduce_mean=np.mean,
  reduce_max=np.max,
  reduce_any=np.any,
  math=types.SimpleNamespace(divide_no_nan=_divide_no_nan, l2_normalize=_l2_normalize),
)
