"""Summary: the best row of each encoder, and the main rows without and with the flow next to the paper's."""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_flow_tf.tables.beyond import FLOW, MEAN, WHITENING, method_name
from bert_flow_tf.tables.similarity import FIRST_LAST
from bert_flow_tf.tables.table import OURS, PUBLISHED, Cell, Table, markdown_row
from bert_flow_tf.tables.workbench import NLI_TUNED

_PLAIN, _FLOW = f"{{encoder}}, {FIRST_LAST}", f"{{encoder}}, {FIRST_LAST}, flow (target)"
_EDITS, _GOLD = "edit distance", "gold similarity"
_METHODS = ("BERT-induced similarity", "flow-induced similarity")
_OUR_METHODS = (f"{_PLAIN}: {_METHODS[0]}", f"{_FLOW}: {_METHODS[1]}")
# Lines: table, label, columns (None for a line of each), rows of the paper, our rows; without and with the flow.
_LINES = (
  ("2", "{column}", None, ("BERT_base-last2avg", "BERT_base-flow (target)"), (_PLAIN, _FLOW)),
  ("4", "QNLI, AUC", None, ("BERT_base-NLI-last2avg", "BERT_base-NLI-flow (target)"), (_PLAIN, _FLOW)),
  (
    "6",
    f"STS-B dev, similarity and {_EDITS}",
    (_EDITS,),
    _METHODS,
    (f"{_PLAIN}: {_METHODS[0]}", f"{_FLOW}: {_METHODS[1]}"),
  ),
  ("6", f"STS-B dev, gold and {_EDITS}", (_EDITS,), (_GOLD,), (_GOLD,)),
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
### Best methods

Mean over the sets (Spearman x 100, table Beyond), and in brackets the gain over `avg-first-last`
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
  names = [f"{method_name(FLOW)} (target)", f"{method_name(WHITENING)} (target)"]
  lines = []
  for encoder in table.about.get("encoders", {}):
    scores = {}
    for row in table.rows:
      cell = row.cells.get(MEAN, Cell())
      if row.name.startswith(f"{encoder}, ") and cell.defined:
        scores[row.name.removeprefix(f"{encoder}, ")] = cell
    if FIRST_LAST in scores:
      plain = scores[FIRST_LAST]
      best = max(scores, key=lambda name: scores[name].mean)
      cells = [_score(plain)]
      for name in (*names, best):
        cell = scores.get(name)
        cells.append((cell and f"{_score(cell)} ({cell.mean - plain.mean:+.2f})") or "")
      lines.append(markdown_row([encoder, *cells, best]))
  if not lines:
    return ""
  head = [FIRST_LAST, *names, "best row", "which"]
  return "\n".join([_BEST_NOTE, f"|  {markdown_row(head)}", "| --- |" + " --- |" * 5, *lines, ""])


def _score(cell: Cell) -> str:
  """Returns a score and its spread over seeds."""
  return dataclasses.replace(cell, paper=None, worse=False).text()


def _paper_rows(by_name: Mapping[str, Table]) -> str:
  """Returns Markdown with the main rows of Tables 2, 4 and 6; "" if none of them has an encoder of ours.

  Encoders that were fine-tuned on NLI are left out.
  """
  encoders = {}
  for table in by_name.values():
    for encoder, checksum in table.about.get("encoders", {}).items():
      has_rows = any(row.name.startswith(f"{encoder}, {FIRST_LAST}") for row in table.rows)
      if table.name in ("2", "4", "6") and has_rows and not encoder.endswith(NLI_TUNED):
        encoders[encoder] = _PUBLISHED_CODE.get(checksum[:12])
  if not encoders:
    return ""
  # A column for the paper, and one or two for each encoder of ours.
  head, note = ["paper, BERT-base"], _NOTE
  for encoder, code in encoders.items():
    if code is not None:
      head.append(f"published code, {encoder}")
      note = _NOTE + _CODE_NOTE
    head.append(f"ours, {encoder}")
  lines = [f"|  {markdown_row(head)}", markdown_row(["---"] * (len(head) + 1))]
  for name, label, columns, paper, ours in _LINES:
    table = by_name.get(name)
    for column in (table and (columns or table.columns)) or ():
      cells = [label.format(column=column), _text(table, PUBLISHED, paper, column)]
      for encoder, code in encoders.items():
        if code is not None:
          cells.append(" → ".join(f"{score:.2f}" for score in code.get(column, ())))
        cells.append(_text(table, OURS, [row.format(encoder=encoder) for row in ours], column))
      lines.append(markdown_row(cells))
  return "\n".join([note, *lines, ""])


def _text(table: Table, source: str, names: Sequence[str], column: str) -> str:
  """Returns the scores of some rows, with the spread over seeds; "" if one is missing."""
  cells = {row.name: row.cells.get(column) for row in table.rows if row.source == source}
  texts = []
  for cell in map(cells.get, names):
    if cell is None or not cell.defined:
      return ""
    texts.append(_score(cell))
  return " → ".join(texts)
