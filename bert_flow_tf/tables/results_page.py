"""RESULTS.md: every table of a folder on one page, made by `run_table.py` and never by hand."""

import os
import pathlib
import urllib.parse

from bert_flow_tf.errors import DataError
from bert_flow_tf.io import files
from bert_flow_tf.tables.plan import FIGURES, TABLES
from bert_flow_tf.tables.table import from_json

_FIGURE_TITLES = {
  "2": "Figure 2: similarity against edit distance",
  "isotropy": "Singular values",
  "cone": "Cone and sphere",
}
_INTRODUCTION = """\
# Results

This page was written by `run_scripts/run_table.py` from what it computed; do not edit it. Rows marked *ours* were
computed here, rows marked *published* are the paper's own (Li et al., EMNLP 2020;
`bert_flow_tf/tables/paper_tables.json` names the source of each figure). The paper's figure and the difference stand
in brackets where the encoder is the paper's; an encoder that stands in for BERT has figures of its own, which say
nothing about BERT's. ± is the standard deviation over seeds of the flow.
"""


def write(path, folder):
  """Writes the page of all tables in a folder.

  Args:
    path: the page.
    folder: where `run_table.py` left `table_NAME.json`, and pictures beside.

  Raises:
    DataError: there is no table there, one is damaged, or the page cannot be written.
  """
  tables = read_tables(folder)
  if not tables:
    raise DataError(f"--results_page={path}: no table_NAME.json in {folder}; compute tables first, as with --table=all")
  parts = [_INTRODUCTION, *(_with_origin(table) for table in tables), *_pictures(path, folder)]
  try:
    files.write_text(path, "\n".join(parts))
  except OSError as error:
    raise DataError(f"--results_page={path}: cannot be written ({error.strerror})") from error


def read_tables(folder):
  """The `Table`s in a folder, in the paper's order.

  Raises:
    DataError: one is damaged.
  """
  tables = []
  for name in TABLES:
    file = pathlib.Path(folder) / f"table_{name}.json"
    if file.is_file():
      try:
        tables.append(from_json(file.read_text(encoding="utf-8")))
      except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
          f"{file}: expected what run_table.py wrote, found {error!r}; compute the table again"
        ) from error
  return tables


def _with_origin(table):
  """A table's markdown, and below it when, where and with which encoders and packages it was made."""
  about, parts = table.about, []
  if about.get("date"):
    parts.append(str(about["date"]))
  if about.get("seeds"):
    parts.append(f"seed{'s' * (len(about['seeds']) > 1)} " + ", ".join(map(str, about["seeds"])))
  parts += [f"{label}: weights {sha[:12]}" for label, sha in about.get("encoders", {}).items()]
  if about.get("versions"):
    parts.append(", ".join(f"{package} {version}" for package, version in about["versions"].items()))
  if about.get("machine"):
    parts.append(str(about["machine"]))
  return "\n".join([table.markdown(), *([f"{'; '.join(parts)}.\n"] if parts else [])])


def _pictures(path, folder):
  """Markdown of the pictures in the folder, by links relative to the page."""
  shown = []
  for name in FIGURES:
    for picture in sorted(pathlib.Path(folder).glob(f"figure_{name}_*.png")):
      model = picture.stem.removeprefix(f"figure_{name}_")
      link = os.path.relpath(picture, pathlib.Path(path).absolute().parent)
      title = f"{_FIGURE_TITLES[name]}, {model}"
      shown.append(f"## {title}\n\n![{title}]({urllib.parse.quote(pathlib.Path(link).as_posix())})\n")
  return shown
