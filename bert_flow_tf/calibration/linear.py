"""Calibrations that mean and covariance determine: z = (u - shift) matrix, with a solver per method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.step import Affine, Calibration, Contents, Features, check_features, check_release
from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from bert_flow_tf.io.checks import as_array, check_rows, is_integer
from bert_flow_tf.io.files import Json
from bert_flow_tf.progress import counted

if TYPE_CHECKING:
  from bert_flow_tf.calibration.step import Array

CANDIDATES = range(1, 21)  # The paper, table 5: K of NATSV is from 1 to 20.
SHRINKAGE = 0.5  # of soft whitening; within 0.2 of the best on STS-B's dev split for two encoders
MIN_POWER = 0.2  # of tempered whitening; all-MiniLM-L6-v2 loses on SICK from 0.25 on (docs/retrieval.md)


def _none(moments: Moments, k: None) -> Affine:
  """Solves z = u; fitted like the others, so that comparisons can include it."""
  return np.zeros(moments.dim), np.eye(moments.dim)


def _mean(moments: Moments, k: None) -> Affine:
  """Solves z = u - mean."""
  moments.check_varying(moments.inverse_deviations)
  return moments.mean, np.eye(moments.dim)


def _sn(moments: Moments, k: None) -> Affine:
  """Solves z = (u - mean) / std of each dimension: SN of the paper's table 5.

  std divides by n, which does not change cosines. A dimension without variance becomes 0, as its scale is unknown.
  """
  return moments.mean, np.diag(moments.scale)


def _whitening(moments: Moments, k: int | None) -> Affine:
  """Solves z = (u - mean) W, the first k columns of W = V diag(1 / sqrt(lambda)).

  V and lambda are the eigenvectors and descending eigenvalues of the covariance (divided by n - 1), so that the rows of
  the fit get covariance I. Su et al. 2021, "Whitening Sentence Representations for Better Semantics and Faster
  Retrieval", algorithm 1. Directions without variance are dropped.
  """
  values, vectors = _varying_directions("whitening", moments, k)
  return moments.mean, (vectors / np.sqrt(values))[:, :k]


def _soft_whitening(moments: Moments, k: float | None) -> Affine:
  """Solves z = (u - mean) V diag(s), s = 1 / sqrt(lambda + mean(lambda) / 2), or 1 / lambda^k with 0 < k < 1.

  lambda and V are as in whitening, whose k would be 0.5; it makes directions of little variance, which are mostly
  noise, as important as the others. The first form whitens with a covariance that is shrunk toward a multiple of the
  identity (as in Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices", with a
  fixed weight): large directions become even, small ones stay small.
  """
  values, vectors = _varying_directions("soft-whitening", moments, None)
  if k is None:
    return moments.mean, vectors / np.sqrt(values + SHRINKAGE * np.mean(values))
  return moments.mean, vectors / values**k


def _tempered_whitening(moments: Moments, k: float | None) -> Affine:
  """Solves z = (u - mean) V diag(1 / lambda^k), of all directions, where the covariance is shrunk by their number.

  V and lambda are the eigenvectors and eigenvalues of (1 - rho) S + rho mean(variance) I. rho is the oracle
  approximating shrinkage of Chen, Wiesel, Eldar and Hero 2010, "Shrinkage algorithms for MMSE covariance estimation",
  equation 23: with p dimensions and n rows,

      rho = min(1, ((1 - 2 / p) tr(S^2) + tr(S)^2) / ((n + 1 - 2 / p) (tr(S^2) - tr(S)^2 / p)))

  It is near 0 for thousands of rows and near 1 for a few, which leave embeddings nearly as they are.

  Without k, the power is half of |mean|^2 / mean(|u|^2), which is about the mean cosine of two sentences, and at least
  `MIN_POWER`: the narrower the cone, the nearer to whitening, whose power is 1/2. "Spectral Tempering" (arXiv
  2603.19339) takes the power from the spectrum.
  """
  moments.check_varying(moments.inverse_deviations)
  values, vectors = moments.shrunk_directions
  if k is None:
    square = np.sum(moments.mean**2)
    k = max(MIN_POWER, 0.5 * square / (square + np.sum(moments.variance)))
  return moments.mean, vectors / values**k


def _natsv(moments: Moments, k: int) -> Affine:
  """Solves z = u - V V^T u: nulling away the first k singular vectors V of u, the paper's table 5.

  The embeddings are not centered: the paper mentions a mean only for SN. The first vector is nearly the direction of
  the mean. Mu et al. 2017, "All-but-the-Top", center word vectors first; `sn+natsv` is centered by SN.
  """
  return np.zeros(moments.dim), _nulling(moments, moments.uncentered_directions[1], k)


def _sn_natsv(moments: Moments, k: int) -> Affine:
  """Solves y = (u - mean) / std, z = y - V V^T y: SN, then NATSV of its rows y, the paper's table 5."""
  nulling = _nulling(moments, moments.standardized_directions[1], k)
  return moments.mean, moments.scale[:, np.newaxis] * nulling


