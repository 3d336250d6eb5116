"""Sentences a second of the encoder: `run_benchmark.py --benchmark=encoder`.

`SentenceEncoder.encode` against sentence-transformers on PyTorch and ONNX Runtime, in turns, on the same weights, the
same distinct sentences, the same `batch_size` and number of threads, all in float32 and sorted by length. Ours cuts a
batch into steps that suit a CPU's cache, as it does for every user; a small --predict_batch_size gives the others steps
of the same size. They run in a process of their own (`benchmark_worker.py`), with a Python that has them.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.benchmark import measure
from bert_flow_tf.benchmark.models import flops_per_token, many_sentences, write_random_bert
from bert_flow_tf.errors import BertFlowError

OURS, SENTENCE_TRANSFORMERS, ONNX_RUNTIME = "ours", "sentence-transformers", "ONNX Runtime"

# Issue 4, section 5: ours over the other.
TARGETS = {SENTENCE_TRANSFORMERS: 1.15, ONNX_RUNTIME: 1.0}
# Section 4: half precision over float32, where the CPU has instructions for it.
HALF_TARGET = 1.4
EMBEDDINGS_WITHIN = 1e-4
POOLING = "avg"

# A product of this size is computed at a rate that larger ones do not exceed.
_MATRIX = 1536


class WorkerError(BertFlowError):
  """The process with the other engines ended or answered nonsense."""


class Worker:
  """The process with sentence-transformers and ONNX Runtime; a context manager.

  Args:
    python: path of a Python that has them.
    folder, sentences_file, max_seq_length, threads: see `benchmark_worker.py`.

  Raises:
    WorkerError: it cannot be started, or ended without an answer.
  """

  def __init__(self, python, folder, sentences_file, max_seq_length, threads):
    script = pathlib.Path(__file__).with_name("worker.py")
    command = [python, script, folder, sentences_file, max_seq_length, threads]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    self._python = python
    try:
      self._process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
      )
    except OSError as error:
      raise WorkerError(f"--other_python={python} cannot be started ({error.strerror}); expected a Python") from error

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    with contextlib.suppress(OSError):  # it may have ended before
      self._process.stdin.close()
    try:
      self._process.wait(10)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()

  def ask(self, engine, batch_size, save=None):
    """Lets an engine embed all sentences: {"seconds", "version"} or {"skipped": why}."""
    command = {"engine": engine, "batch_size": batch_size, "save": save and str(save)}
    try:
      self._process.stdin.write(json.dumps(command) + "\n")
      self._process.stdin.flush()
      return json.loads(self._process.stdout.readline())
    except (OSError, ValueError) as error:
      raise WorkerError(
        f"--other_python={self._python}: it ended or answered no json when asked for {engine}; expected a Python that "
        "can run bert_flow_tf/benchmark/worker.py (NumPy at least)"
      ) from error


def draw(sentences, count):
  """`count` of the sentences, drawn at random; all of them in their order if None, or if there are no more."""
  if count is None or count >= len(sentences):
    return list(sentences)
  return [sentences[i] for i in np.random.default_rng(0).choice(len(sentences), count, replace=False)]


def matrix_rate():
  """Floating-point operations a second of a large float32 `tf.matmul` on all cores."""
  matrix = tf.random.stateless_normal([_MATRIX, _MATRIX], [0, 0])
  multiply = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, matrix)), autograph=False)
  multiply(matrix).numpy()
  taken, _ = measure.seconds(lambda: [multiply(matrix).numpy() for _ in range(5)])
  return 5 * 2.0 * _MATRIX**3 / taken


def run(
  tokenizer_folder, sentences, max_seq_length, batch_size, repeats, other_python=None, sizes=None, precision="float32"
):
  """Ours and the others in turns: a dict of json values.

  Args:
    tokenizer_folder: folder of a BERT whose vocabulary is used.
    sentences: list of distinct str.
    max_seq_length: most tokens of a sentence, [CLS] and [SEP] included.
    batch_size: sentences a step.
    repeats: rounds.
    other_python: path of a Python with sentence-transformers and ONNX Runtime; this one if None.
    sizes: of the model, for config.json; BERT-base if None.
    precision: a half precision to measure beside float32; float32 for none.
  """
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent, contextlib.ExitStack() as stack:
    parent = pathlib.Path(parent)
    folder, file = parent / "random-bert", parent / "sentences.json"
    write_random_bert(folder, tokenizer_folder, sizes)
    file.write_text(json.dumps(sentences), encoding="utf-8")
    encoder = SentenceEncoder.from_pretrained(str(folder))
    worker = stack.enter_context(Worker(other_python or sys.executable, folder, file, max_seq_length, measure.cores()))
    arguments = {"sentence_embedding_type": POOLING, "max_seq_length": max_seq_length, "batch_size": batch_size}

    def ours(encoder=encoder):
      return measure.seconds(lambda: encoder.encode(sentences, show_progress=False, **arguments))

    _, embeddings = ours()  # traces the graph; the others' first round loads and exports likewise
    found = {"versions": {OURS: f"TensorFlow {tf.__version__}"}, "skipped": {}, "largest_difference": {}}
    ways = {"matrix rate": matrix_rate, OURS: lambda: ours()[0]}
    for engine in TARGETS:
      answer = worker.ask(engine, batch_size, parent / "other.npy")
      if "skipped" in answer:
        found["skipped"][engine] = answer["skipped"]
        logging.warning("%s is skipped: %s", engine, answer["skipped"])
        continue
      found["versions"][engine] = answer["version"]
      found["largest_difference"][engine] = float(np.abs(np.load(parent / "other.npy") - embeddings).max())
      ways[engine] = lambda engine=engine: worker.ask(engine, batch_size)["seconds"]
    if precision != "float32":
      half, engine = SentenceEncoder.from_pretrained(str(folder), precision=precision), f"{OURS}, {precision}"
      found["versions"][engine] = found["versions"][OURS]
      found["largest_difference"][engine] = float(np.abs(ours(half)[1] - embeddings).max())
      ways[engine] = lambda: ours(half)[0]
    rounds = measure.in_turns(ways, repeats)
  rates = rounds.pop("matrix rate")
  lengths = [len(ids) for ids in encoder.tokenizer(sentences, max_seq_length)]
  flops = sum(length * flops_per_token(encoder.bert.config, length) for length in lengths) / len(lengths)
  return found | {
    "sentences": len(sentences),
    "mean_tokens": float(np.mean(lengths)),
    "batch_size": batch_size,
    "threads": measure.cores(),
    "seconds": rounds,
    "sentences_per_second": {way: len(sentences) / measure.median(taken) for way, taken in rounds.items()},
    "ours_over": {way: measure.median_ratio(rounds[way], rounds[OURS]) for way in TARGETS if way in rounds},
    "over_float32": {
      way: measure.median_ratio(rounds[OURS], taken)
      for way, taken in rounds.items()
      if way != OURS and way not in TARGETS
    },
    "flops_per_sentence": flops,
    "matrix_flops_per_second": measure.median(rates),
    "share_of_matrix_rate": measure.median(
      flops * len(sentences) / taken / rate for taken, rate in zip(rounds[OURS], rates, strict=True)
    ),
  }


def run_scaling(model, sentences, counts, max_seq_length, batch_size, repeats):
  """Seconds for rising numbers of sentences, in turns: a dict of json values.

  Args:
    model: a `--model` value.
    sentences: list of distinct str, which the others are made of.
    counts: rising numbers of sentences.
    max_seq_length: most tokens of a sentence, [CLS] and [SEP] included.
    batch_size: sentences a step.
    repeats: rounds.
  """
  encoder = SentenceEncoder.from_pretrained(model)
  distinct = many_sentences(sentences, max(counts))
  # The sentences given stand first; drawn from all, every count has the same spread of lengths.
  chosen = np.random.default_rng(0).permutation(len(distinct))
  arguments = {"sentence_embedding_type": POOLING, "max_seq_length": max_seq_length, "batch_size": batch_size}

  def encode(count):
    part = [distinct[i] for i in chosen[:count]]
    return measure.seconds(lambda: encoder.encode(part, show_progress=False, **arguments))[0]

  encode(min(counts))
  rounds = measure.in_turns({count: lambda count=count: encode(count) for count in counts}, repeats)
  per_sentence = {count: 1e3 * measure.median(taken) / count for count, taken in rounds.items()}
  return {
    "model": str(model),
    "ms_per_sentence": per_sentence,
    "largest_over_smallest_count": per_sentence[max(counts)] / per_sentence[min(counts)],
  }


def to_markdown(found, scaling=None):
  """The tables of `run` and `run_scaling`."""
  rows = []
  for way, rate in found["sentences_per_second"].items():
    ratio = found["ours_over"].get(way)
    judged = [f"{ratio:.2f}", measure.verdict(ratio, TARGETS[way])] if ratio else ["", ""]
    difference = found["largest_difference"].get(way)
    apart = "" if difference is None else f"{difference:.1e}"
    rows.append([f"{way} ({found['versions'][way]})", f"{rate:.1f}", *judged, apart])
  lines = [measure.markdown_table(["", "sentences/s", "ours over it", "target", "embeddings apart"], rows), ""]
  lines += [f"{engine} is skipped: {why}\n" for engine, why in found["skipped"].items()]
  lines.append(
    f"{found['sentences']} distinct sentences of {found['mean_tokens']:.1f} tokens, batches of {found['batch_size']}, "
    f"{found['threads']} threads. {found['flops_per_sentence'] / 1e9:.3g} GFLOP a sentence (its own tokens, no "
    f"padding); a float32 matrix product runs at {found['matrix_flops_per_second'] / 1e9:.0f} GFLOP/s here, so the "
    f"limit is {found['matrix_flops_per_second'] / found['flops_per_sentence']:.1f} sentences/s; ours reaches "
    f"{100 * found['share_of_matrix_rate']:.0f}% of it (median over the rounds)."
  )
  for way, ratio in found["over_float32"].items():
    lines.append(
      f"\n{way} is {ratio:.2f} times as fast as float32 ({measure.verdict(ratio, HALF_TARGET)}, on a CPU with "
      "instructions for it)."
    )
  if scaling:
    costs = ", ".join(f"{count}: {ms:.2f}" for count, ms in scaling["ms_per_sentence"].items())
    lines.append(
      f"\nMilliseconds a sentence by their number, with {pathlib.Path(scaling['model']).name}: {costs}; the largest "
      f"number costs {scaling['largest_over_smallest_count']:.2f} times as much a sentence as the smallest."
    )
  return "\n".join(lines)
