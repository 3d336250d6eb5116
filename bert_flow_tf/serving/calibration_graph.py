"""Calibrations as TensorFlow graphs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import Mix, SideBySide
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow


class AffineGraph:
  """z = (u - shift) matrix, computed in float64 as the calibration does, then rounded to float32.

  A whitening divides by small standard deviations, which would magnify a rounding of u - shift to float32.

  Attributes:
    name: name of the calibration.
    sizes: {"dim": dimensions of u, "output_dim": dimensions of z}.
    variables: weights of the graph; none, as shift and matrix are constants.
  """

  is_flow = False
  variables: tuple = ()

  def __init__(self, name: str, shift: np.ndarray, matrix: np.ndarray):
    self.name = name
    self.dim, self.output_dim = matrix.shape
    self.sizes = {"dim": self.dim, "output_dim": self.output_dim}
    self._shift, self._matrix = shift, matrix

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """u float32 [n, dim] -> z float32 [n, output_dim]."""
    centered = tf.cast(embeddings, tf.float64) - self._shift
    return tf.cast(centered @ self._matrix, tf.float32)


class FlowGraph:
  """z = f(x) of a flow, its density and its inverse, computed in the flow's dtype; inputs and outputs are float32.

  x is the embedding u, or the mix of the views that u concatenates.

  Attributes:
    name, variables: as in `AffineGraph`.
    sizes: as in `AffineGraph`, and "latent_dim", the dimensions of x and z.
  """

  is_flow = True
  name = "flow"

  def __init__(self, flow: Glow, mix: Mix | None = None):
    if flow.needs_initialization:
      raise CalibrationError("calibration: the flow is not fitted; fit or load it first", argument="calibration")
    self.dim, self.output_dim = mix.dim if mix else flow.dim, flow.dim
    self.sizes = {"dim": self.dim, "output_dim": self.output_dim, "latent_dim": flow.dim}
    self.variables = tuple(flow.weights)
    self._flow, self._mix = flow, mix

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """u float32 [n, dim] -> z float32 [n, latent_dim]."""
    return tf.cast(self._flow.transform(self._mixed(embeddings)), tf.float32)

  def log_prob(self, embeddings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """u float32 [n, dim] -> -log2 p(x) / latent_dim and log p(x) in nats, float32 [n] each."""
    bits = self._flow.bits_per_dim(self._mixed(embeddings))
    nats = bits * (-self.output_dim * math.log(2.0))
    return tf.cast(bits, tf.float32), tf.cast(nats, tf.float32)

  def inverse(self, latents: tf.Tensor) -> tf.Tensor:
    """z float32 [n, latent_dim] -> x float32 [n, latent_dim]."""
    return tf.cast(self._flow.inverse(latents), tf.float32)

  def _mixed(self, embeddings):
    if self._mix is None:
      return embeddings
    return tf.cast(self._mix(tf.cast(embeddings, tf.float64)), tf.float32)


class SideBySideGraph:
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of the graphs of several calibrations; attributes as in `AffineGraph`."""

  is_flow = False

  def __init__(self, name: str, parts: Sequence[Any]):
    self.name, self._parts = name, parts
    self.dim, self.output_dim = parts[0].dim, sum(part.output_dim for part in parts)
    self.sizes = {"dim": self.dim, "output_dim": self.output_dim}
    self.variables = tuple(variable for part in parts for variable in part.variables)

  def transform(self, embeddings: tf.Tensor) -> tf.Tensor:
    """u float32 [n, dim] -> z float32 [n, output_dim]."""
    directions = []
    for part in self._parts:
      z = part.transform(embeddings)
      directions.append(tf.math.divide_no_nan(z, tf.norm(z, axis=1, keepdims=True)))
    return tf.concat(directions, axis=1)


CalibrationGraph = AffineGraph | FlowGraph | SideBySideGraph


def make_calibration_graph(calibration: Calibration | Glow | None, dim: int) -> CalibrationGraph:
  """Returns the graph of a fitted calibration of embeddings of `dim` dimensions; None leaves them as they are."""
  graph: CalibrationGraph
  if calibration is None:
    graph = AffineGraph("none", np.zeros(dim), np.eye(dim))
  elif isinstance(calibration, SideBySide):
    graph = SideBySideGraph(calibration.name, [make_calibration_graph(part, dim) for part in calibration.parts])
  elif isinstance(calibration, FlowCalibration):
    graph = FlowGraph(calibration.flow, calibration.mix)
  elif isinstance(calibration, Glow):
    graph = FlowGraph(calibration)
  elif isinstance(calibration, LinearCalibration):
    graph = AffineGraph(calibration.name, *calibration.affine())
  else:
    kind = type(calibration).__name__
    raise CalibrationError(f"calibration: {kind}, expected a flow or a LinearCalibration", argument="calibration")
  if graph.dim != dim:
    sizes = f"takes embeddings of {graph.dim} dimensions; the encoder gives {dim}"
    raise CalibrationError(f"calibration {graph.name} {sizes}", argument="calibration")
  return graph
