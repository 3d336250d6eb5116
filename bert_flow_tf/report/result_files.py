"""Files of a run's results: results.json, eval_results.txt and tables of pairs."""

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.files.source import FileSource, decode
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import checksums, files

RESULTS_FILE = "results.json"
PREDICTIONS_FILE = "test_results.tsv"
EVAL_FILE = "eval_results.txt"
# Entry of results.json: {method: the values of its model that decide its embeddings}.
MODELS = "models"
# Columns of predictions; the others are methods.
GOLD, _INDEX, _SENTENCES = "gold", "index", ("sentence1", "sentence2")
Column = Sequence[float] | Sequence[str] | np.ndarray


def write_results(folder: str | os.PathLike, results: Mapping[str, object], name: str = RESULTS_FILE) -> None:
  """Writes `results.json` with a checksum; NaN and infinity become null, and NumPy's numbers and dataclasses JSON."""
  write_result_text(folder, name, json.dumps(checksums.sealed(plain(results)), indent=2, allow_nan=False) + "\n")


def read_results(folder: str | os.PathLike) -> dict[str, Any]:
  """Returns the values of a folder's `results.json`; {} if it is missing or damaged."""
  try:
    return checksums.verified(files.read_json(pathlib.Path(folder) / RESULTS_FILE))
  except (OSError, ValueError):
    return {}


def remove(paths: Iterable[pathlib.Path]) -> None:
  """Removes files, as far as they exist, or raises a DataError."""
  for path in paths:
    try:
      path.unlink(missing_ok=True)
    except OSError as error:
      raise DataError(f"{path}: cannot be removed ({error.strerror})") from error


def check_replaceable(folder: str | os.PathLike, tasks: Iterable[str], argument: str) -> None:
  """Raises a ConfigError of `argument` if `results.json` in the folder is of a task that is not among these."""
  try:
    values = files.read_json(pathlib.Path(folder) / RESULTS_FILE)
    saved = {values["task"]} if "task" in values else set(values["results"])
  except (OSError, ValueError, KeyError, TypeError):
    return  # no results, or no results of a run
  # A run's results are replaced by the same task's only.
  others = saved - set(tasks)
  if others:
    names = ", ".join(sorted(map(str, others)))
    raise ConfigError(f"{argument}: {folder} has results of {names}; choose another folder", argument)


def write_pairs(folder: str | os.PathLike, name: str, pairs: SentencePairs, columns: Mapping[str, Column]) -> None:
  """Writes the `pairs_text` of pairs and their columns into a run's folder."""
  write_result_text(folder, name, pairs_text(pairs, columns))


def pairs_text(pairs: SentencePairs, columns: Mapping[str, Column]) -> str:
  """Returns a TSV with a row for each pair: its index, the columns {name: [n] numbers or strings}, its sentences."""
  lines = ["\t".join([_INDEX, *columns, *_SENTENCES])]
  for row, (a, b) in enumerate(zip(pairs.sentences_a, pairs.sentences_b, strict=True)):
    cells = [str(row)]
    for values in columns.values():
      value = values[row]
      # All digits: rounded cosines would tie where the true ones do not, and give another correlation.
      cells.append(value if isinstance(value, str) else str(float(value)))
    lines.append("\t".join([*cells, _one_cell(a), _one_cell(b)]))
  return "\n".join(lines) + "\n"


def parse_pairs(source: FileSource) -> tuple[SentencePairs, dict[str, np.ndarray]]:
  """Returns the pairs of a file of `pairs_text` with their gold scores, and its other columns {name: float64 [n]}.

  Raises:
    DataError: the file is damaged.
  """
  lines: list[bytes] = []
  with source, source.errors():
    for line, _ in source.lines():
      assert isinstance(line, bytes)  # of any length
      lines.append(line)
  try:
    # A sentence may have any character, a NUL, too.
    header, *rows = [decode(line, "the line").split("\t") for line in lines]
    numbers = [name for name in header if name not in (_INDEX, *_SENTENCES)]
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    arrays = {name: np.array(columns[name], np.float64) for name in numbers}
    gold, (first, second) = arrays.pop(GOLD), [list(columns[name]) for name in _SENTENCES]
    return SentencePairs(first, second, gold), arrays
  except (LookupError, ValueError) as error:
    raise DataError(f"{source.path}: damaged, or not the predictions of a run ({error})") from error


def _one_cell(text):
  return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def write_eval_results(folder: str | os.PathLike, values: Mapping[str, float]) -> None:
  """Writes `eval_results.txt`, a line `key = value` for each score, sorted by key, as BERT's runners do."""
  lines = [f"{key} = {value!s}\n" for key, value in sorted(values.items())]
  write_result_text(folder, EVAL_FILE, "".join(lines))


def plain(value: object) -> Any:
  """Returns JSON values for NumPy's numbers and dataclasses; NaN and infinity become None."""
  # NumPy's values and dataclasses become Python's first.
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    value = dataclasses.asdict(value)
  if isinstance(value, np.generic | np.ndarray):
    value = value.tolist()
  if isinstance(value, dict):
    return {key: plain(inner) for key, inner in value.items()}
  if isinstance(value, list | tuple):
    return [plain(inner) for inner in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


def write_result_text(folder: str | os.PathLike, name: str, text: str) -> pathlib.Path:
  """Writes a text file into a run's folder, which it creates; returns its path, or raises a DataError."""
  path = pathlib.Path(folder) / name
  write_result_bytes(path, text.encode("utf-8", "backslashreplace"))
  return path


def write_result_bytes(path: pathlib.Path, content: bytes) -> None:
  """Writes a file of a run's folder, which it creates; or raises a DataError."""
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, content)
  except OSError as error:
    raise DataError(f"{path}: cannot be written ({error.strerror})") from error
