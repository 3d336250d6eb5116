"""Page of a run, `report.html`: one file with its drawings, for light and dark screens, without network."""

import html
import itertools
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
  folder: str | os.PathLike, title: str, results: Sequence[TaskResult], about: Mapping[str, Any]
) -> pathlib.Path:
  """Writes `report.html` of the tasks and of what results.json has `about` the run; returns its path."""
  parts = [f"<h1>{html.escape(title)}</h1>"]
  # A warning stands once: with its task, or else at the top.
  of_tasks: list[str] = []
  for result in results:
    of_tasks += _harm(result)
  for lines in about.get("warnings", {}).values():
    for line in lines:
      warning = _warning(line)
      if line not in of_tasks and warning not in parts:
        parts.append(warning)
  for result in results:
    if len(results) > 1:
      parts.append(f"<h2>{html.escape(result.name)}</h2>")
    parts += _task(result)
  parts.append("<h2>What was run</h2>")
  parts += _run(about)
  parts.append(f'<p class="note">Written by bert-flow-tf {__version__}.</p>')
  head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
  head += f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
  body = "\n".join(parts)
  text = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
  return report.write_text(folder, PAGE_FILE, text)


def _task(result):
  """Returns the elements of a task."""
  parts = [table(result.rows)]
  for line in result.gain_lines:
    parts.append(f"<p>{html.escape(line)}</p>")
  parts += map(_warning, _harm(result))
  if result.pairs is None:
    return parts

  # A reader sees the methods' names, not those of results.json.
  gold = result.pairs.scores
  scored = np.flatnonzero(~np.isnan(gold))
  cosines, sides = {}, {}
  for method, values in result.cosines.items():
    cosines[report.method_name(method)] = values
  for method, of_method in result.embeddings.items():
    sides[report.method_name(method)] = of_method
  if len(scored):
    parts.append(_drawing_of_gold(cosines, gold))
  else:
    parts.append("<p>No gold scores: the table says how far the sentences spread, not which method is better.</p>")
  if sides:
    parts += _drawings_of_embeddings(sides, cosines)
  if len(scored) and len(cosines) > 1:
    before, after = list(cosines)[:2]
    parts += _moved(result.pairs, scored, (before, cosines[before]), (after, cosines[after]))
  return parts


def _drawing_of_gold(cosines, gold):
  """Returns the drawing of cosines {method: [n]} and gold [n], which are scores or labels, NaN for none."""
  title = "Similarity and gold"
  scored = ~np.isnan(gold)
  if not np.isin(gold[scored], (0, 1)).all():
    caption = "A dot is a pair. The better a method, the more its cosines rise with the gold scores."
    of_scored = {method: values[scored] for method, values in cosines.items()}
    return _drawing(title, figures.gold_figure(of_scored, gold[scored]), caption)
  zero, one = {}, {}
  for method, values in cosines.items():
    zero[method], one[method] = values[gold == 0], values[gold == 1]
  figure = figures.histograms_figure(zero, one, ("label 0", "label 1"))
  return _drawing(title, figure, "The better a method, the less the two labels overlap.")


def _drawings_of_embeddings(sides, cosines):
  """Returns the drawings that need embeddings: cosines of pairs and of random pairs, and spectra."""
  random_pairs, spectra = {}, {}
  for name, (a, b) in sides.items():
    random_pairs[name] = random_pair_cosines(a, b)
    spectra[name] = singular_spectrum(sample(np.concatenate([a, b])))
  histograms = figures.histograms_figure(random_pairs, cosines, ("random pairs", "pairs"))
  of_histograms = (
    "Random pairs have little in common. Where their cosines are near 1 too, all embeddings lie in a narrow cone."
  )
  of_spectra = (
    "Flat: the embeddings spread in all directions. Steep: few directions carry nearly everything. A drop at the last "
    "index: the layer normalization of a BERT leaves nearly nothing in one direction."
  )
  return [
    _drawing("Cosines", histograms, of_histograms),
    _drawing("Singular values", figures.spectrum_figure(spectra), of_spectra),
  ]


