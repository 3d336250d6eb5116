"""Embeds shards in this process; a sentence without an embedding becomes a bad record."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.corpus.shard_plan import ShardPlan, ShardReader, ShardTask
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import CalibrationError, EncoderError
from bert_flow_tf.io import storage
from bert_flow_tf.progress import Progress
from bert_flow_tf.vectors.shards import BadRecord, ShardFolder, ShardRecords
from bert_flow_tf.vectors.unread_keys import unread_keys

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

# Sentences embedded per call: enough to sort by length, few enough to show progress.
WINDOW = 4096
# If more sentences of a window than this have no embedding, the model is at fault and the run stops.
MAX_FAILURES = 16


@dataclasses.dataclass(frozen=True)
class Embedder:
  """Model of a run, with a picklable `load`; `identity` are JSON values that decide its embeddings, `about` others."""

  model: "SentenceModel"
  load: Callable[[], "SentenceModel"]
  identity: Mapping[str, object] = dataclasses.field(default_factory=dict)
  about: Mapping[str, object] = dataclasses.field(default_factory=dict)


def pending(plan: ShardPlan, folder: ShardFolder) -> tuple[list[ShardTask], dict[int, dict[str, int]]]:
  """Returns the shards to embed, and {number: counters} of the finished ones."""
  sizes = storage.sizes(folder.folder)
  tasks, done = [], {}
  for task in plan.shards:
    counters = folder.finished(task.number, sizes)
    if counters is None:
      tasks.append(task)
    else:
      done[task.number] = counters
  return tasks, done


def run_streaming(
  plan: ShardPlan,
  folder: ShardFolder,
  input_format: InputFormat,
  model: "SentenceModel",
  settings: Mapping[str, object],
) -> None:
  """Writes all shards that are not finished, one after the other; `settings` are arguments of the model's `encode`."""
  tasks, _ = pending(plan, folder)
  reader = ShardReader(input_format)
  finished = plan.records - sum(task.records for task in tasks)
  try:
    with Progress(plan.records, unit="record", done=finished) as progress:
      for task in tasks:
        shard = reader.read(task)
        progress.update(task.records - len(shard.records))
        shard, vectors = embed_shard(shard, model, settings, progress.update)
        folder.write(task.number, shard, vectors)
  finally:
    reader.close()


def embed_shard(
  shard: ShardRecords,
  model: "SentenceModel",
  settings: Mapping[str, object],
  update: Callable[[int], None] = lambda count: None,
) -> tuple[ShardRecords, np.ndarray]:
  """Returns the records that could be embedded, and embeddings [n, output_dim]; `update` gets numbers of records."""
  records = shard.records
  vectors = np.empty([len(records), model.output_dim], np.float32)
  failures: dict[int, str] = {}
  for start in range(0, len(records), WINDOW):
    window = [record.text for record in records[start : start + WINDOW]]
    failed: dict[int, Exception] = {}
    _embed_window(window, model, settings, vectors[start : start + len(window)], 0, failed)
    for row, error in failed.items():
      failures[start + row] = " ".join(str(error).split())
    update(len(window))
  keys = unread_keys(model, [record.text for record in records])
  if not failures:
    return dataclasses.replace(shard, unread=keys), vectors
  # Leave the failures out.
  kept, good, bad = [], [], list(shard.bad)
  for row, record in enumerate(records):
    if row in failures:
      bad.append(BadRecord(record.path, record.line, "no vector", failures[row]))
    else:
      kept.append(row)
      good.append(record)
  return dataclasses.replace(shard, records=good, bad=bad, unread=keys[kept]), vectors[kept]


def _embed_window(texts, model, settings, vectors, first, failed):
  """Fills `vectors`, and halves a batch that fails; adds {row: error} to `failed`, rows counted from `first`."""
  try:
    vectors[:] = model.encode(texts, **settings)
  except (EncoderError, CalibrationError) as error:
    if len(texts) == 1:
      failed[first] = error
      if len(failed) > MAX_FAILURES:
        raise
      return
    half = len(texts) // 2
    _embed_window(texts[:half], model, settings, vectors[:half], first, failed)
    _embed_window(texts[half:], model, settings, vectors[half:], first + half, failed)
