"""Fine-tunes a BERT on graded pairs in a tf.GradientTape loop of your own, and saves it for transformers.

    python examples/fine_tune_bert.py                                   # mini, on all GPUs or the CPU
    python examples/fine_tune_bert.py --model=base --learning_rate=2e-5

The loss is as in `run_siamese.py` for tasks with scores: the squared error of the cosine of two sentences, which go
through one BERT. Write any other loss in its place. Dropout follows from seed, step and replica, so that a second run
has the same losses. The saved folder is one for `--model`, and for `transformers.AutoModel.from_pretrained`.
"""

import argparse
import pathlib
from collections.abc import Callable

from bert_flow_tf import SentenceEncoder, SentenceModel, load_task  # before TensorFlow: hides its start-up notes
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.text.word_piece import pad_batch

import numpy as np  # isort: skip
import scipy.stats  # isort: skip
import tensorflow as tf  # isort: skip

POOLING = "avg"
SEED = 1


def make_batches(encoder: SentenceEncoder, task: object, batch: int) -> tf.data.Dataset:
  """Returns batches without end: ids and mask of both sides, int32 [batch, seq_len], and targets, float32 [batch]."""
  sides = []
  for sentences in (task.sentences_a, task.sentences_b):
    # Padding to the longest sentence costs little: BERT computes it in attention only.
    sides.append(pad_batch(encoder.tokenizer(sentences, 64), encoder.tokenizer.pad_id))
  targets = np.float32(task.scores / np.max(task.scores))
  rows = tf.data.Dataset.from_tensor_slices((*sides, targets))
  return rows.shuffle(len(targets), seed=SEED).repeat().batch(batch, drop_remainder=True)


def make_step(strategy: tf.distribute.Strategy, encoder: SentenceEncoder, optimizer: object, batch: int) -> Callable:
  """Returns a function (batch of `make_batches`, step) -> loss before the step; it changes the weights."""
  fold_in = tf.random.experimental.stateless_fold_in
  weights = encoder.trained_weights(encoder.pooling(POOLING))

  def replica_step(a, b, targets, step):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    seed = fold_in(tf.stack([SEED, step]), tf.cast(replica, tf.int32))
    with tf.GradientTape() as tape:
      # The two sides have masks of dropout of their own.
      u = encoder.pooled_batch(*a, POOLING, dropout_seed=fold_in(seed, 0))
      v = encoder.pooled_batch(*b, POOLING, dropout_seed=fold_in(seed, 1))
      cosines = tf.reduce_sum(tf.math.l2_normalize(u, axis=1) * tf.math.l2_normalize(v, axis=1), axis=1)
      # The replicas' losses and gradients add up to the mean over the whole batch.
      loss = tf.nn.compute_average_loss(tf.square(cosines - targets), global_batch_size=batch)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss

  @tf.function(autograph=False)
  def step(rows, number):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(*rows, number)), axis=None)

  return step


def spearman(encoder: SentenceEncoder) -> float:
  """Returns the rank correlation, x 100, of the cosines and the grades of the sample's test split."""
  pairs = load_task("sample").splits["test"]
  model = SentenceModel(encoder, sentence_embedding_type=POOLING)
  cosines = model.similarity(pairs.sentences_a, pairs.sentences_b)
  return 100 * float(scipy.stats.spearmanr(cosines, pairs.scores).statistic)


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Trains, saves and loads; returns losses and scores."""
  parser = argparse.ArgumentParser(description="Fine-tunes a BERT in a loop of one's own.")
  parser.add_argument("--model", default="mini", help="as the flag of run_flow.py")
  parser.add_argument("--devices", nargs="*", help="devices that train together; none: all GPUs, or the CPU")
  parser.add_argument("--steps", type=int, default=90)
  parser.add_argument("--batch", type=int, default=32, help="pairs per step, on all devices together")
  parser.add_argument("--learning_rate", type=float, default=2e-4)
  parser.add_argument("--save", type=pathlib.Path, default=pathlib.Path("fine_tuned_bert"), help="folder of the result")
  options = parser.parse_args(arguments)

  strategy = tf.distribute.get_strategy()
  if options.devices or tf.config.list_physical_devices("GPU"):
    strategy = tf.distribute.MirroredStrategy(options.devices)
  with strategy.scope():
    encoder = SentenceEncoder.from_pretrained(options.model)
    rate = tf.keras.optimizers.schedules.CosineDecay(options.learning_rate, options.steps)
    optimizer = tf.keras.optimizers.Adam(rate)
    optimizer.build(encoder.trained_weights(encoder.pooling(POOLING)))  # or the step would be traced twice
  before = spearman(encoder)

  batches = make_batches(encoder, load_task("sample").splits["train"], options.batch)
  step = make_step(strategy, encoder, optimizer, options.batch)
  losses = []
  for number, rows in zip(range(options.steps), strategy.experimental_distribute_dataset(batches), strict=False):
    losses.append(float(step(rows, tf.constant(number))))
  after = spearman(encoder)
  print(f"{strategy.num_replicas_in_sync} replicas, loss {np.mean(losses[:5]):.4f} -> {np.mean(losses[-5:]):.4f}")
  print(f"Spearman x 100 of the test split: {before:.2f} -> {after:.2f}")

  save_encoder(encoder, options.save)
  loaded = SentenceEncoder.from_pretrained(options.save)
  texts = ["A man is eating.", "A woman reads."]
  np.testing.assert_allclose(loaded.encode(texts, POOLING), encoder.encode(texts, POOLING), atol=1e-6)
  checksums = [encoder.weights_checksum, loaded.weights_checksum]
  print(f"saved to {options.save}, weights {checksums[1][:12]}")
  return {"losses": losses, "before": before, "after": after, "checksums": checksums}


if __name__ == "__main__":
  main()
