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

PLAIN, XLA = "without XLA", "with XLA"

# The original's own code took 19 to 32 ms on two cores.
TARGET_MS = 5.0
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
  return {
    "start_up_seconds": time.perf_counter() - start - seconds.sum(),
    "step_ms": 1e3 * measure.median(seconds / counts),
  }


def run(config: FlowConfig, dim: int, batch_size: int, steps: int, repeats: int) -> dict[str, Any]:
  """Fits with and without XLA in turns."""
  source = random_pairs(max(STS_B_PAIRS, batch_size), dim)
  rounds = measure.in_turns(
    {
      name: lambda use_xla=use_xla: fit(source, config, dim, batch_size, steps, use_xla)
      for name, use_xla in ((PLAIN, False), (XLA, True))
    },
    repeats,
  )
  keys = ("start_up_seconds", "step_ms")
  medians = {name: {key: measure.median(r[key] for r in fits) for key in keys} for name, fits in rounds.items()}
  return {
    "dim": dim,
    "batch_size": batch_size,
    "steps": steps,
    "rounds": rounds,
    "medians": medians,
    "plain_over_xla": measure.median_ratio(*([r["step_ms"] for r in rounds[name]] for name in (PLAIN, XLA))),
    "xla_pays_from_steps": break_even(medians),
    "trainer_compiles_from_steps": XLA_PAYS_FROM_STEPS,
  }


def break_even(medians: dict[str, dict[str, float]]) -> int | None:
  """Returns the number of steps from which XLA's longer start is made up for; None if never."""
  plain, xla = medians[PLAIN], medians[XLA]
  gained = plain["step_ms"] - xla["step_ms"]
  lost = 1e3 * (xla["start_up_seconds"] - plain["start_up_seconds"])
  return max(0, round(lost / gained)) if gained > 0 else None


def to_markdown(result: dict[str, Any]) -> str:
  """Returns the table of the result of `run`."""
  rows = []
  for name, values in result["medians"].items():
    start_up, step_ms = values["start_up_seconds"], values["step_ms"]
    rows.append([name, f"{start_up:.1f}", f"{step_ms:.2f}", measure.verdict(step_ms, TARGET_MS, at_most=True)])
  steps = result["xla_pays_from_steps"]
  pays = "XLA does not pay" if steps is None else f"XLA pays from about {steps} steps"
  table = measure.markdown_table(["", "start-up (s)", "step (ms)", "target (ms)"], rows)
  return (
    f"{table}\n\nSteps of {result['batch_size']} pairs of cached embeddings of {result['dim']} dimensions, "
    f"{result['steps']} steps per fit. Start-up: initialization, tracing, compilation and the first steps. A step with "
    f"XLA is {result['plain_over_xla']:.2f} times as fast; {pays}. Without the flag use_xla the trainer compiles fits "
    f"of at least {result['trainer_compiles_from_steps']} steps (an epoch of STS-B has 269)."
  )
