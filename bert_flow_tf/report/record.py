"""Record of a run: numbers, predictions and spectra of its tasks, as its folder keeps them."""

import dataclasses
import gzip
import io
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_flow_tf.data.beir import RetrievalTask
from bert_flow_tf.data.files.source import FileSource
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import RETRIEVAL, TaskData, TaskSpec
from bert_flow_tf.data.tasks import KINDS, find_task, task_names
from bert_flow_tf.encoder.kinds import public_name
from bert_flow_tf.errors import ConfigError, DataError, one_line
from bert_flow_tf.evaluation.controls import CHARACTERS
from bert_flow_tf.evaluation.result import TaskResult, retrieval_result, right_order, task_result
from bert_flow_tf.evaluation.retrieval import NDCG, Ranking, RetrievalScores
from bert_flow_tf.evaluation.task_scores import Encode, Evaluation
from bert_flow_tf.io import archive, checksums, files
from bert_flow_tf.report import result_files
from bert_flow_tf.report.sentences import method_name
from bert_flow_tf.report.spectra import Spectra, measure_spectra

# Kind of the archive of the numbers that only the page's drawings need.
_DRAWINGS = "drawings"
# What a method of a search found, in TREC's format; the method as in the table.
_RUN_FILE = "test_results.{}.trec.gz"
# Entries of results.json with a task's numbers, or {task: numbers}.
_NUMBERS = (
  "results",
  "gain",
  "controls",
  "gain_over_string_match",
  "right_order",
  "right_order_of_string_match",
)
_TITLE = "title"
# Errors that wrong values of a JSON file raise where they are read.
WRONG_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Predictions:
  """Cosines of sentence pairs.

  Attributes:
    pairs: the n pairs of the evaluated split, or of the first split of a task without gold.
    cosines: {method: float64 [n]}.
  """

  pairs: SentencePairs
  cosines: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TaskRecord:
  """A task in the record of a run.

  Attributes:
    result: the numbers.
    right_order: {method: see `right_order`}; {} if it is not known.
    right_order_of_match: {name of a string match: see `right_order`}.
    predictions: None if they are not known.
    spectra: None if they are not known.
    gaps: sentences that say which drawings the page lacks.
    rankings: {method: what it found} of a search; {} if it is not known.
  """

  result: TaskResult
  right_order: Mapping[str, float] = dataclasses.field(default_factory=dict)
  right_order_of_match: Mapping[str, float] = dataclasses.field(default_factory=dict)
  predictions: Predictions | None = None
  spectra: Spectra | None = None
  gaps: Sequence[str] = ()
  rankings: Mapping[str, Ranking] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class RunRecord:
  """Record of a run: the page's title, the tasks, and entries of results.json `about` how the run was made."""

  title: str
  tasks: Sequence[TaskRecord]
  about: Mapping[str, Any]


def task_record(
  task: TaskData,
  evaluations: Mapping[str, Evaluation],
  encoders: Mapping[str, Encode] | None = None,
  matches: Mapping[str, np.ndarray] | None = None,
) -> TaskRecord:
  """Returns the record of a task.

  Args:
    task: the task.
    evaluations: {method: the result of `task_scores.evaluate`}.
    encoders: {method: function of sentences} whose embeddings the page draws; None for none.
    matches: {name of a string match: its cosines [n] on the evaluated split}, see `controls.task_controls`.
  """
  # The page draws the evaluated split, and a sample of its embeddings.
  split = task.spec.eval_split or next(iter(task.splits))
  pairs = task.splits[split]
  cosines = {method: similarities[split] for method, (_, similarities) in evaluations.items()}
  matches = matches or {}
  characters = {name: similarities for name, similarities in matches.items() if name == CHARACTERS}
  spectra = None
  if encoders:
    spectra = measure_spectra(pairs, encoders, cosines)
  return TaskRecord(
    result=task_result(task, evaluations, matches),
    right_order=right_order(pairs.scores, cosines),
    right_order_of_match=right_order(pairs.scores, characters),
    predictions=Predictions(pairs, cosines),
    spectra=spectra,
  )


def retrieval_record(
  task: RetrievalTask, scored: Mapping[str, RetrievalScores], rankings: Mapping[str, Ranking]
) -> TaskRecord:
  """Returns the record of a search, of {method: scores} and {method: ranking}."""
  return TaskRecord(retrieval_result(task, scored), rankings=rankings)


