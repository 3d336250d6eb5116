"""Steps of a model: maps of embeddings that Python calls on arrays, and that a graph traces."""

from __future__ import annotations

import abc
import importlib
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.io import archive
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.forks import check_not_forked
from bert_flow_tf.io.lazy import load_tensorflow

if TYPE_CHECKING:
  import tensorflow as tf

  from bert_flow_tf.encoder.text_encoder import TextEncoder

  Array: TypeAlias = tf.Tensor | np.ndarray

KIND = "calibration"  # of the archive in a calibration's folder
_QUERY_SHIFT = "query_shift"  # name of an array in it
Contents = tuple[Json, dict[str, np.ndarray]]  # JSON settings and arrays of a saved step
Affine = tuple[np.ndarray, np.ndarray]  # shift, float64 [dim]; matrix, float64 [dim, output_dim]

# {value of `method`: its class, whose module needs TensorFlow and is imported when a file has the step}
_CLASSES_ELSEWHERE = {"flow": "bert_flow_tf.calibration.flow.FlowCalibration"}
# Rows that Python gives to a step at once: bounds memory, and costs nothing above some hundred.
_ROWS_AT_ONCE = 8192
# Tokens that Python gives to a step at once, if all sentences have the length of the longest.
_TOKENS_AT_ONCE = 4096


class Features(NamedTuple):
  """Tensors of n sentences that a step reads; NumPy arrays in place of them where Python computes.

  Attributes:
    embedding: [n, dim]; float32, or float64 as a user gave it.
    ids: ids of the tokens, int32 [n, seq_len]; None where no step reads tokens.
    lengths: numbers of tokens, int32 [n]; None where no step reads tokens.
    lite: whether only operations of TensorFlow Lite are allowed, which has matrix products of float32 alone.
  """

  embedding: Array
  ids: Array | None = None
  lengths: Array | None = None
  lite: bool = False


def check_features(features: object) -> None:
  """Raises a CalibrationError for an array in place of `Features`."""
  if not isinstance(features, Features):
    message = f"features: expected Features, got {type(features).__name__}; transform(embeddings) takes an array"
    raise CalibrationError(message, "features")


def _full_name(cls):
  return f"{cls.__module__}.{cls.__qualname__}"


