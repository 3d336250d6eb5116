"""Laws that every layer of the flow keeps: one list (`cases.CASES`), each law over all of it, with non-zero weights."""

import importlib
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

import bert_flow_tf.flow
from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.coupling import CouplingNetwork, NormalizedDense, OwnNetwork, ZeroDense
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import keras
from bert_flow_tf.flow.layer import FlowLayer
from bert_flow_tf.flow.likelihood import NegativeLogLikelihood
from tests.flow.cases import CASES, DIM, cone, fresh
from tests.testing import rejected
from tests.training import two_replicas

# Parts of a coupling's network, and the loss: layers, but no bijectors.
NO_BIJECTOR = {CouplingNetwork, NegativeLogLikelihood, NormalizedDense, OwnNetwork, ZeroDense}
FLOWS = [case for case in CASES if case.is_flow]


def each(cases=CASES):
  return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def subclasses(cls):
  return {cls}.union(*map(subclasses, cls.__subclasses__()))


def test_the_list_is_complete():
  for module in pkgutil.iter_modules(bert_flow_tf.flow.__path__, "bert_flow_tf.flow."):
    importlib.import_module(module.name)
  ours = {cls for cls in subclasses(FlowLayer) if cls.__module__.startswith("bert_flow_tf.")}
  assert {type(case.make(0, "float32")) for case in CASES} == ours - NO_BIJECTOR - {FlowLayer}
  assert all(cls.forward_and_log_det is FlowLayer.forward_and_log_det for cls in NO_BIJECTOR)
  configs = [case.make(0, "float32").config for case in FLOWS]
  for key, values in {
    "coupling": {"additive", "affine"},
    "activation": {"relu", "gatu"},
    "permutation": {True, False},
  }.items():
    assert {getattr(config, key) for config in configs} == values


@each()
def test_log_determinant_equals_the_numeric_jacobians(case):
  layer, u, h = case.build(), cone(3, DIM), 1e-5
  shifted = u[:, None, None, :] + h * np.stack([np.eye(DIM), -np.eye(DIM)])  # [batch, side, dim, dim]
  z = layer.make_bijector().forward(fresh(shifted.reshape(-1, DIM))).numpy().reshape(shifted.shape)
  jacobian = (z[:, 0] - z[:, 1]) / (2 * h)
  expected = np.linalg.slogdet(jacobian)[1]
  found = layer.make_bijector().forward_log_det_jacobian(fresh(u), event_ndims=1)
  np.testing.assert_allclose(np.broadcast_to(found, [3]), expected, atol=1e-7)
  latents = fresh(layer(fresh(u)))
  found = layer.make_bijector().inverse_log_det_jacobian(fresh(latents), event_ndims=1)
  np.testing.assert_allclose(np.broadcast_to(found, [3]), -expected, atol=1e-7)
  assert "permutation" in case.name or "additive" in case.name or np.abs(expected).min() > 0.01


@each()
def test_round_trips_shapes_and_precisions(case):
  """Forward and inverse undo each other in both precisions, which agree; any leading shape; a row for itself."""
  found = {}
  for dtype, tolerance in (("float64", 1e-10), ("float32", 2e-5)):
    layer, u = case.build(dtype=dtype), cone(6, DIM)
    z = layer(fresh(u, dtype))
    assert z.dtype == dtype
    assert z.shape == u.shape
    assert layer.dtype == dtype
    np.testing.assert_allclose(layer.make_bijector().inverse(fresh(z)), u, atol=tolerance * np.abs(u).max())
    block = layer.make_bijector().inverse(fresh(z.numpy().reshape(2, 3, DIM)))
    np.testing.assert_allclose(block.numpy().reshape(6, DIM), u, atol=tolerance * np.abs(u).max())
    np.testing.assert_allclose(layer(fresh(u[3], dtype)), z[3], atol=tolerance)
    assert np.abs(z - u).max() > 0.1, "the layer does nothing: its weights hide errors"
    found[dtype] = z.numpy()
  np.testing.assert_allclose(found["float32"], found["float64"], atol=1e-4)


