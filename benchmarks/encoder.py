"""Sentences per second of the encoder (`benchmarks/run.py --benchmark=encoder`).

`SentenceEncoder.encode`, sentence-transformers on PyTorch and ONNX Runtime take turns: same weights, same distinct
sentences, same batch size and number of threads, float32, sorted by length. Ours splits a batch into steps that suit a
CPU's cache, as for every user; with a small batch size the others take steps of the same size. The others run in a
process of their own (`worker.py`), with a Python that has them installed. Figures are logged as they come.
"""

import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from benchmarks import measure
from benchmarks.models import flops_per_token, write_random_bert
from benchmarks.worker_process import Worker
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

OURS, SENTENCE_TRANSFORMERS, ONNX_RUNTIME = "ours", "sentence-transformers", "ONNX Runtime"

# Targets of this project: our speed divided by the other's; and, on a CPU with the instructions, half precision's
# speed divided by float32's.
TARGETS = {SENTENCE_TRANSFORMERS: 1.15, ONNX_RUNTIME: 1.05}
HALF_TARGET = 1.4
POOLING = "avg"

# Larger matrix products are not computed at a higher rate.
_MATRIX = 1536
# Sentences that every method embeds before the first round, which loads, traces and exports.
_WARM_UP = 16


def draw(sentences: Sequence[str], count: int) -> list[str]:
  """Returns `count` of the sentences at random; all in their order if count is not smaller than their number."""
  if count >= len(sentences):
    return list(sentences)
  return [sentences[i] for i in np.random.default_rng(0).choice(len(sentences), count, replace=False)]


def matrix_rate() -> float:
  """Returns the floating-point operations per second of a large float32 `tf.matmul` on all cores."""
  matrix = tf.random.stateless_normal([_MATRIX, _MATRIX], [0, 0])
  multiply = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, matrix)), autograph=False)
  multiply(matrix).numpy()
  seconds, _ = measure.seconds(lambda: [multiply(matrix).numpy() for _ in range(5)])
  return 5 * 2.0 * _MATRIX**3 / seconds


