"""A tiny masked language model and its batches; run as a module, what two replicas make of them, as json."""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

from bert_flow_tf.pretraining.masked_lm import MaskedLanguageModel
from bert_flow_tf.pretraining.masking import MaskedBatches
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.pretraining.trainer import PretrainingTrainer
from tests.encoder.tiny import VOCABULARY
from tests.testing import REPO

SIZES = {
  "vocab_size": len(VOCABULARY),
  "hidden_size": 12,
  "num_hidden_layers": 1,
  "num_attention_heads": 3,
  "intermediate_size": 20,
  "max_position_embeddings": 16,
}
STEPS = 40


def batches(count=64, seed=0):
  """Sentences of a period, which a model can learn."""
  rng = np.random.default_rng(seed)
  words = np.arange(7, len(VOCABULARY), dtype=np.int32)
  rows = [np.concatenate([[2], np.roll(words, rng.integers(8))[: rng.integers(3, 8)], [3]]) for _ in range(count)]
  return MaskedBatches([row.astype(np.int32) for row in rows], 8, 4, (2, 3, 0), len(VOCABULARY), 0, seed)


def make(folder=None, strategy=None, dropout=0.1, precision="float32", model_seed=0, **settings):
  """The model and its trainer."""
  strategy = strategy or tf.distribute.get_strategy()
  settings = {"num_train_steps": STEPS, "train_batch_size": 8, "num_warmup_steps": 3, "learning_rate": 0.01, **settings}
  with strategy.scope():
    model = MaskedLanguageModel(SIZES, dropout, precision, model_seed)
  settings = PretrainingSettings(dropout=dropout, precision=precision, save_checkpoints_steps=5, **settings)
  return model, PretrainingTrainer(model, settings, strategy, folder, {"sizes": SIZES}, show_progress=False)


@functools.cache
def of_two_replicas():
  """Returns what `main` prints in its own process: logical devices are set up before TensorFlow starts."""
  command = [sys.executable, "-m", "tests.pretraining.cases"]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300)
  assert done.returncode == 0, done.stderr[-4000:]
  return json.loads(done.stdout.strip().splitlines()[-1])


def main():
  """Prints losses and weights of a training on two logical CPUs."""
  from bert_flow_tf.training.distribution import make_strategy

  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
  strategy = make_strategy("mirrored")
  assert strategy.num_replicas_in_sync == 2
  model, trainer = make(strategy=strategy, dropout=0.0)
  losses = trainer.train(batches())
  local = [[value.numpy().tolist() for value in strategy.experimental_local_results(w)] for w in model.model.weights]
  print(json.dumps({"losses": losses.tolist(), "weights": local}))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  main()
