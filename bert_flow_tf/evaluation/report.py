"""What a run found, as files and as a table on the terminal."""

import dataclasses
import json
import math
import os
import pathlib

from bert_flow_tf.errors import DataError

RESULTS_FILE = "results.json"
PREDICTIONS_FILE = "test_results.tsv"
EVAL_FILE = "eval_results.txt"


def write_results(folder, results):
  """Writes `results.json`: numbers that are not defined become null, as json has no NaN.

  Args:
    folder: the run's folder.
    results: dict of json values, NaN and dataclasses.
  """
  _write(folder, RESULTS_FILE, json.dumps(_plain(results), indent=2, allow_nan=False) + "\n")


def write_predictions(folder, pairs, similarities):
  """Writes `test_results.tsv`: a row a pair with its gold score and the cosine of every method.

  Args:
    folder: the run's folder.
    pairs: the evaluated `SentencePairs`-like pairs: sentences_a, sentences_b, scores.
    similarities: {method: [n] cosines}.
  """
  lines = ["\t".join(["index", "gold", *similarities, "sentence1", "sentence2"])]
  for row, (a, b, gold) in enumerate(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True)):
    cosines = [f"{values[row]:.6f}" for values in similarities.values()]
    lines.append("\t".join([str(row), f"{gold:g}", *cosines, _one_cell(a), _one_cell(b)]))
  _write(folder, PREDICTIONS_FILE, "\n".join(lines) + "\n")


def write_eval_results(folder, values):
  """Writes `eval_results.txt`, a `key = value` line a figure, sorted by key, as BERT's runners do."""
  _write(folder, EVAL_FILE, "".join(f"{key} = {value}\n" for key, value in sorted(values.items())))


def table(split, before, after, seconds):
  """The terminal's table: a row a metric, before and after the flow.

  Args:
    split: name of the evaluated split.
    before, after: `Correlation` without and with the flow.
    seconds: {"embedding" | "fitting" | "evaluating": seconds}.
  """
  header = ("split", "pairs", "metric x 100", "without flow", "with flow", "difference")
  rows = [header]
  for metric in ("spearman", "pearson"):
    old, new = getattr(before, metric), getattr(after, metric)
    figures = (f"{old:.2f}", f"{new:.2f}", f"{new - old:+.2f}")
    rows.append((split, str(before.pairs), metric.capitalize(), *figures))
  widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
  lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
  lines.insert(1, "  ".join("-" * width for width in widths))
  spent = ", ".join(f"{what} {value:.1f}" for what, value in seconds.items())
  return "\n".join([*lines, f"seconds: {spent}"])


def _plain(value):
  if dataclasses.is_dataclass(value):
    value = dataclasses.asdict(value)
  if isinstance(value, dict):
    return {key: _plain(inner) for key, inner in value.items()}
  if isinstance(value, list | tuple):
    return [_plain(inner) for inner in value]
  return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_cell(text):
  return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _write(folder, name, text):
  file = pathlib.Path(folder) / name
  beside = file.with_name(f"{name}.writing-{os.getpid()}")
  try:
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    beside.replace(file)
  except OSError as error:
    raise DataError(f"{file}: cannot be written ({error.strerror})") from error
