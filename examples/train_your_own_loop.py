"""A training loop of your own: the flow's loss in a tf.GradientTape, under a tf.distribute strategy.

    python examples/train_your_own_loop.py                  # all GPUs, or the CPU
    python examples/train_your_own_loop.py --replicas=2     # without GPUs: the CPU as two devices

`SentenceModel.fit` does all this; a loop of your own is for what it does not do: another optimizer, a further loss,
other data. Here the flow learns the embeddings of the packaged sample, with gradients clipped and a rate that decays.
"""

import argparse
from collections.abc import Callable

import bert_flow_tf  # isort: skip  (before TensorFlow: hides its start-up notes)

import numpy as np
import scipy.stats
import tensorflow as tf


def make_strategy(replicas: int | None) -> tf.distribute.Strategy:
  """Returns a strategy of all GPUs, or of a number of logical CPUs, before TensorFlow uses any device."""
  if replicas is None:
    return tf.distribute.MirroredStrategy() if tf.config.list_physical_devices("GPU") else tf.distribute.get_strategy()
  if replicas == 1:
    return tf.distribute.get_strategy()
  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
  return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])


def make_step(strategy: tf.distribute.Strategy, flow: bert_flow_tf.Glow, optimizer: object, batch: int) -> Callable:
  """Returns a function of a batch, dealt out to the replicas: it changes the weights and returns the batch's loss."""

  def replica_step(embeddings: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
      bits = flow.bits_per_dim(embeddings)  # [its share of the batch]
      # The sum over its share, divided by the whole batch: the replicas' losses and gradients add up to the mean.
      loss = tf.nn.compute_average_loss(bits, global_batch_size=batch)
    weights = flow.trainable_variables
    gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 5.0)
    optimizer.apply_gradients(zip(gradients, weights, strict=True))  # adds up the gradients of all replicas
    return loss

  @tf.function
  def step(embeddings: tf.Tensor) -> tf.Tensor:
    return strategy.reduce("SUM", strategy.run(replica_step, args=(embeddings,)), axis=None)

  return step


def train(strategy: tf.distribute.Strategy, embeddings: np.ndarray, steps: int, batch: int) -> tuple:
  """Returns a flow that was trained on embeddings [n, dim], and the loss of each step in bits per dimension."""
  with strategy.scope():
    flow = bert_flow_tf.Glow(bert_flow_tf.FlowConfig(), dim=embeddings.shape[1], seed=1)
    flow.adapt(embeddings[:512])
    rate = tf.keras.optimizers.schedules.CosineDecay(1e-3, steps)
    optimizer = tf.keras.optimizers.Adam(rate)
    optimizer.build(flow.trainable_variables)  # its variables cannot be made within a step on several devices
  rows = tf.data.Dataset.from_tensor_slices(embeddings).shuffle(len(embeddings), seed=1).repeat()
  batches = strategy.experimental_distribute_dataset(rows.batch(batch, drop_remainder=True))
  step = make_step(strategy, flow, optimizer, batch)
  losses = [float(step(rows)) for rows, _ in zip(batches, range(steps), strict=False)]
  return flow, losses


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Trains and evaluates; returns losses and scores."""
  parser = argparse.ArgumentParser(description="Trains a flow in a loop of one's own.")
  parser.add_argument("--replicas", type=int, help="number of logical CPUs; none: all GPUs, or the CPU")
  parser.add_argument("--steps", type=int, default=250)
  parser.add_argument("--batch", type=int, default=32, help="embeddings per step, on all replicas together")
  options = parser.parse_args(arguments)

  strategy = make_strategy(options.replicas)
  encoder = bert_flow_tf.SentenceEncoder.from_pretrained("mini")
  test = bert_flow_tf.load_task("sample").splits["test"]
  a, b = (encoder.encode(list(side), show_progress=False) for side in (test.sentences_a, test.sentences_b))

  flow, losses = train(strategy, np.concatenate([a, b]), options.steps, options.batch)
  print(f"{strategy.num_replicas_in_sync} replicas, bits per dimension: {losses[0]:.4f} -> {losses[-1]:.4f}")

  # A flow becomes the calibration of a model, which compares sentences and can be saved, exported, ...
  before = bert_flow_tf.SentenceModel(encoder)
  after = bert_flow_tf.SentenceModel(encoder, flow)
  scores = {}
  for name, model in (("uncalibrated", before), ("flow", after)):
    cosines = model.similarity(test.sentences_a, test.sentences_b)
    scores[name] = 100 * float(scipy.stats.spearmanr(cosines, test.scores).statistic)
    print(f"{name:12} Spearman x 100: {scores[name]:.2f}")
  return {"losses": losses, **scores}


if __name__ == "__main__":
  main()
