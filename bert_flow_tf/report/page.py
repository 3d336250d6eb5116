"""Page of a run, `report.html`: one file with its drawings, for light and dark screens, without network."""

import functools
import html
import json
import os
import pathlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from bert_flow_tf._version import __version__
from bert_flow_tf.evaluation import figures
from bert_flow_tf.evaluation.retrieval import NDCG
from bert_flow_tf.progress import counted
from bert_flow_tf.report import result_files, sentences
from bert_flow_tf.report.record import WRONG_VALUES, RunRecord, TaskRecord, not_results, read_record
from bert_flow_tf.report.spectra import Spectra

PAGE_FILE = "report.html"
Value = TypeVar("Value")

# Named blocks of HTML.
_TEMPLATE = pathlib.Path(__file__).with_name("page.html")
# Pairs in each of the two tables of pairs that moved.
_MOVED = 8
# Entries of results.json that say how the run was made.
_ABOUT = (
  "flags",
  "encoder",
  "data",
  "flow_corpus",
  "fitted_on",
  "calibrations",
  "auto",
  "training",
  "versions",
  "seconds",
)


class _Html(str):
  """Finished HTML; any other str is text."""


@functools.cache
def _blocks():
  """Returns {name: template} of the blocks."""
  texts = re.split(r"<!-- block (\w+) -->\n", _TEMPLATE.read_text(encoding="utf-8"))
  return {name: string.Template(text) for name, text in zip(texts[1::2], texts[2::2], strict=True)}


def _block(name: str, **values: str) -> _Html:
  """Returns a block of the template with its values, of which those that are text are escaped."""
  escaped = {key: value if isinstance(value, _Html) else html.escape(value) for key, value in values.items()}
  return _Html(_blocks()[name].substitute(escaped))


def _join(parts: Iterable[_Html]) -> _Html:
  return _Html("".join(parts))


def draw_page(folder: str | os.PathLike) -> pathlib.Path:
  """Draws the page of a run from the files of its folder: `report.html`, whose path it returns.

  Raises:
    ConfigError: the folder has no scores of a run's tasks.
    DataError: a file is damaged.
  """
  record = read_record(folder)
  try:
    text = page_text(record)
  except WRONG_VALUES as error:
    path = pathlib.Path(folder, result_files.RESULTS_FILE)
    raise not_results(path, error) from error
  return result_files.write_result_text(folder, PAGE_FILE, text)


def page_text(record: RunRecord) -> str:
  """Returns the page of a record."""
  # A warning stands once: with its task, or else at the top.
  of_tasks = {line for task in record.tasks for line in _warnings_of(task.result)}
  at_top: dict[str, None] = {}
  for lines in record.about.get("warnings", {}).values():
    at_top |= dict.fromkeys(line for line in lines if line not in of_tasks)
  tasks = []
  for task in record.tasks:
    if len(record.tasks) > 1:
      tasks.append(_block("heading", text=task.result.name))
    tasks += _task(task)
  return _block(
    "page",
    title=record.title,
    warnings=_join(_block("warning", text=line) for line in at_top),
    tasks=_join(tasks),
    run=_run(record.about),
    version=__version__,
  )


def _warnings_of(result):
  """Returns the sentences about methods that make a score worse."""
  return [sentence for of_method in sentences.warnings(result).values() for sentence in of_method]


