"""Page of a run, `report.html`: one file with its drawings, for light and dark screens, without network."""

import html
import itertools
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf._version import __version__
from bert_flow_tf.evaluation import elements, figures, report
from bert_flow_tf.evaluation.isotropy import sample, singular_spectrum
from bert_flow_tf.evaluation.metrics import random_pair_cosines
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.progress import counted

PAGE_FILE = "report.html"

# Pairs in each of the two tables of pairs that moved.
_MOVED = 8
# Pairs whose order is compared.
_ORDERED = 2000


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
      warning = elements.warning(line)
      if line not in of_tasks and warning not in parts:
        parts.append(warning)
  for result in results:
    if len(results) > 1:
      parts.append(f"<h2>{html.escape(result.name)}</h2>")
    parts += _task(result)
  parts.append("<h2>What was run</h2>")
  parts += elements.run(about)
  parts.append(f'<p class="note">Written by bert-flow-tf {__version__}.</p>')
  head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
  head += f"<title>{html.escape(title)}</title><style>{elements.STYLE}</style>"
  body = "\n".join(parts)
  text = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
  return report.write_text(folder, PAGE_FILE, text)


def _task(result):
  """Returns the elements of a task."""
  # A reader sees the methods' names, not those of results.json.
  cosines = {report.method_name(method): values for method, values in result.cosines.items()}
  sides = {report.method_name(method): of_method for method, of_method in result.embeddings.items()}
  parts = []
  if result.question:
    parts.append(f"<p>{html.escape(result.question)} {html.escape(_order(result.pairs, cosines))}</p>")
  parts.append(elements.table(_by_method(result.rows)))
  for line in result.gain_lines:
    parts.append(f"<p>{html.escape(line)}</p>")
  parts += map(elements.warning, _harm(result))
  if result.pairs is None:
    return parts

  gold = result.pairs.scores
  scored = np.flatnonzero(~np.isnan(gold))
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


def _order(pairs, cosines):
  """Returns a sentence with the share of two pairs of different gold that the cosines {method: [n]} order as gold."""
  if pairs is None:
    return ""
  scored = np.flatnonzero(~np.isnan(pairs.scores))
  scored = scored[:: max(math.ceil(len(scored) / _ORDERED), 1)]
  gold = pairs.scores[scored]
  higher = gold[:, None] > gold
  if not higher.any():
    return ""
  shares = []
  for method, values in cosines.items():
    differences = np.subtract.outer(values[scored], values[scored])[higher]
    share = 100 * (np.mean(differences > 0) + np.mean(differences == 0) / 2)
    when = "after " if shares else "before "
    if len(cosines) == 1:
      when = ""
    shares.append(f"{share:.0f} times {when}({method})")
  return (
    f"Take two pairs with different gold: of 100 times, the cosines put them in the right order {', '.join(shares)}; "
    "by guessing it would be 50."
  )


def _by_method(rows):
  """Returns the rows of `report.rows` with a row for each method and a column for each score; others as they are."""
  header, lines = rows[0], rows[1:]
  if not lines or header[2:3] != ["x 100"]:
    return rows
  scores = list(dict.fromkeys(line[2] for line in lines))
  turned = [["x 100", *scores]]
  for (split, pairs), of_split in itertools.groupby(lines, key=lambda line: line[:2]):
    values = {line[2]: line[3:] for line in of_split}
    turned.append([f"{split}, {pairs} pairs"])
    for number, method in enumerate(header[3:]):
      row = [method]
      for score in scores:
        row.append(values[score][number] if score in values else "")
      turned.append(row)
  return turned


def _drawing_of_gold(cosines, gold):
  """Returns the drawing of cosines {method: [n]} and gold [n], which are scores or labels, NaN for none."""
  title = "Similarity and gold"
  scored = ~np.isnan(gold)
  if not np.isin(gold[scored], (0, 1)).all():
    caption = "A dot is a pair. The better a method, the more its cosines rise with the gold scores."
    of_scored = {method: values[scored] for method, values in cosines.items()}
    return elements.drawing(title, figures.gold_figures(of_scored, gold[scored]), caption)
  zero, one = {}, {}
  for method, values in cosines.items():
    zero[method], one[method] = values[gold == 0], values[gold == 1]
  drawn = figures.histogram_figures(zero, one, ("label 0", "label 1"))
  return elements.drawing(title, drawn, "The better a method, the less the two labels overlap.")


def _drawings_of_embeddings(sides, cosines):
  """Returns the drawings that need embeddings: cosines of pairs and of random pairs, and spectra."""
  random_pairs, spectra = {}, {}
  for name, (a, b) in sides.items():
    random_pairs[name] = random_pair_cosines(a, b)
    spectra[name] = singular_spectrum(sample(np.concatenate([a, b])))
  histograms = figures.histogram_figures(random_pairs, cosines, ("random pairs", "pairs"))
  of_histograms = (
    "Random pairs have little in common. Where their cosines are near 1 too, all embeddings lie in a narrow cone."
  )
  of_spectra = (
    "Flat: the embeddings spread in all directions. Steep: few directions carry nearly everything. A drop at the last "
    "index: the layer normalization of a BERT leaves nearly nothing in one direction."
  )
  return [
    elements.drawing("Cosines", histograms, of_histograms),
    elements.drawing("Singular values", [figures.spectrum_figure(spectra, width=5.5)], of_spectra),
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
    cells = [["pair", "gold", "by gold", first_name, second_name]]
    for row in rows:
      number = int(scored[row])
      texts = [f"{pairs.sentences_a[number]}\n{pairs.sentences_b[number]}", f"{pairs.scores[number]:.4g}"]
      for values in (gold, before, after):
        texts.append(f"{values[row]:.0f}")
      cells.append(texts)
    parts.append(f"<h3>{heading}</h3>")
    parts.append(elements.table(cells) if len(rows) else "<p>No pair.</p>")
  return parts


def _percentiles(values):
  """Returns ranks [n] from 0 to 100, ties at their mean rank."""
  from scipy import stats  # here, as its import takes half a second

  return 100.0 * (stats.rankdata(values) - 1) / max(len(values) - 1, 1)


def _harm(result):
  return list(itertools.chain.from_iterable(result.harm.values()))
