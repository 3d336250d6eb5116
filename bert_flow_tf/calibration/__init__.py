"""Calibrations of embeddings: the flow, and linear maps that mean and covariance determine."""

from typing import Any

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.combined import SideBySide
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.names import make_calibration, parse_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.calibration.step import Calibration, Features, Normalize, Step

__all__ = [
  "Calibration",
  "Characters",
  "Features",
  "FlowCalibration",
  "LinearCalibration",
  "LowDim",
  "Moments",
  "Normalize",
  "SideBySide",
  "Step",
  "load_calibration",
  "make_calibration",
  "parse_calibration",
]


def __getattr__(name: str) -> Any:
  if name != "FlowCalibration":
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  from bert_flow_tf.calibration.flow import FlowCalibration  # imports TensorFlow

  return FlowCalibration
