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
from benchmarks.worker_process import Worker
from bert_flow_tf.encoder.saving import write_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.tf1_names import bert_shapes
from bert_flow_tf.io.files import read_json

OURS, SENTENCE_TRANSFORMERS, ONNX_RUNTIME = "ours", "sentence-transformers", "ONNX Runtime"

# Targets of this project: our speed divided by the other's; and, on a CPU with the instructions, half precision's
# speed divided by float32's.
TARGETS = {SENTENCE_TRANSFORMERS: 1.15, ONNX_RUNTIME: 1.05}
HALF_TARGET = 1.4
POOLING = "avg"
# BERT-base (Devlin et al. 2019, section 3).
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}

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
  precision: str = "float32",
) -> dict[str, Any]:
  """Measures our encoder and the others in turns."""
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent) / "random-bert"
    logging.info("writes a BERT with random weights")
    write_random_bert(folder, tokenizer_folder)
    (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    with Worker(other_python or sys.executable, folder, max_seq_length, measure.cores()) as worker:
      for engine in TARGETS:  # they load and export while ours loads and traces
        worker.send(engine, batch_size, count=_WARM_UP)
      logging.info("loads it, here and in the other programs")
      encoder = SentenceEncoder.from_pretrained(str(folder))
      result, rounds = _measure(encoder, worker, folder, sentences, max_seq_length, batch_size, repeats, precision)
  lengths = [len(ids) for ids in encoder.tokenizer(sentences, max_seq_length)]
  return {**result, "batch_size": batch_size, **_summary(rounds, lengths, encoder.bert.config)}


def write_random_bert(folder: str | os.PathLike, tokenizer_folder: str | os.PathLike) -> None:
  """Writes a Hugging Face folder that both TensorFlow and PyTorch load."""
  source = pathlib.Path(tokenizer_folder)
  vocabulary = (source / "vocab.txt").read_bytes()
  config = {
    "model_type": "bert",
    "vocab_size": len(vocabulary.rstrip(b"\n").split(b"\n")),
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    **BASE,
  }
  rng = np.random.default_rng(0)
  variables = {name: _initial(name, shape, rng) for name, shape in bert_shapes(config).items()}
  path = source / "tokenizer_config.json"
  tokenizer = read_json(path) if path.exists() else {}
  write_encoder(folder, config, variables, vocabulary, tokenizer)


def _initial(name, shape, rng):
  if name.endswith("/gamma"):
    return np.ones(shape, np.float32)
  if name.endswith(("/beta", "/bias")):
    return np.zeros(shape, np.float32)
  return (0.02 * rng.standard_normal(shape)).astype(np.float32)


def flops_per_token(config: Any, length: int) -> int:
  """Returns BERT's floating-point operations per token of a sentence of `length` tokens.

  Only matrix products count, an addition and a multiplication each: four of width x width, two of width x inner, and
  the two of attention, whose cost grows with the sentence.
  """
  width, inner = config.hidden_size, config.intermediate_size
  return config.num_hidden_layers * (8 * width * width + 4 * width * inner + 4 * width * length)


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
