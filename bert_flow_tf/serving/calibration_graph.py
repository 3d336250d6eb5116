"""Any calibration as TensorFlow ops."""

import math

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.serving.flow_moves import moves_of


def make_calibration_graph(calibration, dim):
  """The graph of a calibration.

  Args:
    calibration: a fitted `Glow`, something that has one as `flow`, a `LinearCalibration`, or None for none.
    dim: dimensions of the embeddings.

  Raises:
    CalibrationError: not fitted, for embeddings of other dimensions, or of a kind that has no graph.
  """
  calibration = getattr(calibration, "flow", calibration)
  if calibration is None:
    return AffineGraph("none", np.zeros(dim), np.eye(dim))
  if isinstance(calibration, Glow):
    graph = FlowGraph(calibration)
  elif isinstance(calibration, LinearCalibration):
    graph = AffineGraph(calibration.name, *calibration.affine())
  else:
    raise CalibrationError(f"found {type(calibration).__name__}, expected a Glow, a LinearCalibration or None")
  if graph.dim != dim:
    raise CalibrationError(f"{graph.name} takes embeddings of {graph.dim} dimensions, found {dim}")
  return graph


class AffineGraph:
  """z = (u - shift) matrix, in float64 as the calibration itself computes it; then float32.

  A whitening divides by small deviations: what float32 would round off u - shift is seen in z.

  Attributes:
    name, dim, output_dim: of the calibration.
  """

  is_flow = False

  def __init__(self, name, shift, matrix):
    self.name = name
    self.dim, self.output_dim = matrix.shape
    self._shift, self._matrix = shift, matrix
    self._diagonal = np.diag(matrix) if np.array_equal(matrix, np.diag(np.diag(matrix))) else None

  def transform(self, embeddings):
    """U float32 [n, dim] -> z float32 [n, output_dim]."""
    centred = tf.cast(embeddings, tf.float64)
    if self._shift.any():
      centred = centred - self._shift
    if self._diagonal is None or self.dim != self.output_dim:
      return tf.cast(centred @ self._matrix, tf.float32)
    return tf.cast(centred if (self._diagonal == 1).all() else centred * self._diagonal, tf.float32)


class FlowGraph:
  """z = f(u) of a `Glow`, its density and its inverse; in the flow's own precision, float32 at both ends.

  Its weights are those of the flow when this is made.

  Attributes:
    name, dim, output_dim: of the flow.
  """

  is_flow = True

  def __init__(self, flow):
    if flow.needs_initialization:
      raise CalibrationError("the flow is not fitted, and would be served with random weights: fit or load it first")
    self.name = "flow"
    self.dim = self.output_dim = flow.dim
    self._moves, self._log_det = moves_of(flow)
    self._dtype = flow.dtype

  def transform(self, embeddings):
    """U float32 [n, dim] -> z float32 [n, dim]."""
    return tf.cast(self._forward(embeddings)[0], tf.float32)

  def log_prob(self, embeddings):
    """Density of u float32 [n, dim]: bits per dimension and nats, float32 [n] each."""
    latents, log_det = self._forward(embeddings)
    normal = -0.5 * (tf.reduce_sum(tf.square(latents), axis=1) + self.dim * math.log(2.0 * math.pi))
    nats = normal + log_det
    return tf.cast(nats / (-self.dim * math.log(2.0)), tf.float32), tf.cast(nats, tf.float32)

  def inverse(self, latents):
    """Z float32 [n, dim] -> u float32 [n, dim]."""
    v = tf.cast(latents, self._dtype)
    for move in reversed(self._moves):
      v = move.inverse(v)
    return tf.cast(v, tf.float32)

  def _forward(self, embeddings):
    v, log_det = tf.cast(embeddings, self._dtype), self._log_det
    for move in self._moves:
      v, added = move.forward(v)
      log_det = log_det if added is None else log_det + added
    return v, log_det
