"""Folder of a run: results.json, predictions, eval_results.txt and the page, written once for all runners."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.evaluation import page, report
from bert_flow_tf.evaluation.result import TaskResult


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """Folder that a run writes; it may not exist."""

  path: pathlib.Path
  argument: str = "exp_name"  # that chose it, for messages
  by_task: bool = False  # whether results are by task, each with a folder for its predictions

  def check(self, tasks: Sequence[str]) -> None:
    """Raises a ConfigError if the folder has results of a task that is not among these."""
    report.check_replaceable(self.path, tasks, self.argument)

  def write(
    self, title: str, results: Sequence[TaskResult], about: Mapping[str, Any], predictions: bool = True
  ) -> pathlib.Path | None:
    """Writes results.json with the values `about` the run, predictions, and the page of results; returns its path."""
    contents: dict[str, Any] = {"results": {}, "gain": {}, "controls": {}}
    for result in results:
      of_result = {"results": result.scores, "gain": result.gains, "controls": result.controls}
      for name, values in of_result.items():
        if self.by_task:
          contents[name][result.name] = values
        else:
          contents[name] = values
    report.write_results(self.path, {**contents, **about})
    # The cosines of every task that has gold.
    for result in results:
      if predictions and result.has_gold and result.pairs is not None:
        folder = self.path / result.name if self.by_task else self.path
        columns = {"gold": result.pairs.scores, **result.cosines}
        report.write_pairs(folder, report.PREDICTIONS_FILE, result.pairs, columns)
    if not results:
      return None
    return page.write_page(self.path, title, results, about)


def print_results(results: Sequence[TaskResult], seconds: Mapping[str, float], path: os.PathLike | None = None) -> None:
  """Prints the table with seconds by kind of work, the gains' intervals and the page's path, and logs warnings."""
  header = results[0].rows[0]
  rows = [header]
  for result in results:
    rows += result.rows[1:]
  lines = report.aligned(rows, seconds)
  for result in results:
    lines += result.gain_lines
  print("\n".join(lines))
  for result in results:
    for sentences in result.harm.values():
      for sentence in sentences:
        logging.warning("%s", sentence)
    for sentence in result.missing:
      logging.warning("%s", sentence)
    if not result.has_gold:
      logging.info(
        "%s has no gold scores: the table says how far the sentences spread, not which method is better", result.name
      )
  if path is not None:
    print(f"page: {path}")
