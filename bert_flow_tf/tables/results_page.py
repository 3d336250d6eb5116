"""Page of all tables and figures in a folder, written by `run_table.py --results_page=docs/results.md`."""

import base64
import dataclasses
import os
import pathlib
import urllib.parse

from bert_flow_tf.errors import ConfigError, DataError, install_command
from bert_flow_tf.evaluation.page import document
from bert_flow_tf.io import files
from bert_flow_tf.tables.plan import FIGURES, TABLES
from bert_flow_tf.tables.summary import summary
from bert_flow_tf.tables.table import Table, from_json
from bert_flow_tf.tables.terms import TERMS, is_defined

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
  """Writes the page of all tables in a folder.

  A summary comes first, then the terms, the encoders and how the tables were made, the tables that are not the paper's,
  and the paper's. Markdown shows copies of the folder's pictures (PNG), which are written to the page's folder; HTML
  has them inside.

  Args:
    path: the page: HTML if it ends with ".html", else Markdown.
    folder: folder where `run_table.py` wrote `table_NAME.json` and the figures.

  Raises:
    ConfigError: HTML needs a package that is not installed.
    DataError: the folder has no table, one is damaged, or the page cannot be written.
  """
  tables = read_tables(folder)
  if not tables:
    raise DataError(
      f"results_page={path}: {folder} has no table_NAME.json; compute tables first, as with --table=all", "results_page"
    )
  parts = [_INTRODUCTION, *filter(None, [summary(tables), _terms(), _encoders(tables), _origins(tables)])]
  parts += [_without_terms(table).markdown() for table in tables]
  try:
    parts += _pictures(pathlib.Path(path), pathlib.Path(folder))
    text = "\n".join(parts)
    files.write_text(path, _html(text) if _is_html(path) else text)
  except OSError as error:
    raise DataError(f"results_page={path}: cannot be written ({error.strerror})", "results_page") from error


def read_tables(folder: str | os.PathLike) -> list[Table]:
  """Returns the tables in a folder, in the order of `TABLES`.

  Raises:
    DataError: one is damaged.
  """
  tables = []
  for name in TABLES:
    file = pathlib.Path(folder) / f"table_{name}.json"
    if file.is_file():
      try:
        tables.append(from_json(file.read_text(encoding="utf-8")))
      except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: is not a table of run_table.py ({error!r}); compute it again") from error
  return tables


def _terms():
  lines = [f"| {term} | {meaning} |" for term, meaning in TERMS.items()]
  return "\n".join(["## Terms", "", "| term | meaning |", "| --- | --- |", *lines, ""])


def _without_terms(table):
  """Returns a table without the notes that the head of the page has."""
  return dataclasses.replace(table, notes=tuple(note for note in table.notes if not is_defined(note)))


def _encoders(tables):
  """Returns Markdown with the sizes, folder and checksum of each encoder, as far as the tables have them."""
  lines = {}
  for table in tables:
    for title, checksum in table.about.get("encoders", {}).items():
      known, key = table.about.get("sizes", {}).get(title, {}), (title, checksum[:12])
      folder = f"`{known['folder']}`" if known else ""
      if known.get("folder") == _PACKAGED:
        folder = "in this package: `examples/pretrain_bert` has how it was trained"
      if known or key not in lines:
        sizes = (str(known.get(size, "")) for size in ("blocks", "dimensions", "word pieces"))
        lines[key] = f"| {' | '.join([title, *sizes, folder, f'`{key[1]}`'])} |"
  if not lines:
    return ""
  head = ["encoder", "blocks", "dimensions", "word pieces", "folder", "SHA-256 of its weights"]
  rows = [f"| {' | '.join(head)} |", "| --- |" + " --- |" * (len(head) - 1), *lines.values()]
  return "\n".join(["## Encoders", "", *rows, ""])


def _origins(tables):
  """Returns Markdown with date, commit, seeds, package versions and machine of the tables; "" if none is known."""
  origins = {}
  for table in tables:
    about = table.about
    seeds = ", ".join(map(str, about.get("seeds", ())))
    commit = f"commit {about['commit']}" if about.get("commit") else ""
    versions = ", ".join(f"{package} {version}" for package, version in about.get("versions", {}).items())
    parts = [
      about.get("date"),
      commit,
      seeds and f"seeds of the flow: {seeds}",
      versions,
      about.get("machine"),
    ]
    if any(parts):
      origins.setdefault("; ".join(filter(None, parts)), []).append(table.heading)
  lines = [f"- {', '.join(headings)}: {origin}." for origin, headings in origins.items()]
  return "\n".join(["## How the tables were made", "", *lines, ""]) if lines else ""


def _pictures(path, folder):
  """Returns Markdown of the figures in the folder, of which it puts a copy into the page's folder."""
  shown = []
  for name in FIGURES:
    for picture in sorted(folder.glob(f"figure_{name}_*.png")):
      title = f"{_FIGURE_TITLES[name]}, {picture.stem.removeprefix(f'figure_{name}_')}"
      if _is_html(path):
        address = f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
      else:
        files.write_bytes(path.parent / picture.name, picture.read_bytes())
        address = urllib.parse.quote(picture.name)
      shown.append(f"## {title}\n\n![{title}]({address})\n")
  return shown


def _is_html(path):
  return pathlib.Path(path).suffix == ".html"


def _html(text):
  """Returns an HTML document of Markdown."""
  try:
    import markdown
  except ImportError as error:
    raise ConfigError(
      f"results_page: HTML needs the package markdown, which is not installed: {install_command('tables')}",
      "results_page",
    ) from error
  return document("Results", [markdown.markdown(text, extensions=["tables", "fenced_code"])])
