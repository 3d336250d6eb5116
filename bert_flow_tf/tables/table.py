"""A table of our rows and the paper's, as Markdown and JSON, the terms of its notes, and the paper's Tables 1 to 8."""

import dataclasses
import functools
import json
import math
import pathlib
import statistics
from collections.abc import Collection, Mapping
from typing import Any

from bert_flow_tf.encoder.settings import OPENVINO
from bert_flow_tf.encoder.transformer.number_formats import BFLOAT16, INT8
from bert_flow_tf.evaluation.controls import CHARACTERS, TF_IDF
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import parse_json
from bert_flow_tf.io.text_table import markdown_table, without_line_breaks

OURS, PUBLISHED = "ours", "published"
HIGHEST, NEAREST_0 = "the highest", "the nearest to 0"  # best cell of a column
BETTER, WORSE = "▲", "▼"
SEEN = "seen"
# Scores of Li et al. 2020, with the source of each.
FILE = pathlib.Path(__file__).with_name("paper_tables.json")

# {term: meaning}. Below a table, a note is "term: meaning"; the results page has them at its head instead.
TERMS = {
  "avg": "embedding: mean of the last block's token vectors",
  "avg-first-last": "embedding: mean of the first and the last block's; the paper's last2avg",
  "word-rows": "embedding: mean of the rows of the word-embedding matrix, each divided by its length",
  "static": "word-rows of an encoder without its transformer",
  "mix": "embedding: 0.6 word-rows + 0.4 avg, each divided by its length; mix-S: S and 1 - S",
  "output": "embedding: the vectors that a SavedModel gives",
  "idf": "token weights: the logarithm of inverse document frequency to the power 0.75; idf-1: to the power 1",
  "QNLI, MRPC": "99 % of the sentences of QNLI, and 79 % of MRPC's train split, are in the text in which the packaged "
  "word frequencies of `idf` and of the controls were counted",
  "flow": "calibration of the paper: an invertible network that makes the embeddings standard normal",
  "whitening": "calibration: the embeddings get mean 0 and the identity as covariance",
  "soft-whitening": "whitening that keeps directions of little variance small; soft-whitening-K divides by variance^K",
  "flow+soft-whitening": "both side by side; the cosine is the mean of the two",
  "sn": "calibration: each dimension gets mean 0 and variance 1",
  "natsv-K": "calibration: removes the K leading singular vectors",
  TF_IDF: "control without encoder and fit: cosine of the word pieces' inverse document frequencies to the power 0.75",
  CHARACTERS: "control without encoder and fit: cosine of the word pieces' strings of 3 to 5 characters",
  "soft-whitening+characters": "both side by side; the cosine is the mean of the two",
  "auto": "calibration: whitening, soft-whitening, soft-whitening-0.2 or none, chosen without labels",
  INT8: "the transformer computes its matrix products in 8 bits (`--precision=int8`)",
  f"{BFLOAT16}, {OPENVINO}": "OpenVINO computes the transformer (`--engine=openvino`), in bfloat16",
  f"{INT8}, {OPENVINO}": "OpenVINO computes the transformer, its matrix products in 8 bits",
  "recipe": "mix, idf and soft-whitening, the combination that `docs/calibrations.md` recommends",
  "(target)": "fitted on all sentences of the evaluated set, test pairs included, without gold scores; a sentence of "
  "several pairs counts as often",
  "(all sets)": "fitted once, on the sentences of the seven sets STS-B to STS-16, without gold scores",
  "(corpus)": "fitted once, on 5,000 lines of a text (`--corpus`) that are no sentence of the evaluated sets",
  "NLI": "the sentences of SNLI and MNLI",
  "Spearman x 100": "rank correlation of the cosines of the pairs with their gold scores",
  "STS-12 to STS-16": "mean over the subsets, weighted by their numbers of pairs, as in the paper",
  "AUC x 100": "area under the ROC curve of the cosines, for two labels",
  "±": "standard deviation over the seeds of the flow",
  "[low, high]": "95 % interval of a paired bootstrap over the distinct pairs, of the mean over the seeds",
  "▲, ▼": "in Gains: the interval is wholly above, below 0; in Beyond and Transfer ▼: lower than without calibration",
  "(paper x, y)": "the paper's score, and ours minus the paper's, if the encoder is the paper's",
  "seen": "the encoder's training text had sentences of this set, without scores",
  "n/a [1]": "no score; the note with the number says why",
}


def note(term: str) -> str:
  """Returns a note below a table that defines a term."""
  return f"{term}: {TERMS[term]}."


