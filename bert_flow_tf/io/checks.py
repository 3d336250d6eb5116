"""Checks of arguments that several parts share."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from bert_flow_tf.errors import BertFlowError, CalibrationError, ConfigError

_FLOAT32_MAX = float(np.finfo(np.float32).max)
# Rows converted to float64 at a time: 8192 rows of 1024 dimensions are 64 MiB.
_CHUNK = 8192

# Arguments of sentence-transformers, each with the values that change nothing here.
_NEUTRAL = {
  "output_value": ("sentence_embedding",),
  "precision": (None, "float32"),
  "truncate_dim": (None,),
  "pool": (None,),
  "convert_to_numpy": (True,),
  "convert_to_tensor": (False,),
}
# The origin of a sentence, or how a program runs: no embedding here depends on it.
_IGNORED = (
  "task_name",
  "task_metadata",
  "hf_split",
  "hf_subset",
  "prompt_type",
  "request_qid",
  "device",
  "chunk_size",
  "num_proc",
  "num_workers",
)


def is_integer(value: object, least: int | None = None) -> bool:
  """Returns whether a value is an integer of Python or NumPy, not a bool, and at least `least` if that is given."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool) and (least is None or int(value) >= least)


def is_text(value: object) -> bool:
  """Returns whether a value is text without half of a surrogate pair, which UTF-8 and tokenizers cannot hold."""
  try:
    return isinstance(value, str) and value.encode() is not None
  except UnicodeEncodeError:
    return False


def is_number(value: object) -> bool:
  """Returns whether a value is a finite number of Python, not a bool."""
  return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_counts(**values: object) -> None:
  """Raises a ConfigError for the first argument that is not a positive integer."""
  for name, value in values.items():
    if not is_integer(value, 1):
      raise ConfigError(f"{name}={value}: expected a positive integer", argument=name)


def check_rows(
  embeddings: object,
  dim: int | None = None,
  error: type[BertFlowError] = CalibrationError,
  name: str = "embeddings",
) -> np.ndarray:
  """Returns embeddings as an array [n, dim] of finite real numbers in the range of float32; else raises `error`."""
  expected = f"[n, {dim or 'dim'}]"
  if isinstance(embeddings, np.ma.MaskedArray):
    raise error(f"{name}: a masked array has missing numbers; fill them, or leave out their rows", name)
  try:
    rows = np.asarray(embeddings)
  except (TypeError, ValueError) as reason:
    raise error(f"{name}: expected numbers of shape {expected}, but {reason}", name) from reason
  if rows.dtype.kind not in "fiu":
    raise error(f"{name}: expected real numbers of shape {expected}, got type {rows.dtype}", name)
  if rows.ndim != 2 or not rows.shape[1] or dim not in (None, rows.shape[1]):
    raise error(f"{name}: expected shape {expected}, got {list(rows.shape)}", name)
  for start, chunk in chunks(rows):
    # NaN compares as False.
    bad = np.flatnonzero(~(np.abs(chunk) <= _FLOAT32_MAX).all(axis=1))
    if bad.size:
      raise error(f"{name}: row {start + bad[0]} (from 0) has NaN, infinity or a number over 3.4e38", name)
  return rows


def chunks(rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
  """Yields (index of the first row, float64 rows) of consecutive parts of rows [n, dim], at most `_CHUNK` rows each."""
  for start in range(0, len(rows), _CHUNK):
    yield start, np.asarray(rows[start : start + _CHUNK], np.float64)


def check_sentence_transformers(arguments: Mapping[str, object]) -> None:
  """Raises a ConfigError for an argument of `encode` that is unknown or that this model does not support."""
  for name, value in arguments.items():
    if name not in _IGNORED and name not in _NEUTRAL:
      raise ConfigError(f"{name}: encode has no such argument", argument=name)
    if name in _NEUTRAL and value not in _NEUTRAL[name]:
      allowed = " or ".join(map(repr, _NEUTRAL[name]))
      raise ConfigError(f"{name}={value!r}: expected {allowed}; this model has nothing else", argument=name)
