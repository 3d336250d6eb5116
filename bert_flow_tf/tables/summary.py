"""Summary: the best row of each encoder, and the main rows without and with the flow next to the paper's."""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_flow_tf.tables.beyond import FLOW, MEAN, WHITENING, method_name
from bert_flow_tf.tables.similarity import FIRST_LAST
from bert_flow_tf.tables.table import OURS, PUBLISHED, Cell, Table
from bert_flow_tf.tables.workbench import NLI_TUNED


@dataclasses.dataclass(frozen=True)
class _Line:
  """A comparison of rows, without and with the flow; a line of the summary for each column.

  Attributes:
    table: name of the table.
    label: name of the line.
    columns: columns of the table; None for all.
    paper: names of the paper's rows.
    ours: names of our rows.
  """

  table: str
  label: str
  columns: tuple[str, ...] | None
  paper: tuple[str, ...]
  ours: tuple[str, ...]


_PLAIN, _FLOW = f"{{encoder}}, {FIRST_LAST}", f"{{encoder}}, {FIRST_LAST}, flow (target)"
_METHODS = ("BERT-induced similarity", "flow-induced similarity")
_LINES = (
  _Line("2", "{column}", None, ("BERT_base-last2avg", "BERT_base-flow (target)"), (_PLAIN, _FLOW)),
  _Line("4", "QNLI, AUC", None, ("BERT_base-NLI-last2avg", "BERT_base-NLI-flow (target)"), (_PLAIN, _FLOW)),
  _Line(
    "6",
    "STS-B dev, similarity and edit distance",
    ("edit distance",),
    _METHODS,
    (f"{_PLAIN}: {_METHODS[0]}", f"{_FLOW}: {_METHODS[1]}"),
  ),
  _Line("6", "STS-B dev, gold and edit distance", ("edit distance",), ("gold similarity",), ("gold similarity",)),
)
# Means of three seeds, without and with the published TensorFlow 1 flow (config_l2_d3_w32, actnorm initialized from
# data), on the embeddings of an encoder, by the beginning of its weights' SHA-256. From `../shared/models/README.md`.
_PUBLISHED_CODE = {
  "a5cf5e4e1e12": {
    "STS-B": (50.08, 67.86),
    "SICK-R": (58.52, 60.46),
    "STS-12": (53.25, 62.23),
    "STS-13": (52.28, 68.53),
    "STS-14": (58.06, 67.82),
    "STS-15": (65.28, 71.65),
    "STS-16": (62.22, 70.59),
  }
}
_NOTE = """\
The paper's method: without the flow → with the flow, which is fitted on the evaluated set; Spearman x 100, and
AUC x 100 on QNLI. All use `avg-first-last`. The paper's BERT is fine-tuned on NLI for QNLI alone.
"""
_CODE_NOTE = "Published code: its TensorFlow 1 flow on the same embeddings, mean of three seeds.\n"
_BEST_NOTE = """\
What is best: mean over the sets (Spearman x 100, table Beyond), and in brackets the gain over `avg-first-last`
without calibration. The best row is chosen by these scores; Gains has the differences with intervals.
"""


def summary(tables: Sequence[Table]) -> str:
  """Returns Markdown with the best row of each encoder and the main rows of Tables 2, 4 and 6; "" if all are absent."""
  by_name = {table.name: table for table in tables}
  parts = [_best_rows(by_name["beyond"])] if "beyond" in by_name else []
  parts = [part for part in (*parts, _paper_rows(by_name)) if part]
  return "\n".join(["## Summary", "", *parts]) if parts else ""


def _best_rows(table: Table) -> str:
  """Returns Markdown with the mean over the sets of some rows, and of the best one, for each encoder."""
  names = [FIRST_LAST, f"{method_name(FLOW)} (target)", f"{method_name(WHITENING)} (target)"]
  lines = []
  for encoder in table.about.get("encoders", {}):
    own = [row for row in table.rows if row.name.startswith(f"{encoder}, ")]
    means = {row.name.removeprefix(f"{encoder}, "): row.cells.get(MEAN, Cell()) for row in own}
    scores = {name: cell for name, cell in means.items() if cell.defined}
    if FIRST_LAST in scores:
      best = max(scores, key=lambda name: scores[name].mean)
      plain = scores[FIRST_LAST].mean
      gains = {name: f"{_score(cell)} ({cell.mean - plain:+.2f})" for name, cell in scores.items()}
      cells = [_score(scores[FIRST_LAST]), *(gains.get(name, "") for name in names[1:]), gains[best], best]
      lines.append(f"| {encoder} | {' | '.join(cells)} |")
  head = ["", *names, "best row", "which"]
  return "\n".join([_BEST_NOTE, f"| {' | '.join(head)} |", "| --- |" + " --- |" * 5, *lines, ""]) if lines else ""


def _score(cell: Cell) -> str:
  """Returns a score and its spread over seeds."""
  return dataclasses.replace(cell, paper=None, worse=False).text()


def _paper_rows(by_name: Mapping[str, Table]) -> str:
  """Returns Markdown with the main rows of Tables 2, 4 and 6; "" if none of them has an encoder of ours.

  Encoders that were fine-tuned on NLI are left out.
  """
  tables = by_name.values()
  checksums = {
    encoder: checksum
    for table in tables
    for encoder, checksum in table.about.get("encoders", {}).items()
    if table.name in ("2", "4", "6") and not encoder.endswith(NLI_TUNED)
    if any(row.name.startswith(f"{encoder}, {FIRST_LAST}") for row in table.rows)
  }
  if not checksums:
    return ""
  lines = [["", "paper, BERT-base"]]
  for encoder, checksum in checksums.items():
    lines[0] += [f"published code, {encoder}"] * (checksum[:12] in _PUBLISHED_CODE) + [f"ours, {encoder}"]
  lines.append(["---"] * len(lines[0]))
  for line in (line for line in _LINES if line.table in by_name):
    table = by_name[line.table]
    for column in line.columns or table.columns:
      lines.append([line.label.format(column=column), _text(table, PUBLISHED, line.paper, column)])
      for encoder, checksum in checksums.items():
        code = _PUBLISHED_CODE.get(checksum[:12])
        if code is not None:
          lines[-1].append(" → ".join(f"{score:.2f}" for score in code.get(column, ())))
        lines[-1].append(_text(table, OURS, [name.format(encoder=encoder) for name in line.ours], column))
  note = _NOTE + _CODE_NOTE if any(head.startswith("published") for head in lines[0]) else _NOTE
  return "\n".join([note, *(f"| {' | '.join(cells)} |" for cells in lines), ""])


def _text(table: Table, source: str, names: Sequence[str], column: str) -> str:
  """Returns the scores of some rows, with the spread over seeds; "" if one is missing."""
  cells = {row.name: row.cells.get(column) for row in table.rows if row.source == source}
  texts = []
  for cell in map(cells.get, names):
    if cell is None or not cell.defined:
      return ""
    texts.append(_score(cell))
  return " → ".join(texts)
