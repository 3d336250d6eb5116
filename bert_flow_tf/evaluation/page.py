"""Page of a run, `report.html`: one file with its drawings, for light and dark screens, without network."""

import html
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf._version import __version__
from bert_flow_tf.evaluation import figures, report
from bert_flow_tf.evaluation.isotropy import sample, singular_spectrum
from bert_flow_tf.evaluation.metrics import random_pair_cosines
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.progress import counted

PAGE_FILE = "report.html"

_STYLE = """
:root { color-scheme: light dark; --line: #8b949e55; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; background: Canvas;
  color: CanvasText; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } figcaption, .note { opacity: .75; font-size: .9rem; }
svg { max-width: 100%; height: auto; } svg text { fill: currentColor; }
.warning { border-left: 4px solid #d9534f; padding-left: .75rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .75rem;
  font-size: .85rem; }
"""

# Pairs in each of the two tables of pairs that moved.
_MOVED = 8
# Entries of results.json that say what was run, besides the flags.
_RUN = ("encoder", "data", "flow_corpus", "fitted_on", "calibrations", "auto", "training", "versions", "seconds")


def write_page(
  folder: str | os.PathLike, title: str, tasks: Sequence[TaskResult], about: Mapping[str, Any]
) -> pathlib.Path:
  """Writes `report.html`; returns its path.

  Args:
    folder: the run's folder.
    title: heading.
    tasks: the evaluated tasks.
    about: entries of results.json: flags, versions, encoder, warnings.

  Raises:
    DataError: the file cannot be written.
  """
  of_tasks = [line for task in tasks for line in _harm(task)]
  others = (line for lines in about.get("warnings", {}).values() for line in lines if line not in of_tasks)
  parts = [f"<h1>{escaped(title)}</h1>", *_warnings(others)]
  for task in tasks:
    parts += [f"<h2>{escaped(task.name)}</h2>"] * (len(tasks) > 1) + _task(task)
  parts += ["<h2>What was run</h2>", *_run(about)]
  parts.append(f'<p class="note">Written by bert-flow-tf {__version__}.</p>')
  return report.write_text(folder, PAGE_FILE, document(title, parts))


def _task(task):
  """Returns the elements of a task."""
  parts = [table(task.rows, _number_columns(task.rows))]
  parts += [*(f"<p>{escaped(line)}</p>" for line in task.gain_lines), *_warnings(_harm(task))]
  if task.pairs is None:
    return parts
  gold, names = task.pairs.scores, {method: report.method_name(method) for method in task.cosines}
  scored = np.flatnonzero(~np.isnan(gold))
  cosines = {names[method]: values for method, values in task.cosines.items()}
  if len(scored):
    parts += _of_gold({name: values[scored] for name, values in cosines.items()}, gold[scored])
  else:
    parts.append("<p>No gold scores: the table says how far the sentences spread, not which method is better.</p>")
  if task.embeddings:
    parts += _of_embeddings({names[method]: sides for method, sides in task.embeddings.items()}, cosines)
  if len(scored) and len(cosines) > 1:
    parts += _moved(task.pairs, scored, list(cosines.items())[:2])
  return parts


def _of_gold(cosines, gold):
  """Returns the drawing of cosines {method: [n]} and gold [n]."""
  if np.isin(gold, (0, 1)).all():
    labels = ("label 0", "label 1")
    figure = figures.histograms_figure(*({m: c[gold == label] for m, c in cosines.items()} for label in (0, 1)), labels)
    return _drawing("Similarity and gold", figure, "The better a method, the less the two labels overlap.")
  return _drawing(
    "Similarity and gold",
    figures.gold_figure(cosines, gold),
    "A dot is a pair. The better a method, the more its cosines rise with the gold scores.",
  )


def _number_columns(rows):
  """Returns for each column whether all its cells below the header are numbers."""
  return [
    all(cell.lstrip("+-").replace(".", "", 1).isdigit() or cell == "nan" for cell in column[1:])
    for column in zip(*rows, strict=True)
  ]