def _varying_directions(name: str, moments: Moments, k: int | None) -> tuple[np.ndarray, np.ndarray]:
  """Returns the covariance's eigenvalues [rank] and eigenvectors [dim, rank].

  Logs a rank below the dimensions, unless the first k directions are kept alone.
  """
  values, vectors = moments.directions
  moments.check_varying(values)
  rank = len(values)
  description = f"the covariance of {counted(moments.count, 'sentence')} in {moments.dim} dimensions has rank {rank}"
  if (k or rank) > rank:
    raise CalibrationError(f"k={k}: {description}; expected at most the rank, or more and other sentences", "k")
  if rank < moments.dim and k is None:
    dropped = f"{counted(moments.dim - rank, 'direction')} without variance"
    if name == "whitening" and rank == moments.count - 1:
      dropped += "; with so few sentences, all become equally different"
    logging.warning("%s: %s; dropped: %s", name, description, dropped)
  return values, vectors


def _nulling(moments: Moments, vectors: np.ndarray, k: int) -> np.ndarray:
  """Returns the projection [dim, dim] that removes the first k columns of `vectors` [dim, rank]."""
  rank = vectors.shape[1]
  if k >= rank:
    fitted = f"the {moments.count} sentences in {moments.dim} dimensions have rank {rank}"
    raise CalibrationError(f"k={k}: {fitted}; expected a smaller k, or nothing would remain", "k")
  basis = vectors[:, :k]
  return np.eye(moments.dim) - basis @ basis.T


@dataclasses.dataclass(frozen=True)
class Method:
  """Solver of a method, and its k."""

  solve: Callable[[Moments, Any], Affine]  # moments, k -> shift and matrix
  cross: bool = False  # whether it needs the whole covariance
  k: type | None = None  # type of the k that it takes; None for none
  k_on_dev: bool = False  # whether k, if it is not given, is chosen on labeled pairs after the fit
  has_order: bool = False  # whether its first dimensions are the directions of the largest variance


METHODS = {
  "whitening": Method(_whitening, cross=True, k=int, has_order=True),
  "soft-whitening": Method(_soft_whitening, cross=True, k=float, has_order=True),
  "tempered-whitening": Method(_tempered_whitening, cross=True, k=float, has_order=True),
  "sn": Method(_sn),
  "natsv": Method(_natsv, cross=True, k=int, k_on_dev=True),
  "sn+natsv": Method(_sn_natsv, cross=True, k=int, k_on_dev=True),
  "mean": Method(_mean),
  "none": Method(_none),
}


