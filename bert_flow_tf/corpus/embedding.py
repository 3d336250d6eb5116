"""The vectors of a shard; a sentence whose vector cannot be computed becomes a bad record."""

import dataclasses

import numpy as np

from bert_flow_tf.corpus.formats import BadRecord
from bert_flow_tf.errors import CalibrationError, EncoderError

# Sentences embedded at a time: enough to sort by length, few enough to show progress.
WINDOW = 4096
# More sentences than this without a vector in a window, and it is the model that is at fault.
MOST_FAILURES = 16


def embed_shard(found, embed, dim, update=None):
  """Embeds the records of a shard.

  Args:
    found: `ShardRecords`.
    embed: list of str -> float32 [n, dim]; sorts by length and cuts into batches as suits it.
    dim: dimensions of a vector.
    update: called with a number of sentences as they are done.

  Returns:
    (`ShardRecords` of which each has a vector, float32 [n, dim]).

  Raises:
    EncoderError, CalibrationError: what `embed` raised, for more sentences than the odd one.
  """
  records = found.records
  vectors, failures = np.empty([len(records), dim], np.float32), {}
  for start in range(0, len(records), WINDOW):
    window = [record.text for record in records[start : start + WINDOW]]
    failed = {}
    _embed_window(window, embed, vectors[start : start + len(window)], 0, failed)
    failures |= {start + row: error for row, error in failed.items()}
    if update is not None:
      update(len(window))
  if not failures:
    return found, vectors
  bad = [BadRecord(records[row].path, records[row].line, "no vector", _line(error)) for row, error in failures.items()]
  kept = [row for row in range(len(records)) if row not in failures]
  return dataclasses.replace(found, records=[records[row] for row in kept], bad=found.bad + bad), vectors[kept]


def _embed_window(texts, embed, vectors, first, failed):
  """Fills `vectors`, halving what fails; `failed` gets {row: error}, rows counted from `first`."""
  try:
    vectors[:] = embed(texts)
  except (EncoderError, CalibrationError) as error:
    if len(texts) == 1:
      failed[first] = error
      if len(failed) > MOST_FAILURES:
        raise
      return
    half = len(texts) // 2
    _embed_window(texts[:half], embed, vectors[:half], first, failed)
    _embed_window(texts[half:], embed, vectors[half:], first + half, failed)


def _line(error):
  return " ".join(str(error).split())
