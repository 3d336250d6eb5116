"""Sentences per second of a static encoder, from text (`benchmarks/run.py --benchmark=static`).

`SentenceModel.encode` with a static encoder and `soft-whitening`, and model2vec's `StaticModel.encode`, take turns:
same vocabulary, same width, same distinct sentences, tokenizing included. model2vec gets a table with the token weights
in its rows; it takes the plain mean of them and has no calibration, so it does less. It runs in a process of its own
(`worker.py`), with a Python that has it installed. Our tokenizer remembers words, so each round loads our model again.
"""

import functools
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from benchmarks import measure
from benchmarks.worker_process import Worker
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.model import SentenceModel

OURS, MODEL2VEC = "ours", "model2vec"
CALIBRATION = "soft-whitening"

# Targets of this project: sentences per second on two cores, and our speed divided by model2vec's.
TARGET_RATE, TARGET_RATIO = 20_000, 1.0
_BATCH_SIZE = 1024  # model2vec's default


def run(
  encoder: SentenceEncoder,
  sentences: list[str],
  max_seq_length: int,
  repeats: int,
  other_python: str | None = None,
  cache_dir: str | None = None,
) -> dict[str, Any]:
  """Measures both in turns."""
  calibration = SentenceModel(encoder, None, max_seq_length=max_seq_length).fit(sentences, CALIBRATION).calibration

  def ours():
    fresh = SentenceEncoder.from_pretrained(encoder.name, cache_dir=cache_dir, revision=encoder.bert.revision)
    model = SentenceModel(fresh, calibration, max_seq_length=max_seq_length)
    cpu = time.process_time()
    seconds, _ = measure.seconds(lambda: model.encode(sentences))
    return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}

  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent)
    (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    _write_table(encoder, folder)
    with Worker(other_python or sys.executable, folder, max_seq_length, measure.cores()) as worker:
      answer, answers = _in_turns(ours, worker, repeats)
  rounds, cpu = (
    {name: [answer[kind] for answer in answers[name]] for name in answers} for kind in ("seconds", "cpu_seconds")
  )
  versions = {OURS: f"TensorFlow {tf.__version__}", MODEL2VEC: answer.get("version")}
  ratio = measure.median_ratio(rounds[MODEL2VEC], rounds[OURS]) if MODEL2VEC in rounds else None
  return {
    "model": encoder.name,
    "sentences": len(sentences),
    "dim": encoder.hidden_size,
    "threads": measure.cores(),
    "versions": {name: versions[name] for name in rounds},
    "skipped": answer.get("skipped"),
    "seconds": rounds,
    "cpu_seconds": cpu,
    "sentences_per_second": {name: len(sentences) / measure.median(seconds) for name, seconds in rounds.items()},
    "sentences_per_cpu_second": {name: len(sentences) / measure.median(seconds) for name, seconds in cpu.items()},
    "ours_over_model2vec": ratio,
  }


def _in_turns(ours, worker, repeats):
  """Returns model2vec's first answer, and {name: answers} of all rounds, without model2vec if it is skipped."""
  ask = functools.partial(worker.ask, MODEL2VEC, _BATCH_SIZE)
  first = ask()  # loads
  if "skipped" in first:
    logging.warning("%s is skipped: %s", MODEL2VEC, first["skipped"])
  methods = {OURS: ours} if "skipped" in first else {OURS: ours, MODEL2VEC: ask}
  return first, measure.in_turns(methods, repeats)


def _write_table(encoder, folder):
  """Writes rows.npy, the unit word rows times the weights of their tokens, and tokenizer.json for model2vec."""
  rows = encoder.bert.model.unit_rows[: encoder.tokenizer.vocab_size]
  if encoder.token_weights is not None:
    rows = rows * encoder.token_weights.table[:, np.newaxis]
  np.save(folder / "rows.npy", rows)
  encoder.tokenizer.save(folder / "tokenizer.json")


def to_markdown(result: dict[str, Any]) -> str:
  """Returns the table of the result of `run`."""
  ratio, rows = result["ours_over_model2vec"], []
  for name, rate in result["sentences_per_second"].items():
    target = measure.verdict(rate, TARGET_RATE) if name == OURS else measure.verdict(ratio, TARGET_RATIO)
    ours_over = "" if name == OURS else f"{ratio:.2f}"
    per_cpu = f"{result['sentences_per_cpu_second'][name]:,.0f}"
    rows.append([f"{name} ({result['versions'][name]})", f"{rate:,.0f}", ours_over, target, per_cpu])
  header = ["", "sentences/s", "ours / this", "target", "sentences per second of CPU time"]
  lines = [measure.markdown_table(header, rows), ""]
  if result["skipped"]:
    lines.append(f"{MODEL2VEC} is skipped: {result['skipped']}\n")
  lines.append(
    f"{result['model']}, {result['dim']} dimensions, with {CALIBRATION}: {result['sentences']} distinct sentences from "
    f"text, {result['threads']} threads. Each round loads our model again, as its tokenizer remembers words."
  )
  return "\n".join(lines)