def _of_embeddings(embeddings, cosines):
  """Returns the drawings that need embeddings: cosines of pairs and of other sentences, and spectra."""
  unpaired = {name: random_pair_cosines(*sides) for name, sides in embeddings.items()}
  spectra = {name: singular_spectrum(sample(np.concatenate(sides))) for name, sides in embeddings.items()}
  return [
    *_drawing(
      "Cosines",
      figures.histograms_figure(unpaired, cosines, ("random pairs", "pairs")),
      "Random pairs have little in common. Where their cosines are near 1 too, all embeddings lie in a narrow cone.",
    ),
    *_drawing(
      "Singular values",
      figures.spectrum_figure(spectra),
      "Flat: the embeddings spread in all directions. Steep: few directions carry nearly everything. A drop at the "
      "last index: the layer normalization of a BERT leaves nearly nothing in one direction.",
    ),
  ]


def _moved(pairs, scored, methods):
  """Returns tables of the pairs whose rank moved most between two methods, toward the rank of gold and away from it."""
  (before_name, before), (after_name, after) = methods
  gold, before, after = (_percentiles(values[scored]) for values in (pairs.scores, before, after))
  nearer = np.abs(before - gold) - np.abs(after - gold)
  order = np.argsort(-nearer, kind="stable")
  parts = ["<h2>Pairs that moved most</h2>"]
  parts.append(
    f'<p class="note">Ranks among {counted(len(scored), "pair")}, from 0 (least similar) to 100 (most similar): '
    f"by gold, {escaped(before_name)}, and {escaped(after_name)}.</p>"
  )
  for heading, rows in (
    ("Toward gold", order[:_MOVED][nearer[order[:_MOVED]] > 0]),
    ("Away from gold", order[::-1][:_MOVED][nearer[order[::-1][:_MOVED]] < 0]),
  ):
    cells = [["first sentence", "second sentence", "gold", "gold's rank", before_name, after_name]]
    for row in rows:
      number = int(scored[row])
      numbers = (f"{values[row]:.0f}" for values in (gold, before, after))
      cells.append([pairs.sentences_a[number], pairs.sentences_b[number], f"{pairs.scores[number]:.4g}", *numbers])
    parts.append(f"<h3>{heading}</h3>")
    parts.append(table(cells, [False, False, True, True, True, True]) if len(rows) else "<p>No pair.</p>")
  return parts


def _percentiles(values):
  """Returns ranks [n] from 0 to 100, ties at their mean rank."""
  from scipy import stats  # here, as its import takes half a second

  return 100.0 * (stats.rankdata(values) - 1) / max(len(values) - 1, 1)


def _drawing(title, figure, caption):
  return [
    f"<h2>{escaped(title)}</h2>",
    f'<figure role="img" aria-label="{escaped(title)}">{figures.inline_svg(figure)}'
    f"<figcaption>{escaped(caption)}</figcaption></figure>",
  ]


def _harm(task):
  return [line for lines in task.harm.values() for line in lines]


def _warnings(sentences):
  """Returns an element for each sentence, once."""
  return [f'<p class="warning">{escaped(line)}</p>' for line in dict.fromkeys(sentences)]


def _run(about):
  """Returns the entries of results.json that say how the run was made."""
  flags = {name: value for name, value in about.get("flags", {}).items() if value is not None}
  texts = {"flags": " ".join(f"--{name}={_flag(value)}" for name, value in flags.items())}
  for name in _RUN:
    if name in about:
      texts[name] = json.dumps(report.plain(about[name]), indent=2, ensure_ascii=False)
  return [
    f"<details open><summary>{name.replace('_', ' ')}</summary><pre>{escaped(text)}</pre></details>"
    for name, text in texts.items()
  ]


def _flag(value):
  """Returns a flag's value as it is written on a command line."""
  return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def document(title: str, parts: Sequence[str]) -> str:
  """Returns an HTML document of one file.

  Args:
    title: its title, plain text.
    parts: elements of its body, HTML.
  """
  head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
  head += f"<title>{escaped(title)}</title><style>{_STYLE}</style>"
  return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def table(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
  """Returns an HTML table.

  Args:
    rows: plain text; the first row is the header.
    numbers: for each column, whether it is aligned to the right.
  """
  lines = []
  for index, row in enumerate(rows):
    tag = "td" if index else "th"
    kinds = (' class="number"' * number for number in numbers)
    cells = (f"<{tag}{kind}>{escaped(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))
    lines.append(f"<tr>{''.join(cells)}</tr>")
  return "<table>\n" + "\n".join(lines) + "\n</table>"


def escaped(text: object) -> str:
  """Returns text for HTML, with its special characters escaped."""
  return html.escape(str(text))
