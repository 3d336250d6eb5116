"""A step of training through the encoder (`benchmarks/run.py --benchmark=training_step`).

Forward and backward for pairs of sentences drawn at random, each side padded to its own longest sentence, as in
run_siamese. Packed (nothing but attention for padding) and padded take turns, and with `baseline` another checkout.
Ratios are of CPU time: other programs of the machine change it less than the wall clock. On a GPU, the seconds count.
"""

import contextlib
import functools
import json
import pathlib
import tempfile
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.encoder import write_random_encoder

PACKED, PADDED, BASELINE = "packed", "padded", "baseline"
BATCH_SIZES = (32, 16)


def draw_batches(benchmark: Any, size: int) -> list[list[list[list[int]]]]:
  """Returns batches of random training pairs: [batch][side][pair][ids]."""
  name = "sample"
  if benchmark.data.data_dir:
    name = benchmark.settings.tasks[0]
  pairs = benchmark.task(name).splits["train"]
  tokenizer, length = benchmark.encoder.tokenizer, benchmark.pooling_arguments["max_seq_length"]
  rng = np.random.default_rng(0)
  batches = []
  for _ in range(benchmark.settings.training_steps):
    rows = rng.choice(len(pairs), size, replace=False)
    batch = []
    for sentences in (pairs.sentences_a, pairs.sentences_b):
      ids = tokenizer([sentences[row] for row in rows], length)
      batch.append([row.tolist() for row in ids])
    batches.append(batch)
  return batches


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Makes steps by each method in turns; returns JSON values and Markdown."""
  settings = benchmark.settings
  batches = {size: draw_batches(benchmark, size) for size in BATCH_SIZES}
  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent, contextlib.ExitStack() as stack:
    folder = pathlib.Path(parent)
    model = benchmark.encoder.name
    if settings.random_base:
      model = folder / "model"
      write_random_encoder(model, benchmark.encoder.folder)
    pooling = benchmark.pooling_arguments["sentence_embedding_type"]
    values = {"pad_id": benchmark.encoder.tokenizer.pad_id, "pooling": pooling, "batches": batches}
    (folder / "batches.json").write_text(json.dumps(values), encoding="utf-8")
    arguments = ("training_step", model, folder / "batches.json")
    process = stack.enter_context(measure.Checkout(measure.ROOT, *arguments))
    ways = {PACKED: (process, True), PADDED: (process, False)}
    if settings.baseline:
      ways[BASELINE] = (stack.enter_context(measure.Checkout(pathlib.Path(settings.baseline), *arguments)), None)
    methods = {}
    for size in BATCH_SIZES:
      for name, (process, packed) in ways.items():
        methods[name, size] = functools.partial(process.ask, size=size, packed=packed)
        methods[name, size]()  # traces
    rounds = measure.in_turns(methods, settings.repeats)
  return to_result(benchmark, batches, rounds)


def to_result(benchmark: Any, batches: Any, rounds: dict[Any, Any]) -> tuple[dict[str, Any], str]:
  """Returns the JSON values and the table of `run`."""
  cpu = {key: [answer["cpu_seconds"] for answer in answers] for key, answers in rounds.items()}
  rows, values = [], []
  for (name, size), cpu_seconds in cpu.items():
    ratio = measure.median_ratio(cpu_seconds, cpu[PACKED, size])
    seconds = [answer["seconds"] for answer in rounds[name, size]]
    losses = {answer["loss"] for answer in rounds[name, size]}
    result = {"method": name, "pairs": size, "cpu_seconds": cpu_seconds, "seconds": seconds, "over_packed": ratio}
    values.append({**result, "losses": [*losses]})
    medians = [f"{measure.median(costs):.3f}" for costs in (seconds, cpu_seconds)]
    rows.append([f"{name}, {size} pairs", *medians, f"{ratio:.2f}", f"{max(losses):.6f}"])
  shares = []
  for size, drawn in batches.items():
    sides = [list(map(len, side)) for batch in drawn for side in batch]
    share = 1 - sum(map(sum, sides)) / sum(len(side) * max(side) for side in sides)
    shares.append(f"{100 * share:.0f}% of {size}")
  name = benchmark.encoder.name
  if benchmark.settings.random_base:
    name = "random weights of BERT-base's shape"
  header = ["", "seconds per step", "CPU seconds per step", "this / packed", "loss of a batch without dropout"]
  table = measure.markdown_table(header, rows)
  return {"methods": values}, f"{table}\n\n{name}. Padding: {', '.join(shares)} pairs' positions."
