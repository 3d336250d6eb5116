"""The flow as layers of Keras: every way to save and copy them."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow import AdditiveCoupling, AffineCoupling, Glow, NegativeLogLikelihood
from bert_flow_tf.flow import glow as glow_lib
from bert_flow_tf.flow import layer as layer_lib
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


def submodel(layer):
  inputs = keras.Input([DIM])
  return keras.Model(inputs, layer(inputs))


def bits_of(flow):
  return NegativeLogLikelihood(flow)


# {name: (inputs, flow) -> outputs that use the flow twice or more}
SHARED = {
  "latent, bits": lambda u, flow: [flow(u), bits_of(flow)(u)],
  "bits, latent": lambda u, flow: [bits_of(flow)(u), flow(u)],
  "dict, latent first": lambda u, flow: {"a": flow(u), "bits": bits_of(flow)(u)},
  "dict, bits first": lambda u, flow: {"z": flow(u), "bits": bits_of(flow)(u)},
  "two bits": lambda u, flow: [bits_of(flow)(u), bits_of(flow)(u)],
  "two bits, latent": lambda u, flow: [bits_of(flow)(u), bits_of(flow)(u), flow(u)],
  "latent in a submodel, bits": lambda u, flow: [submodel(flow)(u), bits_of(flow)(u)],
  "bits, latent in a submodel": lambda u, flow: [bits_of(flow)(u), submodel(flow)(u)],
  "bits in a submodel, latent": lambda u, flow: [submodel(bits_of(flow))(u), flow(u)],
}
if IS_KERAS_3:  # the other one does not keep what its own layers share
  SHARED["bits, latents of a sequence"] = lambda u, flow: [
    bits_of(flow)(u),
    keras.layers.TimeDistributed(flow)(keras.layers.Reshape([1, DIM])(u)),
  ]


def take_step(model):
  weights = model.trainable_weights
  model.optimizer.apply_gradients([(tf.ones(weight.shape), weight) for weight in weights])


def check_shared(name, folder, **arguments):
  """Saves a trained model of one flow and a dict of inputs, and compares it with what is loaded."""
  names = ("first", "second")
  inputs = {key: keras.Input([DIM], name=key) for key in names}
  flow = small(**arguments)
  flow.adapt(2 * U)
  model = keras.Model(inputs, SHARED[name](keras.layers.Add()(list(inputs.values())), flow))
  model.compile(keras.optimizers.Adam(0.01))
  take_step(model)
  model.save(folder / "model.keras")
  found = keras.models.load_model(folder / "model.keras")
  assert [weight.shape for weight in found.weights] == [weight.shape for weight in model.weights]
  for _ in range(2):
    for ours, theirs in zip(
      *(tf.nest.flatten(each({key: U for key in names})) for each in (found, model)), strict=True
    ):
      np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    for each_model in (found, model):
      take_step(each_model)  # equal only with the state of the optimizer


def name_nothing(monkeypatch):
  """Lets Keras name the layers of a file, as release 0.2 did: it saved models that it could not load."""
  for module in (glow_lib, layer_lib):
    monkeypatch.setattr(module, "name_in_file", lambda layer: None)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_flow_is_one_after_loading_in_any_order(name, tmp_path):
  check_shared(name, tmp_path)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_flow_of_a_file_of_release_0_2_is_one(name, tmp_path, monkeypatch):
  name_nothing(monkeypatch)
  check_shared(name, tmp_path)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_shared_flow_of_networks_of_a_users_own_is_one(is_old, tmp_path, monkeypatch):
  if is_old:
    name_nothing(monkeypatch)
  check_shared("dict, bits first", tmp_path, network=custom_network)


@pytest.mark.parametrize("is_old", [False, True])
def test_flows_of_equal_names_and_settings_stay_two(is_old, tmp_path, monkeypatch):
  if is_old:
    name_nothing(monkeypatch)
  first, second = small(name="flow"), small(name="flow")
  inputs = keras.Input([DIM])
  outputs = [bits_of(first)(inputs), second(inputs)]
  if not is_old:  # whose file would not say which of both is used twice
    outputs.append(bits_of(first)(inputs))
  model = keras.Model(inputs, outputs)
  randomize(first, seed=1)
  randomize(second, seed=2)
  model.save(tmp_path / "model.keras")
  found = keras.models.load_model(tmp_path / "model.keras")
  assert len(found.weights) == len(model.weights) == 2 * len(first.weights)
  for ours, theirs in zip(found(U), model(U), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_couplings_that_share_a_network(tmp_path):
  network = keras.layers.Dense(DIM // 2, kernel_initializer=keras.initializers.RandomNormal(seed=1))
  inputs = keras.Input([DIM])
  model = keras.Model(inputs, [AdditiveCoupling(network=network)(inputs), AdditiveCoupling(network=network)(inputs)])
  model.save(tmp_path / "model.keras")
  found = keras.models.load_model(tmp_path / "model.keras")
  assert len(found.weights) == len(model.weights) == len(network.weights)
  np.testing.assert_allclose(found(U)[1], model(U)[1], atol=1e-5)


@pytest.mark.parametrize("name", ["latent, bits", "dict, bits first"])
def test_a_shared_flow_is_one_in_a_deep_copy_and_two_in_a_clone(name, tmp_path):
  inputs, flow = keras.Input([DIM]), small()
  flow.adapt(U)
  model = keras.Model(inputs, SHARED[name](inputs, flow))
  expected = tf.nest.flatten(model(U))
  for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
    assert len(model.weights) == len(copied.weights) == len(flow.weights)
    np.testing.assert_allclose(tf.nest.flatten(copied(U))[1], expected[1], rtol=1e-4, atol=1e-4)
  clone = keras.models.clone_model(model)
  assert len(clone.weights) == 2 * len(flow.weights)
  model.save(f"{tmp_path}/model.h5")
  separate = keras.models.load_model(f"{tmp_path}/model.h5")
  assert len(separate.weights) == 2 * len(flow.weights)
  for outputs in (expected, tf.nest.flatten(separate(U))):
    np.testing.assert_allclose(outputs[1], expected[1], rtol=1e-4, atol=1e-4)
  for outputs in tf.nest.flatten(clone(U)):
    assert np.isfinite(outputs).all()
  again = small(seed=2)
  rebuilt = keras.Model(inputs, SHARED[name](inputs, again))
  model.save_weights(f"{tmp_path}/model.weights.h5")
  rebuilt.load_weights(f"{tmp_path}/model.weights.h5")
  np.testing.assert_array_equal(again(U), flow(U))


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


@pytest.mark.parametrize("given", [None, "flow", FlowCalibration(Glow({"n_levels": 1}, 2))])
def test_what_is_no_flow(given):
  with rejected(ConfigError, "flow", match="expected a Glow, got a .*as its attribute flow"):
    NegativeLogLikelihood(given)


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
