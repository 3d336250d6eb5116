"""Results in words: tables of scores, and sentences for the terminal, the log and the page of a run."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bert_flow_tf.data.semeval import SCALE
from bert_flow_tf.data.task import BINARY, CLASSES, RETRIEVAL
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.errors import install_command
from bert_flow_tf.evaluation.controls import BM25, WITH_BM25
from bert_flow_tf.evaluation.result import BASELINES, TaskResult
from bert_flow_tf.evaluation.retrieval import MAP, MRR, NDCG, RECALL_10, RECALL_100
from bert_flow_tf.evaluation.task_scores import HEADLINE, WITH_FLOW, WITHOUT_FLOW
from bert_flow_tf.progress import counted, listed

# Scores of a method on a split: key in results.json -> name in the table.
SCORES = {
  "spearman": "Spearman",
  "pearson": "Pearson",
  "spearman_wmean": "Spearman, wmean of subsets",
  "spearman_mean": "Spearman, mean of subsets",
  "spearman_all": "Spearman, all pairs",
  "pearson_wmean": "Pearson, wmean of subsets",
  "auc": "AUC",
  "accuracy": "accuracy",
  "f1": "F1",
  "cosine_of_random_pairs": "mean cosine of random pairs",
  "participation_ratio": "participation ratio",
}
_PROSE_NAMES = {WITH_FLOW: "the flow", WITHOUT_FLOW: "the training"}
_METRIC_NAMES = {"auc": "AUC", "spearman": "Spearman", NDCG: "nDCG@10"}
# Measures of a search, in the order of the table.
_MEASURES = {NDCG: "nDCG@10", MRR: "MRR@10", RECALL_10: "recall@10", RECALL_100: "recall@100", MAP: "MAP"}
_WITHOUT_GOLD = "the table says how far the sentences spread, not which method is better"
_REMEDY = (
  "such scores need little more than shared words; an encoder trained for similarity, such as all-MiniLM-L6-v2, with "
  "calibration none, finds paraphrases without them"
)

_REMEDY_OF_EQUALS = f"the intervals over BM25 include 0; the rows with {WITH_BM25} say what both find together"
_REMEDY_OF_SEARCH = f"it finds what the embeddings miss; the rows with {WITH_BM25} say what both find together"

# A wider interval around 0 does not say that two methods are equal.
_EQUAL_WIDTH = 20.0
# Fewer pairs or queries have no interval to rely on: the bootstrap of two or three of them is nearly always too narrow.
_MIN_PAIRS = 8


def method_name(method: str) -> str:
  """Returns the name that a reader sees of a method in results.json: "uncalibrated", "flow", "flow 2", "sn"."""
  return method.replace("without_flow", "uncalibrated").replace("with_flow", "flow").replace("_", " ")


def _prose_name(method):
  """Returns a method's name in a sentence about what it changes."""
  return _PROSE_NAMES.get(method) or method_name(method)


def _score_owner(method):
  """Returns a method's name in a sentence about its score."""
  return "the encoder" if method in BASELINES else _prose_name(method)


def task_prefix(result: TaskResult, results: Sequence[TaskResult]) -> str:
  """Returns what stands before the names of a result's splits: the task's name if there are several results."""
  if len(results) == 1:
    return ""
  return f"{result.name} "


def score_table(results: Sequence[TaskResult]) -> list[list[str]]:
  """Returns the rows of the scores of tasks with the same methods, the header first."""
  table: list[list[str]] = []
  for result in results:
    prefix = task_prefix(result, results)
    scores = {prefix + split: methods for split, methods in result.scores.items()}
    if is_of_search(result):
      rows = search_table(result)
    else:
      rows = classifier_rows(scores) if is_of_classifier(result) else score_rows(scores)
    table += rows[1:] if table else rows
  return table


def score_rows(scores: Mapping[str, Mapping[str, Mapping]]) -> list[list[str]]:
  """Returns a table of {split: {method: scores}}: a row per split and score, a column per method."""
  methods = [WITHOUT_FLOW, WITH_FLOW]
  if scores:
    methods = list(next(iter(scores.values())))
  header = ["split", "pairs", "x 100", *_column_names(methods)]
  table = [header]
  for split, by_method in scores.items():
    for key in score_keys(by_method):
      values = [by_method[method][key] for method in methods]
      pairs = str(by_method[methods[0]]["pairs"])
      table.append([split, pairs, SCORES[key], *_values_and_change(values)])
  return table


