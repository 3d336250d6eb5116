"""Embeds shards in this process; a sentence without an embedding becomes a bad record."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from bert_flow_tf.corpus.index import BadRecord, Index, ShardReader, ShardRecords, ShardTask
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import CalibrationError, EncoderError
from bert_flow_tf.io import storage
from bert_flow_tf.neighbors.duplicates import unread_keys
from bert_flow_tf.progress import Progress

# Sentences embedded per call: enough to sort by length, few enough to show progress.
WINDOW = 4096
# If more sentences of a window than this have no embedding, the model is at fault and the run stops.
MAX_FAILURES = 16


class Model(Protocol):
  """Model of sentences, as `SentenceModel`."""

  @property
  def output_dim(self) -> int:
    """Dimensions of its embeddings."""

  def encode(self, sentences: list[str], batch_size: int, *, normalize_embeddings: bool) -> np.ndarray:
    """Returns the embeddings of n sentences, float32 [n, output_dim]."""


@dataclasses.dataclass(frozen=True)
class Embedder:
  """Model of a run, with a picklable `load`; `identity` are JSON values that decide its embeddings, `about` others."""

  model: Model
  load: Callable[[], Model]
  identity: Mapping[str, object] = dataclasses.field(default_factory=dict)
  about: Mapping[str, object] = dataclasses.field(default_factory=dict)


def pending(index: Index, folder: ShardFolder) -> tuple[list[ShardTask], dict[int, dict[str, int]]]:
  """Returns the shards to embed, and {number: counters} of the finished ones."""
  sizes = storage.sizes(folder.folder)
  tasks, done = [], {}
  for task in index.shards:
    counters = folder.finished(task.number, sizes)
    if counters is None:
      tasks.append(task)
    else:
      done[task.number] = counters
  return tasks, done


def run_streaming(
  index: Index, folder: ShardFolder, input_format: InputFormat, model: Model, settings: Mapping[str, object]
) -> None:
  """Writes all shards that are not finished, one after the other; `settings` are arguments of the model's `encode`."""
  tasks, _ = pending(index, folder)
  reader = ShardReader(input_format)
  finished = index.records - sum(task.records for task in tasks)
  try:
    with Progress(index.records, unit="record", done=finished) as progress:
      for task in tasks:
        shard = reader.read(task)
        progress.update(task.records - len(shard.records))
        shard, vectors = embed_shard(shard, model, settings, progress.update)
        folder.write(task.number, shard, vectors)
  finally:
    reader.close()


def embed_shard(
  shard: ShardRecords, model: Model, settings: Mapping[str, object], update: Callable[[int], None] = lambda count: None
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
  if hasattr(model, "unread"):
    shard = dataclasses.replace(shard, unread=unread_keys(model, [record.text for record in records]))
  if not failures:
    return shard, vectors
  # Leave the failures out.
  kept, good, bad = [], [], list(shard.bad)
  for row, record in enumerate(records):
    if row in failures:
      bad.append(BadRecord(record.path, record.line, "no vector", failures[row]))
    else:
      kept.append(row)
      good.append(record)
  unread = None if shard.unread is None else shard.unread[kept]
  return dataclasses.replace(shard, records=good, bad=bad, unread=unread), vectors[kept]


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
