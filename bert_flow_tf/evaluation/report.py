"""What a run found, as files and as a table on the terminal."""

import dataclasses
import json
import math
import pathlib

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.io import files

RESULTS_FILE = "results.json"
PREDICTIONS_FILE = "test_results.tsv"
EVAL_FILE = "eval_results.txt"

# Figures of a method on a split: key in results.json -> name in the table.
FIGURES = {
  "spearman": "Spearman",
  "pearson": "Pearson",
  "spearman_wmean": "Spearman, wmean of subsets",
  "spearman_mean": "Spearman, mean of subsets",
  "spearman_all": "Spearman, all pairs",
  "pearson_wmean": "Pearson, wmean of subsets",
  "auc": "AUC",
  "accuracy": "accuracy",
  "f1": "F1",
  "cosine_of_unpaired": "mean cosine of unpaired sentences",
}


def write_results(folder, results):
  """Writes `results.json`: numbers that are not defined become null, as json has no NaN.

  Args:
    folder: the run's folder.
    results: dict of json values, NaN, NumPy's numbers and dataclasses.
  """
  _write(folder, RESULTS_FILE, json.dumps(_plain(results), indent=2, allow_nan=False) + "\n")


def write_predictions(folder, pairs, similarities):
  """Writes `test_results.tsv`: a row a pair with its gold score and the cosine of every method.

  Args:
    folder: the run's folder.
    pairs: the evaluated `SentencePairs`-like pairs: sentences_a, sentences_b, scores.
    similarities: {method: [n] cosines}.
  """
  write_pairs(folder, PREDICTIONS_FILE, pairs, {"gold": pairs.scores, **similarities})


def write_pairs(folder, name, pairs, columns):
  """Writes a TSV with a header and a row a pair: its index, the columns, its sentences.

  Args:
    folder: the run's folder.
    name: of the file.
    pairs: `SentencePairs`-like: sentences_a, sentences_b.
    columns: {name: [n] numbers or strings}.
  """
  lines = ["\t".join(["index", *columns, "sentence1", "sentence2"])]
  for row, (a, b) in enumerate(zip(pairs.sentences_a, pairs.sentences_b, strict=True)):
    # Every digit, as the figures follow from these: rounded cosines tie where the true ones do not.
    cells = [of[row] if isinstance(of[row], str) else str(float(of[row])) for of in columns.values()]
    lines.append("\t".join([str(row), *cells, _one_cell(a), _one_cell(b)]))
  _write(folder, name, "\n".join(lines) + "\n")


def write_eval_results(folder, values):
  """Writes `eval_results.txt`, a `key = value` line a figure, sorted by key, as BERT's runners do."""
  _write(folder, EVAL_FILE, "".join(f"{key} = {value}\n" for key, value in sorted(values.items())))


def table(results, seconds):
  """The terminal's table: a row a split and figure, a column a method; of two methods the difference too.

  Args:
    results: {split: {method: figures}}, the same methods everywhere, figures being a dict with "pairs" and some of the
      keys of `FIGURES`.
    seconds: {"embedding" | "fitting" | "evaluating": seconds}.
  """
  methods = list(next(iter(results.values()), {"without_flow": None, "with_flow": None}))
  header = ["split", "pairs", "x 100", *(method.replace("_", " ") for method in methods)]
  header += ["difference"] * (len(methods) == 2)
  rows = [header]
  for split, found in results.items():
    first = found[methods[0]]
    for key, name in FIGURES.items():
      if key not in first:
        continue
      figures = [found[method][key] for method in methods]
      difference = [f"{figures[1] - figures[0]:+.2f}"] if len(methods) == 2 else []
      rows.append([split, str(first["pairs"]), name, *(f"{figure:.2f}" for figure in figures), *difference])
  return "\n".join([*aligned(rows), *[f"seconds: {spent(seconds)}"] * bool(seconds)])


def aligned(rows):
  """Lines of a table in columns, the first row being its header.

  Args:
    rows: lists of strings, of one length.
  """
  widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
  lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
  lines.insert(1, "  ".join("-" * width for width in widths))
  return lines


def spent(seconds):
  """Where the time went, in one line: `embedding 1.5, fitting 8.9`."""
  return ", ".join(f"{what} {value:.1f}" for what, value in seconds.items())


def _plain(value):
  if dataclasses.is_dataclass(value):
    value = dataclasses.asdict(value)
  if isinstance(value, dict):
    return {key: _plain(inner) for key, inner in value.items()}
  if isinstance(value, list | tuple):
    return [_plain(inner) for inner in value]
  if isinstance(value, np.generic | np.ndarray):
    return _plain(value.tolist())
  return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_cell(text):
  return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _write(folder, name, text):
  try:
    files.write_text(pathlib.Path(folder) / name, text)
  except OSError as error:
    raise DataError(f"{pathlib.Path(folder) / name}: cannot be written ({error.strerror})") from error
