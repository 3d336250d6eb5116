"""A table of our rows and the paper's, as Markdown, CSV and JSON."""

import csv
import dataclasses
import io
import json
import math
from typing import Any

from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import parse_json

OURS, PUBLISHED = "ours", "published"
HIGHEST, NEAREST_0 = "the highest", "the nearest to 0"  # best cell of a column
BETTER, WORSE = "▲", "▼"


@dataclasses.dataclass(frozen=True)
class Cell:
  """A score or another number of a table.

  Attributes:
    values: one value per seed; one value if nothing is random; empty if there is no score.
    paper: the paper's score for the same encoder and method, or None.
    reason: reason for a missing score, or "".
    interval: lower and upper end of the 95 % interval of a difference; () if it is not known, None for other numbers.
    worse: whether a score is lower than without calibration.
  """

  values: tuple[float, ...] = ()
  paper: float | None = None
  reason: str = ""
  interval: tuple[float, ...] | None = None
  worse: bool = False

  @property
  def mean(self) -> float:
    """Mean over the seeds, NaN without values."""
    return math.fsum(self.values) / len(self.values) if self.values else math.nan

  @property
  def spread(self) -> float | None:
    """Sample standard deviation over the seeds, None for fewer than two."""
    count = len(self.values)
    if count < 2 or not all(map(math.isfinite, self.values)):
      return None
    return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / (count - 1))

  @property
  def defined(self) -> bool:
    """True if the cell has a finite mean."""
    return bool(self.values) and math.isfinite(self.mean)

  @property
  def mark(self) -> str:
    """BETTER or WORSE if an interval has no 0 in it; WORSE for a score that is; else ""."""
    low, high = self.interval or (0.0, 0.0)
    return BETTER if low > 0 else WORSE if self.worse or high < 0 else ""

  def text(self) -> str:
    """Returns the text in Markdown: `68.25 ±0.31 (paper 70.72, -2.47)`, `+1.86 ▲ [+1.12, +2.60]` with an interval."""
    if not self.defined:
      return "n/a"
    if self.interval is not None:
      ends = ", ".join(f"{end:+.2f}" for end in self.interval)
      return " ".join([f"{self.mean:+.2f}", *[self.mark] * bool(self.mark), *[f"[{ends}]"] * bool(ends)])
    spread = "" if self.spread is None else f" ±{self.spread:.2f}"
    paper = "" if self.paper is None else f" (paper {self.paper:.2f}, {self.mean - self.paper:+.2f})"
    return f"{self.mean:.2f}{spread}{paper}{f' {self.mark}' if self.mark else ''}"

  def plain(self) -> dict[str, Any]:
    """Returns JSON values."""
    compared = self.defined and self.paper is not None
    optional: dict[str, Any] = {} if self.interval is None else {"interval": list(self.interval)}
    optional |= {"worse": True} if self.worse else {}
    return {
      **optional,
      "value": self.mean if self.defined else None,
      "spread": self.spread,
      "values": [value if math.isfinite(value) else None for value in self.values],
      "paper": self.paper,
      "difference": self.mean - self.paper if compared else None,
      "reason": self.reason,
    }


