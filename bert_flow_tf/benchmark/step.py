"""One step of the flow's fit on cached embeddings: `run_benchmark.py --benchmark=step`."""

import time

import numpy as np

from bert_flow_tf import EmbeddingPairs, Glow, Trainer
from bert_flow_tf.benchmark import measure
from bert_flow_tf.training import flow_trainer as trainer_lib

PLAIN, XLA = "without XLA", "with XLA"

# Issue 3, section 5; the original's own code took 19 to 32 ms on two cores.
TARGET_MS = 5.0
STS_B_PAIRS = 8628


class TimedTrainer(Trainer):
  """A `Trainer` that notes when each of its calls into the graph came back.

  Attributes:
    came_back: list of (seconds of `time.perf_counter`, steps made in that call).
  """

  came_back = ()

  def _check(self, losses, *arguments):
    self.came_back = [*self.came_back, (time.perf_counter(), len(losses))]
    super()._check(losses, *arguments)


def random_pairs(num_pairs, dim, seed=0):
  """`EmbeddingPairs` of about the scale and spread of BERT's: a mean apart from 0, dimensions of unlike variance."""
  rng = np.random.default_rng(seed)
  mean, scale = rng.normal(0.0, 0.3, dim), np.exp(rng.normal(-1.2, 0.4, dim))
  first, second = (mean + scale * rng.standard_normal([num_pairs, dim]) for _ in range(2))
  return EmbeddingPairs(first.astype(np.float32), second.astype(np.float32), fingerprint="random")


def fit(source, config, dim, batch_size, steps, use_xla):
  """Fits for `steps` steps: seconds until the first step is made, and median milliseconds of a step after it."""
  flow = Glow(config, dim, seed=1234)
  trainer = TimedTrainer(flow, batch_size=batch_size, use_xla=use_xla, show_progress=False)
  start = time.perf_counter()
  trainer.fit(source, num_train_epochs=(steps + 0.5) * batch_size / len(source))
  times, counts = zip(*trainer.came_back, strict=True)
  return {
    "start_up_seconds": times[0] - start,
    "step_ms": 1e3 * measure.median(np.diff(times) / np.array(counts[1:])),
  }


def run(config, dim, batch_size, steps, repeats):
  """Fits with and without XLA in turns: a dict of json values.

  Args:
    config: `FlowConfig`.
    dim: width of the embeddings.
    batch_size: pairs a step.
    steps: steps of a fit.
    repeats: rounds.
  """
  source = random_pairs(max(STS_B_PAIRS, batch_size), dim)
  ways = {
    name: lambda use_xla=use_xla: fit(source, config, dim, batch_size, steps, use_xla)
    for name, use_xla in ((PLAIN, False), (XLA, True))
  }
  found = measure.in_turns(ways, repeats)
  keys = ("start_up_seconds", "step_ms")
  medians = {name: {key: measure.median(r[key] for r in rounds) for key in keys} for name, rounds in found.items()}
  ratio = measure.median_ratio(*([r["step_ms"] for r in found[name]] for name in (PLAIN, XLA)))
  return {
    "dim": dim,
    "batch_size": batch_size,
    "steps": steps,
    "rounds": found,
    "medians": medians,
    "plain_over_xla": ratio,
    "xla_pays_from_steps": break_even(medians),
    "trainer_compiles_from_steps": trainer_lib.XLA_PAYS_FROM_STEPS,
  }


def break_even(medians):
  """Steps from which the longer start with XLA is made up for, None if never."""
  plain, xla = medians[PLAIN], medians[XLA]
  gained = plain["step_ms"] - xla["step_ms"]
  lost = 1e3 * (xla["start_up_seconds"] - plain["start_up_seconds"])
  return max(0, round(lost / gained)) if gained > 0 else None


def to_markdown(found):
  """The table of `run`."""
  rows = []
  for name, values in found["medians"].items():
    start_up, step_ms = values["start_up_seconds"], values["step_ms"]
    rows.append([name, f"{start_up:.1f}", f"{step_ms:.2f}", measure.verdict(step_ms, TARGET_MS, at_most=True)])
  pays = found["xla_pays_from_steps"]
  pays = "XLA does not pay" if pays is None else f"XLA pays from about {pays} steps"
  return "\n".join(
    [
      measure.markdown_table(["", "start-up (s)", "step (ms)", "target (ms)"], rows),
      "",
      f"Steps of {found['batch_size']} pairs of cached {found['dim']}-wide embeddings, {found['steps']} steps a fit. "
      "Start-up: initialisation, tracing, compilation and the first steps. A step with XLA is "
      f"{found['plain_over_xla']:.2f} times as fast; {pays}; without --use_xla the trainer takes it from "
      f"{found['trainer_compiles_from_steps']} steps (STS-B makes 269 an epoch).",
    ]
  )
