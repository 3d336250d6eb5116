"""Writes docs/results.md from the tables and figures in a folder of `bert-flow table`.

python -m tools.results_page exp/tables docs/results.md
"""

import dataclasses
import os
import pathlib
import sys
import urllib.parse
from collections.abc import Mapping, Sequence

from bert_flow_tf.encoder.transformer.number_formats import BFLOAT16, INT8
from bert_flow_tf.errors import BertFlowError, DataError
from bert_flow_tf.io import files
from bert_flow_tf.tables.beyond import FLOW, WHITENING, recipe_name
from bert_flow_tf.tables.recipe import CONTROLS
from bert_flow_tf.tables.registry import FIGURES, TABLES
from bert_flow_tf.tables.scores import MEAN
from bert_flow_tf.tables.similarity import FIRST_LAST, FITTED_ON_PART, PART_OF_QNLI
from bert_flow_tf.tables.table import (
  OURS,
  PUBLISHED,
  TERMS,
  Cell,
  Table,
  from_json,
  markdown_table,
  without_line_breaks,
)
from bert_flow_tf.tables.workbench import NLI_TUNED
from tools.known_encoders import TEXTS, known_encoder

_FIGURE_TITLES = {
  "2": "Figure 2: similarity against edit distance",
  "isotropy": "Singular values",
  "cone": "Cone and sphere",
}
_INTRODUCTION = """\
# Results

This page was written by `bert-flow table` from computed numbers; do not edit it. Rows below the name of an
encoder were computed with this repository, rows below *published* are the paper's (Li et al., EMNLP 2020;
`bert_flow_tf/tables/paper_tables.json` names the source of each number). Scores of other encoders are not comparable
with BERT's. The command below a table computes it again. Sentences are cut at 64 tokens unless it has another
`--max_seq_length`. Other programs give [other numbers](conventions.md#where-other-programs-give-other-numbers).

**Bold** is the best of an encoder's rows in a column: the highest score, in Isotropy's second and third columns the
nearest to 0. Published rows do not take part. Table 1, edit distances and Gains have no best.
"""
_SIZES = ["blocks", "dimensions", "word pieces"]
# The summary: the best row of each encoder, and the main rows without and with the flow next to the paper's.
_PLAIN, _FLOW = f"{{encoder}}, {FIRST_LAST}", f"{{encoder}}, {FIRST_LAST}, flow (target)"
_EDITS, _GOLD = "edit distance", "gold similarity"
_METHODS = ("BERT-induced similarity", "flow-induced similarity")
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
_NOTE = """\
The paper's method: without the flow → with the flow, which is fitted on the evaluated set; Spearman x 100, and
AUC x 100 on QNLI. All use `avg-first-last`. The paper's BERT is fine-tuned on NLI for QNLI alone.
The flow passes three times over the pairs of STS-12 to STS-16, as the published code does; the table of precisions in
[Benchmarks](benchmarks.md#int8), once.
"""
_CODE_NOTE = """\
Published code: its TensorFlow 1 flow on the same embeddings in the setting used here, `config_l2_d3_w32` with actnorm
initialized from data, mean of three seeds. The published runner has `config_l3_d3_w32` and never initializes from data:
with that setting the code has 67.54 on STS-B.
"""
_BEST_NOTE = """\
### Best methods

Mean over the sets (Spearman x 100, table Beyond), and in brackets the gain over `avg-first-last`
without calibration. The best row is chosen by these scores; Gains has the differences with intervals. The controls
match strings, without an encoder and without a fit: a method that is no better mostly finds shared words.

The recipe was chosen with the scores of these seven sets, among some 200 settings: shares, the exponent of `idf`,
n-grams of the characters, and mean(lambda) / 2 of soft-whitening. Table Choice has scores of settings that were chosen
on the other six sets alone.
"""


