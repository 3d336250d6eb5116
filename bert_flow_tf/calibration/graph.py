"""Calibrations as TensorFlow graphs."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.combined import Scale, SideBySide
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import tf_variables


class CalibrationGraph:
  """Graph of a calibration of embeddings u [n, dim]: its name, sizes and weights; this one leaves u as it is."""

  is_flow = False

  def __init__(self, name: str, dim: int, output_dim: int, variables: Sequence[tf.Variable] = ()):
    self.name, self.dim, self.output_dim, self.variables = name, dim, output_dim, variables

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """u float32 [n, dim] -> z float32 [n, output_dim]."""
    return embeddings


class AffineGraph(CalibrationGraph):
  """z = (u - shift) matrix, computed in a dtype, by default float64 as the calibration does, then rounded to float32.

  A whitening divides by small standard deviations, which would magnify a rounding of u - shift to float32.
  """

  def __init__(self, name: str, shift: np.ndarray, matrix: np.ndarray, dtype: type):
    super().__init__(name, len(matrix), matrix.shape[1])
    # In float32 the shift has two parts, which together have its digits.
    self._shift = shift.astype(dtype)
    self._rest = (shift - self._shift).astype(dtype)
    self._matrix = matrix.astype(dtype)

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    centered = tf.cast(embeddings, self._matrix.dtype) - self._shift - self._rest
    return tf.cast(centered @ self._matrix, tf.float32)


class FlowGraph(CalibrationGraph):
  """z = f(x) of a flow, of u or scaled u, with density and inverse, in the flow's dtype; in and out are float32."""

  is_flow = True

  def __init__(self, flow: Glow, scale: Scale | None, dtype: type):
    if flow.needs_initialization:
      raise CalibrationError("calibration: the flow is not fitted; fit or load it first", argument="calibration")
    super().__init__("flow", flow.dim, flow.dim, tf_variables(flow.weights))
    self._flow, self._scale, self._dtype = flow, scale, dtype

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    return tf.cast(self._flow.transform(self._scaled(embeddings)), tf.float32)

  def log_prob(self, embeddings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """u float32 [n, dim] -> -log2 p(x) / output_dim and log p(x) in nats, float32 [n] each."""
    bits = self._flow.bits_per_dim(self._scaled(embeddings))
    nats = bits * (-self.output_dim * math.log(2.0))
    return tf.cast(bits, tf.float32), tf.cast(nats, tf.float32)

  def inverse(self, latents: tf.Tensor) -> tf.Tensor:
    """z float32 [n, output_dim] -> x float32 [n, output_dim]."""
    return tf.cast(self._flow.inverse(latents), tf.float32)

  def _scaled(self, embeddings):
    if self._scale is None:
      return embeddings
    return tf.cast(self._scale(tf.cast(embeddings, self._dtype)), tf.float32)


class SideBySideGraph(CalibrationGraph):
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of the graphs of several calibrations."""

  def __init__(self, calibration: SideBySide, dtype: type):
    self._graphs, variables = [], []
    for part in calibration.parts:
      graph = make_calibration_graph(part, calibration.dim, dtype)
      self._graphs.append(graph)
      variables += graph.variables
    super().__init__(calibration.name, calibration.dim, calibration.output_dim, variables)

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """See the base class."""
    return tf.concat([unit_rows(graph.transform(embeddings)) for graph in self._graphs], axis=1)


class CharactersGraph:
  """Graph of `Characters`, on the ids of sentences."""

  def __init__(self, characters: Characters):
    self.table = tf.Variable(characters.table(), trainable=False, name="characters")

  def append(self, z: tf.Tensor, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """z float32 [n, k] of ids int32 [n, seq_len] with numbers of tokens int32 [n] -> [z / |z|, c], [n, k + dim]."""
    mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
    rows = tf.gather(self.table, tf.where(mask, ids, 0))
    characters = tf.reduce_sum(rows * tf.expand_dims(tf.cast(mask, tf.float32), 2), axis=1)
    return tf.concat([unit_rows(z), unit_rows(characters)], axis=1)


def unit_rows(rows: tf.Tensor) -> tf.Tensor:
  """Returns rows [n, dim] divided by their length; rows of zeros stay."""
  return tf.math.divide_no_nan(rows, tf.norm(rows, axis=1, keepdims=True))


def make_calibration_graph(calibration: Calibration | None, dim: int, dtype: type = np.float64) -> CalibrationGraph:
  """Returns the graph of a fitted calibration, affine maps in `dtype`; None leaves embeddings [n, dim] as they are."""
  if calibration is None:
    return CalibrationGraph("none", dim, dim)
  if isinstance(calibration, SideBySide):
    return SideBySideGraph(calibration, dtype)
  if isinstance(calibration, FlowCalibration):
    return FlowGraph(calibration.flow, calibration.scale, dtype)
  if isinstance(calibration, LinearCalibration):
    return AffineGraph(calibration.name, *calibration.affine(), dtype)
  kind = type(calibration).__name__
  raise CalibrationError(f"calibration: {kind}, expected a flow or a LinearCalibration", argument="calibration")