def score_keys(by_method: Mapping[str, Mapping]) -> list[str]:
  """Returns the keys of the scores that {method: scores} has, in the order of the table."""
  first = next(iter(by_method.values()))
  return [key for key in SCORES if key in first]


def _column_names(methods):
  """Returns names of columns for methods; two of them have their change as a third column."""
  names = list(map(method_name, methods))
  if "before_training" in methods and WITHOUT_FLOW in methods:
    names[methods.index(WITHOUT_FLOW)] = "after training"
  if len(methods) == 2:
    names.append("change")
  return names


def _values_and_change(values):
  texts = [f"{value:.2f}" for value in values]
  if len(values) == 2:
    texts.append(f"{values[1] - values[0]:+.2f}")
  return texts


def scores_by_method(scores: Mapping[str, Mapping[str, Mapping]]) -> list[list[str]]:
  """Returns a table of {split: {method: scores}}: a row per method, a column per score, and headings of one cell."""
  keys: dict[str, None] = {}
  for by_method in scores.values():
    keys |= dict.fromkeys(score_keys(by_method))
  table = [["x 100", *map(SCORES.__getitem__, keys)]]
  for split, by_method in scores.items():
    methods = list(by_method)
    table.append([f"{split}, {by_method[methods[0]]['pairs']} pairs"])
    columns = []
    for key in keys:
      cells = [""] * len(_column_names(methods))
      if key in by_method[methods[0]]:
        cells = _values_and_change([by_method[method][key] for method in methods])
      columns.append(cells)
    table += map(list, zip(_column_names(methods), *columns, strict=True))
  return table


def is_of_classifier(result: TaskResult) -> bool:
  """Returns whether scores are a classifier's, which has one method."""
  return any("majority" in scores for scores in result.scores.values())


def classifier_rows(scores: Mapping[str, Mapping]) -> list[list[str]]:
  """Returns a table of a classifier's {split: scores}."""
  table = [["split", "pairs", "accuracy x 100", "majority class x 100", "cross entropy"]]
  for split, values in scores.items():
    shares = [f"{values['accuracy']:.2f}", f"{values['majority']:.2f}"]
    table.append([split, str(values["pairs"]), *shares, f"{values['loss']:.4f}"])
  return table


def is_of_search(result: TaskResult) -> bool:
  """Returns whether scores are those of a search."""
  return result.spec.kind == RETRIEVAL


def rows_of_search(result: TaskResult) -> dict[str, Mapping]:
  """Returns {method: scores} of a search in the order of tables: the models, BM25, then each model with BM25."""
  split = str(result.spec.eval_split)
  by_method = result.scores[split]
  both = {method: values for method, values in by_method.items() if method.endswith(WITH_BM25)}
  alone = {method: values for method, values in by_method.items() if method not in both}
  return {**alone, **result.controls.get(split, {}), **both}


def search_table(result: TaskResult) -> list[list[str]]:
  """Returns a table of a search: a row per method and control, a column per measure."""
  rows = rows_of_search(result)
  queries = counted(next(iter(rows.values()))["queries"], "query")
  table = [[f"{result.spec.eval_split}, {queries}, x 100", *_MEASURES.values()]]
  for method, values in rows.items():
    table.append([method_name(method), *(f"{values[measure]:.2f}" for measure in _MEASURES)])
  return table


def gains_by_baseline(result: TaskResult) -> dict[str, dict[str, Mapping]]:
  """Returns {baseline: {method: its gain over it}} of a search."""
  split = str(result.spec.eval_split)
  by_baseline: dict[str, dict[str, Mapping]] = {}
  for gains in (result.gains.get(split, {}), result.gains_over_match.get(split, {})):
    for method, gain in gains.items():
      by_baseline.setdefault(gain["over"], {})[method] = gain
  return by_baseline


