"""A served model under load, and what the flow costs in it: `run_benchmark.py --benchmark=serving`.

The model is exported and then run as TF Serving runs it, in a session, tensors by name, without the network: so what is
measured is the model's own share of a server's work.
"""

import concurrent.futures
import importlib.util
import tempfile
import time

import numpy as np
import tensorflow as tf

from bert_flow_tf.benchmark import measure
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.glow import Glow

CLIENTS = 32
# Issue 4, section 2: time of a request with the flow over one without it.
FLOW_SHARE_WITHIN = 0.05
# Parts of the largest number of an embedding.
ANSWERS_WITHIN = 1e-4
_REQUEST_SIZES = (1, 8, 64)
_REQUESTS_A_ROUND = 20


def check_installed():
  """Refuses where the served graph's tokenizer is not installed.

  Raises:
    ConfigError: it is not.
  """
  if importlib.util.find_spec("tensorflow_text") is None:
    raise ConfigError("--benchmark=serving needs tensorflow-text: pip install 'bert-flow-tf[serving]'")


class ServedModel:
  """A SavedModel in a session, as the server holds it.

  Args:
    folder: of the version.
  """

  def __init__(self, folder):
    self._session = tf.compat.v1.Session(graph=tf.Graph())
    with self._session.graph.as_default():
      model = tf.compat.v1.saved_model.load(self._session, ["serve"], str(folder))
    self._signatures = {
      name: (next(iter(one.inputs.values())).name, next(iter(one.outputs.values())).name)
      for name, one in model.signature_def.items()
      if len(one.inputs) == len(one.outputs) == 1
    }

  def __call__(self, signature, sentences):
    """Float32 [n, dim] that a signature with one input and one output gives for n str."""
    text, output = self._signatures[signature]
    return self._session.run(output, {text: np.array([sentence.encode() for sentence in sentences], object)})


def under_load(model, sentences, expected, seconds, clients=CLIENTS):
  """Many clients at once, each answer compared: a dict of json values.

  Args:
    model: `ServedModel`.
    sentences: list of str that requests of 1 to 3 are drawn from.
    expected: float32 [n, dim], their embeddings in Python.
    seconds: how long.
    clients: how many.
  """
  until = time.perf_counter() + seconds
  allowed = ANSWERS_WITHIN * np.abs(expected).max()

  def client(number):
    rng, latencies, wrong = np.random.default_rng(number), [], 0
    while time.perf_counter() < until:
      chosen = rng.choice(len(sentences), rng.integers(1, 4))
      start = time.perf_counter()
      answer = model("serving_default", [sentences[i] for i in chosen])
      latencies.append(time.perf_counter() - start)
      wrong += answer.shape != expected[chosen].shape or not np.abs(answer - expected[chosen]).max() <= allowed
    return latencies, wrong

  with concurrent.futures.ThreadPoolExecutor(clients) as pool:
    found = list(pool.map(client, range(clients)))
  latencies = np.concatenate([one for one, _ in found])
  return {
    "clients": clients,
    "seconds": seconds,
    "requests": len(latencies),
    "wrong_answers": int(sum(wrong for _, wrong in found)),
    "fewest_requests_of_a_client": min(len(one) for one, _ in found),
    "requests_per_second": len(latencies) / seconds,
    "latency_ms": {f"p{p}": float(np.percentile(latencies, p) * 1e3) for p in (50, 95, 99)},
  }


def flow_share(model, sentences, repeats):
  """{sentences a request: (milliseconds without the flow, with it, the flow's share of the former)}, medians."""
  found = {}
  for size in _REQUEST_SIZES:
    batches = [[sentences[(i * size + j) % len(sentences)] for j in range(size)] for i in range(_REQUESTS_A_ROUND)]

    def requests(signature, batches=batches):
      return [measure.seconds(lambda batch=batch: model(signature, batch))[0] for batch in batches]

    ways = {name: lambda name=name: requests(name) for name in ("embed_pooled", "serving_default")}
    for way in ways.values():
      way()
    rounds = measure.in_turns(ways, repeats)
    pairs = [
      (bare, whole)
      for bares, wholes in zip(rounds["embed_pooled"], rounds["serving_default"], strict=True)
      for bare, whole in zip(bares, wholes, strict=True)
    ]
    without, whole = (1e3 * measure.median(times) for times in zip(*pairs, strict=True))
    found[size] = {"without_ms": without, "with_ms": whole, "share": measure.median(b / a for a, b in pairs) - 1}
  return found


def run(encoder, config, sentences, max_seq_length, pooling, seconds, repeats):
  """An export of the encoder and a flow, under load and request by request: a dict of json values.

  Args:
    encoder: `SentenceEncoder`.
    config: `FlowConfig`. The flow is initialised on the sentences and not fitted: it costs the same.
    sentences: list of distinct str.
    max_seq_length: as `SentenceEncoder.encode` takes it.
    pooling: a `sentence_embedding_type`.
    seconds: of the load.
    repeats: rounds of the comparison.
  """
  check_installed()
  from bert_flow_tf.serving.export import export_model

  arguments = {"sentence_embedding_type": pooling, "max_seq_length": max_seq_length}
  embeddings = encoder.encode(sentences, **arguments)
  flow = Glow(config, encoder.dim(pooling), seed=1)
  flow.initialize(embeddings)
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    model = ServedModel(export_model(encoder, flow, parent, **arguments).folder)
    model("serving_default", sentences[:1])
    share = flow_share(model, sentences, repeats)
    loaded = under_load(model, sentences, flow.transform(embeddings).numpy(), seconds)
  return {"flow_share": share, "load": loaded, "model": encoder.name}


def to_markdown(found):
  """The table of `run`."""
  rows = [
    [size, f"{one['without_ms']:.2f}", f"{one['with_ms']:.2f}", f"{100 * one['share']:.1f}%", _verdict(one["share"])]
    for size, one in found["flow_share"].items()
  ]
  load = found["load"]
  latency = ", ".join(f"{name} {ms:.0f} ms" for name, ms in load["latency_ms"].items())
  return "\n".join(
    [
      measure.markdown_table(["sentences a request", "encoder (ms)", "with flow (ms)", "flow's share", ""], rows),
      "",
      f"{load['clients']} clients at once for {load['seconds']:g} seconds, 1 to 3 sentences a request: "
      f"{load['requests']} requests, {load['wrong_answers']} wrong answers, none without an answer, "
      f"{load['requests_per_second']:.0f} requests/s; latency {latency}.",
    ]
  )


def _verdict(share):
  return measure.verdict(round(100 * share, 1), 100 * FLOW_SHARE_WITHIN, at_most=True)
