"""Results of invented methods, for tests of numbers, sentences, files and page."""

import dataclasses

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.evaluation.result import task_result
from bert_flow_tf.evaluation.task_scores import scores_of_split

N = 80
BETTER = (("without_flow", 0.2), ("with_flow", 0.05))
WORSE = (("without_flow", 0.05), ("with_flow", 0.5), ("sn", 0.05))


def result_of(*methods, gold=True, name="STS-B", matches=None):
  """Returns the result of (method, noise): its cosines follow gold, with noise of this size."""
  rng = np.random.default_rng(0)
  scores = rng.uniform(0, 5, N)
  pairs = SentencePairs([f"a {i}" for i in range(N)], [f"b {i}" for i in range(N)], scores if gold else [np.nan] * N)
  spec = find_task(name)
  if not gold:
    spec = dataclasses.replace(spec, eval_split=None)
  evaluations = {}
  for method, noise in methods:
    cosines = scores / 10 + noise * rng.normal(size=N)
    values = {"test": {"pairs": N}}
    if gold:
      values = scores_of_split("test", pairs, cosines, "correlation")
    evaluations[method] = (values, {"test": cosines})
  matches = {name: scores / 10 + noise * rng.normal(size=N) for name, noise in (matches or {}).items()}
  return task_result(TaskData(spec, {"test": pairs}, "a file"), evaluations, matches=matches)
