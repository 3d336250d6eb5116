"""Folder of a run: results.json, predictions, eval_results.txt and the page, written once for all runners."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.io.text_table import aligned_table
from bert_flow_tf.report import page, result_files, sentences


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
    self, title: str, results: Sequence[TaskResult], about: Mapping[str, Any], predictions: bool = True
  ) -> pathlib.Path | None:
    """Writes results.json with the values `about` the run, predictions, and the page of results; returns its path."""
    contents: dict[str, Any] = {"results": {}, "gain": {}, "controls": {}, "gain_over_string_match": {}}
    for result in results:
      of_result = (result.scores, result.gains, result.controls, result.gains_over_match)
      for name, values in zip(contents, of_result, strict=True):
        if self.by_task:
          contents[name][result.name] = values
        else:
          contents[name] = values
    result_files.write_results(self.path, {**contents, **about})
    # The cosines of every task that has gold.
    for result in results:
      if predictions and result.has_gold and result.pairs is not None:
        folder = self.path / result.name if self.by_task else self.path
        columns = {"gold": result.pairs.scores, **result.cosines}
        result_files.write_pairs(folder, result_files.PREDICTIONS_FILE, result.pairs, columns)
    if not results:
      return None
    return page.write_page(self.path, title, results, about)


def print_results(results: Sequence[TaskResult], seconds: Mapping[str, float], path: os.PathLike | None = None) -> None:
  """Prints the table, seconds by kind of work, comparisons and the page's path, and logs warnings."""
  lines = [*aligned_table(sentences.score_table(results)), sentences.spent(seconds)]
  warnings = []
  for result in results:
    prefix = sentences.prefix_of(result, results)
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
