"""Evaluates a model without and with its calibrations on SentEval's tasks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.io.experiment import Stopwatch


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
