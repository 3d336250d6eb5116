"""Evaluates a model without and with its calibrations on SentEval's tasks."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.integrations import senteval_engine
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.io.experiment import Stopwatch, make_folder

# The published runner's settings of SentEval; SentEval's own README has others.
_PUBLISHED = {"nhid": 0, "optim": "rmsprop", "batch_size": 128, "tenacity": 3, "epoch_size": 2}
RESULTS_FILE = "senteval_results.json"


def evaluate_tasks(
  engine: Any,
  tasks: Sequence[str],
  embed: Callable[[list[str]], np.ndarray],
  transforms: Mapping[str, Callable[[np.ndarray], np.ndarray]],
  watch: Stopwatch,
) -> tuple[dict[str, dict], dict[str, str]]:
  """Evaluates on tasks; a task that fails is logged, and the next one follows.

  Args:
    engine: `SentEval` or `OwnEngine`.
    tasks: SentEval's names of tasks.
    embed: list of n str -> embeddings [n, dim].
    transforms: {method: function of embeddings [n, dim]}, calibrations among them.
    watch: measures "embedding" and "evaluating".

  Returns:
    {task: {row: {method: scores}}}, and {task: reason of its failure}.
  """

  def timed(sentences):
    with watch.timing("embedding"):
      return embed(sentences)

  results, failed = {}, {}
  for task in tasks:
    embed_once = _remembering(timed)
    try:
      with watch.timing("evaluating"):
        scores = {name: _evaluate(engine, task, embed_once, transform) for name, transform in transforms.items()}
    except BertFlowError as error:
      logging.error("%s: %s", task, error)
      failed[task] = str(error)
      continue
    rows = next(iter(scores.values()))
    results[task] = {row: {name: of_method[row] for name, of_method in scores.items()} for row in rows}
  return results, failed


def evaluate_as_published(
  path: str,
  tasks: str,
  embed: Callable[[list[str]], np.ndarray],
  transforms: Mapping[str, Callable[[np.ndarray], np.ndarray]],
  folder: pathlib.Path,
  watch: Stopwatch,
  about: Mapping[str, Any],
  trusted: bool = False,
) -> None:
  """Evaluates embeddings divided by their length with the published settings; writes and prints the results.

  Args:
    path: SentEval's checkout or data folder.
    tasks: SentEval's names, with commas; empty for those whose data exists.
    embed: see `evaluate_tasks`.
    transforms: see `evaluate_tasks`; before the division.
    folder: gets senteval_results.json.
    watch: see `evaluate_tasks`.
    about: further values of the file.
    trusted: see `senteval_engine.find_engine`.

  Raises:
    ConfigError: a task is unknown, all tasks failed, or SentEval's code is not trusted.
  """
  divided = {name: lambda u, transform=transform: normalized(transform(u)) for name, transform in transforms.items()}
  with senteval_engine.task_path(path) as task_path:
    batch_size = _PUBLISHED["batch_size"]
    engine = senteval_engine.find_engine(path, task_path, batch_size, trusted, classifier=_PUBLISHED, kfold=5)
    names = senteval_engine.check_tasks(tasks.split(",") if tasks else None, task_path, engine)
    logging.info("%s: %s", engine.name, ", ".join(names))
    results, failed = evaluate_tasks(engine, names, embed, divided, watch)
  if not results:
    raise ConfigError(f"senteval={path}: {next(iter(failed.values()))}", argument="senteval")
  make_folder(folder)
  senteval = {"by": engine.name, "failed": failed}
  report.write_results(
    folder, {"results": results, "senteval": senteval, "seconds": watch.seconds, **about}, RESULTS_FILE
  )
  rows = {row: methods for of_task in results.values() for row, methods in of_task.items()}
  print(report.table(rows, watch.seconds))


def _evaluate(engine, task, embed, transform):
  """Returns {row: scores} of one method."""
  adapter = SentEvalAdapter(lambda sentences: np.asarray(transform(embed(sentences)), np.float32))
  return engine.evaluate(task, adapter.batcher, adapter.prepare)


def _remembering(embed):
  """Returns `embed` with its last answer kept: every method asks for the same sentences."""
  last = {}

  def embed_once(sentences):
    if last.get("sentences") != sentences:
      last.update(sentences=sentences, rows=embed(sentences))
    return last["rows"]

  return embed_once
