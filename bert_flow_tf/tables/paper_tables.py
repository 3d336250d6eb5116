"""Scores of the paper's Tables 1 to 8 (Li et al. 2020), copied in `paper_tables.json` with the source of each."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from bert_flow_tf.tables.table import PUBLISHED, Cell, Row

FILE = pathlib.Path(__file__).with_name("paper_tables.json")


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
    """Returns the paper's own row that a row of ours is compared with, or None.

    Calibration and nli_tuned must be equal; encoder, embedding and corpus too, unless the paper's row leaves them open.
    """
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