def write_record(
  folder: str | os.PathLike, record: RunRecord, by_task: bool = False, writes_predictions: bool = True
) -> None:
  """Writes results.json, the predictions of tasks with gold, and drawings.npz into a run's folder.

  Args:
    folder: the run's folder.
    record: the record.
    by_task: whether results are by task, each with a folder for its predictions.
    writes_predictions: whether predictions have files; otherwise drawings.npz has them.
  """
  remove_drawn(folder, record.tasks if writes_predictions else (), by_task)
  contents: dict[str, dict[str, object]] = {name: {} for name in _NUMBERS}
  for task in record.tasks:
    for name, values in _numbers(task).items():
      contents[name] |= {task.result.name: values} if by_task else values
  result_files.write_results(folder, {**contents, _TITLE: record.title, **record.about})
  methods: list[list[str]] = []
  arrays: dict[str, np.ndarray] = {}
  for number, task in enumerate(record.tasks):
    methods.append([])
    if task.spectra is not None:
      methods[number] += task.spectra.singular_values
      for name, array in task.spectra.arrays().items():
        arrays[f"{number}/{name}"] = array
    for method, ranking in task.rankings.items():
      name = _RUN_FILE.format(method_name(method).replace(" ", "_"))
      path = _predictions_path(pathlib.Path(folder), task.result.name, by_task).with_name(name)
      result_files.write_result_bytes(path, gzip.compress(ranking.trec().encode(), compresslevel=1, mtime=0))
    if task.predictions is None or not task.result.has_gold:
      continue
    pairs, cosines = task.predictions.pairs, task.predictions.cosines
    text = result_files.pairs_text(pairs, {result_files.GOLD: pairs.scores, **cosines})
    if writes_predictions:
      path = _predictions_path(pathlib.Path(folder), task.result.name, by_task)
      result_files.write_result_text(path.parent, path.name, text)
    else:
      arrays[f"{number}/predictions"] = np.frombuffer(text.encode("utf-8", "backslashreplace"), np.uint8)
  if arrays:
    settings = {"scores_sha256": _checksum(contents["results"]), "methods": methods}
    archive.write(folder, _DRAWINGS, settings, arrays)


def remove_drawn(folder: str | os.PathLike, tasks: Sequence[TaskRecord], by_task: bool = False) -> None:
  """Removes drawings.npz and the predictions of tasks: if the run is killed, other scores do not stand beside them."""
  paths = [archive.path_of(folder, _DRAWINGS)]
  for task in tasks:
    path = _predictions_path(pathlib.Path(folder), task.result.name, by_task)
    if task.predictions:
      paths.append(path)
    if task.rankings:
      paths += path.parent.glob(_RUN_FILE.format("*"))
  result_files.remove(paths)


def _checksum(scores: Mapping[str, object]) -> str:
  """Returns the checksum of scores, which drawings.npz has, too: a run that is killed may leave the older file."""
  return checksums.of_values(result_files.plain(scores))


def _numbers(task: TaskRecord) -> dict[str, Mapping[str, object]]:
  """Returns a task's entries of results.json."""
  result = task.result
  values = (result.scores, result.gains, result.controls, result.gains_over_match)
  return dict(zip(_NUMBERS, (*values, task.right_order, task.right_order_of_match), strict=True))


def _predictions_path(folder: pathlib.Path, task: str, by_task: bool) -> pathlib.Path:
  """Returns the path of a task's predictions."""
  if by_task:
    folder = folder / task
  return folder / result_files.PREDICTIONS_FILE


def read_record(folder: str | os.PathLike) -> RunRecord:
  """Returns the record of a run's folder.

  Raises:
    ConfigError: the folder has no scores of a run's tasks.
    DataError: a file is damaged.
  """
  path = pathlib.Path(folder, result_files.RESULTS_FILE)
  try:
    values = checksums.verified(files.read_json(path))
  except (FileNotFoundError, NotADirectoryError) as error:
    reason = f"no {path.name} in it; expected the folder of a run, such as exp/NAME"
    raise ConfigError(f"input={os.fspath(folder)}: {reason}", "input") from error
  except (OSError, ValueError, TypeError) as error:
    raise DataError(f"{path}: damaged, or not the results of a run: {error}") from error
  if "senteval" in values:
    raise ConfigError(f"input={os.fspath(folder)}: scores on SentEval's tasks have no page", "input")
  if not values.get("results"):
    raise ConfigError(f"input={os.fspath(folder)}: no scores in {path.name}, so that there is no page", "input")
  try:
    return _record(path.parent, values)
  except WRONG_VALUES as error:
    raise not_results(path, error) from error


def not_results(path: pathlib.Path, error: Exception) -> DataError:
  """Returns the error of a results.json with wrong values, of which `error` is one of `WRONG_VALUES`."""
  found = f"a wrong value ({one_line(error)})"
  if isinstance(error, KeyError):
    found = f"no entry {error}"
  return DataError(f"{path}: not the results of a run: {found}; expected the file that bert-flow wrote")


