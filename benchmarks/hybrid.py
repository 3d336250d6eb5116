"""An index of vectors, and one with the words of the texts, too (`benchmarks/run.py --benchmark=hybrid`).

The commands `bert-flow embed`, `index` and `search` take turns with and without what a hybrid search needs, each in a
process of its own; then one process of Python asks both indexes each query, in turns, so that a
machine that others use is the same for both.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.duplicates import read_lines
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.vectors.bm25 import BM25
from bert_flow_tf.vectors.sentence_index import SentenceIndex

VECTORS, HYBRID = "vectors", "hybrid"
# Additional flags of each command, for a hybrid search.
_FLAGS = {"embed": "--keep_text", "index": f"--hybrid={BM25}", "search": f"--hybrid={BM25}"}
_QUERIES = 200
# A small process, as the peak memory of a process begins with that of the process that started it.
_LAUNCHER = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}))
"""


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Measures both in turns; returns JSON values and Markdown."""
  settings = benchmark.settings
  lines = read_lines(settings.corpus, settings.lines)
  queries = [lines[row] for row in np.linspace(0, len(lines) - 1, _QUERIES).astype(int)]
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent)
    text = folder / "lines.txt"
    text.write_text("".join(f"{line}\n" for line in lines))
    methods = {}
    for name in (VECTORS, HYBRID):
      arguments = {
        "embed": [f"--input={text}", f"--model={benchmark.embedding.encoder_name}", f"--output={folder / name}"],
        "index": [folder / name],
        "search": [f"--vectors={folder / name}", queries[0]],
      }
      methods[name] = lambda name=name, arguments=arguments: _commands(folder / name, arguments, name == HYBRID)
    costs = measure.in_turns(methods, settings.repeats)
    indexes = {name: SentenceIndex.load(folder / name) for name in methods}
    rng = np.random.default_rng(0)
    # Queries near rows, as a model's are.
    rows = indexes[VECTORS]._rows.take(rng.integers(len(lines), size=_QUERIES))
    embeddings = rows + rng.normal(size=rows.shape) * 0.5 / np.sqrt(rows.shape[1])
    ask_each(indexes, embeddings[:1], queries)
    rounds = [ask_each(indexes, embeddings, queries) for _ in range(settings.repeats)]
  # Of each query the median of its rounds, then the median of all queries.
  seconds = {name: np.median([of_round[name] for of_round in rounds], axis=0) for name in methods}
  ratio = np.median(seconds[HYBRID] / seconds[VECTORS])
  table = []
  for step in _FLAGS:
    cells = [step]
    for kind, unit in (("cpu_seconds", 1), ("peak_bytes", 1e9)):
      numbers = {name: [cost[step][kind] / unit for cost in rounds] for name, rounds in costs.items()}
      cells += [f"{measure.median(numbers[name]):.2f}" for name in methods]
      cells.append(f"{measure.median_ratio(numbers[HYBRID], numbers[VECTORS]):.2f}")
    table.append(cells)
  milliseconds = [f"{1000 * np.median(seconds[name]):.1f}" for name in methods]
  table.append(["a query of the loaded index, milliseconds", *milliseconds, f"{ratio:.2f}", "", "", ""])
  header = ["", "CPU seconds, vectors", "hybrid", "ratio", "peak GB, vectors", "hybrid", "ratio"]
  of_queries = {name: values.tolist() for name, values in seconds.items()}
  return {
    "costs": costs,
    "seconds": of_queries,
  }, f"{measure.markdown_table(header, table)}\n\n{len(lines):,} sentences."


def _commands(folder, arguments, is_hybrid):
  """Runs the commands from an empty folder; returns {command: CPU seconds and peak memory}."""
  shutil.rmtree(folder, ignore_errors=True)
  costs = {}
  for name, values in arguments.items():
    flags = [_FLAGS[name]] if is_hybrid else []
    command = [sys.executable, "-m", "bert_flow_tf", name, *map(str, values), *flags]
    launch = [sys.executable, "-c", _LAUNCHER, *command]
    done = subprocess.run(launch, cwd=measure.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
      raise BertFlowError(f"bert-flow {name} ended with {done.stderr[-500:]}")
    costs[name] = json.loads(done.stdout)
  return costs


def ask_each(
  indexes: Mapping[str, SentenceIndex], embeddings: np.ndarray, queries: Sequence[str]
) -> dict[str, list[float]]:
  """Asks both indexes one query after the other, the first one first for every second query; seconds of each query."""
  seconds: dict[str, list[float]] = {name: [] for name in indexes}
  for number, embedding in enumerate(embeddings):
    for name in list(indexes)[:: -1 if number % 2 else 1]:
      texts = [queries[number]] if name == HYBRID else None
      start = time.perf_counter()
      indexes[name].search(embedding, 10, texts)
      seconds[name].append(time.perf_counter() - start)
  return seconds