def _moved(pairs, scored, first, second):
  """Returns tables of the pairs whose rank moved most between two methods (name, cosines), to and from gold's rank."""
  (first_name, first_cosines), (second_name, second_cosines) = first, second
  gold = _percentiles(pairs.scores[scored])
  before, after = _percentiles(first_cosines[scored]), _percentiles(second_cosines[scored])
  # How much nearer to gold's rank the second method is.
  nearer = np.abs(before - gold) - np.abs(after - gold)
  order = np.argsort(-nearer, kind="stable")
  toward, away = order[:_MOVED], order[::-1][:_MOVED]
  names = f"{html.escape(first_name)}, and {html.escape(second_name)}"
  parts = [
    "<h2>Pairs that moved most</h2>",
    f'<p class="note">Ranks among {counted(len(scored), "pair")}, from 0 (least similar) to 100 (most similar): '
    f"by gold, {names}.</p>",
  ]
  for heading, rows in (("Toward gold", toward[nearer[toward] > 0]), ("Away from gold", away[nearer[away] < 0])):
    cells = [["first sentence", "second sentence", "gold", "gold's rank", first_name, second_name]]
    for row in rows:
      number = int(scored[row])
      texts = [pairs.sentences_a[number], pairs.sentences_b[number], f"{pairs.scores[number]:.4g}"]
      for values in (gold, before, after):
        texts.append(f"{values[row]:.0f}")
      cells.append(texts)
    parts.append(f"<h3>{heading}</h3>")
    parts.append(table(cells) if len(rows) else "<p>No pair.</p>")
  return parts


def _percentiles(values):
  """Returns ranks [n] from 0 to 100, ties at their mean rank."""
  from scipy import stats  # here, as its import takes half a second

  return 100.0 * (stats.rankdata(values) - 1) / max(len(values) - 1, 1)


def _drawing(title, figure, caption):
  """Returns a heading, and a figure with its caption."""
  label = html.escape(title)
  below = f"<figcaption>{html.escape(caption)}</figcaption>"
  svg = figures.inline_svg(figure)
  return f'<h2>{label}</h2>\n<figure role="img" aria-label="{label}">{svg}{below}</figure>'


def _harm(result):
  return list(itertools.chain.from_iterable(result.harm.values()))


def _warning(sentence):
  return f'<p class="warning">{html.escape(sentence)}</p>'


def _run(about):
  """Returns the entries of results.json that say how the run was made."""
  # The flags as they are written on a command line.
  flags = []
  for name, value in about.get("flags", {}).items():
    if isinstance(value, (list, tuple)):
      value = ",".join(map(str, value))
    if value is not None:
      flags.append(f"--{name}={value}")
  texts = {"flags": " ".join(flags)}
  for name in _RUN:
    if name in about:
      texts[name] = json.dumps(report.plain(about[name]), indent=2, ensure_ascii=False)
  parts = []
  for name, text in texts.items():
    summary = f"<summary>{name.replace('_', ' ')}</summary>"
    parts.append(f"<details open>{summary}<pre>{html.escape(text)}</pre></details>")
  return parts


def table(rows: Sequence[Sequence[str]]) -> str:
  """Returns an HTML table of plain text; the first row is the header, and columns of numbers stand to the right."""
  numbers = [all(map(_is_number, column[1:])) for column in zip(*rows, strict=True)]
  lines = []
  for index, row in enumerate(rows):
    tag = "td" if index else "th"
    cells = []
    for number, cell in zip(numbers, row, strict=True):
      kind = ' class="number"' if number else ""
      cells.append(f"<{tag}{kind}>{html.escape(cell)}</{tag}>")
    lines.append(f"<tr>{''.join(cells)}</tr>")
  return "<table>\n" + "\n".join(lines) + "\n</table>"


def _is_number(cell):
  return cell == "nan" or cell.lstrip("+-").replace(".", "", 1).isdigit()
