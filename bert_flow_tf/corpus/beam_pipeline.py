"""The shards of a run as an Apache Beam pipeline: read, RunInference, write.

An element is a whole shard, so that the three steps are fused into one stage and each shard is on the disk as soon as
it is embedded: grouping sentences by shard after the model would hold back every file until all sentences are embedded,
and an interrupted run would begin again from nothing. Only shard numbers go through a shuffle. Batches by length are
made inside a shard, the same ones wherever it is done, so that a bundle that a runner repeats writes the same files.
"""

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

from bert_flow_tf.corpus.embedding import embed_shard
from bert_flow_tf.corpus.reading import ShardReader

NAMESPACE = "bert_flow_tf"


class EmbeddingHandler(ModelHandler):
  """Beam's view of whatever embeds: a live encoder with its calibration, or a SavedModel.

  Args:
    load: picklable; called once in each worker, returns list of str -> float32 [n, dim].
    dim: dimensions of a vector.
  """

  def __init__(self, load, dim):
    super().__init__()
    self._load, self._dim = load, dim

  def load_model(self):
    """The callable that embeds."""
    return self._load()

  def run_inference(self, batch, model, inference_args=None):
    """Embeds shards, [(`ShardTask`, `ShardRecords`)]; the inference is what `embed_shard` returns."""
    del inference_args
    return [PredictionResult(shard, embed_shard(shard[1], model, self._dim)) for shard in batch]

  def batch_elements_kwargs(self):
    """One shard at a time: it is cut into batches here, and the next one is read when it is written."""
    return {"min_batch_size": 1, "max_batch_size": 1}

  def get_num_bytes(self, batch):
    """Bytes of the sentences, as UTF-32 has them."""
    return sum(4 * len(record.text) for _, found in batch for record in found.records)

  def get_metrics_namespace(self):
    """Where Beam's own counters of inference are."""
    return NAMESPACE


class ReadShard(beam.DoFn):
  """`ShardTask` -> (`ShardTask`, `ShardRecords`); nothing where another attempt has finished the shard.

  Args:
    folder: `ShardFolder`.
    wanted: `InputFormat`.
  """

  def __init__(self, folder, wanted):
    self._folder, self._wanted = folder, wanted
    self._reader = None

  def setup(self):
    """In each worker."""
    self._reader = ShardReader(self._wanted)

  def process(self, task):
    """Reads one."""
    if self._folder.finished(task.number) is None:
      yield task, self._reader.read(task)

  def teardown(self):
    """Closes what is open."""
    self._reader.close()


class WriteShard(beam.DoFn):
  """PredictionResult of `EmbeddingHandler` -> (number of the shard, its counters); counts them as Beam's metrics too.

  Args:
    folder: `ShardFolder`.
  """

  def __init__(self, folder):
    self._folder = folder

  def process(self, result):
    """Writes one."""
    (task, _), (found, vectors) = result.example, result.inference
    counters = self._folder.write(task.number, found, vectors)
    for name, number in counters.items():
      Metrics.counter(NAMESPACE, name).inc(number)
    yield task.number, counters


def embed_shards(pipeline, tasks, folder, wanted, load):
  """Adds the steps to a pipeline.

  Args:
    pipeline: `beam.Pipeline`.
    tasks: the `ShardTask`s to do.
    folder: `ShardFolder`.
    wanted: `InputFormat`.
    load: as for `EmbeddingHandler`.

  Returns:
    PCollection of (number of a shard, its counters).
  """
  return (
    pipeline
    | "Shards" >> beam.Create(tasks)
    | "Spread" >> beam.Reshuffle()
    | "Read" >> beam.ParDo(ReadShard(folder, wanted))
    | "Embed" >> RunInference(EmbeddingHandler(load, folder.dim))
    | "Write" >> beam.ParDo(WriteShard(folder))
  )
