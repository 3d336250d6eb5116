"""What is left of a corpus, done by a runner of Apache Beam."""

from bert_flow_tf.corpus.beam_direct import run_attempts
from bert_flow_tf.corpus.beam_execute import run_pipeline
from bert_flow_tf.corpus.beam_options import DIRECT
from bert_flow_tf.corpus.streaming import pending


def run_beam(index, folder, wanted, load, runner, options, show_progress=True):
  """Writes every shard that is not finished, by a pipeline.

  Args:
    index: `Index`.
    folder: `ShardFolder`.
    wanted: `InputFormat`.
    load: picklable; called once in each worker, returns list of str -> float32 [n, dim].
    runner: name of a runner.
    options: of `parse_options`.
    show_progress: as in `Progress`; other runners than the direct one show their own.

  Raises:
    BertFlowError: the pipeline fails.
  """
  tasks, _ = pending(index, folder)
  if runner == DIRECT:
    run_attempts(index, folder, (wanted, load, options), show_progress)
  elif tasks:
    run_pipeline(tasks, folder, wanted, load, options)