@dataclasses.dataclass(frozen=True)
class Cell:
  """A score or another number of a table."""

  values: tuple[float, ...] = ()  # one for each seed; () for a missing score
  paper: float | None = None  # the paper's score for the same encoder and method
  reason: str = ""  # for a missing score
  interval: tuple[float, ...] | None = None  # ends of the 95 % interval of a difference; () if it is not known
  worse: bool = False  # lower than without calibration

  @property
  def mean(self) -> float:
    """Mean over the seeds, NaN without values."""
    if not self.values:
      return math.nan
    return math.fsum(self.values) / len(self.values)

  @property
  def spread(self) -> float | None:
    """Sample standard deviation over the seeds, None for fewer than two."""
    if len(self.values) < 2 or not self.defined:
      return None
    return statistics.stdev(self.values)

  @property
  def defined(self) -> bool:
    """True if the cell has a finite mean."""
    return math.isfinite(self.mean)

  @property
  def mark(self) -> str:
    """BETTER or WORSE if an interval has no 0 in it; WORSE for a score that is; else ""."""
    low, high = self.interval or (0.0, 0.0)
    if low > 0:
      return BETTER
    if self.worse or high < 0:
      return WORSE
    return ""

  def text(self) -> str:
    """Returns the text in Markdown: `68.25 ±0.31 (paper 70.72, -2.47)`, `+1.86 ▲ [+1.12, +2.60]` with an interval."""
    if not self.defined:
      return "n/a"
    if self.interval is not None:
      parts = [f"{self.mean:+.2f}", self.mark]
      if self.interval:
        low, high = self.interval
        parts.append(f"[{low:+.2f}, {high:+.2f}]")
    else:
      parts = [f"{self.mean:.2f}"]
      if self.spread is not None:
        parts.append(f"±{self.spread:.2f}")
      if self.paper is not None:
        parts.append(f"(paper {self.paper:.2f}, {self.mean - self.paper:+.2f})")
      parts.append(self.mark)
    return " ".join(filter(None, parts))

  def to_json(self) -> dict[str, object]:
    """Returns JSON values."""
    content = dataclasses.asdict(self) | {"value": None, "spread": self.spread, "difference": None}
    # JSON has no NaN.
    content["values"] = [value if math.isfinite(value) else None for value in self.values]
    if self.defined:
      content["value"] = self.mean
      if self.paper is not None:
        content["difference"] = self.mean - self.paper
    return content


