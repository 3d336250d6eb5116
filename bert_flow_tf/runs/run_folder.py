"""Folder of a run: results.json, predictions, eval_results.txt and the page, written once for all runners."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from absl import logging

from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.io.text_table import aligned_table
from bert_flow_tf.report import page, result_files, sentences
from bert_flow_tf.report.record import RunRecord, TaskRecord, write_record


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

  def write(
    self, title: str, tasks: Sequence[TaskRecord], about: Mapping[str, object], predictions: bool = True
  ) -> pathlib.Path | None:
    """Writes what the folder has of tasks and `about` the run, and draws the page of tasks; returns its path."""
    write_record(self.path, RunRecord(title, tasks, about), self.by_task, predictions)
    if not tasks:
      return None
    return page.draw_page(self.path)


def print_results(results: Sequence[TaskResult], seconds: Mapping[str, float], path: os.PathLike | None = None) -> None:
  """Prints the table, seconds by kind of work, comparisons and the page's path, and logs warnings."""
  lines = [*aligned_table(sentences.score_table(results)), sentences.spent(seconds)]
  warnings = []
  for result in results:
    prefix = sentences.task_prefix(result, results)
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