def write(path: str | os.PathLike, folder: str | os.PathLike) -> None:
  """Writes the page of all tables in a folder, in Markdown; copies of its pictures (PNG) go to the page's folder."""
  tables = read_tables(folder)
  if not tables:
    raise DataError(f"{folder} has no table_NAME.json; bert-flow table --table=all makes them")
  terms = f"## Terms\n\n{markdown_table(['term', 'meaning'], TERMS.items())}"
  parts = [_INTRODUCTION, summary(tables), terms, _encoders(tables), _origins(tables)]
  for table in tables:
    # The head of the page has the notes that define a term.
    notes = [note for note in table.notes if note.partition(": ")[0] not in TERMS]
    parts.append(dataclasses.replace(table, notes=tuple(notes)).markdown(_seen(table)))
  try:
    parts += _pictures(pathlib.Path(path), pathlib.Path(folder))
    files.write_text(path, "\n".join(filter(None, parts)))
  except OSError as error:
    raise DataError(f"{path}: cannot be written ({error.strerror})") from error


def _seen(table):
  """Returns {encoder: columns whose text it was trained on} of a table."""
  seen = {}
  for title, checksum in table.about.get("encoders", {}).items():
    known = known_encoder(checksum)
    if known is not None:
      seen[title] = known.seen
  return seen


def read_tables(folder: str | os.PathLike) -> list[Table]:
  """Returns the tables in a folder, in the order of `TABLES`."""
  tables = []
  for name in TABLES:
    file = pathlib.Path(folder) / f"table_{name}.json"
    if file.is_file():
      try:
        tables.append(from_json(file.read_text(encoding="utf-8")))
      except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: is not a table of bert-flow table ({error!r}); compute it again") from error
  return tables


def _encoders(tables):
  """Returns Markdown with the sizes, folder and checksum of each encoder, as far as the tables have them."""
  lines, texts = {}, ""
  for table in tables:
    for title, checksum in table.about.get("encoders", {}).items():
      sizes = table.about["sizes"].get(title, {})  # word vectors have none
      origin = sizes.get("folder", "")
      if origin:
        origin = f"`{origin}`"
      known = known_encoder(checksum)
      if known is not None:
        origin, texts = known.origin, TEXTS
      # An encoder has one line, in however many tables it is.
      numbers = [str(sizes.get(size, "")) for size in _SIZES]
      lines[title, checksum] = [title, *numbers, origin, f"`{checksum[:12]}`"]
  if not lines:
    return ""
  head = ["encoder", *_SIZES, "origin", "SHA-256 of its weights"]
  return f"## Encoders\n\n{markdown_table(head, lines.values())}{texts}"


def _origins(tables):
  """Returns Markdown with date, commit, seeds, package versions and machine of the tables; "" if none is known."""
  origins = {}
  for table in tables:
    about = table.about
    parts = [about.get("date")]
    if about.get("commit"):
      parts.append(f"commit {about['commit']}")
    if about.get("seeds"):
      parts.append(f"seeds of the flow: {', '.join(map(str, about['seeds']))}")
    versions = map(" ".join, about.get("versions", {}).items())
    parts += [", ".join(versions), about.get("machine")]
    # Tables that were made alike share a line.
    origin = "; ".join(filter(None, parts))
    if origin:
      origins.setdefault(origin, []).append(table.heading)
  if not origins:
    return ""
  lines = [f"- {', '.join(headings)}: {origin}.\n" for origin, headings in origins.items()]
  return f"## How the tables were made\n\n{''.join(lines)}"


def _pictures(path, folder):
  """Returns Markdown of the figures in the folder, of which it puts a copy into the page's folder."""
  parts = []
  for name in FIGURES:
    for picture in sorted(folder.glob(f"figure_{name}_*.png")):
      title = without_line_breaks(f"{_FIGURE_TITLES[name]}, {picture.stem.removeprefix(f'figure_{name}_')}")
      files.write_bytes(path.parent / picture.name, picture.read_bytes())
      parts.append(f"## {title}\n\n![{title}]({urllib.parse.quote(picture.name)})\n")
  return parts


def summary(tables: Sequence[Table]) -> str:
  """Returns Markdown with the best row of each encoder and the main rows of Tables 2, 4 and 6; "" if all are absent."""
  by_name = {table.name: table for table in tables}
  parts = []
  if "beyond" in by_name:
    parts.append(_best_rows(by_name["beyond"]))
  parts.append(_paper_rows(by_name))
  text = "\n".join(filter(None, parts))
  if text:
    return f"## Summary\n\n{text}"
  return ""