@dataclasses.dataclass(frozen=True)
class Row:
  """A row: its name, its source (OURS or PUBLISHED), and its cells by column."""

  name: str
  source: str
  cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class Table:
  """A finished table: its rows in order, and the notes below them."""

  name: str
  title: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[Row, ...]
  notes: tuple[str, ...] = ()
  about: dict = dataclasses.field(default_factory=dict)  # how it was made: command, versions, seeds, encoders
  best: dict[str, str] = dataclasses.field(default_factory=dict)  # {column: HIGHEST or NEAREST_0}

  @property
  def has_scores(self) -> bool:
    """True if a row of ours has a number, or if there is no row of ours."""
    ours = [row for row in self.rows if row.source == OURS]
    return not ours or any(cell.defined for row in ours for cell in row.cells.values())

  @property
  def heading(self) -> str:
    """Name for a reader: "Table 2", "Transfer"."""
    if self.name.isdigit():
      return f"Table {self.name}"
    return self.name.capitalize()

  def markdown(self, seen: Mapping[str, Collection[str]] | None = None) -> str:
    """Returns the table by encoder, best cells bold, with title, notes, numbered reasons of missing scores, command.

    Args:
      seen: {encoder: columns whose text it was trained on}, to be marked.
    """
    reasons, best, group = {}, self._best_cells(), None
    lines = [f"## {self.heading}: {self.title}", "", f"{self.metric[:1].upper()}{self.metric[1:]}.", ""]
    rows = []
    for number, row in enumerate(self.rows):
      # A new encoder, or in Gains a new baseline, starts with a heading row.
      encoder, name = self._encoder_and_name(row)
      name, _, baseline = name.partition(" over ")
      heading = encoder
      if baseline:
        heading = f"{encoder}, over {baseline}"
      if heading != group:
        columns_seen = (seen or {}).get(encoder, ())
        marks = [SEEN if column in columns_seen else "" for column in self.columns]
        rows.append([f"*{heading}*", *marks])
        group = heading
      texts = [name]
      for column in self.columns:
        text = _with_reason(row.cells.get(column), reasons)
        if (number, column) in best:
          score, space, rest = text.partition(" ")
          text = f"**{score}**{space}{rest}"
        texts.append(text)
      rows.append(texts)
    lines.append(markdown_table(["", *self.columns], rows).rstrip())
    notes = list(self.notes)
    for reason, number in reasons.items():
      notes.append(f"[{number}] {reason}")
    for text in notes:
      lines += ["", without_line_breaks(text)]
    if self.about.get("command"):
      lines += ["", "```bash", self.about["command"], "```"]
    return "\n".join(lines) + "\n"

  def _encoder_and_name(self, row):
    """Returns the encoder of a row, or PUBLISHED or OURS for a row without one; and the row's name without it."""
    if row.source == PUBLISHED:
      return PUBLISHED, row.name
    titles = [title for title in self.about.get("encoders", {}) if row.name.startswith((f"{title}, ", f"{title} "))]
    encoder = max(titles, key=len, default="")
    return encoder or OURS, row.name.removeprefix(encoder).lstrip(", ")

  def _best_cells(self):
    """Returns {(number of the row, column)} of the best rounded cell per encoder and column."""
    groups = {}
    for number, row in enumerate(self.rows):
      for column, kind in self.best.items():
        cell = row.cells.get(column, Cell())
        if row.source == OURS and cell.defined:
          score = round(cell.mean, 2)
          if kind == NEAREST_0:
            score = -abs(score)
          groups.setdefault((self._encoder_and_name(row)[0], column), {})[number] = score
    # A column whose cells are all equal has no best cell.
    best = set()
    for (_, column), scores in groups.items():
      highest = max(scores.values())
      if min(scores.values()) < highest:
        for number, score in scores.items():
          if score == highest:
            best.add((number, column))
    return best

  def json(self) -> str:
    """Returns JSON text, which `from_json` reads."""
    content = {**vars(self), "rows": []}
    for row in self.rows:
      cells = {column: cell.to_json() for column, cell in row.cells.items()}
      content["rows"].append({"name": row.name, "source": row.source, "cells": cells})
    return json.dumps(checksums.sealed(content), indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Table:
  """Returns the table of a text that `Table.json` returned; any error of Python says that it is something else."""
  content = checksums.verified(parse_json(text.encode()))
  rows = []
  for row in content["rows"]:
    cells = {column: _cell(values) for column, values in row["cells"].items()}
    rows.append(Row(row["name"], row["source"], cells))
  content.update(columns=tuple(content["columns"]), notes=tuple(content["notes"]), rows=tuple(rows))
  return Table(**content)


def _cell(content):
  values = tuple(math.nan if value is None else float(value) for value in content["values"])
  interval = content["interval"]
  if interval is not None:
    interval = tuple(interval)
  return Cell(values, content["paper"], content["reason"], interval, content["worse"])


def _with_reason(cell, reasons):
  """Returns a cell's text; a missing score refers to its reason, which gets the next number in `reasons`."""
  if cell is None:
    return ""
  if cell.defined or not cell.reason:
    return cell.text()
  return f"{cell.text()} [{reasons.setdefault(cell.reason, len(reasons) + 1)}]"


@dataclasses.dataclass(frozen=True)
class PaperRow:
  """A row of a table. None is unknown, or has no meaning in that row."""

  name: str
  encoder: str | None  # "base" or "large"
  embedding: str | None  # the paper's last2avg is avg-first-last
  calibration: str | None
  corpus: str | None  # on which the calibration was fitted: "nli" or "target"
  nli_tuned: bool
  cited: bool  # repeats another paper's scores
  cells: Mapping[str, Any]  # numbers; text in Table 7 only


@dataclasses.dataclass(frozen=True)
class PaperTable:
  """A table of the paper: title, meaning of the numbers, columns and rows in the paper's order."""

  title: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[PaperRow, ...]

  def match(self, calibration: str, nli_tuned: bool = False, **ours: str | None) -> PaperRow | None:
    """Returns the paper's row, not a cited row, to compare our row with, or None; a None in it matches any value."""
    for row in self.rows:
      same = (row.calibration, row.nli_tuned, row.cited) == (calibration, nli_tuned, False)
      if same and all(getattr(row, field) in (None, value) for field, value in ours.items()):
        return row
    return None

  def published_rows(self) -> list[Row]:
    """Returns the paper's rows as rows of a `Table`."""
    rows = []
    for row in self.rows:
      cells = {}
      for column, value in row.cells.items():
        if value is not None:
          cells[column] = Cell((value,))
      rows.append(Row(row.name, PUBLISHED, cells))
    return rows


@functools.cache
def paper_tables() -> dict[int, PaperTable]:
  """Returns {number: table} of all tables, in order."""
  tables = {}
  for table in json.loads(FILE.read_text(encoding="utf-8"))["tables"]:
    rows = []
    for row in table["rows"]:
      rows.append(PaperRow(*map(row.get, PaperRow.__annotations__)))  # the file also has where else a row is printed
    tables[table["number"]] = PaperTable(table["title"], table["metric"], tuple(table["columns"]), tuple(rows))
  return tables
