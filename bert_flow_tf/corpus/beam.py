"""Runs the remaining shards on a runner of Apache Beam: read, RunInference, write.

An element of the pipeline is a whole shard. So the three steps form one stage, and each shard is written as soon as it
is embedded. Batches of similar length are made within a shard, so that a bundle that a runner repeats writes the same
files. RunInference makes no batches of shards: it holds a shard back until the next one arrives, and Beam's DaskRunner
loses what a step emits at a bundle's end.
"""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from absl import logging
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import create_runner

from bert_flow_tf.corpus.embedding import Model, embed_shard, pending
from bert_flow_tf.corpus.index import Index, ShardTask
from bert_flow_tf.corpus.reading import InputFormat, ShardReader, ShardRecords
from bert_flow_tf.corpus.shards import EMBEDDED, ShardFolder
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.progress import counted

DIRECT = "DirectRunner"
# Runners that Beam finds by their path only.
_PATHS = {"daskrunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
# Beam adds this to a step's message.
_STEP = " [while running "
_NAMESPACE = "bert_flow_tf"


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
    return _NAMESPACE


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
      Metrics.counter(_NAMESPACE, name).inc(number)
    embedded = counted(counters[EMBEDDED], "sentence")
    logging.info("shard %d of %d: %s", task.number, self._folder.shards, embedded)
    yield task.number, counters


def parse_options(runner: str, arguments: Sequence[str]) -> list[str]:
  """Returns Beam's options as on a command line, of a runner such as "FlinkRunner" and ["direct_num_workers=2"]."""
  options = [f"--{argument.strip().lstrip('-')}" for argument in arguments]
  path = _PATHS.get(runner.lower(), runner)
  try:
    # Before the options are parsed: the runner's module defines its own.
    created = create_runner(path)
  except (ValueError, ImportError, AttributeError) as error:
    raise ConfigError(f"runner={runner}: {' '.join(str(error).split())[:300]}", argument="runner") from error
  unknown: list[str] = []

  def collect_unknown(parser):
    unknown.extend(parser.parse_known_args(options)[1])

  try:
    with contextlib.redirect_stderr(io.StringIO()) as usage:  # argparse prints hundreds of lines
      known = PipelineOptions(options).get_all_options(add_extra_args_fn=collect_unknown)
  except SystemExit as error:
    reason = usage.getvalue().strip().split("error: ")[-1]
    raise _wrong_option(",".join(arguments), f"Apache Beam reports: {reason}") from error
  # Beam ignores options that it does not know.
  for option in options:
    name = option[2:].split("=")[0]
    if name == "runner":
      raise _wrong_option(option[2:], "give the runner as runner, not among Beam's options")
    if option in unknown:
      raise _wrong_option(option[2:], f"Apache Beam has no option {name!r}")
  if runner == DIRECT and known["direct_running_mode"] == "multi_processing":
    reason = f"{DIRECT} waits forever for a worker that was killed; choose multi_threading, or another runner"
    raise _wrong_option("direct_running_mode=multi_processing", reason)
  if type(created).__name__ == "DaskRunner" and not (known["npartitions"] or known["partition_size"]):
    # An element is a shard. By default Beam gives 128 of them to a worker at once.
    options.append("--dask_partition_size=1")
  return [*options, f"--runner={path}"]


def run_beam(
  index: Index,
  folder: ShardFolder,
  input_format: InputFormat,
  load: Callable[[], Model],
  settings: Mapping[str, Any],
  options: Sequence[str],
) -> None:
  """Writes all shards that are not finished with a pipeline, and waits for its end; `settings` as in `embed_shard`."""
  tasks, _ = pending(index, folder)
  if not tasks:
    return
  parsed = PipelineOptions(options)
  name = parsed.view_as(StandardOptions).runner.rsplit(".", 1)[-1]
  # The direct runner inside this process; Beam's own choice, Prism, is a program that it downloads.
  runner = FnApiRunner() if name == DIRECT else None
  try:
    pipeline = beam.Pipeline(runner, parsed)
    numbers = pipeline | "Shards" >> beam.Create(tasks) | "Spread" >> beam.Reshuffle()
    records = numbers | "Read" >> beam.ParDo(ReadShard(folder, input_format))
    vectors = records | "Embed" >> RunInference(EmbeddingHandler(load, settings).with_no_batching())
    _ = vectors | "Write" >> beam.ParDo(WriteShard(folder))
    state = pipeline.run().wait_until_finish()
  except Exception as error:  # a RuntimeError, or the error of a step
    raise BertFlowError(f"runner={name}: {reason_of(error)}", argument="runner") from error
  if state not in ("DONE", None):
    raise BertFlowError(f"runner={name}: the pipeline ended as {state}, expected DONE; see its log", argument="runner")


def reason_of(error: Exception) -> str:
  """Returns one line about a failed pipeline: the message of a `BertFlowError` if there is one, else the last line."""
  text = str(error).strip() or type(error).__name__
  # From a runner inside this process.
  if isinstance(error, BertFlowError):
    return text.split(_STEP)[0]
  # The error of grpc, which has no text.
  if type(error).__name__ == "FutureTimeoutError":
    return "no server answers; expected one at the job_endpoint of beam_options"
  # A worker process sends its traceback as text.
  messages = re.findall(rf"bert_flow_tf\.errors\.\w+: (.*?)(?:{re.escape(_STEP)}.*)?$", text, re.MULTILINE)
  if messages:
    return messages[0]
  return f"the pipeline failed ({text.splitlines()[-1][:300]})"


def _wrong_option(option, reason):
  return ConfigError(f"beam_options={option}: {reason}", argument="beam_options")