@each()
def test_new_layers_take_any_numbers_and_reject_the_rest(case):
  """Lists and arrays of another precision, also in a tf.function; symbolic values, other widths and text are errors."""
  u = cone(6, DIM)
  for values in (u.tolist(), u.astype(np.float32)):
    z, _ = case.make(1, "float64").forward_and_log_det(values)
    np.testing.assert_allclose(case.make(1, "float64").inverse(z.numpy()), u, rtol=1e-5, atol=1e-5)
  if not case.is_flow:
    z = tf.function(case.make(1, "float64").initialize, autograph=False)(u)
    np.testing.assert_allclose(z, case.make(1, "float64").initialize(u), rtol=1e-6)
  layer = case.build()
  for bad in (keras.Input([DIM]), u[:, :4], np.ones([3, 2 * DIM]), "text", 1.0):
    for function in (layer.forward_and_log_det, layer.inverse, layer.make_bijector().forward):
      with rejected(FlowError, "embeddings"):
        function(bad)


@each()
def test_graph_is_eager_and_forward_changes_nothing(case):
  layer, u = case.build(dtype="float32"), fresh(cone(5, DIM), "float32")
  before = [weight.numpy() for weight in layer.variables]
  count = len(layer.variables)

  @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, DIM], tf.float32)])
  def graph(u):
    bijector = layer.make_bijector()
    z = bijector.forward(u)
    log_det = tf.broadcast_to(bijector.forward_log_det_jacobian(u, event_ndims=1), [tf.shape(u)[0]])
    return z, log_det, layer.make_bijector().inverse(tf.identity(z))

  z, log_det, back = graph(u)
  np.testing.assert_allclose(z, layer(fresh(u)), atol=1e-5)
  eager = layer.make_bijector().forward_log_det_jacobian(fresh(u), event_ndims=1)
  np.testing.assert_allclose(log_det, np.broadcast_to(eager, [5]), atol=1e-5)
  np.testing.assert_allclose(back, u, atol=1e-4)
  assert len(layer.variables) == count, "weights exist when the layer is built, none is made by a call"
  for weight, value in zip(layer.variables, before, strict=True):
    np.testing.assert_array_equal(weight, value)


@each()
def test_every_weight_is_tracked_and_has_a_gradient(case):
  layer, u = case.build(), fresh(cone(64, DIM))
  with tf.GradientTape() as tape:
    bijector = layer.make_bijector()
    z = bijector.forward(u)
    log_det = bijector.forward_log_det_jacobian(u, event_ndims=1)
    loss = tf.reduce_sum(z * z) - tf.reduce_sum(log_det)
  for weight, gradient in zip(layer.trainable_variables, tape.gradient(loss, layer.trainable_variables), strict=True):
    assert gradient is not None, weight.name
    assert np.isfinite(gradient).all(), weight.name
    # Only a triangle of L and U has gradients, and ReLU may shut one of two or three units.
    assert np.mean(np.abs(gradient) > 0) > 0.2, weight.name
  assert len({id(weight) for weight in layer.variables}) == len(layer.variables)


@each()
def test_config_makes_the_same_layer(case):
  layer = case.make(3, "float32")
  again = type(layer).from_config(layer.get_config())
  for each_layer in (layer, again):
    if not each_layer.built:
      each_layer.build([None, DIM])
  assert [weight.name for weight in again.variables] == [weight.name for weight in layer.variables]
  for weight, other in zip(layer.variables, again.variables, strict=True):
    np.testing.assert_array_equal(weight, other)


@each(FLOWS)
def test_folder_carries_all_that_decides_the_output(case, tmp_path):
  flow, u = case.build(seed=1), cone(4, DIM)
  flow.save(tmp_path / "flow")
  loaded = Glow.load(tmp_path / "flow")
  np.testing.assert_array_equal(loaded.transform(u), flow.transform(u))
  assert loaded.settings() == flow.settings()
  for weight, other in zip(flow.variables, loaded.variables, strict=True):
    np.testing.assert_array_equal(other, weight)


@pytest.mark.slow
def test_two_replicas_compute_what_one_does():
  found = two_replicas.results("layers")["layers"]
  u = cone(6, DIM)
  for case in CASES:
    layer = case.build(seed=1)
    if case.is_flow:
      layer.initialize(u)
    expected = layer(fresh(u)).numpy()
    halves, total = found[case.name]
    np.testing.assert_allclose(np.concatenate(halves), expected, atol=1e-9, err_msg=case.name)
    np.testing.assert_allclose(total, expected.sum(), atol=1e-9, err_msg=case.name)
