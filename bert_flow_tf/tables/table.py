"""A table of ours beside the paper's, as markdown, CSV and JSON."""

import csv
import dataclasses
import io
import json
import math

OURS, PUBLISHED = "ours", "published"


@dataclasses.dataclass(frozen=True)
class Cell:
  """A figure.

  Attributes:
    values: what each seed gave; one value where nothing is random; empty where there is no figure.
    paper: the paper's figure for the same encoder and method, or None.
    reason: why there is no figure, or "".
  """

  values: tuple[float, ...] = ()
  paper: float | None = None
  reason: str = ""

  @property
  def mean(self):
    """Mean over the seeds, NaN without any."""
    return math.fsum(self.values) / len(self.values) if self.values else math.nan

  @property
  def spread(self):
    """Standard deviation over the seeds (divided by their number less 1), None for fewer than two."""
    count = len(self.values)
    if count < 2 or not all(map(math.isfinite, self.values)):
      return None
    return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / (count - 1))

  @property
  def defined(self):
    """Whether there is a figure."""
    return bool(self.values) and math.isfinite(self.mean)

  def text(self):
    """As the markdown shows it: `68.25 ±0.31 (paper 70.72, -2.47)`."""
    if not self.defined:
      return "n/a"
    spread = "" if self.spread is None else f" ±{self.spread:.2f}"
    paper = "" if self.paper is None else f" (paper {self.paper:.2f}, {self.mean - self.paper:+.2f})"
    return f"{self.mean:.2f}{spread}{paper}"

  def plain(self):
    """As json values."""
    compared = self.defined and self.paper is not None
    return {
      "value": self.mean if self.defined else None,
      "spread": self.spread,
      "values": [value if math.isfinite(value) else None for value in self.values],
      "paper": self.paper,
      "difference": self.mean - self.paper if compared else None,
      "reason": self.reason,
    }


@dataclasses.dataclass(frozen=True)
class Row:
  """A row: its name, whose figures they are (OURS or PUBLISHED), and its cells by column."""

  name: str
  source: str
  cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class Table:
  """A finished table.

  Attributes:
    name: "2", "transfer".
    title: what it shows.
    metric: what its numbers are.
    columns: keys of the cells, in order.
    rows: `Row`s.
    notes: sentences below it.
    about: what it was made with, json values: command, versions, seeds, encoders.
  """

  name: str
  title: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[Row, ...]
  notes: tuple[str, ...] = ()
  about: dict = dataclasses.field(default_factory=dict)

  def markdown(self):
    """The table with its title, notes and command; why a figure is n/a stands below it, by number."""
    heading = f"Table {self.name}" if self.name.isdigit() else self.name.capitalize()
    reasons = {}
    lines = [f"## {heading}: {self.title}", "", f"{self.metric[:1].upper()}{self.metric[1:]}.", ""]
    lines.append("| | source | " + " | ".join(map(_escaped, self.columns)) + " |")
    lines.append("| --- | --- |" + " --- |" * len(self.columns))
    for row in self.rows:
      cells = [_with_reason(row.cells[column], reasons) if column in row.cells else "" for column in self.columns]
      lines.append(f"| {_escaped(row.name)} | {row.source} | " + " | ".join(cells) + " |")
    notes = [*self.notes, *(f"[{number}] {_one_line(reason)}" for reason, number in reasons.items())]
    lines += [line for note in notes for line in ("", note)]
    if self.about.get("command"):
      lines += ["", "```bash", self.about["command"], "```"]
    return "\n".join(lines) + "\n"

  def csv(self):
    """One line a row and column: table, row, source, column, value, spread, seeds, paper, difference, reason."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "source", "column", "value", "spread", "seeds", "paper", "difference", "reason"])
    for row in self.rows:
      for column, cell in row.cells.items():
        plain = cell.plain()
        figures = [plain["value"], plain["spread"], len(cell.values), plain["paper"], plain["difference"]]
        numbers = ["" if figure is None else figure for figure in figures]
        writer.writerow([self.name, row.name, row.source, column, *numbers, plain["reason"]])
    return out.getvalue()

  def json(self):
    """Everything, as json text that `from_json` reads."""
    rows = [
      {"name": row.name, "source": row.source, "cells": {column: cell.plain() for column, cell in row.cells.items()}}
      for row in self.rows
    ]
    fields = {"table": self.name, "title": self.title, "metric": self.metric, "columns": list(self.columns)}
    found = {**fields, "rows": rows, "notes": list(self.notes), "about": self.about}
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def from_json(text):
  """The `Table` of what `Table.json` gave.

  Raises:
    ValueError, KeyError, TypeError, AttributeError: it is something else.
  """
  found = json.loads(text)
  rows = tuple(
    Row(str(row["name"]), str(row["source"]), {column: _cell(cell) for column, cell in row["cells"].items()})
    for row in found["rows"]
  )
  fields = (str(found["table"]), str(found["title"]), str(found["metric"]), tuple(map(str, found["columns"])))
  return Table(*fields, rows, tuple(map(str, found["notes"])), dict(found["about"]))


def _cell(plain):
  values = tuple(math.nan if value is None else float(value) for value in plain["values"])
  return Cell(values, None if plain["paper"] is None else float(plain["paper"]), str(plain["reason"]))


def _with_reason(cell, reasons):
  """The text of a cell; one without a figure points to its reason, which gets the next number in `reasons`."""
  if cell.defined or not cell.reason:
    return cell.text()
  return f"{cell.text()} [{reasons.setdefault(cell.reason, len(reasons) + 1)}]"


def _escaped(text):
  return _one_line(text).replace("|", "\\|")


def _one_line(text):
  return " ".join(text.split())