def run(
  tokenizer_folder: str | os.PathLike,
  sentences: list[str],
  max_seq_length: int,
  batch_size: int,
  repeats: int,
  other_python: str | None = None,
  sizes: dict[str, int] | None = None,
  precision: str = "float32",
) -> dict[str, Any]:
  """Measures our encoder and the others in turns."""
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent) / "random-bert"
    logging.info("writes a BERT with random weights")
    write_random_bert(folder, tokenizer_folder, sizes)
    (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    with Worker(other_python or sys.executable, folder, max_seq_length, measure.cores()) as worker:
      for engine in TARGETS:  # they load and export while ours loads and traces
        worker.send(engine, batch_size, count=_WARM_UP)
      logging.info("loads it, here and in the other programs")
      encoder = SentenceEncoder.from_pretrained(str(folder))
      result, rounds = _measure(encoder, worker, folder, sentences, max_seq_length, batch_size, repeats, precision)
  lengths = [len(ids) for ids in encoder.tokenizer(sentences, max_seq_length)]
  return {**result, "batch_size": batch_size, **_summary(rounds, lengths, encoder.bert.config)}


def _measure(encoder, worker, folder, sentences, max_seq_length, batch_size, repeats, precision):
  """Returns versions, skipped engines and differences of the embeddings; and {method: one result a round}."""
  arguments = {"sentence_embedding_type": POOLING, "max_seq_length": max_seq_length, "batch_size": batch_size}
  result = {"versions": {OURS: f"TensorFlow {tf.__version__}"}, "skipped": {}}
  methods, embeddings = {"matrix rate": matrix_rate}, {}

  def timed(name, embed):
    def run():
      seconds, embeddings[name] = embed()
      logging.info("%s: %.1f sentences/s", name, len(sentences) / seconds)
      return seconds

    methods[name] = run

  def add_ours(name, encoder):
    encoder.encode(sentences[:_WARM_UP], show_progress=False, **arguments)
    result["versions"][name] = result["versions"][OURS]
    timed(name, lambda: measure.seconds(lambda: encoder.encode(sentences, show_progress=False, **arguments)))

  def of_worker(engine):
    return worker.ask(engine, batch_size, folder / "other.npy")["seconds"], np.load(folder / "other.npy")

  add_ours(OURS, encoder)
  for engine in TARGETS:
    answer = worker.receive(engine)
    if "skipped" in answer:
      result["skipped"][engine] = answer["skipped"]
      logging.warning("%s is skipped: %s", engine, answer["skipped"])
      continue
    logging.info("%s is ready", engine)
    result["versions"][engine] = answer["version"]
    timed(engine, lambda engine=engine: of_worker(engine))
  if precision != "float32":
    add_ours(f"{OURS}, {precision}", SentenceEncoder.from_pretrained(str(folder), precision=precision))
  rounds = measure.in_turns(methods, repeats)
  expected = embeddings.pop(OURS)
  result["largest_difference"] = {name: float(np.abs(values - expected).max()) for name, values in embeddings.items()}
  return result, rounds


def _summary(rounds, lengths, config):
  """Returns the JSON values that follow from {method: one result a round} and the sentences' lengths in tokens."""
  rates, flops = rounds.pop("matrix rate"), sum(length * flops_per_token(config, length) for length in lengths)
  count, ours = len(lengths), rounds[OURS]
  return {
    "sentences": count,
    "mean_tokens": float(np.mean(lengths)),
    "threads": measure.cores(),
    "seconds": rounds,
    "sentences_per_second": {method: count / measure.median(seconds) for method, seconds in rounds.items()},
    "ours_over": {method: measure.median_ratio(rounds[method], ours) for method in TARGETS if method in rounds},
    "over_float32": {
      method: measure.median_ratio(ours, seconds)
      for method, seconds in rounds.items()
      if method not in (OURS, *TARGETS)
    },
    "flops_per_sentence": flops / count,
    "matrix_flops_per_second": measure.median(rates),
    "share_of_matrix_rate": measure.median(flops / seconds / rate for seconds, rate in zip(ours, rates, strict=True)),
  }


def to_markdown(result: dict[str, Any]) -> str:
  """Returns the tables of the result of `run`."""
  rows = []
  for method, rate in result["sentences_per_second"].items():
    ratio = result["ours_over"].get(method)
    judged = [f"{ratio:.2f}", measure.verdict(ratio, TARGETS[method])] if ratio else ["", ""]
    difference = result["largest_difference"].get(method)
    rows.append(
      [
        f"{method} ({result['versions'][method]})",
        f"{rate:.1f}",
        *judged,
        "" if difference is None else f"{difference:.1e}",
      ]
    )
  lines = [measure.markdown_table(["", "sentences/s", "ours / this", "target", "largest difference"], rows), ""]
  lines += [f"{engine} is skipped: {reason}\n" for engine, reason in result["skipped"].items()]
  lines.append(
    f"{result['sentences']} distinct sentences, {result['mean_tokens']:.1f} tokens on average, batches of "
    f"{result['batch_size']}, {result['threads']} threads. {result['flops_per_sentence'] / 1e9:.3g} GFLOP per sentence "
    f"(without padding); a float32 matrix product runs at {result['matrix_flops_per_second'] / 1e9:.0f} GFLOP/s here, "
    f"so the limit is {result['matrix_flops_per_second'] / result['flops_per_sentence']:.1f} sentences/s; ours reaches "
    f"{100 * result['share_of_matrix_rate']:.0f}% of it (median over the rounds)."
  )
  lines += [
    f"\n{method} is {ratio:.2f} times as fast as float32 ({measure.verdict(ratio, HALF_TARGET)}, on a CPU with "
    "instructions for it)."
    for method, ratio in result["over_float32"].items()
  ]
  return "\n".join(lines)