def _record(folder: pathlib.Path, values: dict[str, Any]) -> RunRecord:
  """Returns the record of a folder, and of the values of its results.json."""
  by_task = "task" not in values
  names = list(values["results"]) if by_task else [values["task"]]
  drawings = _read_drawings(folder, _checksum(values["results"]))
  tasks = []
  for number, name in enumerate(names):
    entries = []
    for entry in _NUMBERS:
      of_entry = values.get(entry, {})
      entries.append(_with_nan(of_entry.get(name, {}) if by_task else of_entry))
    scores, gains, controls, gains_over_match, order, order_of_match = entries
    source = values["data"][name] if by_task else values["data"]
    result = TaskResult(_spec(name, scores), source, scores, gains, gains_over_match, controls)
    task = TaskRecord(result, order, order_of_match)
    if "predictions" in values:  # of a file of similarities, which has no embeddings
      task = _with_kept_predictions(task, number, drawings)
    elif (
      task.result.spec.kind != RETRIEVAL and "training" not in values
    ):  # whose page has scores alone; its test_results.tsv is the published runner's
      task = _with_predictions(task, _predictions_path(folder, name, by_task))
      task = _with_spectra(task, number, drawings)
    tasks.append(task)
  about = {name: value for name, value in values.items() if name not in (*_NUMBERS, _TITLE)}
  return RunRecord(values.get(_TITLE) or _default_title(values, names), tasks, about)


def _default_title(values, names):
  """Returns the title of a run of version 0.1, whose results.json has none."""
  if "task" not in values:
    return f"Evaluation on {', '.join(names)}"
  return f"{values['task']}, {public_name(values['encoder']['name'])}"


def _with_nan(value):
  """Returns JSON values with NaN for null, as numbers that are not finite are written."""
  if isinstance(value, dict):
    return {key: _with_nan(inner) for key, inner in value.items()}
  return math.nan if value is None else value


def _spec(name: str, scores: Mapping[str, Any]) -> TaskSpec:
  """Returns the row of a task as it was evaluated: the metric and the split of {split: {method: scores}}."""
  # A file of similarities is a task, too, under the file's name.
  spec = find_task(name if name in task_names(KINDS) else "custom", KINDS)
  split = spec.eval_split
  if split is None or split not in scores:
    split = list(scores)[-1]
  of_split = scores[split]
  if "majority" in of_split:
    return dataclasses.replace(spec, name=name, eval_split=split)
  first = next(iter(of_split.values()), {})
  metric = next((metric for metric in ("auc", NDCG) if metric in first), "correlation")
  if "participation_ratio" in first:  # which stands in place of scores without gold
    split = None
  return dataclasses.replace(spec.with_metric(metric), name=name, eval_split=split)


class _Drawings(NamedTuple):
  """Content of drawings.npz: the methods with spectra, of each task, and {name: array}."""

  methods: list[list[str]]
  arrays: dict[str, np.ndarray]


def _read_drawings(folder: pathlib.Path, checksum: str) -> _Drawings | None:
  """Returns the content of drawings.npz, or None if it is missing or belongs to other scores."""
  if not archive.is_in(folder, _DRAWINGS):
    return None
  with archive.opened(folder, _DRAWINGS, DataError) as (settings, arrays):
    drawings = _Drawings(settings["methods"], arrays)
    is_of_scores = settings["scores_sha256"] == checksum
  if not is_of_scores:
    return None
  return drawings


def _with_predictions(task: TaskRecord, path: pathlib.Path) -> TaskRecord:
  """Returns a task's record with the predictions of a file, or with a sentence if they are missing."""
  source = None
  if task.result.has_gold and path.exists():
    source = FileSource(path)
  return _with_pairs(task, source, path.name)


def _with_kept_predictions(task: TaskRecord, number: int, drawings: _Drawings | None) -> TaskRecord:
  """Returns a task's record with the predictions that drawings.npz has, or with a sentence if they are missing."""
  source, path = None, archive.path_of("", _DRAWINGS)
  if drawings is not None:
    content = drawings.arrays[f"{number}/predictions"].tobytes()
    source = FileSource(path, io.BytesIO(content))
  return _with_pairs(task, source, path.name)


def _with_pairs(task: TaskRecord, source: FileSource | None, name: str) -> TaskRecord:
  """Returns a task's record with the predictions of the file `name`; with a sentence if it has others, or is None."""
  split = task.result.spec.eval_split
  if split is None:  # without gold
    return task
  if source is not None:
    pairs, cosines = result_files.parse_pairs(source)
    if set(task.result.scores[split]) == set(cosines):
      order = task.right_order or right_order(pairs.scores, cosines)
      return dataclasses.replace(task, predictions=Predictions(pairs, cosines), right_order=order)
  gap = f"No drawing of similarity and gold, and no pairs that moved: {name} is missing, or of another run."
  return dataclasses.replace(task, gaps=[*task.gaps, gap])


def _with_spectra(task: TaskRecord, number: int, drawings: _Drawings | None) -> TaskRecord:
  """Returns a task's record with its spectra, or with a sentence if they are missing."""
  if drawings is None:
    gap = "No drawing of the embeddings: drawings.npz is missing, or of another run. Version 0.1 did not write it."
    return dataclasses.replace(task, gaps=[*task.gaps, gap])
  return dataclasses.replace(task, spectra=Spectra.of(drawings.methods[number], drawings.arrays, f"{number}/"))
