"""Embeds shards in this process; a sentence without an embedding becomes a bad record."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

import numpy as np

from bert_flow_tf.corpus.formats import BadRecord, InputFormat
from bert_flow_tf.corpus.index import Index, ShardTask
from bert_flow_tf.corpus.reading import ShardReader, ShardRecords
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import CalibrationError, EncoderError
from bert_flow_tf.progress import Progress

# Sentences embedded per call: enough to sort by length, few enough to show progress.
WINDOW = 4096
# If more sentences of a window than this have no embedding, the model is at fault and the run stops.
MAX_FAILURES = 16


class Model(Protocol):
  """Model of a run: a `SentenceModel` or a `SavedModelReader`."""

  @property
  def output_dim(self) -> int:
    """Dimensions of an embedding."""
    ...

  def encode(self, sentences: list[str], batch_size: int = 32) -> np.ndarray:
    """Returns embeddings, float32 array of shape [n, output_dim]."""
    ...


class Normalized:
  """Model whose embeddings are divided by their length; one of zeros stays.

  Args:
    model: the model.
  """

  def __init__(self, model: Model) -> None:
    self._model = model
    self.output_dim = model.output_dim

  def encode(self, sentences: list[str], batch_size: int = 32) -> np.ndarray:
    """Returns embeddings, float32 array of shape [n, output_dim]."""
    vectors = self._model.encode(sentences, batch_size=batch_size)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def pending(index: Index, folder: ShardFolder) -> tuple[list[ShardTask], dict[int, dict[str, int]]]:
  """Returns the shards to embed, and {number: counters} of the finished ones."""
  sizes = storage_of(folder.folder).sizes(
    folder.folder
  )  # in place of requests for each file, which take hours over a net
  receipts = {task.number: folder.finished(task.number, sizes) for task in index.shards}
  done = {number: counters for number, counters in receipts.items() if counters is not None}
  return [task for task in index.shards if task.number not in done], done


def run_streaming(
  index: Index,
  folder: ShardFolder,
  input_format: InputFormat,
  model: Model,
  batch_size: int = 64,
  show_progress: bool = True,
) -> None:
  """Writes all shards that are not finished, one after the other; memory holds one at a time.

  Args:
    index: the records.
    folder: the output.
    input_format: format of the input files.
    model: the model.
    batch_size: maximum number of sentences in a batch.
    show_progress: False to show no progress.

  Raises:
    BertFlowError: a file changed or cannot be read, or the model fails.
    OSError: a shard cannot be written.
  """
  tasks, _ = pending(index, folder)
  reader = ShardReader(input_format)
  try:
    with Progress(index.records, show_progress, done=index.records - sum(task.records for task in tasks)) as progress:
      for task in tasks:
        shard = reader.read(task)
        progress.update(task.records - len(shard.records))
        shard, vectors = embed_shard(shard, model, batch_size, progress.update)
        folder.write(task.number, shard, vectors)
  finally:
    reader.close()


def embed_shard(
  shard: ShardRecords, model: Model, batch_size: int = 64, update: Callable[[int], None] | None = None
) -> tuple[ShardRecords, np.ndarray]:
  """Embeds the records of a shard.

  Args:
    shard: the records.
    model: the model; sorts by length and makes batches itself.
    batch_size: maximum number of sentences in a batch.
    update: called with the number of sentences, each time that some are embedded.

  Returns:
    (the shard, whose records all have an embedding; float32 array of shape [n, output_dim]).

  Raises:
    EncoderError, CalibrationError: the error of the model, for more than `MAX_FAILURES` sentences of a window.
  """
  records = shard.records
  vectors = np.empty([len(records), model.output_dim], np.float32)
  failures: dict[int, str] = {}
  for start in range(0, len(records), WINDOW):
    window = [record.text for record in records[start : start + WINDOW]]
    failed: dict[int, Exception] = {}
    _embed_window(window, model, batch_size, vectors[start : start + len(window)], 0, failed)
    failures |= {start + row: " ".join(str(error).split()) for row, error in failed.items()}
    if update is not None:
      update(len(window))
  if not failures:
    return shard, vectors
  bad = [BadRecord(records[row].path, records[row].line, "no vector", reason) for row, reason in failures.items()]
  kept = [row for row in range(len(records)) if row not in failures]
  return dataclasses.replace(shard, records=[records[row] for row in kept], bad=shard.bad + bad), vectors[kept]


def _embed_window(texts, model, batch_size, vectors, first, failed):
  """Fills `vectors`, halving what fails; adds {row: error} to `failed`, rows counted from `first`."""
  try:
    vectors[:] = model.encode(texts, batch_size=batch_size)
  except (EncoderError, CalibrationError) as error:
    if len(texts) == 1:
      failed[first] = error
      if len(failed) > MAX_FAILURES:
        raise
      return
    half = len(texts) // 2
    _embed_window(texts[:half], model, batch_size, vectors[:half], first, failed)
    _embed_window(texts[half:], model, batch_size, vectors[half:], first + half, failed)
