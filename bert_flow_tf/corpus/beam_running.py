"""Runs the remaining shards on a runner of Apache Beam."""

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_flow_tf.corpus.embedding import Model, pending
from bert_flow_tf.corpus.index import Index
from bert_flow_tf.corpus.records import InputFormat
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.errors import BertFlowError, ConfigError, install_command

DIRECT = "DirectRunner"
# Runners that Beam finds by their path only.
_PATHS = {"daskrunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
# Extras of Beam that runners need, by a word of the runner's name.
_EXTRAS = {"dask": "dask", "dataflow": "gcp", "interactive": "interactive"}
# Beam adds this to a step's message.
_STEP = " [while running "


def parse_options(runner: str, arguments: Sequence[str]) -> list[str]:
  """Returns Beam's options as on a command line, of a runner such as "FlinkRunner" and ["direct_num_workers=2"].

  Raises a ConfigError if Beam or the runner is not installed, Beam does not know the runner or an option, or could wait
  forever.
  """
  try:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import create_runner
  except ImportError as error:
    message = f"runner={runner}: Apache Beam is not installed: {install_command('beam')}"
    raise ConfigError(message, argument="runner") from error
  options = [f"--{argument.strip().lstrip('-')}" for argument in arguments]
  path = _PATHS.get(runner.lower(), runner)
  try:
    created = create_runner(path)  # before the options are parsed: the runner's module defines its own
  except (ValueError, ImportError, AttributeError) as error:
    raise _no_runner(runner, error) from error
  unknown: list[str] = []

  def collect_unknown(parser):
    unknown.extend(parser.parse_known_args(options)[1])

  try:
    with contextlib.redirect_stderr(io.StringIO()) as usage:  # argparse prints hundreds of lines
      known = PipelineOptions(options).get_all_options(add_extra_args_fn=collect_unknown)
  except SystemExit as error:
    reason = usage.getvalue().strip().split("error: ")[-1]
    raise _wrong_option(",".join(arguments), f"Apache Beam reports: {reason}") from error
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
  """Writes all shards that are not finished with a pipeline, and waits for its end.

  `load` is picklable and called once in each worker; `settings` are further arguments of the model's `encode`. Raises a
  BertFlowError if the pipeline fails.
  """
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
  from apache_beam.runners.portability.fn_api_runner import FnApiRunner

  from bert_flow_tf.corpus.beam_pipeline import embed_shards

  tasks, _ = pending(index, folder)
  if not tasks:
    return
  parsed = PipelineOptions(options)
  name = parsed.view_as(StandardOptions).runner.rsplit(".", 1)[-1]
  # The direct runner inside this process; Beam's own choice, Prism, is a program that it downloads.
  runner = FnApiRunner() if name == DIRECT else None
  try:
    pipeline = beam.Pipeline(runner, parsed)
    embed_shards(pipeline, tasks, folder, input_format, load, settings)
    state = pipeline.run().wait_until_finish()
  except Exception as error:  # a RuntimeError, or the error of a step
    raise BertFlowError(f"runner={name}: {reason_of(error)}", argument="runner") from error
  if state not in ("DONE", None):
    raise BertFlowError(f"runner={name}: the pipeline ended as {state}, expected DONE; see its log", argument="runner")


def reason_of(error: Exception) -> str:
  """Returns one line about a failed pipeline: the message of a `BertFlowError` if there is one, else the last line."""
  text = str(error).strip() or type(error).__name__
  if isinstance(error, BertFlowError):  # from a runner inside this process
    return text.split(_STEP)[0]
  if type(error).__name__ == "FutureTimeoutError":  # grpc's, which has no text
    return "no server answers; expected one at the job_endpoint of beam_options"
  # A worker process sends its traceback as text.
  messages = re.findall(rf"bert_flow_tf\.errors\.\w+: (.*?)(?:{re.escape(_STEP)}.*)?$", text, re.MULTILINE)
  if messages:
    return messages[0]
  return f"the pipeline failed ({text.splitlines()[-1][:300]})"


def _wrong_option(option, reason):
  return ConfigError(f"beam_options={option}: {reason}", argument="beam_options")


def _no_runner(runner, error):
  """Returns the error of a runner that cannot be made: unknown, or without the packages that it needs."""
  for word, extra in _EXTRAS.items():
    if isinstance(error, ImportError) and word in runner.lower():
      message = f"runner={runner} needs packages that are not installed: pip install 'apache-beam[{extra}]'"
      return ConfigError(message, argument="runner")
  return ConfigError(f"runner={runner}: {' '.join(str(error).split())[:300]}", argument="runner")