class Step(abc.ABC):
  """Map of embeddings [n, dim], and perhaps of tokens, to embeddings [n, output_dim]; a model is a list of them.

  A class names the values of `method` in its `contents`, for `of_contents`: `class Mean(Step, methods=("mean",))`. A
  program that loads a model imports the classes of its steps before.

  Attributes:
    name: part of the name of the model's calibration, as "characters"; "" for none. A model whose steps all have none
      is named by their classes.
    reads_embedding: False if the step needs no embedding where it is the first one of a model.
    reads_tokens: whether the step reads `Features.ids` and `Features.lengths`.
    variables: variables of TensorFlow on which it computes.
  """

  reads_embedding = True
  reads_tokens = False
  _classes: ClassVar[dict[str, type[Step]]] = {}

  def __init_subclass__(cls, methods: Sequence[str] = (), **arguments: Any) -> None:
    super().__init_subclass__(**arguments)
    for method in (methods,) if isinstance(methods, str) else methods:
      known = _CLASSES_ELSEWHERE.get(method) or _full_name(Step._classes.get(method, cls))
      # A notebook may define its own class again.
      if known != _full_name(cls):
        raise ConfigError(f"methods={method}: {known.rpartition('.')[2]} has this name; choose another")
      Step._classes[method] = cls

  @property
  def name(self) -> str:
    """See the class."""
    return ""

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """See the class."""
    return ()

  @abc.abstractmethod
  def output_dim_of(self, dim: int) -> int:
    """Returns the output's dimensions for embeddings of `dim`; raises a ConfigError if the step cannot take them."""

  @abc.abstractmethod
  def __call__(self, features: Features) -> Array:
    """Returns embeddings float32 [n, output_dim], eagerly or in a graph; of arrays perhaps an array."""

  def affine_of(self, dim: int) -> Affine | None:
    """Returns shift and matrix of z = (u - shift) matrix for u [n, dim]; None for a step that is not affine."""
    del dim
    return None

  def check_fitted(self) -> None:
    """Raises a CalibrationError if the step cannot be applied yet."""
    return

  def bound_to(self, encoder: TextEncoder) -> Step:
    """Returns the step with what it needs of a model's encoder; raises a ConfigError if the encoder lacks it."""
    del encoder
    return self

  def check_encoder(self, encoder: TextEncoder, where: str) -> None:
    """Raises an EncoderError if a step that was saved at `where` needs something else of the encoder."""
    del encoder, where

  def contents(self) -> Contents:
    """Returns JSON settings, of which `method` names the class, and arrays."""
    raise ConfigError(f"steps: {type(self).__name__} has no contents; define contents and restore to save the model")

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> Step:
    """Returns the step of `contents`; raises any error if they describe none."""
    raise archive.UnreadableError(f"{cls.__name__} has no restore; define it, and load again")

  def checked_contents(self) -> Contents:
    """Returns `contents`; raises a ConfigError if `of_contents` would not make a step of this class of them."""
    contents = self._contents_of_file()
    method = contents[0].get("method")
    if Step._classes.get(str(method)) is not type(self):
      expected = f'class {type(self).__name__}(..., methods=("NAME",)) and "method": "NAME" in its contents'
      raise ConfigError(f"steps: {type(self).__name__} could not be loaded as {method!r}; expected {expected}")
    return contents

  @staticmethod
  def of_contents(settings: Json, arrays: Mapping[str, np.ndarray]) -> Step:
    """Returns the step of `contents`, of any class; raises any error if they describe none."""
    method = settings["method"]
    if method in _CLASSES_ELSEWHERE:
      load_tensorflow()
      importlib.import_module(_CLASSES_ELSEWHERE[method].rpartition(".")[0])
    if isinstance(method, str) and method not in Step._classes:
      message = f"it has a step {method!r}, which this program does not define; import its class first"
      raise archive.UnreadableError(message)
    return Step._classes[method]._restored(settings, arrays)

  def _contents_of_file(self):
    """Returns `contents`, and what the base class adds to them."""
    return self.contents()

  @classmethod
  def _restored(cls, settings, arrays):
    """Returns the step of `_contents_of_file`."""
    return cls.restore(settings, arrays)

  def transform(self, embeddings: np.ndarray, tokens: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Returns the step's output for embeddings [n, dim] of sentences with token ids, float32 [n, output_dim]."""
    return self._transformed(embeddings, tokens)

  def _transformed(self, embeddings, tokens):
    """Returns the output for embeddings that are finite numbers, as `transform`."""
    from bert_flow_tf.encoder.text.word_piece import pad_batch

    check_not_forked(CalibrationError)
    self.check_fitted()
    results = np.empty([len(embeddings), self.output_dim_of(embeddings.shape[1])], np.float32)
    parts = _parts_of_tokens(tokens) if self.reads_tokens else _parts_of_rows(len(embeddings))
    for part in parts:
      rows = embeddings[part]
      if rows.dtype != np.float32:
        rows = rows.astype(np.float64)
      ids = lengths = None
      if self.reads_tokens:
        ids, mask = pad_batch(tokens[part])
        lengths = mask.sum(axis=1, dtype=np.int32)
      with np.errstate(over="ignore", invalid="ignore"):  # checked below
        outputs = np.asarray(self(Features(rows, ids, lengths)))
      if outputs.shape != results[part].shape:
        shapes = f"gave {list(outputs.shape)}, expected {list(results[part].shape)}, as its output_dim_of says"
        raise ConfigError(f"steps: {display_name(self)} {shapes}")
      results[part] = outputs
    bad = np.flatnonzero(~np.isfinite(results).all(axis=1))
    if bad.size:
      row = f"row {bad[0]} (from 0) exceeds float32 after {display_name(self)}"
      raise CalibrationError(f"embeddings: {row}: it is far from the sentences of the fit", "embeddings")
    return results

  def cosines(self, embeddings: np.ndarray, tokens: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Returns the cosine of the outputs of each of n / 2 sentences and its partner n / 2 places on, float64 [n / 2]."""
    outputs = self._transformed(embeddings, tokens)
    return cosines_of_halves(outputs)


class Calibration(Step):
  """Step from embeddings u [n, dim] to calibrated embeddings z [n, output_dim], fitted without labels.

      calibration = make_calibration("whitening").fit(embeddings)
      similarities = cosine_similarity(calibration.transform(a), calibration.transform(b))

  Rows are occurrences: a sentence in three pairs counts three times, as in the paper's "target" setting. The rows of n
  pairs are all first sentences, then all second ones, [2 n, dim]; only the flow uses the order.

  The flow's class is `bert_flow_tf.calibration.flow.FlowCalibration`.

  Attributes:
    encoder: identity of the encoder, or None if unknown; saved and loaded with the rest.
    query_shift: mean of queries minus mean of documents of the fit, float64 [dim], which is taken from embeddings of
      queries; None where texts have no roles. Saved and loaded with the rest.
    dim: dimensions of u.
    output_dim: dimensions of z.
  """

  encoder: Json | None = None
  query_shift: np.ndarray | None = None

  @property
  @abc.abstractmethod
  def dim(self) -> int:
    """See the class."""

  @property
  @abc.abstractmethod
  def output_dim(self) -> int:
    """See the class."""

  def __repr__(self) -> str:
    return f"<{type(self).__name__} {self.name!r}>"

  def output_dim_of(self, dim: int) -> int:
    """See the base class."""
    if dim != self.dim:
      raise ConfigError(f"steps: {self.name} was fitted on {self.dim} dimensions, and gets {dim}", argument="steps")
    return self.output_dim

  def transform(self, embeddings: np.ndarray, tokens: Sequence[np.ndarray] = ()) -> np.ndarray:
    """u [n, dim] -> z [n, output_dim], float32; raises a CalibrationError for a row that gives no finite numbers."""
    return self._transformed(check_rows(embeddings, self.dim), tokens)

  def transform_queries(self, embeddings: np.ndarray) -> np.ndarray:
    """Embeddings u [n, dim] of queries -> z [n, output_dim], as `transform`, after `query_shift` is taken away."""
    return apply_to_rows(self.steps_of_queries(), check_rows(embeddings, self.dim))

  def steps_of_queries(self) -> list[Step]:
    """Returns the steps from the embedding of a query to z: the calibration, after its `query_shift` if it has one."""
    return [self] if self.query_shift is None else [QueryShift(self.query_shift), self]

  @abc.abstractmethod
  def contents(self) -> Contents:
    """See the base class."""

  def _contents_of_file(self):
    settings, arrays = self.contents()
    if self.query_shift is None:
      return settings, arrays
    return settings, {**arrays, _QUERY_SHIFT: np.asarray(self.query_shift, np.float64)}

  @classmethod
  def _restored(cls, settings, arrays):
    rest = dict(arrays)
    query_shift = rest.pop(_QUERY_SHIFT, None)
    calibration = cls.restore(settings, rest)
    if query_shift is not None:
      if query_shift.shape != (calibration.dim,) or not np.isfinite(query_shift).all():
        raise CalibrationError(f"array {_QUERY_SHIFT} does not fit the settings, or is not finite")
      calibration.query_shift = np.asarray(query_shift, np.float64)
    return calibration

  def save(self, folder: str | os.PathLike) -> pathlib.Path:
    """Writes FOLDER/calibration.npz, which `load_calibration` reads; replaces an older one. Returns its path."""
    settings, arrays = self._contents_of_file()
    return archive.write(folder, KIND, {**settings, "encoder": self.encoder}, arrays)


class QueryShift(Step, methods="query shift"):
  """u -> u - shift, [n, dim] of queries, before a calibration that was fitted on documents.

  `shift`: float64 [dim], see `Calibration.query_shift`.
  """

  def __init__(self, shift: np.ndarray) -> None:
    self._shift = np.asarray(shift, np.float64)

  def output_dim_of(self, dim: int) -> int:
    """See the base class."""
    if dim != len(self._shift):
      message = f"steps: the query shift was fitted on {len(self._shift)} dimensions, and gets {dim}"
      raise ConfigError(message, argument="steps")
    return dim

  def __call__(self, features: Features) -> Array:
    """See the base class."""
    tf = functions_for(features.embedding)
    dtype = tf.float32 if features.lite else tf.float64
    return tf.cast(tf.cast(features.embedding, dtype) - tf.cast(self._shift, dtype), tf.float32)

  def contents(self) -> Contents:
    """See the base class."""
    return {"method": "query shift"}, {_QUERY_SHIFT: self._shift}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> QueryShift:
    """See the base class."""
    del settings
    return cls(arrays[_QUERY_SHIFT])


class Normalize(Step, methods=("normalize",)):
  """z -> z / |z|; rows of zeros stay."""

  def output_dim_of(self, dim: int) -> int:
    """See the base class."""
    return dim

  def __call__(self, features: Features) -> Array:
    """See the base class."""
    check_features(features)
    return unit_rows(features.embedding)

  def contents(self) -> Contents:
    """See the base class."""
    return {"method": "normalize"}, {}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> Normalize:
    """See the base class."""
    del settings, arrays
    return cls()


def display_name(step: Step) -> str:
  """Returns a step's name; of a step without a name, that of its class."""
  return step.name or type(step).__name__


def names_of(steps: Sequence[Step]) -> str | None:
  """Returns the names of steps, joined by "+"; their classes if they all have none, None for no steps."""
  names = [step.name for step in steps if step.name] or list(map(display_name, steps))
  return "+".join(names) or None


def output_dim(steps: Sequence[Step], dim: int) -> int:
  """Returns the dimensions after steps of embeddings of `dim`; raises a ConfigError if a step cannot take them."""
  if steps and not steps[0].reads_embedding:
    dim = 0
  for step in steps:
    dim = step.output_dim_of(dim)
  return dim


def apply_steps(steps: Sequence[Step], features: Features) -> tf.Tensor:
  """Returns the embeddings of features after all steps, float32 [n, output_dim]."""
  import tensorflow as tf

  for step in steps:
    features = features._replace(embedding=tf.cast(step(features), tf.float32))
  return features.embedding


def apply_to_rows(steps: Sequence[Step], rows: np.ndarray, tokens: Sequence[np.ndarray] = ()) -> np.ndarray:
  """Returns the embeddings of rows [n, dim], of sentences with token ids, after all steps, float32 [n, output_dim]."""
  # What comes from an encoder or `SentenceModel.transform` is checked where it enters; a step's results are checked.
  for step in steps:
    rows = step._transformed(rows, tokens)
  return np.asarray(rows, np.float32)


def unit_rows(rows: Array) -> Array:
  """Returns rows [n, dim] divided by their length; rows of zeros stay."""
  tf = functions_for(rows)
  return tf.math.divide_no_nan(rows, tf.norm(rows, axis=1, keepdims=True))


def cosines_of_halves(rows: np.ndarray) -> np.ndarray:
  """Returns the cosine of each of the first n / 2 rows and its partner n / 2 rows on, float64; 0 for rows of zeros."""
  n = len(rows) // 2
  return np.nan_to_num(cosine_similarity(rows[:n], rows[n:]))


def check_release(settings: Json) -> None:
  """Raises an UnreadableError for settings of concatenated embeddings, which only release 0.1.0 had."""
  if len(settings.get("shares") or ()) > 1:
    raise archive.UnreadableError("fitted by release 0.1.0 on its mix, which is another embedding now; fit it again")


def _parts_of_rows(n: int) -> Iterator[slice]:
  for start in range(0, n, _ROWS_AT_ONCE):
    yield slice(start, start + _ROWS_AT_ONCE)


def _parts_of_tokens(tokens: Sequence[np.ndarray]) -> Iterator[slice]:
  """Yields parts of neighboring sentences, each of about `_TOKENS_AT_ONCE` tokens with padding."""
  start = longest = 0
  for end, ids in enumerate(tokens):
    longest = max(longest, len(ids))
    if end > start and (end + 1 - start) * longest > _TOKENS_AT_ONCE:
      yield slice(start, end)
      start, longest = end, len(ids)
  if len(tokens):
    yield slice(start, len(tokens))
