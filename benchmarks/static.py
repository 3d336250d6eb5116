"""Sentences per second of a static encoder, from text (`benchmarks/run.py --benchmark=static`).

`SentenceModel.encode` with a static encoder and `soft-whitening`, and model2vec's `StaticModel.encode`, take turns:
same vocabulary, same width, same distinct sentences, tokenizing included. model2vec gets a table with the token weights
in its rows; it takes the plain mean of them and has no calibration, so it does less. It runs in a process of its own
(`worker.py`), with a Python that has it installed. Our tokenizer remembers words, so each round loads our model again.
"""

import functools
import pathlib
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from benchmarks import measure
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.model import SentenceModel

OURS, MODEL2VEC = "ours", "model2vec"
CALIBRATION = "soft-whitening"
_BATCH_SIZE = 1024  # model2vec's default


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Measures both in turns; returns JSON values and Markdown."""
  encoder, length = benchmark.encoder, benchmark.pooling_arguments["max_seq_length"]
  place = {"cache_dir": benchmark.embedding.model_cache_dir, "revision": encoder.revision}
  if not encoder.is_static:
    encoder = SentenceEncoder.from_pretrained(f"static:{encoder.name}", **place)
  sentences = benchmark.sentences(*benchmark.settings.tasks)
  calibration = SentenceModel(encoder, None, max_seq_length=length).fit(sentences, CALIBRATION).calibration

  def ours():
    model = SentenceModel(SentenceEncoder.from_pretrained(encoder.name, **place), calibration, max_seq_length=length)
    cpu = time.process_time()
    seconds, _ = measure.seconds(lambda: model.encode(sentences))
    return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}

  methods, versions = {OURS: ours}, {OURS: f"TensorFlow {tf.__version__}"}
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent)
    _write_table(encoder, folder)
    with measure.Worker(benchmark.other_python, folder, sentences, length) as worker:
      ask = functools.partial(worker.ask, MODEL2VEC, _BATCH_SIZE)
      first = ask()  # loads
      if "skipped" in first:
        logging.warning("%s is skipped: %s", MODEL2VEC, first["skipped"])
      else:
        methods[MODEL2VEC], versions[MODEL2VEC] = ask, first["version"]
      answers = measure.in_turns(methods, benchmark.settings.repeats)
  result: dict[str, Any] = {"model": encoder.name, "sentences": len(sentences), "dim": encoder.hidden_size}
  result |= {"threads": usable_cpus(), "versions": versions, "skipped": first.get("skipped"), "answers": answers}
  rows = []
  for name, rounds in answers.items():
    rates = [len(sentences) / measure.median(r[kind] for r in rounds) for kind in ("seconds", "cpu_seconds")]
    rows.append([f"{name} ({versions[name]})", *(f"{rate:,.0f}" for rate in rates)])
  text = measure.markdown_table(["", "sentences/s", "sentences per second of CPU time"], rows)
  if result["skipped"]:
    text += f"\n\n{MODEL2VEC} is skipped: {result['skipped']}"
  return result, (
    f"{text}\n\n{encoder.name}, {encoder.hidden_size} dimensions, with {CALIBRATION}: {len(sentences)} distinct "
    f"sentences from text, {usable_cpus()} threads. Each round loads our model: its tokenizer remembers words."
  )


def _write_table(encoder, folder):
  """Writes rows.npy, the unit word rows times the weights of their tokens, and tokenizer.json for model2vec."""
  rows = encoder.bert.rows[: encoder.tokenizer.vocab_size]
  if encoder.token_weights is not None:
    rows = rows * encoder.token_weights.table[:, np.newaxis]
  np.save(folder / "rows.npy", rows)
  encoder.tokenizer.backend.save(str(folder / "tokenizer.json"))
