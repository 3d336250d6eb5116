"""The flow as layers of Keras: every way to save and copy them."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow import AffineCoupling, Glow, NegativeLogLikelihood
from bert_flow_tf.flow.keras import IS_KERAS_3, keras, parts_of
from bert_flow_tf.flow.layer import FlowLayer
from tests.flow.cases import CASES, DIM, cone, randomize
from tests.keras_ways import ENDINGS, WAYS
from tests.testing import rejected, run_python

pytestmark = pytest.mark.packages

U = cone(6, DIM).astype(np.float32)
# One of each class.
KINDS = list({type(case.make(0, "float32")): case for case in CASES}.values())
each = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def model_of(*layers, dim=DIM):
  inputs = outputs = keras.Input([dim])
  for layer in layers:
    outputs = layer(outputs)
  return keras.Model(inputs, outputs)


def full_name(weight):
  """Returns the name of a weight with the names of its layers."""
  return weight.path if IS_KERAS_3 else weight.name


def small(**arguments):
  return Glow(**{"config": {"n_levels": 2, "depth": 1, "coupling_width": 4}, "dim": DIM, "seed": 1, **arguments})


def custom_network(units):
  last = keras.layers.Dense(units, kernel_initializer=keras.initializers.RandomNormal(stddev=0.1, seed=1))
  return keras.Sequential([keras.layers.Dense(7, "tanh"), keras.layers.Dropout(0.5), last])


@pytest.fixture(scope="module")
def everything():
  """Returns a model of every class of layer, of networks and bases of a user's own, and of a shared flow."""
  flow = small(name="shared")
  custom = small(network=custom_network, base=tfd.StudentT(5.0, 0.0, 1.0), trainable=False)
  layers = [case.build(3, "float32") for case in KINDS if not case.is_flow]
  inputs = outputs = keras.Input([DIM])
  for layer in [*layers, custom, AffineCoupling(network=custom_network), flow]:
    outputs = layer(outputs)
  model = keras.Model(inputs, [outputs, NegativeLogLikelihood(flow)(inputs), NegativeLogLikelihood(custom)(inputs)])
  for layer in model.layers:
    randomize(layer, seed=5)
  return model


def test_custom_networks_are_one_for_each_coupling_and_have_no_seed():
  flow = small(network=custom_network)
  with rejected(FlowError, "network"):
    flow.restart(1)
  with rejected(ConfigError, "network"):
    small(network=[custom_network])


@pytest.fixture(scope="module")
def models():
  """Returns two models of every class of layer and of a frozen flow; the first was frozen after its start."""
  frozen, other_frozen = small(), small(seed=2, trainable=False)
  frozen.adapt(U)
  frozen.trainable = False
  model = model_of(*[case.build(1, "float32") for case in KINDS], frozen)
  other = model_of(*[case.build(2, "float32") for case in KINDS], other_frozen)
  return model, other


@pytest.mark.parametrize("name", WAYS)
def test_saved_and_copied(models, name, tmp_path):
  model, other = models
  other.set_weights([np.zeros_like(array) for array in other.get_weights()])
  found = WAYS[name](model, other, tmp_path / "model")
  np.testing.assert_allclose(found(U), model(U), rtol=1e-5, atol=1e-5)
  assert [weight.shape for weight in found.weights] == [weight.shape for weight in model.weights]
  assert len(found.trainable_weights) == len(model.trainable_weights)
  for layer in model.layers:
    assert len({full_name(weight) for weight in layer.weights}) == len(layer.weights)


