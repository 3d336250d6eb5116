"""NATSV: the directions that all sentences share are taken away."""

import copy

import numpy as np
from scipy import stats

from bert_flow_tf.calibration import spectrum
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.methods import checked_scale
from bert_flow_tf.calibration.moments import check_rows
from bert_flow_tf.errors import CalibrationError

CANDIDATES = range(1, 21)  # The paper, table 5: k is selected among 1 to 20 on the validation set.


class Natsv(LinearCalibration):
  """Nulling away the top k singular vectors, the paper's table 5: z = u - V_k V_k^T u.

  V_k [dim, k] are the first right singular vectors of the embeddings [n, dim] as they are, not centred: the paper
  speaks of the singular vectors of the embeddings and of a mean with SN alone. The first of them is nearly the mean's
  direction. Mu et al. 2017, "All-but-the-Top", centre word vectors first; `sn+natsv` is centred, by SN.

  Args:
    k: number of directions, less than the rank of the embeddings; None to choose it later (`choose_k`).
  """

  METHOD = "natsv"
  CROSS = True
  TAKES_K = True

  def affine(self):
    """No shift, and I - V_k V_k^T."""
    return np.zeros(self.dim), self._projection()

  def choose_k(self, embeddings_a, embeddings_b, gold):
    """Takes the k of 1 to 20 whose cosines agree best with gold scores, the smallest of equals; what is fitted stays.

    Args:
      embeddings_a: [n, dim] of the first sentences of labelled pairs (the dev split), not calibrated.
      embeddings_b: [n, dim] of the second sentences.
      gold: [n] scores; pairs with NaN take no part.

    Returns:
      {k: Spearman x 100}, NaN where a cosine is not defined; only k that the embeddings of the fit have.

    Raises:
      CalibrationError: before any fit, arrays that do not fit together, or no k has a correlation.
    """
    most = self._solved()["basis"].shape[1]
    a, b = check_rows(embeddings_a, self.dim), check_rows(embeddings_b, self.dim)
    gold = np.asarray(gold, np.float64)
    if not (a.shape[:1] == b.shape[:1] == gold.shape):
      raise CalibrationError(
        f"{self.METHOD}: {len(a)} and {len(b)} embeddings, gold scores of shape {list(gold.shape)}, expected [n]"
      )
    scored = ~np.isnan(gold)
    a, b, gold = a[scored], b[scored], gold[scored]
    figures = {}
    for k in CANDIDATES[:most]:
      candidate = copy.copy(self)
      candidate.k = k
      figures[k] = 100.0 * _spearman(candidate.transform(a), candidate.transform(b), gold)
    defined = {k: figure for k, figure in figures.items() if not np.isnan(figure)}
    if not defined:
      raise CalibrationError(
        f"{self.METHOD}: no k has a correlation on these {len(gold)} scored pairs, expected at least 2 whose scores "
        f"differ: give k, as in {self.METHOD}-10"
      )
    self.k = max(defined, key=defined.get)
    return figures

  def _solve(self, moments):
    second_moment = moments.scatter / moments.count + np.outer(moments.mean, moments.mean)
    return {"basis": self._basis(moments, second_moment, moments.mean_square)}

  def _basis(self, moments, matrix, mean_square):
    """V, [dim, most], of the matrix of the rows whose directions are taken away; most is 20 or k, below the rank."""
    _, vectors = spectrum.directions(matrix, mean_square)
    rank = vectors.shape[1]
    if (self.k or 1) >= rank:
      raise CalibrationError(
        f"{self.name}: the {moments.count} sentences in {moments.dim} dimensions have rank {rank}, expected more than "
        f"the {self.k or 1} taken away: nothing would remain"
      )
    return vectors[:, : min(max(self.k or 1, CANDIDATES[-1]), rank - 1)]

  def _shapes(self, dim):
    return {"basis": (dim, range(self.k or 1, dim))}

  def _apply(self, arrays, rows):
    basis = self._chosen(arrays)
    return rows - (rows @ basis) @ basis.T

  def _chosen(self, arrays):
    if self.k is None:
      raise CalibrationError(
        f"{self.METHOD}: no k is chosen: call choose_k with labelled pairs, or give {self.METHOD}-10"
      )
    return arrays["basis"][:, : self.k]

  def _projection(self):
    basis = self._chosen(self._solved())
    return np.eye(self.dim) - basis @ basis.T


class StandardizedNatsv(Natsv):
  """SN, then NATSV, the paper's table 5: y = (u - mean) / std, z = y - V_k V_k^T y.

  V_k are the first singular vectors of the rows y of the fit.
  """

  METHOD = "sn+natsv"

  def affine(self):
    """The mean, and diag(1 / std) (I - V_k V_k^T)."""
    matrix = self._solved()["scale"][:, np.newaxis] * self._projection()
    return self._moments.mean, matrix

  def _solve(self, moments):
    scale = checked_scale(self.name, moments)
    correlation = moments.scatter / moments.count * np.outer(scale, scale)
    return {"scale": scale, "basis": self._basis(moments, correlation, moments.mean_square * scale**2)}

  def _shapes(self, dim):
    return {"scale": (dim,), **super()._shapes(dim)}

  def _apply(self, arrays, rows):
    return super()._apply(arrays, (rows - self._moments.mean) * arrays["scale"])


def _spearman(a, b, gold):
  """Spearman's correlation of the cosines of a and b, [n, dim], with gold [n]; NaN where it is not defined."""
  if len(gold) < 2:
    return np.nan
  a, b = a.astype(np.float64), b.astype(np.float64)
  with np.errstate(invalid="ignore", divide="ignore"):
    cosines = np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return float(np.corrcoef(stats.rankdata(cosines), stats.rankdata(gold))[0, 1])
