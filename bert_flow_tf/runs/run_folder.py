"""Folder of a run: results.json, predictions, eval_results.txt and the page, written once for all runners."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW
from bert_flow_tf.io.text_table import aligned_table
from bert_flow_tf.report import page, result_files, sentences
from bert_flow_tf.report.record import RunRecord, TaskRecord, remove_drawn, write_record
from bert_flow_tf.vectors.model_of_vectors import embedder_values

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """Folder that a run writes; it may not exist.

  Attributes:
    path: the folder.
    argument: the argument or flag that named it, for messages.
    by_task: whether results are by task, each with a folder for its predictions.
  """

  path: pathlib.Path
  argument: str = "exp_name"
  by_task: bool = False

  def check(self, tasks: Sequence[str]) -> None:
    """Raises a ConfigError if the folder has results of a task that is not among these."""
    result_files.check_replaceable(self.path, tasks, self.argument)

  def calibrations(self) -> dict[str, str | None] | None:
    """Returns {name: its calibration_sha256} of the calibrations that the run of results.json fitted.

    The checksum is None in a file of an earlier release. None if results.json is missing, or of another command.
    """
    values = result_files.read_results(self.path)
    names = values.get("calibrations")
    if not isinstance(names, list):
      return None
    models = values.get(result_files.MODELS, {})
    checksums = [of_model["calibration_sha256"] for method, of_model in models.items() if method != WITHOUT_FLOW]
    return dict(zip(names, checksums or [None] * len(names), strict=True))

  def begin(
    self, about: Mapping[str, object], tasks: Sequence[TaskRecord] = (), stale: Sequence[pathlib.Path] = ()
  ) -> None:
    """Withdraws page, drawings, predictions and scores of an earlier run, before the models of this run are saved.

    What is left if the run is killed says nothing of other models: results.json has `about` the run, and no scores.
    `stale`: further files of the earlier run, in folders that go with them; they go while results.json names them.
    """
    result_files.remove([self.path / page.PAGE_FILE, *stale])
    for path in stale:
      with contextlib.suppress(OSError):  # the user has files in it
        path.parent.rmdir()
    remove_drawn(self.path, tasks, self.by_task)
    self.write("", [], about)

  def write(
    self, title: str, tasks: Sequence[TaskRecord], about: Mapping[str, object], predictions: bool = True
  ) -> pathlib.Path | None:
    """Writes what the folder has of tasks and `about` the run, and draws the page of tasks; returns its path."""
    result_files.remove([self.path / page.PAGE_FILE])  # the page comes last: it shows that the rest is complete
    write_record(self.path, RunRecord(title, tasks, about), self.by_task, predictions)
    if not tasks:
      return None
    return page.draw_page(self.path)


def describe_measured(models: "Mapping[str, SentenceModel]") -> dict[str, dict[str, Any]]:
  """Returns the entry of results.json that says which models the scores of {method: model} are of."""
  return {result_files.MODELS: {method: embedder_values(model) for method, model in models.items()}}


def print_results(results: Sequence[TaskResult], seconds: Mapping[str, float], path: os.PathLike | None = None) -> None:
  """Prints the table, seconds by kind of work, comparisons and the page's path, and logs warnings."""
  lines = [*aligned_table(sentences.score_table(results)), sentences.spent(seconds)]
  warnings = []
  for result in results:
    prefix = sentences.task_prefix(result, results)
    gains = sentences.gain_table(result) if sentences.is_of_search(result) else []
    if gains:
      lines += ["", *aligned_table(gains)]
    lines += sentences.comparisons(result, prefix)
    for of_method in sentences.warnings(result, prefix).values():
      warnings += of_method
    warnings += sentences.missing_scores(result, prefix)
  print("\n".join(lines))
  for sentence in warnings:
    logging.warning("%s", sentence)
  for result in results:
    if not result.has_gold:
      logging.info("%s", sentences.without_gold(result))
  if path is not None:
    print(f"page: {path}")