def _best_rows(table: Table) -> str:
  """Returns Markdown with the mean over the sets of some rows, and of the best one, for each encoder."""
  names = [f"{recipe_name(FLOW)} (target)", f"{recipe_name(WHITENING)} (target)", *CONTROLS]
  lines = []
  for encoder in table.about.get("encoders", {}):
    scores = {}
    for row in table.rows:
      cell = row.cells.get(MEAN, Cell())
      # A row in fewer bits is the same method, whose scores differ by rounding.
      is_rounded = any(f", {precision}" in row.name for precision in (BFLOAT16, INT8))
      if row.name.startswith(f"{encoder}, ") and not is_rounded and cell.defined:
        scores[row.name.removeprefix(f"{encoder}, ")] = cell
    if FIRST_LAST in scores:
      plain = scores[FIRST_LAST]
      best = max(scores, key=lambda name: scores[name].mean)
      cells = [encoder, _score(plain)]
      for name in [*names, best]:
        text = ""
        if name in scores:
          text = f"{_score(scores[name])} ({scores[name].mean - plain.mean:+.2f})"
        cells.append(text)
      cells.append(best)
      lines.append(cells)
  if not lines:
    return ""
  return f"{_BEST_NOTE}\n{markdown_table(['', FIRST_LAST, *names, 'best row', 'which'], lines)}"


def _score(cell: Cell) -> str:
  """Returns a score and its spread over seeds."""
  return dataclasses.replace(cell, paper=None, worse=False).text()


def _paper_rows(by_name: Mapping[str, Table]) -> str:
  """Returns Markdown with the main rows of Tables 2, 4 and 6, without encoders fine-tuned on NLI; "" without ours."""
  encoders = {}
  for table in by_name.values():
    for encoder, checksum in table.about.get("encoders", {}).items():
      main_rows = [row for row in table.rows if row.name.startswith(f"{encoder}, {FIRST_LAST}")]
      if table.name in ("2", "4", "6") and main_rows and not encoder.endswith(NLI_TUNED):
        known = known_encoder(checksum)
        encoders[encoder] = None if known is None else known.published_code
  if not encoders:
    return ""
  # A column for the paper, and one or two for each encoder of ours.
  head, note = ["", "paper, BERT-base"], _NOTE
  for encoder, code in encoders.items():
    if code is not None:
      head.append(f"published code, {encoder}")
      note = _NOTE + _CODE_NOTE
    head.append(f"ours, {encoder}")
  lines = []
  for name, label, columns, paper, ours in _LINES:
    if name not in by_name:
      continue
    table = by_name[name]
    for column in columns or table.columns:
      cells = [label.format(column=column) + _part(table), _text(table, PUBLISHED, paper, column)]
      for encoder, code in encoders.items():
        if code is not None:
          cells.append(" → ".join(map("{:.2f}".format, code.get(column, ()))))
        cells.append(_text(table, OURS, [row.format(encoder=encoder) for row in ours], column))
      lines.append(cells)
  return f"{note}\n{markdown_table(head, lines)}"


def _part(table: Table) -> str:
  """Returns how many pairs of QNLI the rows are fitted on if its table says that some were missing; "" otherwise."""
  for text in table.notes:
    if text.startswith(PART_OF_QNLI):
      return f"; ours: {text.rpartition(f'{FITTED_ON_PART} ')[2].rstrip('.')}"
  return ""


def _text(table: Table, source: str, names: Sequence[str], column: str) -> str:
  """Returns the scores of some rows, with the spread over seeds; "" if one is missing."""
  rows = {(row.source, row.name): row.cells for row in table.rows}
  texts = []
  for name in names:
    cell = rows.get((source, name), {}).get(column, Cell())
    if not cell.defined:
      return ""
    texts.append(_score(cell))
  return " → ".join(texts)


def main(arguments: Sequence[str]) -> None:
  """Writes the page that the command line names."""
  if len(arguments) != 2:
    sys.exit("error: expected the folder of the tables and the page, as in exp/tables docs/results.md")
  folder, path = arguments
  try:
    write(path, folder)
  except BertFlowError as error:
    sys.exit(f"error: {error}")


if __name__ == "__main__":
  main(sys.argv[1:])
