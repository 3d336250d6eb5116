"""What two and three replicas find, in a process of its own: devices are set up before TensorFlow starts.

Run as a module, with names of `PARTS`, it prints json, which `results` gives to the tests.
"""

import functools
import json
import os
import pathlib
import sys
import tempfile

from tests.testing import run_python

EPOCHS = 3.0
# Widths of flows that are fitted in one process; 8 pairs of a step are not divided by 3 devices, 2 not even one each.
WIDTHS, BATCHES = (4, 6), (8, 2)


@functools.cache
def results(*parts):
  """Returns {part: result of its function of `PARTS`}, all from one process."""
  return json.loads(run_python("-m", "tests.training.two_replicas", *parts).splitlines()[-1])


def fits(strategy):
  """Makes an uninterrupted fit, and one that is resumed at its half."""
  from bert_flow_tf.flow.keras import tf_variables
  from tests.training import small

  with strategy.scope():
    flow, stopped, resumed = (small.make_flow() for _ in range(3))
  with tempfile.TemporaryDirectory() as folder:
    fitted, _ = small.fit(epochs=EPOCHS, flow=flow, strategy=strategy)
    arguments = {"epochs": EPOCHS, "checkpoint_folder": folder, "save_checkpoints_steps": 5, "strategy": strategy}
    with small.interrupted_at(10):
      small.fit(flow=stopped, **arguments)
    second, _ = small.fit(flow=resumed, **arguments)
  replicas = []
  for variable in tf_variables(flow.weights):
    replicas.append([value.numpy().tolist() for value in strategy.experimental_local_results(variable)])
  return {
    "losses": fitted.losses.tolist(),
    "weights": replicas,
    "resumed_at": second.first_step,
    "resumed": [weight.tolist() for weight in small.weights(resumed)],
  }


def layers(strategy):
  """Gives each layer of the flow half a batch on each replica; returns {name: [outputs, their sum over replicas]}."""
  import tensorflow as tf

  from tests.flow.cases import CASES, DIM, cone

  found, u = {}, tf.constant(cone(6, DIM))
  for case in CASES:
    with strategy.scope():
      layer = case.build(seed=1)
      if case.is_flow:
        layer.initialize(u)

    def replica(layer=layer):
      context = tf.distribute.get_replica_context()
      z = layer(tf.gather(tf.split(u, 2), context.replica_id_in_sync_group))
      return z, context.all_reduce("sum", tf.reduce_sum(z))

    z, total = map(strategy.experimental_local_results, strategy.run(tf.function(replica, autograph=False)))
    found[case.name] = [part.numpy().tolist() for part in z], float(total[1])
  return found


def models(strategy):
  """Fits every kind of Keras model around a flow."""
  from tests.flow import models as models_of_flows

  with strategy.scope():
    return {name: models_of_flows.train(name) for name in models_of_flows.MODELS}


def siamese(strategy):
  """Makes half a pass of a siamese fit without dropout, whose masks are a replica's own."""
  from tests.training.siamese import small_siamese

  with tempfile.TemporaryDirectory() as folder:
    model = small_siamese.save(pathlib.Path(folder) / "model", dropout=0.0)
    with strategy.scope():
      parts = small_siamese.make(model, strategy=strategy)
    losses = parts.trainer().fit(small_siamese.source(parts.encoder), 0.5).losses
  weights = {name: value.tolist() for name, value in parts.encoder.tf1_variables().items()}
  embedded = parts.encoder.encode(["a dog"], max_seq_length=16)
  return {"losses": losses.tolist(), "weights": weights, "embedded": embedded.tolist()}


def embedded(strategy):
  """Embeds sentences by encoders on one, two and three devices, also in other precisions and fewer than devices."""
  import tensorflow as tf

  from bert_flow_tf import SentenceEncoder, load_task
  from bert_flow_tf.training.strategies import make_strategy

  texts = load_task("sample").splits["test"].sentences_a[:150]
  found = {}
  for precision in ("float32", "bfloat16", "int8"):
    found[precision] = []
    for several in (tf.distribute.get_strategy(), strategy, make_strategy("mirrored")):
      with several.scope():
        encoder = SentenceEncoder.from_pretrained("mini", precision=precision)
      assert encoder._replicas == several.num_replicas_in_sync
      many, few = encoder.encode(texts, batch_size=16), encoder.encode(texts[:1])
      found[precision].append([many[:, :8].tolist(), few[:, :8].tolist()])
  return found


def latents(dim, batch_size=8, strategy=None):
  """Fits a flow of a width on vectors, and returns some latents."""
  from bert_flow_tf import FlowConfig, fit_calibration
  from tests.training import small

  rows, _ = small.embeddings(96, dim)
  settings = {"flow_model_config": FlowConfig(n_levels=1, depth=1, coupling_width=4), "train_batch_size": batch_size}
  flow = fit_calibration(rows, "flow", strategy=strategy, show_progress=False, **settings)
  return flow.transform(rows[:5]).tolist()


def several(strategy):
  """Fits flows on three devices by name, then on two by a user's strategy, as an object and in its scope."""
  from bert_flow_tf.training.strategies import make_strategy

  assert make_strategy("mirrored") is make_strategy("mirrored") and make_strategy("mirrored").num_replicas_in_sync == 3
  found = {}
  for dim in WIDTHS:
    found[f"{dim} mirrored"] = [latents(dim, batch_size, "mirrored") for batch_size in BATCHES]
    found[f"{dim} object"] = [latents(dim, batch_size, strategy) for batch_size in BATCHES]
    with strategy.scope():
      found[f"{dim} scope"] = [latents(dim, batch_size) for batch_size in BATCHES]
  return found


PARTS = {"embedded": embedded, "fits": fits, "layers": layers, "models": models, "siamese": siamese, "several": several}


def main(parts):
  """Prints what `results` reads."""
  import tensorflow as tf

  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  print(json.dumps({part: PARTS[part](strategy) for part in parts}))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  main(sys.argv[1:])
