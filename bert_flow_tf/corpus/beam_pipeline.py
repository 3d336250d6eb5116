"""Apache Beam pipeline of a run's shards: read, RunInference, write.

An element is a whole shard. So the three steps form one stage, and each shard is written as soon as it is embedded. If
sentences were grouped into shards after the model, no file would be written before all sentences are embedded, and an
interrupted run would lose everything. Only the shards' numbers go through a shuffle. Batches of similar length are made
within a shard, so that a bundle that a runner repeats writes the same files. RunInference makes no batches of shards:
it holds a shard back until the next one arrives, and Beam's DaskRunner loses what a step emits at a bundle's end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from absl import logging
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

from bert_flow_tf.corpus.embedding import Model, embed_shard
from bert_flow_tf.corpus.index import ShardTask
from bert_flow_tf.corpus.reading import ShardReader, ShardRecords
from bert_flow_tf.corpus.records import InputFormat
from bert_flow_tf.corpus.shards import EMBEDDED, ShardFolder
from bert_flow_tf.progress import counted

NAMESPACE = "bert_flow_tf"


class EmbeddingHandler(ModelHandler):
  """Beam's interface to the model, which the picklable `load` loads in each worker; `settings` as in `embed_shard`."""

  def __init__(self, load: Callable[[], Model], settings: Mapping[str, Any]) -> None:
    super().__init__()
    self._load, self._settings = load, settings

  def load_model(self) -> Model:
    """Loads the model."""
    return self._load()

  def run_inference(
    self, batch: Sequence[tuple[ShardTask, ShardRecords]], model: Model, inference_args: dict | None = None
  ) -> list[PredictionResult]:
    """Embeds shards; an inference is the result of `embed_shard`."""
    del inference_args
    return [PredictionResult(element, embed_shard(element[1], model, self._settings)) for element in batch]

  def get_num_bytes(self, batch: Sequence[tuple[ShardTask, ShardRecords]]) -> int:
    """Returns the approximate size of the sentences in bytes."""
    return sum(4 * len(record.text) for _, shard in batch for record in shard.records)

  def get_metrics_namespace(self) -> str:
    """Returns the namespace of Beam's own counters of inference."""
    return NAMESPACE


class ReadShard(beam.DoFn):
  """`ShardTask` -> [(`ShardTask`, `ShardRecords`)], a batch of one; nothing for a shard that is finished already."""

  def __init__(self, folder: ShardFolder, input_format: InputFormat) -> None:
    self._folder, self._format = folder, input_format
    self._reader: ShardReader

  def setup(self) -> None:
    """Makes the reader, in each worker."""
    self._reader = ShardReader(self._format)

  def process(self, task: ShardTask) -> Iterator[list[tuple[ShardTask, ShardRecords]]]:
    """Reads a shard."""
    if self._folder.finished(task.number) is None:
      yield [(task, self._reader.read(task))]

  def teardown(self) -> None:
    """Closes the open file."""
    self._reader.close()


class WriteShard(beam.DoFn):
  """PredictionResult of `EmbeddingHandler` -> (number of the shard, its counters), which are Beam metrics too."""

  def __init__(self, folder: ShardFolder) -> None:
    self._folder = folder

  def process(self, result: Any) -> Iterator[tuple[int, dict[str, int]]]:
    """Writes a shard."""
    task, _ = result.example
    shard, vectors = result.inference
    counters = self._folder.write(task.number, shard, vectors)
    for name, number in counters.items():
      Metrics.counter(NAMESPACE, name).inc(number)
    embedded = counted(counters[EMBEDDED], "sentence")
    logging.info("shard %d of %d: %s", task.number, self._folder.shards, embedded)
    yield task.number, counters


def embed_shards(
  pipeline: beam.Pipeline,
  tasks: Sequence[ShardTask],
  folder: ShardFolder,
  input_format: InputFormat,
  load: Callable[[], Model],
  settings: Mapping[str, Any],
) -> beam.PCollection:
  """Adds the steps to a pipeline; returns the PCollection of (number of a shard, its counters)."""
  return (
    pipeline
    | "Shards" >> beam.Create(tasks)
    | "Spread" >> beam.Reshuffle()
    | "Read" >> beam.ParDo(ReadShard(folder, input_format))
    | "Embed" >> RunInference(EmbeddingHandler(load, settings).with_no_batching())
    | "Write" >> beam.ParDo(WriteShard(folder))
  )