def gain_table(result: TaskResult) -> list[list[str]]:
  """Returns a table of the gains of a search with their intervals: a row per method, a column per baseline.

  It is [] for a single method without a control.
  """
  columns = gains_by_baseline(result)
  if not columns:
    return []
  table = [[f"gain in nDCG@10 on {result.spec.eval_split}", *(f"over {method_name(baseline)}" for baseline in columns)]]
  for method in rows_of_search(result):
    cells = []
    for gains in columns.values():
      cells.append(_short_interval(gains[method]) if method in gains else "")
    if any(cells):
      table.append([method_name(method), *cells])
  return table


def _short_interval(gain):
  return f"{gain['gain']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"


def comparisons(result: TaskResult, prefix: str = "") -> list[str]:
  """Returns sentences about gains, about string matches, and about what these mean; `gain_table` has a search's."""
  if is_of_search(result):
    return [*_search_lines(result), *_conclusion(result, prefix)]
  return [*_gain_lines(result, prefix), *_control_lines(result, prefix), *_conclusion(result, prefix)]


def _gain_lines(result, prefix):
  """Returns a line for each gain."""
  lines = []
  for split, methods in result.gains.items():
    for method, gain in methods.items():
      by = "" if list(methods) == [WITH_FLOW] else f" by {_prose_name(method)}"
      if gain["over"] not in BASELINES:
        by += f" over {_prose_name(gain['over'])}"
      lines.append(f"gain in {_METRIC_NAMES[gain['metric']]} on {prefix}{split}{by}: {_interval(gain)}")
  return lines


def _control_lines(result, prefix):
  """Returns lines for each split: the scores of string matches, and the gains over the better one."""
  lines = []
  for split, by_name in result.controls.items():
    texts = []
    for name, values in by_name.items():
      (score,) = [values[key] for key in HEADLINE if key in values]
      texts.append(f"{name} not defined ({values['reason']})" if values["reason"] else f"{name} {score:.2f}")
    lines.append(f"control on {prefix}{split}, a string match without an encoder: {', '.join(texts)}")
    gains = result.gains_over_match.get(split, {})
    for method, gain in gains.items():
      by = "" if len(gains) == 1 else f" by {_score_owner(method)}"
      lines.append(f"over the string match ({gain['over']}) on {prefix}{split}{by}: {_interval(gain)}")
  return lines


def _search_lines(result):
  """Returns what a reader of a search's tables must know."""
  if not result.controls:
    return [f"BM25 is missing here, because bm25s is not installed: {install_command('search')}"]
  both = f"a name with {WITH_BM25} is a search by both, as bert-flow search --hybrid=bm25"
  return [f"{both}; brackets have the 95% interval of a gain"]


def _conclusion(result, prefix):
  """Returns sentences: the string match is as good as a method on the evaluated split, or too few pairs tell."""
  split = result.spec.eval_split
  better, equal, untold = [], [], []
  pairs = 0
  for method, gain in result.gains_over_match.get(split, {}).items():
    if method.endswith(WITH_BM25):  # which is no alternative to BM25, but has it
      continue
    name, pairs = _score_owner(method), gain["pairs"]
    if is_of_search(result):
      name = method_name(method)
    is_wide = gain["high"] - gain["low"] > _EQUAL_WIDTH
    if gain["low"] <= 0 and (pairs < _MIN_PAIRS or (gain["high"] >= 0 and is_wide)):
      untold.append(name)
    elif gain["high"] < 0:
      better.append(name)
    elif gain["low"] <= 0:
      equal.append(name)
  parts = []
  if better:
    parts.append(f"better than {listed(better)}")
  if equal:
    parts.append(f"as good as {listed(equal)}")
  lines = []
  match, unit, more, remedy = "the string match", "pair", "score", _REMEDY
  if is_of_search(result):
    match, unit, more, remedy = BM25, "query", "judge", _REMEDY_OF_SEARCH
    if not better:
      remedy = _REMEDY_OF_EQUALS
  if parts:
    lines.append(f"{match} is {' and '.join(parts)} on {prefix}{split}: {remedy}")
  if untold:
    few, units = f"{counted(pairs, unit)} of {prefix}{split} cannot tell whether", counted(2, unit)[2:]
    of_both, interval = f"{listed(untold)} or {match} is better", "the interval is wide and includes 0"
    if len(untold) > 1:
      of_both, interval = f"{listed(untold)} are better than {match} or worse", "their intervals are wide and include 0"
    if pairs < _MIN_PAIRS:
      interval = f"an interval of fewer than {_MIN_PAIRS} {units} says nothing"
    lines.append(f"{few} {of_both}: {interval}; {more} more {units}")
  return lines


