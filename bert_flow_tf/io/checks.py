"""Checks of arguments that several parts share."""

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from bert_flow_tf.errors import BertFlowError, CalibrationError, ConfigError, DataError, one_line
from bert_flow_tf.io.lazy import imported_tensorflow

_FLOAT32_MAX = float(np.finfo(np.float32).max)
# Rows converted to float64 at a time: 8192 rows of 1024 dimensions are 64 MiB.
_CHUNK = 8192

# What makes numbers of arrays without numbers, by NumPy's kind.
_OF_TEXTS = " of text; SentenceModel.encode gives the embeddings of texts, np.load the array of a file"
_NO_NUMBERS = dict.fromkeys("SU", _OF_TEXTS)
_NO_NUMBERS["O"] = ", which NumPy reads as objects; np.vstack(list(values)).astype('float32') makes floats of rows"

# Arguments of sentence-transformers, each with the values that change nothing here.
_NEUTRAL = {
  "output_value": ("sentence_embedding",),
  "precision": (None, "float32"),
  "pool": (None,),
  "convert_to_numpy": (True,),
  "convert_to_tensor": (False,),
}
_OTHER_WAYS = {
  "precision": "; embeddings are float32, and from_pretrained(name, precision=...) is how the encoder computes",
  "convert_to_numpy": "; SentenceTransformersAdapter returns tensors",
  "convert_to_tensor": "; SentenceTransformersAdapter returns tensors",
}
# Attributes that users of sentence-transformers assign, and settings of an encoder, each with what has the effect.
_PROMPTS = "from_pretrained(name, prompt=..., query_prompt=..., document_prompt=...), or encode(texts, prompt=...)"
_LOADED = "from_pretrained(name, {}=...) sets it"
_ASSIGNED = {
  **dict.fromkeys(("prompts", "prompt", "default_prompt_name", "query_prompt", "document_prompt"), _PROMPTS),
  **dict.fromkeys(("normalize", "normalize_embeddings"), "encode(texts, normalize_embeddings=True)"),
  "batch_size": "encode(texts, batch_size=...)",
  "similarity_fn_name": "expected 'cosine', which similarities are here",
  "device": "expected TensorFlow's own ways, as tf.device and CUDA_VISIBLE_DEVICES",
}
_OF_LOADING = ("truncate_dim", "max_seq_length", "token_weights", "low_dim", "sentence_embedding_type")
_OF_LOADING += ("precision", "engine")
_ASSIGNED |= {name: _LOADED.format(name) for name in _OF_LOADING}
# The origin of a sentence, or how a program runs: no embedding here depends on it.
_IGNORED = (
  "task_name",
  "task_metadata",
  "hf_split",
  "hf_subset",
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


def shown(value: object) -> str:
  """Returns a wrong value for an error, in one line: "2" in place of 2 has its quotation marks."""
  return " ".join((repr(value) if isinstance(value, str) else str(value)).split())[:60]


def check_counts(**values: object) -> None:
  """Raises a ConfigError for the first argument that is not a positive integer."""
  for name, value in values.items():
    if not is_integer(value, 1):
      raise ConfigError(f"{name}={shown(value)}: expected a positive integer", argument=name)


def as_array(
  values: object,
  name: str = "embeddings",
  error: type[BertFlowError] = CalibrationError,
  dtype: npt.DTypeLike | None = None,
  expected: str = "[n, dim]",
) -> np.ndarray:
  """Returns an array, or the array of lists of numbers or of rows; raises `error` where they make none."""
  parts = [values]
  if isinstance(values, list | tuple):
    parts += values
  if any(np.ma.is_masked(part) for part in parts if isinstance(part, np.ma.MaskedArray)):
    raise error(f"{name}: a masked array has missing numbers; fill them, or leave out their rows", name)
  try:
    array = np.asarray(values)
    if array.dtype == object and array.ndim == 1:  # a column of pandas or Arrow, whose cells are rows
      array = np.asarray(array.tolist())
    array = np.asarray(array, dtype)
  except (TypeError, ValueError) as reason:
    described = f"expected numbers of shape {expected}, but {one_line(reason)}"
    if "inhomogeneous" in str(reason):
      described = f"expected numbers of shape {expected}, got rows of different lengths"
    raise error(f"{name}: {described}", name) from reason
  if array.dtype.kind in _NO_NUMBERS:
    found = f"got {type(values).__name__}"
    raise error(f"{name}: expected numbers of shape {expected}, {found}{_NO_NUMBERS[array.dtype.kind]}", name)
  return array


def check_rows(
  embeddings: object,
  dim: int | None = None,
  error: type[BertFlowError] = CalibrationError,
  name: str = "embeddings",
) -> np.ndarray:
  """Returns embeddings as an array [n, dim] of finite real numbers in the range of float32; else raises `error`."""
  expected = f"[n, {dim or 'dim'}]"
  rows = as_array(embeddings, name, error, expected=expected)
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
      other_way = _OTHER_WAYS.get(name, "; this model has nothing else")
      raise ConfigError(f"{name}={value!r}: expected {allowed}{other_way}", argument=name)


def check_assignment(instance: object, kind: type, attributes: Collection[str], name: str, value: object) -> None:
  """Raises a ConfigError for an attribute of an instance whose assignment would change nothing.

  `kind`: the class, whose `attributes` may be assigned. A class that is derived from it may have more.
  """
  is_own = name.startswith("_") or name in attributes
  if is_own or (type(instance) is not kind and name not in _ASSIGNED):
    return
  way = _ASSIGNED.get(name, "expected an argument of from_pretrained or encode")
  raise ConfigError(f"{name}={repr(value)[:60]}: an assignment changes no embedding; {way}", argument=name)


def check_dense(values: object, argument: str) -> None:
  """Raises a DataError for a tensor without a dense shape."""
  tf = imported_tensorflow()
  if tf is not None and isinstance(values, tf.RaggedTensor | tf.SparseTensor):
    kind = type(values).__name__
    raise DataError(f"{argument}: a {kind}; expected a dense one, as to_tensor or tf.sparse.to_dense makes", argument)
