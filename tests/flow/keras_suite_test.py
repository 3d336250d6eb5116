"""The tests that Keras has for its own layers, over the list of layers: they come with its wheels."""

import numpy as np
import pytest

from bert_flow_tf.flow import ActNorm, Glow, NegativeLogLikelihood
from bert_flow_tf.flow.keras import IS_KERAS_3, keras
from tests.flow.cases import CASES, DIM, cone, config

pytestmark = pytest.mark.packages


def run_suite(layer_class, arguments, shape):
  """Runs the suite of this process's Keras on a layer whose output has the shape of its input."""
  if IS_KERAS_3:
    testing = pytest.importorskip("keras.src.testing")
    suite = type("Suite", (testing.TestCase,), {"runTest": lambda self: None})()
    suite.setUp()
    # A flow has the precision of its weights, whatever the policy is.
    options = {"supports_masking": True, "run_mixed_precision_check": False}
    suite.run_layer_test(layer_class, arguments, input_shape=shape, expected_output_shape=shape, **options)
  else:
    test_utils = pytest.importorskip("tf_keras.src.testing_infra.test_utils")
    expected = (None, *shape[1:])
    test_utils.layer_test(layer_class, arguments, shape, supports_masking=True, expected_output_shape=expected)


@pytest.mark.parametrize(
  "case",
  [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (case.name != "permutation reverse"))  # the quickest
    for case in CASES
  ],
)
def test_the_suite_of_keras(case):
  layer = case.make(0, "float32")
  arguments = {name: value for name, value in layer.get_config().items() if name not in ("name", "dtype")}
  run_suite(type(layer), arguments, (3, 2, DIM))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_sequence_of_vectors(case):
  """TimeDistributed asks the layers for shapes; a mask before a layer is passed on."""
  u = cone(6, DIM).astype(np.float32).reshape(2, 3, DIM)
  u[1, 2] = 0.0
  layer = case.build(1, "float32")
  inputs = keras.Input([3, DIM])
  outputs = keras.layers.TimeDistributed(layer)(inputs)
  assert tuple(outputs.shape) == (None, 3, DIM)
  np.testing.assert_allclose(keras.Model(inputs, outputs)(u), layer(u), atol=1e-5)
  masked = keras.layers.Masking()(inputs)
  # The mean of the vectors that are no mask.
  model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(layer(masked)))
  np.testing.assert_allclose(model(u)[1], np.mean(layer(u)[1, :2], axis=0), rtol=1e-4, atol=1e-4)


def test_shapes_of_the_likelihood_and_keras_own_arguments():
  flow = Glow(config(), DIM, seed=1)
  assert tuple(NegativeLogLikelihood(flow).compute_output_shape((None, 3, DIM))) == (None, 3)
  arguments = {"trainable": False, **({} if IS_KERAS_3 else {"batch_input_shape": (None, DIM)})}
  for layer in (Glow(config(), DIM, seed=1, **arguments), ActNorm("glorot", seed=1, **arguments)):
    model = keras.Sequential([keras.Input([DIM]), layer] if IS_KERAS_3 else [layer])
    assert tuple(model.output_shape) == (None, DIM) and not model.trainable_weights
