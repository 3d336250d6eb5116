"""Base class of the calibrations that mean and covariance determine."""

import abc
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.combined import Mix, checked_shares, view_dim
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.moments import Moments, chunks
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.io.checks import check_rows, is_integer


class LinearCalibration(Calibration):
  """Calibration that `Moments` determine: it can be fitted in parts, also after `load`.

  A subclass has a METHOD, needs the covariance or not (CROSS), takes a k or not (TAKES_K), computes the arrays that
  `_apply` needs from the moments (`_solve`), and gives their shapes (`_shapes`). It computes in float64 and returns
  float32.

  With shares, embeddings u are concatenated views, and the method gets x, their `Mix`. The moments kept are those of u:
  they determine those of x, so a fit in parts is exact here too.

  Args:
    k: number of directions or exponent, for methods that take it; None for the method's own choice.
    shares: share of each view; () if embeddings are not concatenated views.

  Raises:
    ConfigError: k or shares are not allowed.
  """

  METHOD = ""
  CROSS = False
  TAKES_K = False

  def __init__(self, k: float | None = None, shares: Sequence[float] = ()) -> None:
    if k is not None and not self.TAKES_K:
      raise ConfigError(f"k={k!r}: calibration {self.METHOD} takes no k", argument="k")
    self.k = None if k is None else self._checked_k(k)
    self.shares = checked_shares(shares)
    self.encoder = None
    self._moments: Moments | None = None
    self._arrays: dict[str, np.ndarray] | None = None

  @property
  def name(self) -> str:
    """Name as `parse_calibration` reads it."""
    return self.METHOD if self.k is None else f"{self.METHOD}-{self.k}"

  @property
  def dim(self) -> int:
    """Dimensions of the embeddings of the fit, all views together."""
    return self._fitted().dim

  @property
  def count(self) -> int:
    """Number of sentences of the fit."""
    return self._fitted().count

  @property
  def output_dim(self) -> int:
    """Dimensions of calibrated embeddings."""
    return self._width

  def fit(self, embeddings: np.ndarray) -> "LinearCalibration":
    """Fits to embeddings [n, dim], discards an earlier fit, and returns itself.

    Raises:
      CalibrationError: not [n, dim] finite numbers, fewer than 2 rows, rows that are all equal, or a k above the rank;
        then the earlier fit stays.
    """
    moments = self._moments_of(check_rows(embeddings))
    arrays = self._checked_solution(moments)
    self._moments, self._arrays = moments, arrays
    return self

  def partial_fit(self, embeddings: np.ndarray) -> "LinearCalibration":
    """Adds embeddings [n, dim] to the fit and returns itself.

    Up to rounding, any split of the rows gives the result of `fit` on all. The number of rows and their rank are
    checked at the next use.

    Raises:
      CalibrationError: not finite numbers, or other dimensions than before; then nothing is added.
    """
    rows = check_rows(embeddings, None if self._moments is None else self._moments.dim)
    batch = self._moments_of(rows)
    self._moments = batch if self._moments is None else self._moments.merged(batch)
    self._arrays = None
    return self

  def merge(self, other: "LinearCalibration") -> "LinearCalibration":
    """Adds the embeddings of another fit with this method, as `partial_fit` would, and returns itself.

    Raises:
      CalibrationError: another method, k, encoder or other shares or dimensions, or one of the two is not fitted; then
        nothing is added.
    """
    if type(other) is not type(self) or other.k != self.k or other.shares != self.shares:
      raise CalibrationError(f"{self.name} cannot be merged with {getattr(other, 'name', type(other).__name__)}")
    mine, theirs = self._fitted(), other._fitted()
    if mine.dim != theirs.dim:
      raise CalibrationError(f"{self.name} was fitted on {mine.dim} dimensions, the other on {theirs.dim}")
    if self.encoder and other.encoder and self.encoder != other.encoder:
      raise CalibrationError(
        f"{self.name} was fitted on embeddings of {self.encoder.get('name')}, the one to merge on those of "
        f"{other.encoder.get('name')}, or otherwise made"
      )
    self._moments, self._arrays = mine.merged(theirs), None
    self.encoder = self.encoder or other.encoder
    return self

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """u [n, dim] -> z [n, output_dim], float32.

    Raises:
      CalibrationError: before any fit, or not [n, dim] finite numbers.
    """
    arrays = self._solved()
    rows, mix = check_rows(embeddings, self.dim), self._mix()
    calibrated = np.empty([len(rows), self.output_dim], np.float32)
    for start, chunk in chunks(rows):
      with np.errstate(over="ignore"):
        calibrated[start : start + len(chunk)] = self._apply(arrays, chunk if mix is None else mix(chunk))
    bad = np.flatnonzero(~np.isfinite(calibrated).all(axis=1))
    if bad.size:
      raise CalibrationError(
        f"embeddings: row {bad[0]} (from 0) exceeds float32 after {self.name}: it is far from the {self.count} "
        "sentences of the fit",
        argument="embeddings",
      )
    return calibrated

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the folder (`calibration.json`, `arrays.npz`) in one step; replaces an older calibration.

    Raises:
      CalibrationError: before any fit, or the folder cannot be written or contains something else.
    """
    storage.write(folder, *self.contents())

  def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the settings, JSON values, and arrays that `save` writes.

    Raises:
      CalibrationError: before any fit.
    """
    arrays, moments = self._solved(), self._fitted()
    settings = {"method": self.METHOD, "k": self.k, "dim": self.dim, "count": self.count}
    optional = {"encoder": self.encoder, "shares": list(self.shares)}
    settings |= {name: value for name, value in optional.items() if value}
    return settings, {"mean": moments.mean, "scatter": moments.scatter, **arrays}

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "LinearCalibration":
    """Loads a calibration of this class; `spec.load_linear_calibration` loads any class.

    Raises:
      CalibrationError: the folder is missing, incomplete, damaged or of another method.
    """
    return cls.restore(folder, *storage.read(folder))

  @classmethod
  def restore(
    cls, folder: str | os.PathLike, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
  ) -> "LinearCalibration":
    """Returns the calibration of the settings and arrays that `storage.read` read in `folder`."""
    where = f"calibration folder {folder}"
    keys = ["method", "k", "dim", "count"]
    settings = dict(settings)
    encoder, shares = settings.pop("encoder", None), settings.pop("shares", ())
    if not isinstance(encoder, dict | None):
      raise CalibrationError(f"{where}: encoder is {encoder!r}, expected an object")
    if sorted(settings) != sorted(keys) or settings["method"] != cls.METHOD:
      raise CalibrationError(f"{where}: {storage.SETTINGS_FILE} has {settings}, expected {keys} of {cls.METHOD}")
    dim, count = settings["dim"], settings["count"]
    if not (is_integer(dim, 1) and is_integer(count, 2)):
      raise CalibrationError(f"{where}: dim is {dim!r} and count {count!r}, expected integers from 1 and from 2")
    try:
      calibration = cls(settings["k"], shares)
      width = view_dim(dim, calibration.shares)
    except (ConfigError, CalibrationError) as error:
      raise CalibrationError(f"{where}: {error}") from error
    moments = {"mean": (dim,), "scatter": (dim, dim) if cls.CROSS or calibration.shares else (dim,)}
    storage.check_arrays(where, arrays, {**moments, **calibration._shapes(width)})
    calibration.encoder = encoder
    calibration._moments = Moments(count, arrays["mean"], arrays["scatter"])
    calibration._arrays = {name: array for name, array in arrays.items() if name not in moments}
    return calibration

  def affine(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns shift, float64 [dim], and matrix, float64 [dim, output_dim], of z = (u - shift) matrix.

    For other runtimes, such as a served graph; `transform` gives the same up to float32 rounding.

    Raises:
      CalibrationError: before any fit, or no k is chosen.
    """
    shift, matrix = self._affine(self._solved())
    mix = self._mix()
    return (shift, matrix) if mix is None else mix.affine(shift, matrix)

  @abc.abstractmethod
  def _affine(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns shift, float64 [width], and matrix, float64 [width, output_dim], of z = (x - shift) matrix."""

  @abc.abstractmethod
  def _solve(self, moments: Moments) -> dict[str, np.ndarray]:
    """Returns {name: float64 array} of the moments of at least two different rows."""

  @abc.abstractmethod
  def _shapes(self, width: int) -> dict[str, tuple]:
    """Returns {name: shape} of the arrays of `_solve`; a range in a shape allows several sizes."""

  @abc.abstractmethod
  def _apply(self, arrays: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Calibrates float64 rows x [n, width]."""

  @property
  def _width(self) -> int:
    """Dimensions of x."""
    return view_dim(self.dim, self.shares)

  @property
  def _mean(self) -> np.ndarray:
    """Mean of x, float64 [width]."""
    return np.zeros(self._width) if self.shares else self._fitted().mean

  def _mix(self) -> Mix | None:
    return Mix.of(self._fitted(), self.shares) if self.shares else None

  def _moments_of(self, rows):
    view_dim(rows.shape[1], self.shares)
    return Moments.of(rows, self.CROSS or bool(self.shares))

  def _checked_k(self, k: Any) -> Any:
    if not is_integer(k, 1):
      raise ConfigError(f"k={k!r}: calibration {self.METHOD} expects an integer of at least 1", argument="k")
    return int(k)

  def _fitted(self) -> Moments:
    if self._moments is None:
      raise CalibrationError(f"{self.name} is not fitted: call fit or partial_fit with embeddings, or load")
    return self._moments

  def _solved(self) -> dict[str, np.ndarray]:
    if self._arrays is None:
      self._arrays = self._checked_solution(self._fitted())
    return self._arrays

  def _checked_solution(self, moments):
    if moments.count < 2:
      raise CalibrationError(f"embeddings: {self.name} needs at least 2 sentences, got {moments.count}", "embeddings")
    return self._solve(Mix.of(moments, self.shares).moments(moments) if self.shares else moments)