def _task(task: TaskRecord) -> list[_Html]:
  """Returns the blocks of a task."""
  result, predictions = task.result, task.predictions
  gold = None
  cosines: dict[str, np.ndarray] = {}
  if predictions is not None:
    gold, cosines = predictions.pairs.scores, _by_name(predictions.cosines)
  blocks = []
  question = sentences.question(result, gold)
  if question:
    blocks.append(_block("paragraph", text=f"{question} {_order(task)}"))
  if sentences.is_of_classifier(result):
    blocks.append(_table(sentences.classifier_rows(result.scores)))
  elif sentences.is_of_search(result):
    blocks.append(_table(sentences.search_table(result)))
    gains = sentences.gain_table(result)
    if gains:
      blocks.append(_table(gains))
  elif result.scores:
    blocks.append(_table(sentences.scores_by_method(result.scores)))
  blocks += [_block("paragraph", text=line) for line in sentences.comparisons(result)]
  blocks += [_block("warning", text=line) for line in _warnings_of(result)]
  blocks += [_block("paragraph", text=line) for line in task.gaps]
  if gold is not None:
    blocks.append(_drawing_of_gold(cosines, gold))
  elif sentences.is_of_search(result):
    blocks += _drawing_of_search(result)
  elif not result.has_gold:
    blocks.append(_block("paragraph", text=sentences.without_gold(result)))
  if task.spectra is not None:
    blocks += _drawings_of_embeddings(task.spectra)
  if predictions is not None and len(cosines) > 1:
    before, after = list(cosines)[:2]
    scored = np.flatnonzero(~np.isnan(predictions.pairs.scores))
    blocks.append(_moved(predictions.pairs, scored, (before, cosines[before]), (after, cosines[after])))
  return blocks


def _by_name(values: Mapping[str, Value]) -> dict[str, Value]:
  """Returns {the method's name for a reader: value} of {method in results.json: value}."""
  return {sentences.method_name(method): value for method, value in values.items()}


def _order(task: TaskRecord) -> str:
  """Returns a sentence with the share of two pairs of different gold that cosines order as gold."""
  if not task.right_order:
    return ""
  texts = []
  for method, share in _by_name(task.right_order).items():
    when = "after " if texts else "before "
    if len(task.right_order) == 1:
      when = ""
    texts.append(f"{share:.0f} times {when}({method})")
  by_match = ""
  for name, share in task.right_order_of_match.items():
    by_match += f", and a string match without an encoder {share:.0f} times ({name})"
  return (
    f"Take two pairs with different gold: of 100 times, the cosines put them in the right order {', '.join(texts)}"
    f"{by_match}; by guessing it would be 50."
  )


def _drawing(title, drawn, caption, label=""):
  """Returns a heading, and figures next to each other with their caption; `label` is for screen readers."""
  panels = _join(_Html(figures.inline_svg(figure)) for figure in drawn)
  return _block("drawing", title=title, label=label or f"{title}. {caption}", panels=panels, caption=caption)


def _drawing_of_gold(cosines, gold):
  """Returns the drawing of cosines {method: [n]} and gold [n], which are scores or labels, NaN for none."""
  title = "Similarity and gold"
  scored = ~np.isnan(gold)
  if not np.isin(gold[scored], (0, 1)).all():
    caption = "A dot is a pair. The better a method, the more its cosines rise with the gold scores."
    of_scored = {method: values[scored] for method, values in cosines.items()}
    return _drawing(title, figures.gold_figures(of_scored, gold[scored]), caption)
  zero, one = {}, {}
  for method, values in cosines.items():
    zero[method], one[method] = figures.percentages(values[gold == 0]), figures.percentages(values[gold == 1])
  drawn = figures.percentage_figures(zero, one, ("label 0", "label 1"))
  return _drawing(title, drawn, "The better a method, the less the two labels overlap.")


def _drawing_of_search(result):
  """Returns the drawing of a search's scores and of the intervals of its gains; [] without gains."""
  by_baseline = sentences.gains_by_baseline(result)
  if not by_baseline:
    return []
  scores = {method: values[NDCG] for method, values in sentences.rows_of_search(result).items()}
  drawn, texts = [], []
  for baseline, gains in by_baseline.items():
    name, score = sentences.method_name(baseline), scores[baseline]
    intervals = {method: (score + gain["low"], score + gain["high"]) for method, gain in gains.items()}
    shown = {method: scores[method] for method in scores if method in intervals}
    drawn.append(figures.interval_figure(_by_name(shown), _by_name(intervals), (name, score)))
    of_methods = []
    for method, value in _by_name(shown).items():
      low, high = _by_name(intervals)[method]
      of_methods.append(f"{method} {value:.1f}, interval {low:.1f} to {high:.1f}")
    texts.append(f"beside {name} with {score:.1f}: {'; '.join(of_methods)}")
  title = "nDCG@10 of each method"
  caption = (
    "A dot is the score of a method, the dashed line the score that it is compared with. A bar is the 95% interval of "
    "the difference: where it crosses the line, these queries do not tell which of the two is better."
  )
  return [_drawing(title, drawn, caption, f"{title}, {'. '.join(texts)}")]


