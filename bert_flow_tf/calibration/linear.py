"""What the calibrations that follow from mean and covariance share."""

import abc
import operator

import numpy as np

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.moments import Moments, check_rows, chunks
from bert_flow_tf.errors import CalibrationError, ConfigError


class LinearCalibration(Calibration):
  """A calibration that `Moments` decide: it can be fitted in parts, and go on after `load`.

  A subclass names its METHOD, says whether it needs the covariance (CROSS) and takes a k (TAKES_K), solves the moments
  to the arrays that `_apply` needs, and says their shapes. Computes in float64, gives float32.

  Args:
    k: number of directions, for the methods that take one; None for the method's own choice.

  Raises:
    ConfigError: k is not allowed.
  """

  METHOD = ""
  CROSS = False
  TAKES_K = False

  def __init__(self, k=None):
    if k is not None and not self.TAKES_K:
      raise ConfigError(f"calibration {self.METHOD} takes no k, found k={k!r}")
    if k is not None and not (is_whole(k) and k >= 1):
      raise ConfigError(f"calibration {self.METHOD}: k is {k!r}, expected a whole number of at least 1")
    self.k = None if k is None else int(k)
    self.encoder = None
    self._moments = None
    self._arrays = None

  @property
  def name(self):
    """The value of `--calibration`."""
    return self.METHOD if self.k is None else f"{self.METHOD}-{self.k}"

  @property
  def dim(self):
    """Dimensions of the embeddings it was fitted on."""
    return self._fitted().dim

  @property
  def count(self):
    """Sentences it was fitted on."""
    return self._fitted().count

  @property
  def output_dim(self):
    """Dimensions of what `transform` gives."""
    return self.dim

  def fit(self, embeddings):
    """Fits from embeddings [n, dim] alone, whatever was fitted before, and returns itself.

    Raises:
      CalibrationError: not [n, dim] finite numbers, fewer than 2 rows, rows that are all alike, or a k that these
        embeddings do not have; what was fitted before stays then.
    """
    moments = Moments.of(check_rows(embeddings), self.CROSS)
    arrays = self._checked_solution(moments)
    self._moments, self._arrays = moments, arrays
    return self

  def partial_fit(self, embeddings):
    """Adds embeddings [n, dim] to those that were seen and returns itself.

    Any split of the rows gives what `fit` gives on all, to rounding. Whether there are enough of them, and enough
    directions for k, is seen at the next use.

    Raises:
      CalibrationError: not finite numbers of as many dimensions as before; nothing is added then.
    """
    rows = check_rows(embeddings, None if self._moments is None else self._moments.dim)
    batch = Moments.of(rows, self.CROSS)
    self._moments = batch if self._moments is None else self._moments.merged(batch)
    self._arrays = None
    return self

  def merge(self, other):
    """Adds what another one of this method has seen, as if its embeddings had been given to `partial_fit`; itself.

    Raises:
      CalibrationError: another method, k, encoder or other dimensions, or one of the two saw nothing; nothing is added
        then.
    """
    if type(other) is not type(self) or other.k != self.k:
      raise CalibrationError(f"{self.name} cannot be merged with {getattr(other, 'name', type(other).__name__)}")
    mine, theirs = self._fitted(), other._fitted()
    if mine.dim != theirs.dim:
      raise CalibrationError(f"{self.name} was fitted on {mine.dim} dimensions, the one to merge on {theirs.dim}")
    if self.encoder and other.encoder and self.encoder != other.encoder:
      raise CalibrationError(
        f"{self.name} was fitted on embeddings of {self.encoder.get('name')}, the one to merge on those of "
        f"{other.encoder.get('name')}, or otherwise made"
      )
    self._moments, self._arrays = mine.merged(theirs), None
    self.encoder = self.encoder or other.encoder
    return self

  def transform(self, embeddings):
    """Embeddings [n, dim] -> float32 array [n, output_dim].

    Raises:
      CalibrationError: before any fit, or not [n, dim] finite numbers.
    """
    arrays = self._solved()
    rows = check_rows(embeddings, self.dim)
    calibrated = np.empty([len(rows), self.output_dim], np.float32)
    for start, chunk in chunks(rows):
      with np.errstate(over="ignore"):
        calibrated[start : start + len(chunk)] = self._apply(arrays, chunk)
    bad = np.flatnonzero(~np.isfinite(calibrated).all(axis=1))
    if bad.size:
      raise CalibrationError(
        f"{self.name}: row {bad[0]} (counted from 0) does not fit into float32 once calibrated; it is far from the "
        f"{self.count} sentences of the fit"
      )
    return calibrated

  def save(self, folder):
    """Writes the folder (`calibration.json`, `arrays.npz`) in one step; an older calibration there is replaced.

    Raises:
      CalibrationError: before any fit, or the folder cannot be written or holds something else.
    """
    arrays = self._solved()
    settings = {"method": self.METHOD, "k": self.k, "dim": self.dim, "count": self.count}
    settings |= {"encoder": self.encoder} if self.encoder else {}
    storage.write(folder, settings, {"mean": self._moments.mean, "scatter": self._moments.scatter, **arrays})

  @classmethod
  def load(cls, folder):
    """The calibration of this class that `save` wrote; `spec.load_calibration` reads one of any class.

    Raises:
      CalibrationError: the folder is absent, incomplete, damaged or of another method.
    """
    settings, arrays = storage.read(folder)
    return cls.restore(folder, settings, arrays)

  @classmethod
  def restore(cls, folder, settings, arrays):
    """The calibration of what `storage.read` read in `folder`."""
    where = f"calibration folder {folder}"
    keys = ["method", "k", "dim", "count"]
    settings = dict(settings)
    encoder = settings.pop("encoder", None)
    if not isinstance(encoder, dict | None):
      raise CalibrationError(f"{where}: encoder is {encoder!r}, expected an object")
    if sorted(settings) != sorted(keys) or settings["method"] != cls.METHOD:
      raise CalibrationError(f"{where}: {storage.SETTINGS_FILE} holds {settings}, expected {keys} of {cls.METHOD}")
    dim, count = settings["dim"], settings["count"]
    if not (is_whole(dim) and dim >= 1 and is_whole(count) and count >= 2):
      raise CalibrationError(f"{where}: dim is {dim!r} and count {count!r}, expected whole numbers from 1 and from 2")
    try:
      calibration = cls(settings["k"])
    except ConfigError as error:
      raise CalibrationError(f"{where}: {error}") from error
    moments = {"mean": (dim,), "scatter": (dim, dim) if cls.CROSS else (dim,)}
    _check_arrays(where, arrays, {**moments, **calibration._shapes(dim)})
    calibration.encoder = encoder
    calibration._moments = Moments(count, arrays["mean"], arrays["scatter"])
    calibration._arrays = {name: array for name, array in arrays.items() if name not in moments}
    return calibration

  @abc.abstractmethod
  def affine(self):
    """The calibration as (shift float64 [dim], matrix float64 [dim, output_dim]): z = (u - shift) matrix.

    For what computes elsewhere, such as a served graph; `transform` gives the same to float32's rounding.

    Raises:
      CalibrationError: before any fit, or no k is chosen.
    """

  @abc.abstractmethod
  def _solve(self, moments):
    """{name: float64 array} of at least two differing rows' `moments`."""

  @abc.abstractmethod
  def _shapes(self, dim):
    """{name: shape} of what `_solve` gives; a range where several sizes are possible."""

  @abc.abstractmethod
  def _apply(self, arrays, rows):
    """Calibrates float64 rows [n, dim]."""

  def _fitted(self):
    if self._moments is None:
      raise CalibrationError(f"{self.name} is not fitted: call fit or partial_fit with embeddings, or load")
    return self._moments

  def _solved(self):
    if self._arrays is None:
      self._arrays = self._checked_solution(self._fitted())
    return self._arrays

  def _checked_solution(self, moments):
    if moments.count < 2:
      raise CalibrationError(f"{self.name} is fitted on at least 2 sentences, found {moments.count}")
    return self._solve(moments)


def _check_arrays(where, arrays, shapes):
  if arrays.keys() != shapes.keys():
    raise CalibrationError(f"{where}: arrays {sorted(arrays)} in {storage.ARRAYS_FILE}, expected {sorted(shapes)}")
  for name, shape in shapes.items():
    array = arrays[name]
    if not isinstance(array, np.ndarray) or array.dtype != np.float64:
      raise CalibrationError(f"{where}: array {name} is {getattr(array, 'dtype', 'no array')}, expected float64")
    allowed = [size if isinstance(size, range) else [size] for size in shape]
    if len(array.shape) != len(shape) or not all(map(operator.contains, allowed, array.shape)):
      raise CalibrationError(
        f"{where}: array {name} has the shape {list(array.shape)}, which does not fit the settings"
      )
    if not np.isfinite(array).all():
      raise CalibrationError(f"{where}: array {name} holds NaN or infinity")


def is_whole(value):
  """Whether it is an integer, and no bool."""
  return isinstance(value, int | np.integer) and not isinstance(value, bool)
