"""Page of all tables and figures in a folder, written by `run_table.py --results_page=docs/results.md`."""

import base64
import os
import pathlib
import urllib.parse

from bert_flow_tf.errors import ConfigError, DataError, install_command
from bert_flow_tf.evaluation.markup import document
from bert_flow_tf.io import files
from bert_flow_tf.tables.plan import FIGURES, NEW_TABLES, TABLES
from bert_flow_tf.tables.summary import summary
from bert_flow_tf.tables.table import Table, from_json

_FIGURE_TITLES = {
  "2": "Figure 2: similarity against edit distance",
  "isotropy": "Singular values",
  "cone": "Cone and sphere",
}
_INTRODUCTION = """\
# Results

This page was written by `run_scripts/run_table.py` from computed numbers; do not edit it. Rows marked *ours* were
computed with this repository, rows marked *published* are the paper's (Li et al., EMNLP 2020;
`bert_flow_tf/tables/paper_tables.json` names the source of each number). The paper's score and the difference are in
brackets if the encoder is the paper's. Scores of other encoders are not comparable with BERT's. ± is the standard
deviation over seeds of the flow.
"""


def write(path: str | os.PathLike, folder: str | os.PathLike) -> None:
  """Writes the page of all tables in a folder.

  The tables that are not the paper's come first, then a summary of the paper's. Markdown shows copies of the folder's
  pictures (PNG), which are written to the page's folder; HTML has them inside.

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
  new = [_with_origin(table) for table in tables if table.name in NEW_TABLES]
  paper = [_with_origin(table) for table in tables if table.name not in NEW_TABLES]
  parts = [_INTRODUCTION, *new, *filter(None, [summary(tables)]), *paper]
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


def _with_origin(table):
  """Returns a table's Markdown and a line with its date, seeds, encoders, package versions and machine."""
  about = table.about
  parts = [about.get("date")]
  if about.get("seeds"):
    parts.append(f"seed{'s' * (len(about['seeds']) > 1)} " + ", ".join(map(str, about["seeds"])))
  parts += [f"{label}: weights {sha[:12]}" for label, sha in about.get("encoders", {}).items()]
  parts.append(", ".join(f"{package} {version}" for package, version in about.get("versions", {}).items()))
  parts = [part for part in (*parts, about.get("machine")) if part]
  return "\n".join([table.markdown(), *([f"{'; '.join(parts)}.\n"] if parts else [])])


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
