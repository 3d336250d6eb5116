"""A served model under load, and the flow's share of its time (`benchmarks/run.py --benchmark=serving`).

The exported model runs as in TF Serving, in a session, tensors by name, but without the network. So the model's own
part of a server's work is measured.
"""

import concurrent.futures
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import measure
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.model import SentenceModel

CLIENTS = 32
# Largest difference of an answer, as a part of the embeddings' largest value.
ANSWERS_WITHIN = 1e-4
_REQUEST_SIZES = (1, 8, 64)
_REQUESTS_A_ROUND = 20
_SENTENCES = 512


class ServedModel:
  """A SavedModel in a session, as the server holds it."""

  def __init__(self, folder: str | os.PathLike) -> None:
    self._session = tf.compat.v1.Session(graph=tf.Graph())
    with self._session.graph.as_default():
      model = tf.compat.v1.saved_model.load(self._session, ["serve"], str(folder))
    self._signatures = {
      name: (next(iter(signature.inputs.values())).name, next(iter(signature.outputs.values())).name)
      for name, signature in model.signature_def.items()
      if len(signature.inputs) == len(signature.outputs) == 1
    }

  def __call__(self, signature: str, sentences: Sequence[str]) -> np.ndarray:
    """Returns the output of a signature that has one input and one output: float32 [n, dim]."""
    text, output = self._signatures[signature]
    return self._session.run(output, {text: np.array([sentence.encode() for sentence in sentences], object)})


def under_load(
  model: Callable, sentences: Sequence[str], expected: np.ndarray, seconds: float, clients: int = CLIENTS
) -> dict[str, Any]:
  """Sends requests of many clients at once and compares every answer."""
  until = time.perf_counter() + seconds
  allowed = ANSWERS_WITHIN * np.abs(expected).max()

  def client(number):
    rng, latencies, wrong = np.random.default_rng(number), [], 0
    while time.perf_counter() < until:
      places = rng.choice(len(sentences), rng.integers(1, 4))
      start = time.perf_counter()
      answer = model("serving_default", [sentences[i] for i in places])
      latencies.append(time.perf_counter() - start)
      wrong += answer.shape != expected[places].shape or not np.abs(answer - expected[places]).max() <= allowed
    return latencies, wrong

  with concurrent.futures.ThreadPoolExecutor(clients) as pool:
    per_client = list(pool.map(client, range(clients)))
  latencies = np.concatenate([times for times, _ in per_client])
  return {
    "clients": clients,
    "seconds": seconds,
    "requests": len(latencies),
    "wrong_answers": int(sum(wrong for _, wrong in per_client)),
    "fewest_requests_of_a_client": min(len(times) for times, _ in per_client),
    "requests_per_second": len(latencies) / seconds,
    "latency_ms": {f"p{p}": float(np.percentile(latencies, p) * 1e3) for p in (50, 95, 99)},
  }


def flow_share(model: Callable, sentences: Sequence[str], repeats: int) -> dict[int, dict[str, float]]:
  """Returns {sentences per request: medians of the milliseconds without and with the flow, and its share}."""
  result = {}
  for size in _REQUEST_SIZES:
    batches = [[sentences[(i * size + j) % len(sentences)] for j in range(size)] for i in range(_REQUESTS_A_ROUND)]

    def requests(signature, batches=batches):
      return [measure.seconds(lambda batch=batch: model(signature, batch))[0] for batch in batches]

    methods = {name: lambda name=name: requests(name) for name in ("embed_pooled", "serving_default")}
    for method in methods.values():
      method()
    rounds = measure.in_turns(methods, repeats)
    without, whole = (np.concatenate(rounds[name]) for name in methods)
    result[size] = {
      "without_ms": 1e3 * measure.median(without),
      "with_ms": 1e3 * measure.median(whole),
      "share": measure.median(whole / without) - 1,
    }
  return result


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Exports the encoder with a flow, measures it under load and request by request; returns JSON values, Markdown."""
  from bert_flow_tf.serving.export import export_model  # needs the extra [serving]

  settings, encoder, arguments = benchmark.settings, benchmark.encoder, benchmark.pooling_arguments
  sentences = benchmark.sentences(settings.tasks[0])[:_SENTENCES]
  embeddings = encoder.encode(sentences, **arguments)
  flow = Glow(benchmark.config, embeddings.shape[1], seed=1)
  flow.initialize(embeddings)
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    model = ServedModel(export_model(SentenceModel(encoder, flow, **arguments), parent))
    model("serving_default", sentences[:1])
    shares = flow_share(model, sentences, settings.repeats)
    load = under_load(model, sentences, flow.transform(embeddings).numpy(), settings.load_seconds)
  rows = []
  for size, times in shares.items():
    rows.append([size, f"{times['without_ms']:.2f}", f"{times['with_ms']:.2f}", f"{100 * times['share']:.1f}%"])
  latency = ", ".join(f"{name} {ms:.0f} ms" for name, ms in load["latency_ms"].items())
  table = measure.markdown_table(["sentences per request", "encoder (ms)", "with flow (ms)", "flow's share"], rows)
  return {"flow_share": shares, "load": load, "model": encoder.name}, (
    f"{table}\n\n{load['clients']} clients at once for {load['seconds']:g} seconds, 1 to 3 sentences per request: "
    f"{load['requests']} requests, {load['wrong_answers']} wrong answers, none lost, "
    f"{load['requests_per_second']:.0f} requests/s; latency {latency}."
  )