@dataclasses.dataclass(frozen=True)
class Row:
  """A row: its name, its source (OURS or PUBLISHED), and its cells by column."""

  name: str
  source: str
  cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class Table:
  """A finished table.

  Attributes:
    name: "2", "transfer".
    title: subject.
    metric: meaning of the numbers.
    columns: keys of the cells, in order.
    rows: rows, in order.
    notes: sentences below the table.
    about: JSON values of how it was made: command, versions, seeds, encoders.
    best: {column: HIGHEST or NEAREST_0}; in other columns no cell is the best.
  """

  name: str
  title: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[Row, ...]
  notes: tuple[str, ...] = ()
  about: dict = dataclasses.field(default_factory=dict)
  best: dict[str, str] = dataclasses.field(default_factory=dict)

  @property
  def heading(self) -> str:
    """Name for a reader: "Table 2", "Transfer"."""
    return f"Table {self.name}" if self.name.isdigit() else self.name.capitalize()

  def markdown(self) -> str:
    """Returns the table with its title, notes, numbered reasons for missing scores, and command.

    The rows of an encoder, and the published ones, follow a row with its name; the best cells of an encoder are bold.
    """
    reasons, best, group = {}, self._best_cells(), None
    lines = [f"## {self.heading}: {self.title}", "", f"{self.metric[:1].upper()}{self.metric[1:]}.", ""]
    lines.append("| | " + " | ".join(map(_escaped, self.columns)) + " |")
    lines.append("| --- |" + " --- |" * len(self.columns))
    for number, row in enumerate(self.rows):
      encoder, name = self._encoder_and_name(row)
      name, _, baseline = name.partition(" over ")
      if group != (group := f"{encoder}, over {baseline}" if baseline else encoder):
        lines.append(f"| *{_escaped(group)}* |" + " |" * len(self.columns))
      cells = [_with_reason(row.cells[column], reasons) if column in row.cells else "" for column in self.columns]
      bold = [(number, column) in best for column in self.columns]
      texts = [_bold(cell) if is_best else cell for cell, is_best in zip(cells, bold, strict=True)]
      lines.append(f"| {_escaped(name)} | " + " | ".join(texts) + " |")
    notes = [*self.notes, *(f"[{number}] {_one_line(reason)}" for reason, number in reasons.items())]
    lines += [line for note in notes for line in ("", note)]
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
    """Returns {(number of the row, column)} of the best of each encoder's cells, as they are rounded."""
    cells = {}
    for number, row in enumerate(self.rows):
      for column, kind in self.best.items():
        if row.source == OURS and column in row.cells and row.cells[column].defined:
          score = round(row.cells[column].mean, 2)
          group = cells.setdefault((self._encoder_and_name(row)[0], column), {})
          group[number] = -abs(score) if kind == NEAREST_0 else score
    return {
      (number, column)
      for (_, column), scores in cells.items()
      for number, score in scores.items()
      if min(scores.values()) < score == max(scores.values())
    }

  def csv(self) -> str:
    """Returns one line per cell: table, row, source, column, value, spread, seeds, paper, difference, reason."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "source", "column", "value", "spread", "seeds", "paper", "difference", "reason"])
    for row in self.rows:
      for column, cell in row.cells.items():
        plain = cell.plain()
        numbers = [plain["value"], plain["spread"], len(cell.values), plain["paper"], plain["difference"]]
        numbers = ["" if number is None else number for number in numbers]
        writer.writerow([self.name, row.name, row.source, column, *numbers, plain["reason"]])
    return out.getvalue()

  def json(self) -> str:
    """Returns JSON text, which `from_json` reads."""
    rows = [
      {"name": row.name, "source": row.source, "cells": {column: cell.plain() for column, cell in row.cells.items()}}
      for row in self.rows
    ]
    fields = {"table": self.name, "title": self.title, "metric": self.metric, "columns": list(self.columns)}
    content = {**fields, "rows": rows, "notes": list(self.notes), "about": self.about, "best": self.best}
    return json.dumps(checksums.sealed(content), indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Table:
  """Returns the table of a text that `Table.json` returned.

  Raises:
    ValueError, KeyError, TypeError, AttributeError: the text is something else.
  """
  content = checksums.opened(parse_json(text.encode()))
  rows = tuple(
    Row(row["name"], row["source"], {column: _cell(cell) for column, cell in row["cells"].items()})
    for row in content["rows"]
  )
  fields = (content["table"], content["title"], content["metric"], tuple(content["columns"]))
  return Table(*fields, rows, tuple(content["notes"]), content["about"], content.get("best", {}))


def _cell(plain):
  values = tuple(math.nan if value is None else float(value) for value in plain["values"])
  paper, interval = plain["paper"], plain.get("interval")
  paper, interval = paper if paper is None else float(paper), None if interval is None else tuple(interval)
  return Cell(values, paper, plain["reason"], interval, bool(plain.get("worse")))


def _with_reason(cell, reasons):
  """Returns a cell's text; a missing score refers to its reason, which gets the next number in `reasons`."""
  if cell.defined or not cell.reason:
    return cell.text()
  return f"{cell.text()} [{reasons.setdefault(cell.reason, len(reasons) + 1)}]"


def _bold(text):
  """Returns a cell's text with its score in bold."""
  score, space, rest = text.partition(" ")
  return f"**{score}**{space}{rest}"


def _escaped(text):
  return _one_line(text).replace("|", "\\|")


def _one_line(text):
  return " ".join(text.split())