def _drawings_of_embeddings(spectra: Spectra) -> list[_Html]:
  """Returns the drawings of embeddings: cosines of pairs and of random pairs, and singular values."""
  random_pairs, pairs = _by_name(spectra.random_pairs), _by_name(spectra.pairs)
  histograms = figures.percentage_figures(random_pairs, pairs, ("random pairs", "pairs"))
  of_histograms = (
    "Random pairs have little in common. Where their cosines are near 1 too, all embeddings lie in a narrow cone."
  )
  of_spectra = (
    "Flat: the embeddings spread in all directions. Steep: few directions carry nearly everything. A drop at the end: "
    "some directions have nearly nothing, one by the layer normalization of a BERT, more if the sentences are few."
  )
  return [
    _drawing("Cosines", histograms, of_histograms),
    _drawing("Singular values", [figures.spectrum_figure(_by_name(spectra.singular_values), width=5.5)], of_spectra),
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
  tables = []
  for rows in (toward[nearer[toward] > 0], away[nearer[away] < 0]):
    cells = [["pair", "gold", "by gold", first_name, second_name]]
    for row in rows:
      number = int(scored[row])
      texts = [f"{pairs.sentences_a[number]}\n{pairs.sentences_b[number]}", f"{pairs.scores[number]:.4g}"]
      texts += [f"{values[row]:.0f}" for values in (gold, before, after)]
      cells.append(texts)
    tables.append(_table(cells) if len(rows) else _block("paragraph", text="No pair."))
  toward_table, away_table = tables
  return _block(
    "moved",
    pairs=counted(len(scored), "pair"),
    first=first_name,
    second=second_name,
    toward=toward_table,
    away=away_table,
  )


def _percentiles(values):
  """Returns ranks [n] from 0 to 100, ties at their mean rank."""
  from scipy import stats  # here, as its import takes half a second

  return 100.0 * (stats.rankdata(values) - 1) / max(len(values) - 1, 1)


def _run(about):
  """Returns the command, and the entries of results.json that say how the run was made, folded."""
  blocks = []
  if "command" in about:
    blocks.append(_block("command", text=about["command"]))
  for name in _ABOUT:
    if name in about:
      text = json.dumps(about[name], indent=2, ensure_ascii=False)
      blocks.append(_block("details", title=name.replace("_", " "), text=text))
  return _join(blocks)


def _table(rows: Sequence[Sequence[str]]) -> _Html:
  """Returns an HTML table of plain text, numbers to the right; the first row is the header, a single cell a heading."""
  full = [row for row in rows if len(row) > 1]
  numbers = [all(map(_is_number, column[1:])) for column in zip(*full, strict=True)]
  lines = []
  for index, row in enumerate(rows):
    if len(row) == 1 < len(numbers):
      lines.append(f'<tr><th class="group" colspan="{len(numbers)}">{html.escape(row[0])}</th></tr>')
      continue
    tag = "td" if index else "th"
    cells = []
    for number, cell in zip(numbers, row, strict=True):
      kind = ' class="number"' if number else ""
      cells.append(f"<{tag}{kind}>{html.escape(cell)}</{tag}>")
    lines.append(f"<tr>{''.join(cells)}</tr>")
  return _Html("<table>\n" + "\n".join(lines) + "\n</table>\n")


def _is_number(cell):
  return cell in ("", "nan") or cell.lstrip("+-").replace(".", "", 1).isdigit()
