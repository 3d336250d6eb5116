"""Checks of arguments that several parts share."""

from typing import Any

import numpy as np

from bert_flow_tf.errors import BertFlowError, CalibrationError

_FLOAT32_MAX = float(np.finfo(np.float32).max)
# Rows converted to float64 at a time: 8192 rows of 1024 dimensions are 64 MiB.
_CHUNK = 8192


def is_integer(value: Any, least: int | None = None) -> bool:
  """Returns whether a value is an integer of Python or NumPy, not a bool, and at least `least` if that is given."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool) and (least is None or int(value) >= least)


def check_rows(embeddings: Any, dim: int | None = None, error: type[BertFlowError] = CalibrationError) -> np.ndarray:
  """Returns embeddings as an array [n, dim] of finite real numbers in the range of float32; else raises `error`."""
  expected = f"[n, {dim or 'dim'}]"
  if isinstance(embeddings, np.ma.MaskedArray):
    raise error("embeddings: a masked array has missing numbers; fill them, or leave out their rows", "embeddings")
  try:
    rows = np.asarray(embeddings)
  except (TypeError, ValueError) as reason:
    raise error(f"embeddings: expected numbers of shape {expected}, but {reason}", "embeddings") from reason
  if rows.dtype.kind not in "fiu":
    raise error(f"embeddings: expected real numbers of shape {expected}, got type {rows.dtype}", "embeddings")
  if rows.ndim != 2 or not rows.shape[1] or dim not in (None, rows.shape[1]):
    raise error(f"embeddings: expected shape {expected}, got {list(rows.shape)}", "embeddings")
  for start in range(0, len(rows), _CHUNK):
    chunk = np.asarray(rows[start : start + _CHUNK], np.float64)
    # NaN compares as False.
    bad = np.flatnonzero(~(np.abs(chunk) <= _FLOAT32_MAX).all(axis=1))
    if bad.size:
      raise error(f"embeddings: row {start + bad[0]} (from 0) has NaN, infinity or a number over 3.4e38", "embeddings")
  return rows
