"""One run of the pipeline in this process, on any runner of Apache Beam."""

import os
import pathlib
import re
import sys

from bert_flow_tf.corpus.beam_options import DIRECT
from bert_flow_tf.errors import BertFlowError

# What Beam adds to a message.
_WHERE = " [while running "


def run_pipeline(tasks, folder, wanted, load, options):
  """Runs the pipeline, and waits.

  Args:
    tasks: the `ShardTask`s to do.
    folder: `ShardFolder`.
    wanted: `InputFormat`.
    load: as for `beam_pipeline.EmbeddingHandler`.
    options: of `parse_options`.

  Raises:
    BertFlowError: it fails.
  """
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

  from bert_flow_tf.corpus.beam_pipeline import embed_shards

  _let_workers_import_this()
  options = PipelineOptions(options)
  runner = options.get_all_options()["runner"]
  try:
    pipeline = beam.Pipeline(_direct_runner(options) if runner == DIRECT else None, options)
    embed_shards(pipeline, tasks, folder, wanted, load)
    state = pipeline.run().wait_until_finish()
  except Exception as error:  # a RuntimeError, or what a step raised
    raise BertFlowError(f"--runner={runner}: {reason_of(error)}") from error
  if state not in ("DONE", None):
    raise BertFlowError(f"--runner={runner}: the pipeline ended as {state}, expected DONE; its log says why")


def reason_of(error):
  """One line of what went wrong: the message of an error of ours where it is one, else the last line."""
  text = str(error).strip() or type(error).__name__
  if isinstance(error, BertFlowError):  # a runner inside this process
    return text.split(_WHERE)[0]
  # What a worker process raised comes as the text of its traceback.
  ours = re.findall(rf"bert_flow_tf\.errors\.\w+: (.*?)(?:{re.escape(_WHERE)}.*)?$", text, re.MULTILINE)
  return ours[0] if ours else f"the pipeline failed ({text.splitlines()[-1][:300]})"


def _direct_runner(options):
  """The runner of one machine, without the detour by Prism: a program that Beam would fetch from the web."""
  from apache_beam.portability.api import beam_provision_api_pb2
  from apache_beam.runners.portability.fn_api_runner import fn_runner
  from apache_beam.runners.portability.portable_runner import JobServiceHandle

  encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
  provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
  return fn_runner.FnApiRunner(provision_info=fn_runner.ExtendedProvisionInfo(provision))


def _let_workers_import_this():
  """Worker processes on this machine find what this process finds, a checkout that is not installed too."""
  found = [str(pathlib.Path(__file__).resolve().parents[2]), *filter(None, sys.path)]
  os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(found))
