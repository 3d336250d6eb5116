"""Costs of calibrations and embeddings (`run_benchmark.py --benchmark=costs`)."""

import dataclasses
import functools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from bert_flow_tf.benchmark import measure
from bert_flow_tf.benchmark.serving import ServedModel, check_installed
from bert_flow_tf.calibration.spec import make_calibration
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.task_scores import Embeddings
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.training.calibrate import fit_calibration

_REQUESTS = 50
# Sentences of the two fits whose memory is compared, and of a part of them.
_MEMORY_SENTENCES, _PART = (4096, 16384), 1024


@dataclasses.dataclass(frozen=True)
class Method:
  """Calibration, the embedding that it is fitted on, and the encoder's token weights.

  Attributes:
    embedding: a `sentence_embedding_type`.
    calibration: name of a calibration.
    token_weights: the encoder's `token_weights`.
    static: whether the encoder is its BERT's word embeddings alone.
  """

  embedding: str
  calibration: str
  token_weights: str = "uniform"
  static: bool = False

  @property
  def name(self) -> str:
    """Name in the table."""
    parts = (self.embedding, self.token_weights, self.calibration)
    return "static: " * self.static + ", ".join(part for part in parts if part != "uniform")

  def load(self, model: str, max_seq_length: int) -> SentenceModel:
    """Returns the encoder with its pooling, without a calibration."""
    name = f"static:{model}" if self.static else model
    return SentenceModel.from_pretrained(name, self.embedding, max_seq_length, token_weights=self.token_weights)


RECIPE = Method("mix", "soft-whitening", "idf")
STATIC = Method("word-rows", "soft-whitening", "idf", static=True)
METHODS = (
  Method("avg-first-last", "flow"),
  Method("avg-first-last", "whitening"),
  Method("avg-first-last", "soft-whitening"),
  RECIPE,
  Method("mix", "flow", "idf"),
  Method("mix", "flow+soft-whitening", "idf"),
  STATIC,
)


def run(
  model: str,
  task: TaskData,
  config: Any,
  seed: int,
  max_seq_length: int,
  batch_size: int,
  repeats: int,
  methods: Sequence[Method] = METHODS,
  counts: Sequence[int] = _MEMORY_SENTENCES,
) -> dict[str, Any]:
  """Measures all methods in turns.

  Args:
    model: name or folder of the encoder.
    task: pairs of all its splits are those of the fit; the sentences of the evaluated split are embedded.
    config: configuration of the flow.
    seed: seed of the flow.
    max_seq_length: largest number of tokens of a sentence, [CLS] and [SEP] included.
    batch_size: largest number of sentences embedded at once.
    repeats: rounds.
    methods: the methods.
    counts: numbers of sentences of the fits whose memory is compared.

  Returns:
    JSON values, which `to_markdown` reads.

  Raises:
    ConfigError: the tokenizer of the served graph is not installed.
  """
  check_installed()
  corpus, pairs = task.all_pairs(), task.splits[str(task.spec.eval_split)]
  sentences = list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))
  models = {method: method.load(model, max_seq_length) for method in methods}

  fits = _fit(models, corpus, batch_size, {"flow_model_config": config, "seed": seed}, repeats)
  for method, of in models.items():
    of.calibration = fits[method][-1][1]
    of.calibration.encoder = of.identity.to_dict()
    of.encode(sentences[:batch_size], batch_size)
  work = {method: functools.partial(of.encode, sentences, batch_size) for method, of in models.items()}
  encoded = measure.in_turns(
    {name: functools.partial(measure.seconds, encode) for name, encode in work.items()}, repeats
  )
  served = _serve(models, sentences, repeats)
  rows = [
    {
      "method": method.name,
      "fit_seconds": measure.median(seconds for seconds, _ in fits[method]),
      "sentences_per_second": len(sentences) / measure.median(seconds for seconds, _ in encoded[method]),
      **served[method],
    }
    for method in methods
  ]
  measured = [method for method in methods if method in (RECIPE, STATIC)]
  memory = [_memory(method, model, sentences[:_PART], max_seq_length, counts) for method in measured]
  sizes = {"pairs": len(corpus), "sentences": len(sentences)}
  return {"model": model, "task": task.spec.name, **sizes, "rows": rows, "memory": memory}