@each
@pytest.mark.parametrize("way", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_layers_alone_are_copied_with_what_is_frozen(case, way):
  layer = case.build(1, "float32")
  parts_of(layer)[-1].trainable = False
  again = way(layer)
  np.testing.assert_array_equal(again(U), layer(U))
  assert [weight.shape for weight in again.trainable_weights] == [weight.shape for weight in layer.trainable_weights]
  for weight in again.trainable_weights:
    weight.assign(weight + 1.0)
  if again.trainable_weights:
    assert np.abs(again(U) - layer(U)).max() > 1e-3


IN_A_NEW_PROCESS = """
import pickle, sys
import numpy as np
import tensorflow as tf
from bert_flow_tf.flow import Glow
folder, *endings = sys.argv[1:]
u = np.load(f"{folder}/u.npy")
found = {name: tf.keras.models.load_model(f"{folder}/model{name}") for name in endings}
found["pickle"] = pickle.load(open(f"{folder}/pickle", "rb"))
for name, model in found.items():
  for index, expected in enumerate(np.load(f"{folder}/outputs.npz").values()):
    np.testing.assert_allclose(model(u)[index], expected, rtol=1e-4, atol=1e-4, err_msg=name)
assert found[".keras"].get_layer("shared") is found[".keras"].layers[-2].flow
print("equal", len(found))
"""


def test_loaded_in_a_new_process_without_custom_objects(everything, tmp_path):
  np.save(tmp_path / "u.npy", U)
  np.savez(tmp_path / "outputs.npz", *(np.asarray(output) for output in everything(U)))
  for ending in ENDINGS.values():
    everything.save(f"{tmp_path}/model{ending}")
  (tmp_path / "pickle").write_bytes(pickle.dumps(everything))
  assert run_python("-c", IN_A_NEW_PROCESS, tmp_path, *ENDINGS.values()).endswith(f"equal {len(ENDINGS) + 1}\n")


def test_a_shared_flow_is_one_in_a_deep_copy_and_two_in_a_clone():
  inputs, flow = keras.Input([DIM]), small()
  model = keras.Model(inputs, [flow(inputs), NegativeLogLikelihood(flow)(inputs)])
  assert len(model.weights) == len(copy.deepcopy(model).weights) == len(flow.weights)
  clone = keras.models.clone_model(model)
  assert len(clone.weights) == 2 * len(flow.weights)
  latents, bits = clone(U)
  assert np.isfinite(latents).all() and np.isfinite(bits).all()


@pytest.mark.skipif(not IS_KERAS_3, reason="Keras 2 exports nothing; its SavedModels are among the ways above")
def test_export(tmp_path):
  inputs, flow = keras.Input([DIM]), CASES[-1].build(1, "float32")
  model = keras.Model(inputs, [NegativeLogLikelihood(flow)(inputs), small(network=custom_network)(inputs)])
  model.export(str(tmp_path))
  loaded = tf.saved_model.load(str(tmp_path))
  for found, expected in zip(loaded.serve(U), model(U), strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape", "inputs"), [([None, None], [U]), (None, [U[0], U, U.reshape(2, 3, DIM)])])
def test_unknown_dimensions(shape, inputs):
  layers = [case.build(1, "float32") for case in KINDS]
  graph = tf.function(lambda x: [layer(x) for layer in layers], input_signature=[tf.TensorSpec(shape, tf.float32)])
  for u in inputs:
    for case, layer, found in zip(KINDS, layers, graph(u), strict=True):
      np.testing.assert_allclose(found, layer(u), atol=1e-4, err_msg=case.name)


@each
def test_unknown_width_in_a_model(case):
  layer = case.build(1, "float32")
  np.testing.assert_allclose(model_of(layer, dim=None)(U), layer(U), atol=1e-4)
  if not case.is_flow:  # which is given its width
    with pytest.raises(FlowError):
      model_of(type(layer)(), dim=None)


def test_a_checkpoint_of_a_layer_alone_holds_every_weight(tmp_path):
  """Its names are the same in both Kerases."""
  flow, again = small(), small(seed=2)
  flow.adapt(U)
  path = tf.train.Checkpoint(flow=flow).write(str(tmp_path / "checkpoint"))
  names = [name for name, _ in tf.train.list_variables(path) if name.startswith("flow/")]
  assert len(names) == len(flow.weights)
  assert "flow/chain/2/network/second/0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in names
  tf.train.Checkpoint(flow=again).read(path).assert_consumed()
  np.testing.assert_array_equal(again(U), flow(U))


def test_layers_in_a_dict_are_trained_and_in_checkpoints(tmp_path):
  class Halves(FlowLayer):
    def __init__(self):
      super().__init__({})
      self.couplings = {name: AffineCoupling() for name in ("first", "second")}

    def build(self, input_shape):
      for coupling in self.couplings.values():
        coupling.build(input_shape)
      super().build(input_shape)

  layer, again = Halves(), Halves()
  for number, each_layer in enumerate((layer, again)):
    each_layer.build([None, DIM])
    randomize(each_layer, seed=number)
  weights = [weight for coupling in layer.couplings.values() for weight in coupling.trainable_weights]
  assert weights and {id(weight) for weight in layer.trainable_weights} == {id(weight) for weight in weights}
  path = tf.train.Checkpoint(layer=layer).write(str(tmp_path / "checkpoint"))
  tf.train.Checkpoint(layer=again).read(path).assert_consumed()
  for name, coupling in layer.couplings.items():
    np.testing.assert_array_equal(again.couplings[name](U), coupling(U))
    assert np.abs(coupling(U) - U).max() > 1e-3
