"""The figures of the paper's tables (Li et al. 2020, Tables 1 to 8), to stand beside ours; see `paper_tables.json`."""

import dataclasses
import functools
import json
import pathlib
import types
from collections.abc import Mapping

from bert_flow_tf.errors import ConfigError, DataError

FILE = pathlib.Path(__file__).with_name("paper_tables.json")


@dataclasses.dataclass(frozen=True)
class PaperSource:
  """Where figures were read.

  Attributes:
    id: its name in `PaperRow.sources`.
    origin: who wrote it; sources of one origin are copies of each other.
    title: what it is.
    address: a URL, or None where it is not known.
  """

  id: str
  origin: str
  title: str
  address: str | None


@dataclasses.dataclass(frozen=True)
class PaperRow:
  """One row of a table. A None is what the paper does not say or what has no meaning in that row.

  Attributes:
    name: the row's head, "BERT_base-flow (target)".
    encoder: "base", "large" or None.
    embedding: as `--sentence_embedding_type` has it; the paper's "last2avg" is avg-first-last.
    calibration: as `--calibration` has it: "none", "flow", "natsv-10".
    corpus: what the calibration was fitted on, "nli" or "target".
    nli_tuned: whether the encoder was fine-tuned on NLI.
    cited: whether the row repeats the figures of another paper; `PaperTable.match` leaves these out.
    cells: {column: number}; None for a figure that is not known, text in Table 7 alone.
    sources: {id of a `PaperSource`: the columns it has}.
    verified: False where no source was found; `note` then says so.
    note: what else there is to know, or "".
  """

  name: str
  encoder: str | None
  embedding: str | None
  calibration: str | None
  corpus: str | None
  nli_tuned: bool
  cited: bool
  cells: Mapping[str, float | int | str | None]
  sources: Mapping[str, tuple[str, ...]]
  verified: bool = True
  note: str = ""

  def origins(self, column):
    """The distinct origins of a cell, the paper's own first."""
    known = paper_sources()
    return list(dict.fromkeys(known[name].origin for name, columns in self.sources.items() if column in columns))


@dataclasses.dataclass(frozen=True)
class PaperTable:
  """A table.

  Attributes:
    number: 1 to 8.
    title: what it shows.
    kind: "figures", or "settings" for Table 7.
    metric: what its numbers are, "Spearman x 100".
    columns: keys of every row's cells, in the paper's order.
    rows: `PaperRow`s, in the paper's order.
    notes: how to read it.
  """

  number: int
  title: str
  kind: str
  metric: str
  columns: tuple[str, ...]
  rows: tuple[PaperRow, ...]
  notes: tuple[str, ...]

  def match(self, *, calibration, encoder=None, embedding=None, corpus=None, nli_tuned=False):
    """The row that a run of ours is compared with, or None; the paper's own rows only.

    Calibration and nli_tuned must be equal; encoder, embedding and corpus where the row has them, since what the paper
    does not say fits every run.
    """
    wanted = {"encoder": encoder, "embedding": embedding, "corpus": corpus}
    for row in self.rows:
      same = (row.calibration, row.nli_tuned, row.cited) == (calibration, nli_tuned, False)
      if same and all(getattr(row, field) in (None, value) for field, value in wanted.items()):
        return row
    return None


def paper_table(number):
  """Table 1 to 8 of the paper as a `PaperTable`.

  Raises:
    ConfigError: there is no such table.
    DataError: the file beside this module is missing or damaged.
  """
  tables = _read()[1]
  if number not in tables:
    raise ConfigError(f"table is {number!r}, expected a number of the paper's tables: {', '.join(map(str, tables))}")
  return tables[number]


def paper_tables():
  """All tables, in order. Raises as `paper_table`."""
  return list(_read()[1].values())


def paper_sources():
  """{id: `PaperSource`}. Raises DataError as `paper_table`."""
  return _read()[0]


@functools.cache
def _read():
  """({id: PaperSource}, {number: PaperTable}) of `FILE`."""
  try:
    found = json.loads(FILE.read_text(encoding="utf-8"))
    sources = {source["id"]: PaperSource(**source) for source in found["sources"]}
    tables = {table["number"]: _table(table) for table in found["tables"]}
  except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
    raise DataError(
      f"{FILE}: expected the paper's tables as this package brings them, found {type(error).__name__} ({error}); "
      "install the package again."
    ) from error
  return types.MappingProxyType(sources), types.MappingProxyType(tables)


def _table(found):
  fields = {key: found[key] for key in ("number", "title", "kind", "metric")}
  columns = tuple(found["columns"])
  rows = tuple(_row(row, columns, found["sources"]) for row in found["rows"])
  return PaperTable(**fields, columns=columns, rows=rows, notes=tuple(found["notes"]))


def _row(found, columns, sources):
  found = dict(found)
  also = {name: columns if has == "all" else tuple(has) for name, has in found.pop("also_in", {}).items()}
  cells = found.pop("cells")
  sources = types.MappingProxyType({**dict.fromkeys(sources, columns), **also})
  return PaperRow(**found, cells=types.MappingProxyType({column: cells[column] for column in columns}), sources=sources)
