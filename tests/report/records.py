"""Results of invented methods, for tests of numbers, sentences, files and page."""

import dataclasses

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.evaluation.task_scores import scores_of_split
from bert_flow_tf.report.record import task_record
from bert_flow_tf.report.spectra import measure_spectra

N = 80
BETTER = (("without_flow", 0.2), ("with_flow", 0.05))
WORSE = (("without_flow", 0.05), ("with_flow", 0.5), ("sn", 0.05))


def invented(methods, gold=True, matches=None):
  """Returns pairs, and the cosines {name: [n]} of (method, noise) and of {string match: noise}.

  The cosines follow gold, with noise of this size.
  """
  rng = np.random.default_rng(0)
  scores = rng.uniform(0, 5, N)
  pairs = SentencePairs([f"a {i}" for i in range(N)], [f"b {i}" for i in range(N)], scores if gold else [np.nan] * N)
  sides = []
  for names in (dict(methods), matches or {}):
    sides.append({name: scores / 10 + noise * rng.normal(size=N) for name, noise in names.items()})
  return pairs, *sides


def record_of(*methods, gold=True, name="STS-B", matches=None):
  """Returns the record of `invented` methods and string matches."""
  pairs, cosines, of_matches = invented(methods, gold, matches)
  spec = find_task(name)
  if not gold:
    spec = dataclasses.replace(spec, eval_split=None)
  evaluations = {}
  for method, values in cosines.items():
    scores = {"test": {"pairs": N, "participation_ratio": 1.0}}
    if gold:
      scores = scores_of_split("test", pairs, values, "correlation")
    evaluations[method] = (scores, {"test": values})
  return task_record(TaskData(spec, {"test": pairs}, "a file"), evaluations, matches=of_matches)


def result_of(*methods, **arguments):
  """Returns the numbers of `record_of`."""
  return record_of(*methods, **arguments).result


def with_spectra(record):
  """Returns a record of random embeddings; a spectrum of zeros is NaN."""
  rng = np.random.default_rng(0)
  encoders = {}
  for number, method in enumerate(record.predictions.cosines):
    encoders[method] = lambda sentences, number=number: (number > 0) * rng.normal(size=[len(sentences), 5])
  spectra = measure_spectra(record.predictions.pairs, encoders, record.predictions.cosines)
  return dataclasses.replace(record, spectra=spectra)
