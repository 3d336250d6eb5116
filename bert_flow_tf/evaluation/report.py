"""Results of a run, as files and as a table on the terminal."""

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import checksums, files

RESULTS_FILE = "results.json"
PREDICTIONS_FILE = "test_results.tsv"
EVAL_FILE = "eval_results.txt"

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


def write_results(folder: str | os.PathLike, results: dict[str, Any], name: str = RESULTS_FILE) -> None:
  """Writes `results.json`, with a checksum; NaN and infinity become null.

  Args:
    folder: the run's folder.
    results: JSON values, NumPy's numbers and dataclasses.
    name: name of the file.
  """
  write_text(folder, name, json.dumps(checksums.sealed(plain(results)), indent=2, allow_nan=False) + "\n")


def check_replaceable(folder: str | os.PathLike | None, tasks: Iterable[str], argument: str) -> None:
  """Checks that `write_results` would not replace the results of another task.

  Args:
    folder: the run's folder; it may not exist, or be None.
    tasks: names of the run's tasks.
    argument: name of the argument that chose the folder.

  Raises:
    ConfigError: `results.json` in the folder is of a task that is not among them.
  """
  if folder is None:
    return
  try:
    values = files.read_json(pathlib.Path(folder) / RESULTS_FILE)
    others = ({values["task"]} if "task" in values else set(values["results"])) - set(tasks)
  except (OSError, ValueError, KeyError, TypeError):
    return  # no results, or no results of a run
  if others:
    names = ", ".join(sorted(others))
    raise ConfigError(f"{argument}: {folder} has results of {names}; choose another {argument}", argument)


def write_predictions(folder: str | os.PathLike, pairs: Any, similarities: Mapping[str, np.ndarray]) -> None:
  """Writes `test_results.tsv`: a row for each pair, with its gold score and the cosine of every method.

  Args:
    folder: the run's folder.
    pairs: has sentences_a, sentences_b and scores.
    similarities: {method: [n] cosines}.
  """
  write_pairs(folder, PREDICTIONS_FILE, pairs, {"gold": pairs.scores, **similarities})


def write_pairs(folder: str | os.PathLike, name: str, pairs: Any, columns: Mapping[str, Any]) -> None:
  """Writes a TSV with a header and a row for each pair: its index, the columns, its sentences.

  Args:
    folder: the run's folder.
    name: name of the file.
    pairs: has sentences_a and sentences_b.
    columns: {name: [n] numbers or strings}.
  """
  lines = ["\t".join(["index", *columns, "sentence1", "sentence2"])]
  for row, (a, b) in enumerate(zip(pairs.sentences_a, pairs.sentences_b, strict=True)):
    # All digits: rounded cosines would tie where the true ones do not, and give another correlation.
    cells = [of[row] if isinstance(of[row], str) else str(float(of[row])) for of in columns.values()]
    lines.append("\t".join([str(row), *cells, _one_cell(a), _one_cell(b)]))
  write_text(folder, name, "\n".join(lines) + "\n")


def write_eval_results(folder: str | os.PathLike, values: Mapping[str, float]) -> None:
  """Writes `eval_results.txt`, a line `key = value` for each score, sorted by key, as BERT's runners do."""
  write_text(folder, EVAL_FILE, "".join(f"{key} = {value!s}\n" for key, value in sorted(values.items())))


def table(results: Mapping[str, dict[str, dict]], seconds: Mapping[str, float]) -> str:
  """Returns the table: a row for each split and score, a column for each method, and the change between two methods.

  Args:
    results: {split: {method: scores}}, the same methods for all splits; scores have "pairs" and some keys of `SCORES`.
    seconds: {kind of work: seconds}.
  """
  return "\n".join([*aligned(rows(results)), *[f"seconds: {spent(seconds)}"] * bool(seconds)])


def rows(results: Mapping[str, dict[str, dict]]) -> list[list[str]]:
  """Returns the rows of `table`, with its header."""
  methods = list(next(iter(results.values()), {"without_flow": None, "with_flow": None}))
  after = {"without_flow": "after training"} if "before_training" in methods else {}
  header = ["split", "pairs", "x 100", *(after.get(method) or method_name(method) for method in methods)]
  found = [header + ["change"] * (len(methods) == 2)]
  for split, by_method in results.items():
    first = by_method[methods[0]]
    for key, name in SCORES.items():
      if key not in first:
        continue
      scores = [by_method[method][key] for method in methods]
      change = [f"{scores[1] - scores[0]:+.2f}"] if len(methods) == 2 else []
      found.append([split, str(first["pairs"]), name, *(f"{score:.2f}" for score in scores), *change])
  return found


def method_name(method: str) -> str:
  """Returns the name that a reader sees of a method in results.json: "uncalibrated", "flow", "flow 2", "sn"."""
  return method.replace("without_flow", "uncalibrated").replace("with_flow", "flow").replace("_", " ")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
  """Returns the lines of a table with aligned columns.

  Args:
    rows: lists of str of the same length; the first is the header.
  """
  widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
  lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
  lines.insert(1, "  ".join("-" * width for width in widths))
  return lines


def spent(seconds: Mapping[str, float]) -> str:
  """Returns the seconds by kind of work in one line: "embedding 1.5, fitting 8.9"."""
  return ", ".join(f"{work} {value:.1f}" for work, value in seconds.items())


def plain(value: Any) -> Any:
  """Returns JSON values for NumPy's numbers and dataclasses; NaN and infinity become None."""
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    value = dataclasses.asdict(value)
  if isinstance(value, dict):
    return {key: plain(inner) for key, inner in value.items()}
  if isinstance(value, list | tuple):
    return [plain(inner) for inner in value]
  if isinstance(value, np.generic | np.ndarray):
    return plain(value.tolist())
  return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_cell(text):
  return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def write_text(folder: str | os.PathLike, name: str, text: str) -> pathlib.Path:
  """Writes a text file into a run's folder; returns its path.

  Raises:
    DataError: it cannot be written.
  """
  path = pathlib.Path(folder) / name
  try:
    files.write_text(path, text)
  except OSError as error:
    raise DataError(f"{path}: cannot be written ({error.strerror})") from error
  return path
