"""NATSV: removal of the directions that all sentences share."""

import copy

import numpy as np

from bert_flow_tf.calibration import spectrum
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.methods import checked_scale
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.checks import check_rows

CANDIDATES = range(1, 21)  # The paper, table 5: k is selected among 1 to 20 on the validation set.


class Natsv(LinearCalibration):
  """z = u - V_k V_k^T u: nulling away the top k singular vectors, the paper's table 5.

  V_k [dim, k] are the first right singular vectors of the embeddings [n, dim], which are not centered: the paper
  mentions a mean only for SN. The first of them is nearly the direction of the mean. Mu et al. 2017,
  "All-but-the-Top", center word vectors first; `sn+natsv` is centered by SN.

  Args:
    k: number of directions, below the rank of the embeddings; None to choose it later (`choose_k`).
  """

  METHOD = "natsv"
  CROSS = True
  TAKES_K = True

  def _affine(self, arrays):
    return np.zeros(self._width), self._projection(arrays)

  def choose_k(self, embeddings_a: np.ndarray, embeddings_b: np.ndarray, gold: np.ndarray) -> dict[int, float]:
    """Sets k to the one of 1 to 20 with the best Spearman correlation of cosines with gold, the smallest of ties.

    Args:
      embeddings_a: [n, dim], first sentences of labeled pairs (the dev split), not calibrated.
      embeddings_b: [n, dim], second sentences.
      gold: [n] scores; pairs with NaN are ignored.

    Returns:
      {k: Spearman x 100} of every k below the rank of the fit; NaN if a cosine is not defined.

    Raises:
      CalibrationError: before any fit, arrays of different lengths, or no k has a correlation.
    """
    most = self._solved()["basis"].shape[1]
    a, b = check_rows(embeddings_a, self.dim), check_rows(embeddings_b, self.dim)
    gold = np.asarray(gold, np.float64)
    if not (a.shape[:1] == b.shape[:1] == gold.shape):
      raise CalibrationError(
        f"gold: expected as many scores as embeddings, got shape {list(gold.shape)} for {len(a)} and {len(b)}",
        argument="gold",
      )
    scored = ~np.isnan(gold)
    a, b, gold = a[scored], b[scored], gold[scored]
    correlations = {}
    for k in CANDIDATES[:most]:
      candidate = copy.copy(self)
      candidate.k = k
      correlations[k] = 100.0 * _spearman(candidate.transform(a), candidate.transform(b), gold)
    defined = {k: correlation for k, correlation in correlations.items() if not np.isnan(correlation)}
    if not defined:
      raise CalibrationError(
        f"gold: no k has a correlation on these {len(gold)} scored pairs; expected at least 2 different scores, or a k "
        f"as in {self.METHOD}-10",
        argument="gold",
      )
    self.k = max(defined, key=defined.get)
    return correlations

  def _solve(self, moments):
    second_moment = moments.scatter / moments.count + np.outer(moments.mean, moments.mean)
    return {"basis": self._basis(moments, second_moment, moments.mean_square)}

  def _basis(self, moments, matrix, mean_square):
    """Returns the first directions of a second moment, [dim, m]; m is the larger of 20 and k, below the rank."""
    _, vectors = spectrum.directions(matrix, mean_square)
    rank = vectors.shape[1]
    if (self.k or 1) >= rank:
      raise CalibrationError(
        f"k={self.k or 1}: the {moments.count} sentences in {moments.dim} dimensions have rank {rank}; expected "
        "a smaller k, or nothing would remain",
        argument="k",
      )
    return vectors[:, : min(max(self.k or 1, CANDIDATES[-1]), rank - 1)]

  def _shapes(self, width):
    return {"basis": (width, range(self.k or 1, width))}

  def _apply(self, arrays, rows):
    basis = self._chosen(arrays)
    return rows - (rows @ basis) @ basis.T

  def _chosen(self, arrays):
    if self.k is None:
      raise CalibrationError(
        f"{self.METHOD}: no k is chosen; call choose_k with labeled pairs, or give {self.METHOD}-10"
      )
    return arrays["basis"][:, : self.k]

  def _projection(self, arrays):
    basis = self._chosen(arrays)
    return np.eye(len(basis)) - basis @ basis.T


class StandardizedNatsv(Natsv):
  """y = (u - mean) / std, z = y - V_k V_k^T y: SN, then NATSV, the paper's table 5.

  V_k are the first singular vectors of the rows y of the fit.
  """

  METHOD = "sn+natsv"

  def _affine(self, arrays):
    return self._mean, arrays["scale"][:, np.newaxis] * self._projection(arrays)

  def _solve(self, moments):
    scale = checked_scale(self.name, moments)
    correlation = moments.scatter / moments.count * np.outer(scale, scale)
    return {"scale": scale, "basis": self._basis(moments, correlation, moments.mean_square * scale**2)}

  def _shapes(self, width):
    return {"scale": (width,), **super()._shapes(width)}

  def _apply(self, arrays, rows):
    return super()._apply(arrays, (rows - self._mean) * arrays["scale"])


def _spearman(a, b, gold):
  """Returns Spearman's correlation of the cosines of a and b, [n, dim], with gold [n]; NaN if it is not defined."""
  from scipy import stats  # half a second, for NATSV's choice of k alone

  if len(gold) < 2:
    return np.nan
  a, b = a.astype(np.float64), b.astype(np.float64)
  with np.errstate(invalid="ignore", divide="ignore"):
    cosines = np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return float(np.corrcoef(stats.rankdata(cosines), stats.rankdata(gold))[0, 1])
