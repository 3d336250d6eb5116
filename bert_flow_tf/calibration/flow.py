"""The flow as one calibration among others, and the loading of any."""

import os

import numpy as np

from bert_flow_tf.calibration import spec
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.spec import FLOW
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.storage import FLOW_FOLDER
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.training.sources import EmbeddingPairs

# Rows that go through the flow at once: bounds memory, and costs nothing above some hundred.
_ROWS_AT_ONCE = 8192


class FlowCalibration(Calibration):
  """u -> z = f(u): a `Glow`, fitted by a `Trainer`.

  Args:
    flow: the `Glow`.
    trainer: the `Trainer` of that flow; None for a flow that is not fitted any more.
    num_train_epochs: passes over the pairs.
  """

  def __init__(self, flow, trainer=None, num_train_epochs=1.0):
    self.flow = flow
    self._trainer = trainer
    self.num_train_epochs = num_train_epochs
    self._fitted = False

  @property
  def name(self):
    """The value of `--calibration`."""
    return FLOW

  @property
  def dim(self):
    """Dimensions of the embeddings."""
    return self.flow.dim

  @property
  def output_dim(self):
    """Dimensions of the latents."""
    return self.flow.dim

  @property
  def encoder(self):
    """What the embeddings came from; kept in the flow."""
    return self.flow.encoder

  @encoder.setter
  def encoder(self, identity):
    self.flow.encoder = identity

  def fit(self, embeddings):
    """Fits from embeddings [2 n, dim]: the first sentences of n pairs, then the second ones; returns itself.

    Called again, it starts again from the flow's seed; `fit_source` goes on from the weights there are.

    Raises:
      CalibrationError: an odd number of rows, rows that are not finite numbers, or no trainer.
      BertFlowError: what `Trainer.fit` raises.
    """
    rows = check_rows(embeddings, self.dim)
    if len(rows) % 2:
      raise CalibrationError(
        f"flow is fitted on embeddings of shape {list(rows.shape)}, expected [2 n, dim]: the first sentences of n "
        "pairs, then the second ones"
      )
    source = EmbeddingPairs(rows[: len(rows) // 2], rows[len(rows) // 2 :])
    if self._trainer is not None and self._fitted:
      self._trainer.num_steps(len(source), self.num_train_epochs)  # what makes no step leaves what was fitted
      encoder = self.encoder
      self._trainer.restart()
      self.encoder = encoder
    return self.fit_source(source)

  def fit_source(self, source):
    """Fits from what `Trainer.fit` takes; returns itself."""
    if self._trainer is None:
      raise CalibrationError("flow was loaded and has no trainer: fit it with Trainer(flow).fit")
    self._trainer.fit(source, self.num_train_epochs)
    self._fitted = True
    return self

  def transform(self, embeddings):
    """Embeddings [n, dim] -> latents, float32 array [n, dim].

    Raises:
      CalibrationError: before any fit, not [n, dim] finite numbers, or a latent that is not finite.
    """
    rows = check_rows(embeddings, self.dim)
    if self.flow.needs_initialization:
      raise CalibrationError("flow is not fitted: call fit with embeddings, or load")
    parts = [
      self.flow.transform(rows[start : start + _ROWS_AT_ONCE]).numpy()
      for start in range(0, max(len(rows), 1), _ROWS_AT_ONCE)
    ]
    latents = np.concatenate(parts).astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(latents).all(axis=1))
    if bad.size:
      raise CalibrationError(f"flow: the latent of row {bad[0]} (counted from 0) is not finite")
    return latents

  def save(self, folder):
    """Writes the flow's folder, as `Glow.save`."""
    self.flow.save(folder)

  @classmethod
  def load(cls, folder):
    """The flow in a folder that `save` or `Glow.save` wrote."""
    return cls(Glow.load(folder))


def load_calibration(folder: str | os.PathLike) -> Calibration:
  """Loads the flow or other calibration that was saved in a folder.

  Raises:
    FlowError, CalibrationError: the folder is missing, incomplete or damaged.
  """
  return FlowCalibration.load(folder) if FLOW_FOLDER.is_in(folder) else spec.load_calibration(folder)


load_any = load_calibration
