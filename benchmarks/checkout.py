"""Process that measures one checkout of this project, for the parts training_step and startup of `benchmarks/run.py`.

Run by the path of this file, with the checkout's root as PYTHONPATH; `python -P` keeps the modules next to it out. It
uses what older commits have, too, and imports nothing at its top that the start-up would have to pay for.

checkout.py startup MODEL: prints a line of JSON with the CPU seconds of each phase and the peak memory.
checkout.py training_step MODEL FILE: FILE has {"pad_id", "pooling", "batches": {size: [[ids a, ids b], ...]}}. It reads
  a command per line, {"size": ..., "packed": true, false or null for the checkout's own way}, and answers each with
  {"cpu_seconds", "seconds"} per step and {"loss"}, the first batch's without dropout.
"""

import json
import resource
import sys
import time


def startup(model):
  """Returns the CPU seconds of the import of the encoder without TensorFlow's, of loading and of the first sentence."""
  seconds = {}

  def lap(phase):
    nonlocal start
    seconds[phase] = time.process_time() - start + seconds.get(phase, 0.0)
    start = time.process_time()

  start = time.process_time()
  import bert_flow_tf  # first: older commits select Keras 2

  lap("import")
  import tensorflow  # noqa: F401

  lap("TensorFlow's import")
  encoder_class = bert_flow_tf.SentenceEncoder
  lap("import")
  encoder = encoder_class.from_pretrained(model)
  lap("load")
  encoder.encode(["A man is eating."], show_progress=False)
  lap("first sentence")
  unit = 1 if sys.platform == "darwin" else 1024
  return {"cpu_seconds": seconds, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}


class TrainingSteps:
  """Steps of forward and backward through the encoder, with dropout, as run_siamese makes them."""

  def __init__(self, model, file):
    import bert_flow_tf

    with open(file, encoding="utf-8") as content:
      settings = json.load(content)
    self._encoder = bert_flow_tf.SentenceEncoder.from_pretrained(model)
    self._pooling, self._steps = settings["pooling"], {}
    self._batches = {}
    for size, batches in settings["batches"].items():
      self._batches[int(size)] = [[_pad(side, settings["pad_id"]) for side in sides] for sides in batches]

  def measure(self, size, packed):
    """Makes a step per batch; returns the answer."""
    import tensorflow as tf

    if packed not in self._steps:
      self._steps[packed] = self._make_step(packed)
    start, cpu = time.perf_counter(), time.process_time()
    for number, (a, b) in enumerate(self._batches[size]):
      gradients = self._steps[packed](*a, *b, tf.constant([1, number]))
    tf.reduce_sum(gradients[-1]).numpy()  # waits for a GPU
    steps = number + 1
    answer = {"cpu_seconds": (time.process_time() - cpu) / steps, "seconds": (time.perf_counter() - start) / steps}
    a, b = self._batches[size][0]
    return answer | {"loss": float(self._loss(*a, *b, None, packed))}

  def _make_step(self, packed):
    import tensorflow as tf

    bert = self._encoder.bert
    weights = getattr(bert, "model", bert).weights  # older commits keep a model of transformers
    spec = tf.TensorSpec([None, None], tf.int32)

    @tf.function(autograph=False, input_signature=[spec, spec, spec, spec, tf.TensorSpec([2], tf.int32)])
    def step(ids_a, mask_a, ids_b, mask_b, seed):
      with tf.GradientTape() as tape:
        loss = self._loss(ids_a, mask_a, ids_b, mask_b, seed, packed)
      gradients = tape.gradient(loss, weights)
      return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    return step

  def _loss(self, ids_a, mask_a, ids_b, mask_b, seed, packed):
    """Returns the mean squared error of the cosines to 0.5; the sides have dropout of their own."""
    import tensorflow as tf

    arguments = {}
    if packed is not None:
      arguments["packed"] = packed
    sides = []
    for number, (ids, mask) in enumerate(((ids_a, mask_a), (ids_b, mask_b))):
      side_seed = seed
      if seed is not None:
        side_seed = tf.random.experimental.stateless_fold_in(seed, number)
      embeddings = self._encoder.pooled_batch(ids, mask, self._pooling, side_seed, **arguments)
      sides.append(tf.math.l2_normalize(embeddings, axis=1))
    return tf.reduce_mean(tf.square(tf.reduce_sum(sides[0] * sides[1], axis=1) - 0.5))


def _pad(rows, pad_id):
  """Returns ids and mask, int32 [batch, longest], of lists of ids."""
  import tensorflow as tf

  ragged = tf.ragged.constant(rows, tf.int32)
  return ragged.to_tensor(pad_id), tf.cast(tf.sequence_mask(ragged.row_lengths()), tf.int32)


def main(part, *arguments):
  """Measures once, or answers commands until the input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr  # output of the libraries must not come between the answers
  if part == "startup":
    print(json.dumps(startup(*arguments)), file=answers, flush=True)
    return
  steps = TrainingSteps(*arguments)
  for line in sys.stdin:
    print(json.dumps(steps.measure(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
  main(*sys.argv[1:])
