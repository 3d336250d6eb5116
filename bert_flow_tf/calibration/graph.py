"""Calibrations as TensorFlow graphs."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import Mix, SideBySide
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow


class CalibrationGraph:
  """Graph of a calibration of embeddings u [n, dim]: its name, sizes and weights."""

  is_flow = False

  def __init__(self, name: str, dim: int, output_dim: int, variables: Sequence[tf.Variable] = ()):
    self.name, self.dim, self.output_dim, self.variables = name, dim, output_dim, variables

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """u float32 [n, dim] -> z float32 [n, output_dim]."""
    raise NotImplementedError


class AffineGraph(CalibrationGraph):
  """z = (u - shift) matrix, computed in float64 as the calibration does, then rounded to float32.

  A whitening divides by small standard deviations, which would magnify a rounding of u - shift to float32.
  """

  def __init__(self, name: str, shift: np.ndarray, matrix: np.ndarray):
    super().__init__(name, len(matrix), matrix.shape[1])
    self._shift, self._matrix = shift, matrix

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    centered = tf.cast(embeddings, tf.float64) - self._shift
    return tf.cast(centered @ self._matrix, tf.float32)


class FlowGraph(CalibrationGraph):
  """z = f(x) of a flow, its density and its inverse, computed in the flow's dtype; inputs and outputs are float32.

  x is the embedding u, or the mix of the views that u concatenates.
  """

  is_flow = True

  def __init__(self, flow: Glow, mix: Mix | None = None):
    if flow.needs_initialization:
      raise CalibrationError("calibration: the flow is not fitted; fit or load it first", argument="calibration")
    super().__init__("flow", mix.dim if mix else flow.dim, flow.dim, flow.weights)
    self._flow, self._mix = flow, mix

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    return tf.cast(self._flow.transform(self._mixed(embeddings)), tf.float32)

  def log_prob(self, embeddings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """u float32 [n, dim] -> -log2 p(x) / output_dim and log p(x) in nats, float32 [n] each."""
    bits = self._flow.bits_per_dim(self._mixed(embeddings))
    nats = bits * (-self.output_dim * math.log(2.0))
    return tf.cast(bits, tf.float32), tf.cast(nats, tf.float32)

  def inverse(self, latents: tf.Tensor) -> tf.Tensor:
    """z float32 [n, output_dim] -> x float32 [n, output_dim]."""
    return tf.cast(self._flow.inverse(latents), tf.float32)

  def _mixed(self, embeddings):
    if self._mix is None:
      return embeddings
    return tf.cast(self._mix(tf.cast(embeddings, tf.float64)), tf.float32)


class SideBySideGraph(CalibrationGraph):
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of the graphs of several calibrations."""

  def __init__(self, calibration: SideBySide):
    self._parts, variables = [], []
    for part in calibration.parts:
      graph = make_calibration_graph(part, calibration.dim)
      self._parts.append(graph)
      variables += graph.variables
    super().__init__(calibration.name, calibration.dim, calibration.output_dim, variables)

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    directions = []
    for part in self._parts:
      z = part.transform(embeddings)
      directions.append(tf.math.divide_no_nan(z, tf.norm(z, axis=1, keepdims=True)))
    return tf.concat(directions, axis=1)


def make_calibration_graph(calibration: Calibration | None, dim: int) -> CalibrationGraph:
  """Returns the graph of a fitted calibration; None leaves embeddings of `dim` dimensions as they are."""
  if calibration is None:
    return AffineGraph("none", np.zeros(dim), np.eye(dim))
  if isinstance(calibration, SideBySide):
    return SideBySideGraph(calibration)
  if isinstance(calibration, FlowCalibration):
    return FlowGraph(calibration.flow, calibration.mix)
  if isinstance(calibration, LinearCalibration):
    return AffineGraph(calibration.name, *calibration.affine())
  kind = type(calibration).__name__
  raise CalibrationError(f"calibration: {kind}, expected a flow or a LinearCalibration", argument="calibration")