class LinearCalibration(Calibration, methods=tuple(METHODS)):
  """z = (u - shift) matrix, which `Moments` of u determine; it can be fitted in parts, also after it was loaded.

  It computes in float64 and returns float32: a whitening divides by small standard deviations, which would magnify a
  rounding of u - shift to float32.

  Args:
    method: a key of `METHODS`.
    k: number of directions or exponent, for methods that take it; None for the method's default.
  """

  def __init__(self, method: str, k: float | None = None) -> None:
    self.method = method
    self.k = _k_of(method, k)
    self._moments: Moments | None = None
    self._affine: Affine | None = None

  @property
  def name(self) -> str:
    """Name as `parse_calibration` reads it."""
    if self.k is None:
      return self.method
    return f"{self.method}-{self.k}"

  @property
  def dim(self) -> int:
    """Dimensions of the embeddings of the fit."""
    return self._fitted().dim

  @property
  def count(self) -> int:
    """Number of sentences of the fit."""
    return self._fitted().count

  @property
  def output_dim(self) -> int:
    """Dimensions of calibrated embeddings; of NATSV they do not depend on k."""
    if self._awaits_k:
      return self.dim
    return self.affine()[1].shape[1]

  @property
  def _awaits_k(self) -> bool:
    return self.k is None and METHODS[self.method].k_on_dev

  def fit(self, embeddings: np.ndarray) -> LinearCalibration:
    """Fits to embeddings [n, dim], discards an earlier fit, and returns itself; an error keeps it."""
    moments = self._moments_of(check_rows(embeddings))
    # Solved before anything is replaced.
    solver = self._solver(moments)
    affine = None
    if self._awaits_k:
      solver(CANDIDATES[0])  # an error if the rows do not even allow the smallest k
    else:
      affine = solver(self.k)
    self._moments, self._affine, self.query_shift = moments, affine, None
    return self

  def partial_fit(self, embeddings: np.ndarray) -> LinearCalibration:
    """Adds embeddings [n, dim] to the fit and returns itself; the number of rows and their rank are checked later.

    Up to rounding, any split of the rows gives the result of `fit` on all. A `query_shift` stays as it is.
    """
    # The first rows decide the dimensions.
    if self._moments is None:
      self._moments = self._moments_of(check_rows(embeddings))
    else:
      self._moments = self._moments.merged(self._moments_of(check_rows(embeddings, self.dim)))
    self._affine = None
    return self

  def merge(self, other: LinearCalibration) -> LinearCalibration:
    """Adds the embeddings of another fit with this method, as `partial_fit` would, and returns itself."""
    # An unknown encoder agrees with any.
    encoders = [each.encoder for each in (self, other) if each.encoder]
    alike = (self.name, self.dim) == (other.name, other.dim)
    alike &= np.array_equal(self.query_shift, other.query_shift)
    if not alike or encoders[:1] != encoders[-1:]:
      reason = "fits of different methods, dimensions, encoders or query_shift cannot be merged"
      raise CalibrationError(f"{self.name} and {other.name}: {reason}")
    self._moments = self._fitted().merged(other._fitted())
    self._affine = None
    self.encoder = self.encoder or other.encoder
    return self

  def __call__(self, features: Features) -> Array:
    """u [n, dim] -> z float32 [n, output_dim]."""
    check_features(features)
    tf = functions_for(features.embedding)
    dtype = np.float32 if features.lite else np.float64
    exact_shift, matrix = self.affine()
    shift = exact_shift.astype(dtype)
    outputs = (tf.cast(features.embedding, dtype) - shift) @ matrix.astype(dtype)
    if features.lite:
      # The digits of the shift that float32 lacks. TensorFlow would round a second difference with the first.
      outputs -= ((exact_shift - shift) @ matrix).astype(dtype)
    return tf.cast(outputs, tf.float32)

  def check_fitted(self) -> None:
    """See the base class."""
    self.affine()

  def affine(self) -> Affine:
    """Returns shift, float64 [dim], and matrix, float64 [dim, output_dim], of z = (u - shift) matrix."""
    if self._awaits_k:
      example = f"{self.method}-10"
      raise CalibrationError(f"{self.method}: no k is chosen; call choose_k with labeled pairs, or give {example}")
    if self._affine is None:
      self._affine = self._solver(self._fitted())(self.k)
    return self._affine

  def affine_of(self, dim: int) -> Affine:
    """See the base class."""
    del dim
    return self.affine()

  def choose_k(self, embeddings_a: np.ndarray, embeddings_b: np.ndarray, gold: np.ndarray) -> dict[int, float]:
    """Sets k of NATSV to the number from 1 to 20 whose cosines have the best Spearman with gold, the first of ties.

    Takes labeled pairs that are not calibrated, two [n, dim] and scores [n], of which NaN are left out. Returns
    {k: Spearman x 100} of every k below the rank of the fit; NaN where it is not defined.
    """
    a, b = check_rows(embeddings_a, self.dim), check_rows(embeddings_b, self.dim)
    gold = as_array(gold, "gold", dtype=np.float64, expected="[n]")
    if not (a.shape[:1] == b.shape[:1] == gold.shape):
      shapes = f"shape {list(gold.shape)} for {len(a)} and {len(b)}"
      raise CalibrationError(f"gold: expected as many scores as embeddings, got {shapes}", "gold")
    # Pairs without a gold score take no part, whatever their embeddings are.
    scored = ~np.isnan(gold)
    solver = self._solver(self._fitted())
    scores = {}
    for k in CANDIDATES:
      try:
        shift, matrix = solver(k)
      except CalibrationError:  # k has reached the rank
        break
      first = ((a[scored] - shift) @ matrix).astype(np.float32)
      second = ((b[scored] - shift) @ matrix).astype(np.float32)
      scores[k] = _spearman(first, second, gold[scored])
    defined = {k: score for k, score in scores.items() if not np.isnan(score)}
    if not defined:
      pairs = f"no k has a correlation on these {scored.sum()} scored pairs"
      expected = f"at least 2 different scores, or a k as in {self.method}-10"
      raise CalibrationError(f"gold: {pairs}; expected {expected}", "gold")
    self.k, self._affine = max(defined, key=defined.__getitem__), None
    return scores

  def contents(self) -> Contents:
    """Returns JSON settings and the moments, from which shift and matrix are solved again."""
    moments = self._fitted()
    if not self._awaits_k:
      self.affine()  # an error here rather than after a load
    settings = {"method": self.method, "k": self.k, "count": moments.count}
    return settings, {"mean": moments.mean, "scatter": moments.scatter}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> LinearCalibration:
    """Returns the calibration of `contents`."""
    # A file that was written by others must fail here, and not in the numbers of a transform.
    check_release(settings)
    restored = cls(settings["method"], settings["k"])
    mean = np.asarray(arrays["mean"], np.float64)
    scatter = np.asarray(arrays["scatter"], np.float64)
    expected = [mean.size] * (1 + METHODS[restored.method].cross)
    if mean.ndim != 1 or list(scatter.shape) != expected or not np.isfinite([mean.sum(), scatter.sum()]).all():
      raise CalibrationError("arrays mean and scatter do not fit the settings, or are not finite")
    restored._moments = Moments(int(settings["count"]), mean, scatter)
    if not restored._awaits_k:
      restored.affine()
    return restored

  def _fitted(self) -> Moments:
    if self._moments is None:
      raise CalibrationError(f"{self.name} is not fitted: call fit or partial_fit with embeddings, or load")
    return self._moments

  def _moments_of(self, rows):
    return Moments.of(rows, METHODS[self.method].cross)

  def _solver(self, moments: Moments) -> Callable[[Any], Affine]:
    """Returns the function k -> `Affine` of u for its moments."""
    if moments.count < 2:
      raise CalibrationError(f"embeddings: {self.name} needs at least 2 sentences, got {moments.count}", "embeddings")
    solve = METHODS[self.method].solve
    return lambda k: solve(moments, k)


def _k_of(method: str, k: Any) -> Any:
  """Returns k as an int or a float, or None."""
  if method not in METHODS:
    raise ConfigError(f"method={method}: expected one of {', '.join(METHODS)}", argument="method")
  kind = METHODS[method].k
  if k is None:
    return None
  if kind is int and is_integer(k, 1):
    return int(k)
  if kind is float and isinstance(k, float) and 0.0 < k < 1.0:
    return k
  expected = {None: "no k", int: "an integer of at least 1", float: "an exponent between 0 and 1"}[kind]
  raise ConfigError(f"k={k!r}: calibration {method} takes {expected}", argument="k")


def _spearman(a, b, gold):
  """Returns Spearman's correlation x 100 of the cosines of rows a and b [n, dim] with gold [n]; NaN if undefined."""
  try:
    return correlation(cosine_similarity(a, b), gold).spearman
  except DataError:  # a row of zeros has no cosine
    return np.nan
