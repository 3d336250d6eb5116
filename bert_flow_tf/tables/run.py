"""Makes the tables and figures of a run, and writes them to its folder."""

import dataclasses
import datetime
import pathlib
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import files
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.io.files import owned
from bert_flow_tf.tables import figures
from bert_flow_tf.tables.inputs import TableInputs
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.plan import Plan
from bert_flow_tf.tables.registry import BINARY_TASKS, FIGURES, STS_B, TABLES
from bert_flow_tf.tables.request import TableRequest
from bert_flow_tf.tables.table import HIGHEST, NEAREST_0, TERMS, Cell, Table, note, paper_tables
from bert_flow_tf.tables.workbench import Store, Workbench, load_benches


def load_tasks(plan: Plan, data: DataSettings) -> dict[str, TaskData]:
  """Returns {name: task} of a plan, checked."""
  tasks = {}
  for name in plan.tasks():
    paths = (data.data_dir, data.tfds_data_dir, data.stsb_gold)
    tasks[name] = load_task(name, *paths, max_record_bytes=data.max_record_bytes)
  plan.check_tasks(tasks)
  return tasks


def make(plan: Plan, inputs: TableInputs, folder: pathlib.Path, about: Callable[[str], dict[str, object]]) -> None:
  """Writes the plan's tables and figures to a folder; `about(name)` has JSON values on how a table is made."""
  if inputs.embedding.cached_dir is None:
    inputs.embedding = dataclasses.replace(inputs.embedding, cached_dir=str(folder / "embeddings"))
  inputs.check_fits(plan.corpora())
  with owned(folder, "output_dir"):
    # Encoders are loaded last: it takes the longest.
    store = Store(folder / "cells")
    models = []
    if plan.needs_models:
      models = load_benches(plan.model, inputs, store)
    tuned = load_benches(plan.nli_model, inputs, store, is_tuned=True)
    empty = []
    for name in plan.table:
      benches = TABLES[name].select(models + tuned)
      table = make_table(name, plan, benches, {**about(name), **_origin(benches)})
      files.write_text(folder / f"table_{name}.md", table.markdown())
      files.write_text(folder / f"table_{name}.json", table.json())
      print(table.markdown())
      if not table.has_scores:
        empty.append(name)
    for name in plan.figure:
      draw, _ = FIGURES[name]
      for bench in models:
        if bench.kind is EncoderKind.BERT:
          figure = draw(TableRequest(f"figure {name}", plan, [bench], (STS_B,), [plan.seed]), bench)
          for path in figures.save(figure, folder, f"figure_{name}_{bench.label}"):
            logging.info("wrote %s", path)
  if empty:
    raise DataError(f"table={','.join(empty)}: no score could be computed; the notes of the table say why", "table")


def _origin(benches: Sequence[Workbench]) -> dict[str, object]:
  """Returns the encoders of a table, and when and where it is made, JSON values."""
  encoders, sizes = {}, {}
  for bench in benches:
    encoders[bench.title] = bench.encoder.weights_checksum
    if bench.kind is not EncoderKind.WORDS:
      sizes[bench.title] = bench.sizes
  return {
    "encoders": encoders,
    "sizes": sizes,
    "commit": _commit(),
    "date": datetime.date.today().isoformat(),
    "machine": f"{platform.machine()}, {usable_cpus()} cores",
  }


def _commit() -> str:
  """Returns the commit of the checkout that this file is in; "" for an installed package."""
  root = pathlib.Path(__file__).resolve().parents[2]
  if not (root / ".git").exists():
    return ""
  command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
  try:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
  except (OSError, subprocess.CalledProcessError):  # no git, or another user's checkout
    return ""


def make_table(name: str, plan: Plan, benches: Sequence[Workbench], about: Mapping[str, object]) -> Table:
  """Returns a finished table of the encoders that `TableSpec.select` gave; `about`: how it is made, JSON values."""
  spec, seeds = TABLES[name], plan.seeds(name)
  content = spec.make(TableRequest(name, plan, benches, spec.columns(plan.task), seeds))
  title, metric, rows, notes = spec.title, spec.metric, list(content.rows), list(content.notes)
  # A table of the paper has its title, metric and published rows.
  if not title:
    paper = paper_tables()[int(name)]
    title, metric = paper.title, paper.metric
    rows += paper.published_rows()
  elif set(content.columns) & set(BINARY_TASKS):
    metric += "; AUC x 100 of QNLI and MRPC"
  # Notes on the cells.
  cells: list[Cell] = []
  for row in rows:
    cells += row.cells.values()
  if any(cell.paper is not None for cell in cells):
    notes.append(note("(paper x, y)"))
  if any(cell.spread is not None for cell in cells):
    notes.append(f"±: {TERMS['±']}, {seeds[0]} to {seeds[-1]}.")
  # The best cells, in the columns that have a best cell.
  best = {}
  if spec.unranked_columns is not None:
    for column in content.columns:
      if column not in spec.unranked_columns:
        best[column] = HIGHEST
        if column in spec.columns_best_near_zero:
          best[column] = NEAREST_0
  return Table(name, title, metric, tuple(content.columns), tuple(rows), tuple(notes), {**about, "seeds": seeds}, best)
