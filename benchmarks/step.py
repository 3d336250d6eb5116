"""One step of the flow's fit on cached embeddings (`benchmarks/run.py --benchmark=step`)."""

import time
from typing import Any

import numpy as np

from benchmarks import measure
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.flow_trainer import XLA_PAYS_FROM_STEPS, Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs

METHODS = {"without XLA": False, "with XLA": True}
STS_B_PAIRS = 8628


def random_pairs(num_pairs: int, dim: int, seed: int = 0) -> EmbeddingPairs:
  """Returns random pairs with about BERT's scale: a mean other than 0, dimensions of different variances."""
  rng = np.random.default_rng(seed)
  mean, scale = rng.normal(0.0, 0.3, dim), np.exp(rng.normal(-1.2, 0.4, dim))
  first, second = (mean + scale * rng.standard_normal([num_pairs, dim]) for _ in range(2))
  return EmbeddingPairs(first.astype(np.float32), second.astype(np.float32), fingerprint="random")


def fit(
  source: EmbeddingPairs, config: FlowConfig, dim: int, batch_size: int, steps: int, use_xla: bool
) -> dict[str, float]:
  """Fits a flow and returns the seconds until the first steps are made, and the median milliseconds of later steps."""
  flow = Glow(config, dim, seed=1234)
  trainer = Trainer(flow, FlowSettings(train_batch_size=batch_size, use_xla=use_xla), show_progress=False)
  start = time.perf_counter()
  result = trainer.fit(source, num_train_epochs=(steps + 0.5) * batch_size / len(source))
  counts, seconds = (np.array(values) for values in zip(*result.calls[1:], strict=True))
  start_up = time.perf_counter() - start - seconds.sum()
  return {"start_up_seconds": start_up, "step_ms": 1e3 * measure.median(seconds / counts)}


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Fits with and without XLA in turns; returns JSON values and Markdown."""
  settings, batch_size = benchmark.settings, benchmark.flow.train_batch_size
  source = random_pairs(max(STS_B_PAIRS, batch_size), settings.dim)
  arguments = (source, benchmark.config, settings.dim, batch_size, settings.steps)
  methods = {name: lambda use_xla=use_xla: fit(*arguments, use_xla) for name, use_xla in METHODS.items()}
  rounds = measure.in_turns(methods, settings.repeats)
  medians, of_steps = {}, []
  for name, fits in rounds.items():
    medians[name] = {key: measure.median(r[key] for r in fits) for key in fits[0]}
    of_steps.append([r["step_ms"] for r in fits])
  faster, pays = measure.median_ratio(*of_steps), break_even(*medians.values())
  result = {
    "dim": settings.dim,
    "batch_size": batch_size,
    "steps": settings.steps,
    "rounds": rounds,
    "medians": medians,
    "plain_over_xla": faster,
    "xla_pays_from_steps": pays,
    "trainer_compiles_from_steps": XLA_PAYS_FROM_STEPS,
  }
  rows = [[name, f"{values['start_up_seconds']:.1f}", f"{values['step_ms']:.2f}"] for name, values in medians.items()]
  table = measure.markdown_table(["", "start-up (s)", "step (ms)"], rows)
  pays_from = "XLA does not pay" if pays is None else f"XLA pays from about {pays} steps"
  return result, (
    f"{table}\n\nSteps of {batch_size} pairs of cached embeddings of {settings.dim} dimensions, {settings.steps} steps "
    f"per fit. Start-up: initialization, tracing, compilation and the first steps. XLA makes a step {faster:.2f} times "
    f"as fast; {pays_from}. Without the flag use_xla the trainer compiles fits of at least {XLA_PAYS_FROM_STEPS} steps "
    "on CPUs (an epoch of STS-B has 269), and none on GPUs."
  )


def break_even(plain: dict[str, float], xla: dict[str, float]) -> int | None:
  """Returns the number of steps from which XLA's longer start is made up for; None if never."""
  gained = plain["step_ms"] - xla["step_ms"]
  lost = 1e3 * (xla["start_up_seconds"] - plain["start_up_seconds"])
  return max(0, round(lost / gained)) if gained > 0 else None