def warnings(result: TaskResult, prefix: str = "") -> dict[str, list[str]]:
  """Returns {method: a sentence for each split on which it makes the score worse, by an interval of enough pairs}."""
  sentences: dict[str, list[str]] = {}
  for split, methods in result.gains.items():
    for method, gain in methods.items():
      if gain["high"] < 0 and gain["pairs"] >= _MIN_PAIRS and (gain["over"] in BASELINES or is_of_search(result)):
        metric = _METRIC_NAMES[gain["metric"]]
        sentence = f"{_prose_name(method)} makes {metric} worse on {prefix}{split}: {_interval(gain)}; do without it"
        if method.endswith(WITH_BM25):
          lower = f"{method_name(method)} has a lower {metric} than {method_name(gain['over'])} on {prefix}{split}"
          sentence = f"{lower}: {_interval(gain)}"
        sentences.setdefault(method, []).append(sentence)
  return sentences


def missing_scores(result: TaskResult, prefix: str = "") -> list[str]:
  """Returns sentences that say why scores are NaN."""
  sentences: list[str] = []
  if is_of_classifier(result) or is_of_search(result):
    return sentences
  for split, methods in result.scores.items():
    for method, values in methods.items():
      if values.get("reason"):
        sentences.append(f"no score on {prefix}{split} {method_name(method)}: {values['reason']}")
  return sentences


def without_gold(result: TaskResult) -> str:
  """Returns a sentence for a task without gold scores."""
  return f"{result.name} has no gold scores: {_WITHOUT_GOLD}"


def question(result: TaskResult, gold: np.ndarray | None = None) -> str:
  """Returns sentences for a reader who does not know the task: what was asked, what gold's ends mean; "" for none.

  `gold`: scores of pairs, which have the ends; None for the ends of the task's scale.
  """
  spec = result.spec
  if spec.eval_split is None or spec.kind == CLASSES:
    return ""
  if is_of_search(result):
    return (
      f"How well does each method find the documents that answer a query? There are {result.source}; the judgments say "
      "which documents are right. An encoder finds those whose embeddings have the largest cosines with the query's, "
      "BM25 those that share words with the query. nDCG@10 is 100 if the right documents come first, and 0 if none is "
      "among the first ten. In each column, more is better."
    )
  grade = f"a label, its gold: 1 ({spec.positive or 'similar'}) or 0 (not)"
  if spec.kind != BINARY:
    grade = f"a grade, its gold, from {_range(spec, gold)}"
  return (
    f"How similar in meaning are two sentences? Each pair of {spec.name} has {grade}. The encoder's grade is the "
    "cosine of the embeddings of the two. Spearman, Pearson and AUC say how well both agree: 100 is the best."
  )


def _range(spec, gold):
  """Returns the ends of gold's range with their meaning."""
  low, high = spec.scale
  if gold is not None:
    low, high = np.nanmin(gold), np.nanmax(gold)
  # The grades of a user's file have any range.
  if spec.load == find_task("custom").load or spec.scale != SCALE:
    return f"{low:g}, the least similar, to {high:g}, the most similar"
  # SICK's lowest grade is 1.
  return f"{np.floor(low):g}, nothing in common, to 5, the same meaning"


def _interval(gain):
  if math.isnan(gain["gain"]):
    return f"not defined ({gain['reason']})"
  if gain["reason"]:
    return f"{gain['gain']:+.2f}, no interval: {gain['reason']}"
  return f"{gain['gain']:+.2f}, {100 * gain['level']:.0f}% interval {gain['low']:+.2f} to {gain['high']:+.2f}"


def spent(seconds: Mapping[str, float]) -> str:
  """Returns the seconds by kind of work in one line: "seconds: embedding 1.5, fitting 8.9"."""
  texts = [f"{work} {value:.1f}" for work, value in seconds.items()]
  return f"seconds: {', '.join(texts)}"
