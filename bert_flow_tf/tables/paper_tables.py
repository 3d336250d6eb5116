"""Scores of the paper's Tables 1 to 8 (Li et al. 2020), copied in `paper_tables.json` with the source of each."""

import dataclasses
import functools
import json
import pathlib
import types
from collections.abc import Mapping
from typing import Any

from bert_flow_tf.errors import ConfigError

FILE = pathlib.Path(__file__).with_name("paper_tables.json")


@dataclasses.dataclass(frozen=True)
class PaperRow:
  """A row of a table. None is unknown, or has no meaning in that row.

  Attributes:
    name: name of the row, "BERT_base-flow (target)".
    encoder: "base", "large" or None.
    embedding: a `sentence_embedding_type`; the paper's "last2avg" is avg-first-last.
    calibration: name of the calibration: "none", "flow", "natsv-10".
    corpus: sentences that the calibration was fitted on, "nli" or "target".
    nli_tuned: whether the encoder was fine-tuned on NLI.
    cited: whether the row repeats scores of another paper; `PaperTable.match` skips these.
    cells: {column: number}; text in Table 7 only.
    sources: {id of a source in the JSON file: its columns}.
    verified: False if no source was available; then `note` says so.
    note: further remarks, or "".
  """

  name: str
  encoder: str | None
  embedding: str | None
  calibration: str | None
  corpus: str | None
  nli_tuned: bool
  cited: bool
  cells: Mapping[str, Any]
  sources: Mapping[str, tuple[str, ...]]
  verified: bool = True
  note: str = ""


@dataclasses.dataclass(frozen=True)
class PaperTable:
  """A table of the paper.

  Attributes:
    number: 1 to 8.
    title: subject.
    kind: "figures" for numbers, or "settings" for Table 7.
    metric: meaning of the numbers, "Spearman x 100".
    columns: keys of every row's cells, in the paper's order.
    rows: rows, in the paper's order.
    notes: explanations.
  """

  number: int
  title: str
  kind: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[PaperRow, ...]
  notes: tuple[str, ...]

  def match(
    self,
    *,
    calibration: str,
    encoder: str | None = None,
    embedding: str | None = None,
    corpus: str | None = None,
    nli_tuned: bool = False,
  ) -> PaperRow | None:
    """Returns the paper's own row that a row of ours is compared with, or None.

    Calibration and nli_tuned must be equal; encoder, embedding and corpus too, unless the paper's row leaves them open.
    """
    ours = {"encoder": encoder, "embedding": embedding, "corpus": corpus}
    for row in self.rows:
      same = (row.calibration, row.nli_tuned, row.cited) == (calibration, nli_tuned, False)
      if same and all(getattr(row, field) in (None, value) for field, value in ours.items()):
        return row
    return None


def paper_table(number: int) -> PaperTable:
  """Returns Table 1 to 8 of the paper.

  Raises:
    ConfigError: the paper has no such table.
  """
  tables = paper_tables()
  if number not in tables:
    raise ConfigError(f"number={number!r}: expected a table of the paper: {', '.join(map(str, tables))}", "number")
  return tables[number]


@functools.cache
def paper_tables() -> Mapping[int, PaperTable]:
  """Returns {number: table} of all tables, in order."""
  content = json.loads(FILE.read_text(encoding="utf-8"))
  return types.MappingProxyType({table["number"]: _table(table) for table in content["tables"]})


def _table(values: dict[str, Any]) -> PaperTable:
  fields = {key: values[key] for key in ("number", "title", "kind", "metric")}
  columns = tuple(values["columns"])
  rows = tuple(_row(row, columns, values["sources"]) for row in values["rows"])
  return PaperTable(**fields, columns=columns, rows=rows, notes=tuple(values["notes"]))


def _row(values: dict[str, Any], columns: tuple[str, ...], sources: list[str]) -> PaperRow:
  also = {name: columns if printed == "all" else tuple(printed) for name, printed in values.get("also_in", {}).items()}
  fields = {key: value for key, value in values.items() if key not in ("also_in", "cells")}
  cells = types.MappingProxyType({column: values["cells"][column] for column in columns})
  return PaperRow(**fields, cells=cells, sources=types.MappingProxyType({**dict.fromkeys(sources, columns), **also}))
