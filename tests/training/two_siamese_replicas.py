"""What two replicas find of a siamese fit, in a process of its own, as logical devices come before TensorFlow starts.

Run as a module with a folder to work in, it prints json.
"""

import json
import os
import pathlib
import sys


def main(folder):
  """Fits on one device and on two, without dropout."""
  import tensorflow as tf

  from bert_flow_tf.training.distribution import make_strategy
  from tests.training import small_siamese as small

  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
  model, found = small.save(folder / "model", dropout=0.0), []
  for strategy in (tf.distribute.get_strategy(), make_strategy("mirrored")):
    with strategy.scope():
      encoder, _, _, make_trainer = small.make(model, strategy=strategy)
    losses = make_trainer().fit(small.source(encoder), 0.5).losses
    weights = {name: value.tolist() for name, value in encoder.bert.tf1_variables().items()}
    embedded = encoder.encode(["a dog"], max_seq_length=16)
    found.append({"losses": losses.tolist(), "weights": weights, "embedded": embedded.tolist()})
  assert strategy.num_replicas_in_sync == 2
  print(json.dumps(found))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  main(pathlib.Path(sys.argv[1]))
