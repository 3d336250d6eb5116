"""Page of all tables and figures in a folder, written by `run_table.py --results_page=docs/results.md`."""

import dataclasses
import os
import pathlib
import urllib.parse

from bert_flow_tf.errors import DataError
from bert_flow_tf.io import files
from bert_flow_tf.tables.registry import FIGURES, TABLES
from bert_flow_tf.tables.summary import summary
from bert_flow_tf.tables.table import TERMS, Table, from_json, markdown_row

_FIGURE_TITLES = {
  "2": "Figure 2: similarity against edit distance",
  "isotropy": "Singular values",
  "cone": "Cone and sphere",
}
_INTRODUCTION = """\
# Results

This page was written by `run_scripts/run_table.py` from computed numbers; do not edit it. Rows below the name of an
encoder were computed with this repository, rows below *published* are the paper's (Li et al., EMNLP 2020;
`bert_flow_tf/tables/paper_tables.json` names the source of each number). Scores of other encoders are not comparable
with BERT's. The command below a table computes it again.

**Bold** is the best of an encoder's rows in a column: the highest score, in Isotropy's second and third columns the
nearest to 0. Published rows do not take part. Table 1, edit distances and Gains have no best.
"""
_PACKAGED = "mini"  # the encoder of this package


def write(path: str | os.PathLike, folder: str | os.PathLike) -> None:
  """Writes the page of all tables in a folder, in Markdown; copies of its pictures (PNG) go to the page's folder.

  A summary comes first, then the terms, the encoders and how the tables were made, the tables that are not the paper's,
  and the paper's.
  """
  tables = read_tables(folder)
  if not tables:
    raise DataError(
      f"results_page={path}: {folder} has no table_NAME.json; compute tables first, as with --table=all", "results_page"
    )
  terms = [f"| {term} | {meaning} |" for term, meaning in TERMS.items()]
  head = ["## Terms", "", "| term | meaning |", "| --- | --- |", *terms, ""]
  parts = [_INTRODUCTION, summary(tables), "\n".join(head), _encoders(tables), _origins(tables)]
  for table in tables:
    # The head of the page has the notes that define a term.
    notes = [note for note in table.notes if note.partition(": ")[0] not in TERMS]
    parts.append(dataclasses.replace(table, notes=tuple(notes)).markdown())
  try:
    parts += _pictures(pathlib.Path(path), pathlib.Path(folder))
    files.write_text(path, "\n".join(filter(None, parts)))
  except OSError as error:
    raise DataError(f"results_page={path}: cannot be written ({error.strerror})", "results_page") from error


def read_tables(folder: str | os.PathLike) -> list[Table]:
  """Returns the tables in a folder, in the order of `TABLES`."""
  tables = []
  for name in TABLES:
    file = pathlib.Path(folder) / f"table_{name}.json"
    if file.is_file():
      try:
        tables.append(from_json(file.read_text(encoding="utf-8")))
      except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: is not a table of run_table.py ({error!r}); compute it again") from error
  return tables


def _encoders(tables):
  """Returns Markdown with the sizes, folder and checksum of each encoder, as far as the tables have them."""
  lines = {}
  for table in tables:
    for title, checksum in table.about.get("encoders", {}).items():
      sizes, key = table.about.get("sizes", {}).get(title, {}), (title, checksum[:12])
      # The same weights may be in tables with and without sizes.
      if sizes or key not in lines:
        folder = sizes.get("folder", "")
        if folder == _PACKAGED:
          folder = "in this package: `examples/pretrain_bert` has how it was trained"
        elif folder:
          folder = f"`{folder}`"
        numbers = [str(sizes.get(size, "")) for size in ("blocks", "dimensions", "word pieces")]
        lines[key] = markdown_row([title, *numbers, folder, f"`{checksum[:12]}`"])
  if not lines:
    return ""
  head = ["encoder", "blocks", "dimensions", "word pieces", "folder", "SHA-256 of its weights"]
  return "\n".join(["## Encoders", "", markdown_row(head), "| --- |" + " --- |" * 5, *lines.values(), ""])


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
    versions = [f"{package} {version}" for package, version in about.get("versions", {}).items()]
    parts += [", ".join(versions), about.get("machine")]
    # Tables that were made alike share a line.
    origin = "; ".join(filter(None, parts))
    if origin:
      origins.setdefault(origin, []).append(table.heading)
  lines = [f"- {', '.join(headings)}: {origin}." for origin, headings in origins.items()]
  return "\n".join(["## How the tables were made", "", *lines, ""]) if lines else ""


def _pictures(path, folder):
  """Returns Markdown of the figures in the folder, of which it puts a copy into the page's folder."""
  parts = []
  for name in FIGURES:
    for picture in sorted(folder.glob(f"figure_{name}_*.png")):
      title = f"{_FIGURE_TITLES[name]}, {picture.stem.removeprefix(f'figure_{name}_')}"
      files.write_bytes(path.parent / picture.name, picture.read_bytes())
      parts.append(f"## {title}\n\n![{title}]({urllib.parse.quote(picture.name)})\n")
  return parts
