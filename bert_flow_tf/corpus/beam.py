"""Embeds the remaining shards on a runner of Apache Beam.

An element of the pipeline is a whole shard, which one step reads, embeds and writes: batches of similar length are made
within a shard, and a bundle that a runner repeats writes the same files.
"""

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import apache_beam as beam
from absl import logging
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import create_runner
from apache_beam.utils.shared import Shared

from bert_flow_tf.corpus.embedding import embed_shard, pending
from bert_flow_tf.corpus.shard_plan import ShardPlan, ShardReader, ShardTask
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.shards import EMBEDDED, ShardFolder

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

DIRECT = "DirectRunner"
# Runners that Beam finds by their path only.
_PATHS = {"daskrunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
# Beam adds this to a step's message.
_STEP = " [while running "


class EmbedShard(beam.DoFn):
  """Reads, embeds and writes a `ShardTask`; `load` is picklable, `settings` are as in `embed_shard`."""

  def __init__(
    self,
    folder: ShardFolder,
    input_format: InputFormat,
    load: Callable[[], "SentenceModel"],
    settings: Mapping[str, object],
  ) -> None:
    self._folder, self._format, self._load, self._settings = folder, input_format, load, settings
    # All threads of a worker use one model.
    self._shared = Shared()
    self._reader: ShardReader
    self._model: SentenceModel

  def setup(self) -> None:
    """Loads the model in each worker."""
    self._reader = ShardReader(self._format)
    self._model = self._shared.acquire(self._load)

  def process(self, task: ShardTask) -> None:
    """Writes a shard, unless an earlier try has finished it."""
    if self._folder.finished(task.number) is not None:
      return
    shard, vectors = embed_shard(self._reader.read(task), self._model, self._settings)
    counters = self._folder.write(task.number, shard, vectors)
    embedded = counted(counters[EMBEDDED], "sentence")
    logging.info("shard %d of %d: %s", task.number, self._folder.shards, embedded)

  def teardown(self) -> None:
    """Closes the open file."""
    self._reader.close()


def parse_options(runner: str, arguments: Sequence[str]) -> list[str]:
  """Returns Beam's options as on a command line, of a runner such as "FlinkRunner" and ["direct_num_workers=2"]."""
  options = [f"--{argument.strip().lstrip('-')}" for argument in arguments]
  path = _PATHS.get(runner.lower(), runner)
  try:
    # The runner's module defines options, so it is imported before options are parsed.
    create_runner(path)
  except (ValueError, ImportError, AttributeError) as error:
    raise ConfigError(f"runner={runner}: {' '.join(str(error).split())[:300]}", argument="runner") from error
  unknown: list[str] = []

  def collect_unknown(parser):
    unknown.extend(parser.parse_known_args(options)[1])

  try:
    with contextlib.redirect_stderr(io.StringIO()) as usage:  # argparse prints hundreds of lines
      PipelineOptions(options).get_all_options(add_extra_args_fn=collect_unknown)
  except SystemExit as error:
    reason = usage.getvalue().strip().split("error: ")[-1]
    raise _wrong_option(",".join(arguments), f"Apache Beam reports: {reason}") from error
  # Beam ignores options that it does not know.
  for option in options:
    if option in unknown or option.startswith("--runner="):
      raise _wrong_option(option[2:], "expected an option of Apache Beam, without the runner")
  return [*options, f"--runner={path}"]


def run_beam(
  plan: ShardPlan,
  folder: ShardFolder,
  input_format: InputFormat,
  load: Callable[[], "SentenceModel"],
  settings: Mapping[str, object],
  options: Sequence[str],
) -> None:
  """Writes all shards that are not finished with a pipeline, and waits for its end; `settings` as in `embed_shard`."""
  tasks, _ = pending(plan, folder)
  if not tasks:
    return
  parsed = PipelineOptions(options)
  name = parsed.view_as(StandardOptions).runner.rsplit(".", 1)[-1]
  # The direct runner inside this process; Beam's own choice, Prism, is a program that it downloads.
  runner = FnApiRunner() if name == DIRECT else None
  try:
    pipeline = beam.Pipeline(runner, parsed)
    numbers = pipeline | "Shards" >> beam.Create(tasks) | "Spread" >> beam.Reshuffle()
    _ = numbers | "Embed" >> beam.ParDo(EmbedShard(folder, input_format, load, settings))
    state = pipeline.run().wait_until_finish()
  except Exception as error:  # a RuntimeError, or the error of a step
    raise BertFlowError(f"runner={name}: {reason_of(error)}", argument="runner") from error
  if state not in ("DONE", None):
    raise BertFlowError(f"runner={name}: the pipeline ended as {state}, expected DONE; see its log", argument="runner")


def reason_of(error: Exception) -> str:
  """Returns the reason for a failed pipeline in one line: the message of a `BertFlowError`, else the last line."""
  text = str(error).strip() or type(error).__name__
  # A runner inside this process raises the package's error itself.
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
