"""run_eval.py --senteval: SentEval's tasks, by SentEval itself where it is there, else by its definitions."""

import contextlib

import numpy as np
from absl import flags, logging

from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.task_figures import WITHOUT_FLOW
from bert_flow_tf.integrations import senteval_engine
from bert_flow_tf.integrations.senteval import SentEvalAdapter

FLAGS = flags.FLAGS


def define_flags():
  """The flags of SentEval."""
  flags.DEFINE_string(
    "senteval",
    None,
    "SentEval's data folder (with downstream/ in it), its checkout, or a folder as --data_dir takes it: evaluate on "
    "SentEval's tasks in place of --task, by SentEval itself where it can be imported, else by its definitions of the "
    "similarity tasks.",
  )
  flags.DEFINE_list(
    "senteval_tasks",
    None,
    f"SentEval's names of tasks; those of {', '.join(senteval_engine.SIMILARITY_TASKS)} whose data is there if not "
    "given.",
  )


@contextlib.contextmanager
def opened(batch_size):
  """Context that gives what evaluates (`SentEval` or `OwnEngine`) and the names of the tasks.

  Args:
    batch_size: sentences handed over at once.

  Raises:
    ConfigError: --senteval holds no data, or --senteval_tasks is not allowed.
  """
  with senteval_engine.task_path(FLAGS.senteval) as path:
    engine = senteval_engine.find_engine(FLAGS.senteval, path, batch_size)
    tasks = senteval_engine.check_tasks(FLAGS.senteval_tasks, path, engine)
    logging.info("%s: %s", engine.name, ", ".join(tasks))
    yield engine, tasks


def run(engine, tasks, embed, saved, watch):
  """Evaluates an encoder without and with its calibrations.

  Args:
    engine: of `opened`.
    tasks: of `opened`.
    embed: list of n str -> embeddings [n, dim].
    saved: {method: `Saved`}.
    watch: `Stopwatch`.

  Returns:
    {task: {row: {method: figures}}}, and {task: why it failed}.

  Raises:
    ConfigError: none could be evaluated.
  """

  def timed(sentences):
    with watch.timing("embedding"):
      return embed(sentences)

  transforms = {WITHOUT_FLOW: lambda u: u} | {name: one.calibration.transform for name, one in saved.items()}
  results, failed = {}, {}
  for task in tasks:
    embed_once = _remembering(timed)
    try:
      with watch.timing("evaluating"):
        found = {name: _evaluate(engine, task, embed_once, f) for name, f in transforms.items()}
    except BertFlowError as error:
      logging.error("%s: %s", task, error)
      failed[task] = str(error)
      continue
    rows = next(iter(found.values()))
    results[task] = {row: {name: figures[row] for name, figures in found.items()} for row in rows}
  if not results:
    raise ConfigError(f"--senteval={FLAGS.senteval}: {next(iter(failed.values()))}")
  return results, failed


def say(results, seconds):
  """Prints the table.

  Args:
    results: {task: {row: {method: figures}}}.
    seconds: {what: seconds}.
  """
  print(report.table({row: methods for rows in results.values() for row, methods in rows.items()}, seconds))


def _evaluate(engine, task, embed, transform):
  """{row: figures} of one method."""
  adapter = SentEvalAdapter(lambda sentences: np.asarray(transform(embed(sentences)), np.float32))
  return engine.evaluate(task, adapter.batcher, adapter.prepare)


def _remembering(embed):
  """`embed` that has the answer to the question before: every method asks for the same sentences."""
  last = {}

  def embed_once(sentences):
    if last.get("sentences") != sentences:
      last.update(sentences=sentences, rows=embed(sentences))
    return last["rows"]

  return embed_once
