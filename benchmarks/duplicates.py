"""Near-duplicates of a large file of sentences (`benchmarks/run.py --benchmark=duplicates`).

`near_duplicates` with its index, and semhash with its own defaults on the same embeddings, take turns; semhash runs in
a process of its own (`worker.py`). Both get sentences with their embeddings, so no time is for embedding. Pairs of a
part of the file, found by all cosines, tell what each program misses: a pair of which it keeps both sentences.
"""

import functools
import itertools
import pathlib
import tempfile
from typing import Any

import numpy as np
from absl import logging

from benchmarks import measure
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.vectors import near_duplicates, paraphrase_mining_embeddings

OURS, SEMHASH = "ours", "semhash"
THRESHOLD = 0.9
_MAX_PAIRS = 50_000_000


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Measures both in turns; returns JSON values and Markdown."""
  settings = benchmark.settings
  sentences = read_lines(settings.corpus, settings.lines)
  model = SentenceModel(benchmark.encoder, **benchmark.pooling_arguments)
  embedding, embeddings = measure.cost(lambda: model.encode(sentences, show_progress_bar=True))
  kept: dict[str, np.ndarray] = {}

  def ours():
    cost, first = measure.cost(lambda: near_duplicates(embeddings, THRESHOLD, True, index="ivf"))
    kept[OURS] = first == np.arange(len(first))
    return cost

  methods, versions = {OURS: ours}, {OURS: "FAISS"}
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent)
    np.save(folder / "vectors.npy", embeddings)
    with measure.Worker(benchmark.other_python, folder, sentences, 0) as worker:
      ask = functools.partial(worker.ask, SEMHASH, 0, folder / "kept.npy")
      first = worker.ask(SEMHASH, 1)  # imports, and a few sentences
      if "skipped" in first:
        logging.warning("%s is skipped: %s", SEMHASH, first["skipped"])
      else:
        methods[SEMHASH], versions[SEMHASH] = ask, first["version"]
      answers = measure.in_turns(methods, settings.repeats)
    if SEMHASH in methods:
      kept[SEMHASH] = np.load(folder / "kept.npy")
  missed, pairs = missed_pairs(embeddings, kept, min(settings.part, len(sentences)))
  result = {"lines": len(sentences), "dim": embeddings.shape[1], "threshold": THRESHOLD, "answers": answers}
  result |= {"embedding": embedding, "pairs": pairs, "missed": missed, "skipped": first.get("skipped")}
  rows = []
  for name, rounds in answers.items():
    seconds, cpu, peak = (measure.median(r[kind] for r in rounds) for kind in ("seconds", "cpu_seconds", "peak_bytes"))
    found = f"{100 - 100 * missed[name] / max(pairs, 1):.2f} %"
    numbers = [f"{seconds:,.0f}", f"{cpu:,.0f}", f"{peak / 1e9:.1f} GB", found, f"{np.count_nonzero(kept[name]):,}"]
    rows.append([f"{name} ({versions[name]})", *numbers])
  header = ["", "seconds", "CPU seconds", "peak memory", "pairs found", "sentences kept"]
  text = f"{measure.markdown_table(header, rows)}\n\n{len(sentences):,} sentences of {embeddings.shape[1]} dimensions, "
  text += f"threshold {THRESHOLD}; {pairs:,} pairs by all cosines in {settings.part:,} of them. Embedding took "
  text += f"{embedding['cpu_seconds']:,.0f} CPU seconds."
  return result, text


def read_lines(path: str | None, count: int) -> list[str]:
  """Returns the lines of a file, repeated with numbers at their ends until there are enough."""
  if path is None:
    raise ConfigError("corpus: missing; expected a file of sentences", argument="corpus")
  lines = [line for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
  if not lines:
    raise ConfigError(f"corpus={path}: no lines; expected sentences", argument="corpus")
  repeated = (f"{line} {number}" for number, line in enumerate(itertools.cycle(lines), len(lines)))
  return list(itertools.islice(itertools.chain(lines, repeated), count))


def missed_pairs(embeddings: np.ndarray, kept: dict[str, np.ndarray], part: int) -> tuple[dict[str, int], int]:
  """Returns {program: pairs of which it kept both}, and the number of pairs, in `part` rows in the middle."""
  first = (len(embeddings) - part) // 2
  found = paraphrase_mining_embeddings(embeddings[first : first + part], THRESHOLD, _MAX_PAIRS)
  i, j = np.array([pair[1:] for pair in found], np.int64).reshape([-1, 2]).T + first
  return {name: int(np.count_nonzero(is_kept[i] & is_kept[j])) for name, is_kept in kept.items()}, len(found)
