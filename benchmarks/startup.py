"""Start-up of the package in fresh processes (`benchmarks/run.py --benchmark=startup`).

CPU seconds and peak memory from the import to the first sentence, without TensorFlow's own import; and CPU seconds of
`run_flow.py --task=sample`. With `baseline`, another checkout of this project takes turns.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import measure
from benchmarks.encoder import write_random_encoder

PHASES = ("import", "load", "first sentence")
THIS, BASELINE = "this checkout", "baseline"


def first_sentence(root: pathlib.Path, model: Any) -> dict[str, float]:
  """Returns the CPU seconds of each phase, and the peak memory in MB, of a process."""
  with measure.Checkout(root, "startup", model) as process:
    answer = process.answer()
  seconds = {phase: answer["cpu_seconds"][phase] for phase in PHASES}
  return {**seconds, "sum": sum(seconds.values()), "peak MB": answer["peak_bytes"] / 1e6}


def sample_run(root: pathlib.Path) -> float:
  """Returns the CPU seconds of a run of the sample task, of its process and those that it starts."""
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, root / "run_scripts" / "run_flow.py", "--task=sample", f"--output_parent_dir={folder}"]
    subprocess.run(list(map(str, command)), cwd=root, check=True, capture_output=True)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Starts processes in turns; returns JSON values and Markdown."""
  settings = benchmark.settings
  roots = {THIS: measure.ROOT}
  if settings.baseline:
    roots[BASELINE] = pathlib.Path(settings.baseline).resolve()
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    model = benchmark.embedding.encoder_name
    if settings.random_base:
      model = pathlib.Path(parent) / "model"
      write_random_encoder(model, benchmark.encoder.folder)
    methods: dict[Any, Any] = {}
    for name, root in roots.items():
      methods[name, "first sentence"] = lambda root=root: first_sentence(root, model)
      methods[name, "sample"] = lambda root=root: sample_run(root)
    rounds = measure.in_turns(methods, settings.repeats)
  rows = []
  for name in roots:
    starts = rounds[name, "first sentence"]
    row = [f"{measure.median(start[key] for start in starts):.2f}" for key in (*PHASES, "sum")]
    row.append(f"{measure.median(start['peak MB'] for start in starts):.0f}")
    row.append(f"{measure.median(rounds[name, 'sample']):.1f}")
    rows.append([name, *row])
  header = ["CPU seconds", *PHASES, "sum", "peak MB", "run_flow.py --task=sample"]
  result = {f"{name}, {part}": values for (name, part), values in rounds.items()}
  return result, measure.markdown_table(header, rows)