def _fit(models, corpus, batch_size, flow_settings, repeats):
  """Fits all calibrations in turns; returns {method: (seconds, calibration) of each round}."""

  def fit(method, vectors):
    settings: Any = flow_settings if "flow" in method.calibration else {}
    arguments = {"show_progress": False, "shares": models[method].shares, **settings}
    return measure.seconds(lambda: fit_calibration(vectors, method.calibration, **arguments))

  fits, embeddings = {}, {}
  for method, of in models.items():
    key = method.embedding, method.token_weights, method.static
    if key not in embeddings:
      embeddings[key] = Embeddings(of.encoder, [corpus], batch_size, **of.identity.pooling_arguments())
    sides = tuple(embeddings[key].of(side) for side in (corpus.sentences_a, corpus.sentences_b))
    fits[method] = functools.partial(fit, method, sides)
  return measure.in_turns(dict(fits), repeats)


def _serve(models, sentences, repeats):
  """Exports each model; returns {method: bytes of its folder and milliseconds of a request of one sentence}."""
  from bert_flow_tf.serving.export import export_model  # needs the extra [serving]

  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folders = {
      method: export_model(of, f"{parent}/{number}").folder for number, (method, of) in enumerate(models.items())
    }
    served = {method: ServedModel(folder) for method, folder in folders.items()}
    chosen = [sentences[i % len(sentences)] for i in range(_REQUESTS)]

    def requests(model):
      ask = functools.partial(model, "serving_default")
      return [measure.seconds(functools.partial(ask, [sentence]))[0] for sentence in chosen]

    work = {method: functools.partial(requests, model) for method, model in served.items()}
    for first in work.values():
      first()
    rounds = measure.in_turns(work, repeats)
    return {
      method: {
        "export_bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        "request_ms": 1e3 * measure.median(value for values in rounds[method] for value in values),
      }
      for method, folder in folders.items()
    }


def _memory(method, model, sentences, max_seq_length, counts):
  """Returns the peak memory of fits in parts of at most 1,024 sentences, each in a process of its own."""
  folder = str(pathlib.Path(__file__).resolve().parents[2])
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
  peaks = []
  for count in counts:
    job = {"method": dataclasses.asdict(method), "model": model, "max_seq_length": max_seq_length, "count": count}
    command = [sys.executable, "-m", "bert_flow_tf.benchmark.costs"]
    text = json.dumps({**job, "sentences": sentences})
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
      raise BertFlowError(
        f"benchmark=costs: the process that measures memory failed: {done.stderr[-300:]}", "benchmark"
      )
    peaks.append(json.loads(done.stdout.splitlines()[-1]))
  return {"method": method.name, "sentences": list(counts), "mib": peaks}


def fit_in_parts(method: Method, model: str, sentences: Sequence[str], max_seq_length: int, count: int) -> float:
  """Fits a calibration on `count` sentences, the given ones again and again; returns this process's peak memory in MiB.

  The other arguments are those of `Method.load`.
  """
  encoder = method.load(model, max_seq_length)
  calibration = make_calibration(method.calibration, encoder.shares)
  for _ in range(0, count, len(sentences)):
    calibration.partial_fit(encoder.embed(sentences, show_progress=False))
  calibration.transform(encoder.embed(sentences[:1], show_progress=False))  # solves the fit
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


def to_markdown(result: dict[str, Any]) -> str:
  """Returns the tables of the result of `run`."""
  rows = [
    [
      row["method"],
      f"{row['fit_seconds']:.2f}",
      f"{row['sentences_per_second']:.0f}",
      f"{row['export_bytes'] / 1e6:.1f}",
      f"{row['request_ms']:.2f}",
    ]
    for row in result["rows"]
  ]
  header = ["method", "fit (s)", "sentences/s", "served model (MB)", "request of one sentence (ms)"]
  peaks = [
    f"{memory['method']}: {memory['mib'][0]:.0f} MiB for {memory['sentences'][0]:,} sentences, "
    f"{memory['mib'][1]:.0f} MiB for {memory['sentences'][1]:,}"
    for memory in result["memory"]
  ]
  return (
    f"{measure.markdown_table(header, rows)}\n\n{result['model']}. The fit is on embeddings of the {result['pairs']:,} "
    f"pairs of {result['task']}, without embedding them; {result['sentences']:,} sentences are embedded, from text to "
    "calibrated vector. The served model is float32. Peak memory of a process that embeds and fits in parts: "
    f"{'; '.join(peaks)}."
  )


def _main():
  job = json.load(sys.stdin)
  job["method"] = Method(**job["method"])
  print(json.dumps(fit_in_parts(**job)))


if __name__ == "__main__":
  _main()
