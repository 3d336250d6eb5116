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


@dataclasses.dataclass(frozen=True)
class Cell:
  """A score or another number of a table.

  Attributes:
    values: one value per seed; one value if nothing is random; empty if there is no score.
    paper: the paper's score for the same encoder and method, or None.
    reason: reason for a missing score, or "".
    interval: lower and upper end of the 95 % interval of a difference; () if it is not known, None for other numbers.
  """

  values: tuple[float, ...] = ()
  paper: float | None = None
  reason: str = ""
  interval: tuple[float, ...] | None = None

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

  def text(self) -> str:
    """Returns the text in Markdown: `68.25 ±0.31 (paper 70.72, -2.47)`, `+1.86 [+1.12, +2.60]` with an interval."""
    if not self.defined:
      return "n/a"
    if self.interval is not None:
      ends = ", ".join(f"{end:+.2f}" for end in self.interval)
      return f"{self.mean:+.2f} [{ends}]" if ends else f"{self.mean:+.2f}"
    spread = "" if self.spread is None else f" ±{self.spread:.2f}"
    paper = "" if self.paper is None else f" (paper {self.paper:.2f}, {self.mean - self.paper:+.2f})"
    return f"{self.mean:.2f}{spread}{paper}"

  def plain(self) -> dict[str, Any]:
    """Returns JSON values."""
    compared = self.defined and self.paper is not None
    interval = {} if self.interval is None else {"interval": list(self.interval)}
    return {
      **interval,
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
  """

  name: str
  title: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[Row, ...]
  notes: tuple[str, ...] = ()
  about: dict = dataclasses.field(default_factory=dict)

  def markdown(self) -> str:
    """Returns the table with its title, notes, numbered reasons for missing scores, and command."""
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
    content = {**fields, "rows": rows, "notes": list(self.notes), "about": self.about}
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
  return Table(*fields, rows, tuple(content["notes"]), content["about"])


def _cell(plain):
  values = tuple(math.nan if value is None else float(value) for value in plain["values"])
  paper, interval = plain["paper"], plain.get("interval")
  return Cell(
    values, paper if paper is None else float(paper), plain["reason"], None if interval is None else tuple(interval)
  )


def _with_reason(cell, reasons):
  """Returns a cell's text; a missing score refers to its reason, which gets the next number in `reasons`."""
  if cell.defined or not cell.reason:
    return cell.text()
  return f"{cell.text()} [{reasons.setdefault(cell.reason, len(reasons) + 1)}]"


def _escaped(text):
  return _one_line(text).replace("|", "\\|")


def _one_line(text):
  return " ".join(text.split())
