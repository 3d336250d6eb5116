"""A table to be made: the arguments that its maker reads, and the content that the maker returns."""

import dataclasses
from collections.abc import Sequence

from bert_flow_tf.io.settings import Settings, setting
from bert_flow_tf.tables.table import Row
from bert_flow_tf.tables.workbench import Workbench

TOKENS, CHARACTERS = "tokens", "characters"
UNITS = (TOKENS, CHARACTERS)


@dataclasses.dataclass(frozen=True)
class TableArguments(Settings):
  """Arguments of a run that decide the rows of a table, or its numbers."""

  nli_model: tuple[str, ...] = setting(
    (), "Hugging Face folders of encoders that were fine-tuned on NLI, for Tables 3, 4 and 8."
  )
  calibration: tuple[str, ...] = setting(
    ("sn", "whitening"),
    "Further calibrations, as rows of Tables 2, 3 and 5 and isotropy; may be empty.",
    flag="table_calibrations",
  )
  transfer_corpus: tuple[str, ...] = setting((), "Further files of sentences, or nli, as rows of transfer.")
  frequency_file: str | None = setting(None, "For Table 1: a file with a word and its count per line.")
  corpus: str | None = setting(
    None,
    "A text file: Table 1 counts its words; beyond and gains have rows (corpus), fitted on 5,000 of its lines that are "
    "no sentence of the run's tasks.",
  )
  edit_unit: str = setting(TOKENS, "For Table 6 and Figure 2: unit of the edit distance.", choices=UNITS)
  seed: int = 1234


@dataclasses.dataclass(frozen=True)
class TableRequest:
  """A table or figure to be made: its name, the run's arguments, its encoders, its tasks and the flow's seeds."""

  name: str
  arguments: TableArguments
  benches: Sequence[Workbench]
  tasks: tuple[str, ...]
  seeds: Sequence[int]


@dataclasses.dataclass(frozen=True)
class TableContent:
  """Columns, rows and notes of a table."""

  columns: Sequence[str]
  rows: Sequence[Row]
  notes: Sequence[str]
