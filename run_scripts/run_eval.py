"""Evaluates saved calibrations on several tasks, by a search, or a file of similarities against gold.

bert-flow eval --flow_folder=exp/NAME/flow --task=STS-B,SICK-R,STS-12-16 --data_dir=FOLDER
bert-flow eval pairs.tsv --flow_folder=exp/NAME/flow
bert-flow eval --flow_folder=exp/NAME/whitening --beir=FOLDER
bert-flow eval --flow_folder=exp/NAME/flow --senteval=SentEval/data
bert-flow eval --predictions=exp/NAME/test_results.tsv
"""

import os
import pathlib
import sys
import typing
from typing import Any

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.data.beir import BeirSettings, load_beir
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import task_names
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.scored_tasks import load_scored_tasks, score_predictions
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.io.files import owned
from bert_flow_tf.report.record import task_record
from bert_flow_tf.runs.run_folder import RunFolder, print_results
from run_scripts import common_flags, quiet, runner

if typing.TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS

_DATA_FLAGS = ["data_dir", "tfds_data_dir", "stsb_gold", "max_record_bytes", "columns", "header", "split"]


def define_flags():
  """Defines the flags of this runner."""
  flags.DEFINE_list("task", ["sample"], f"One or more of {', '.join(task_names())}.")
  flags.DEFINE_alias("task_name", "task")
  common_flags.define_data_flags(own_file=True)
  common_flags.define_settings(BeirSettings, ["beir", "ignore_identical_ids"])
  common_flags.define_encoder_flags()
  common_flags.define_calibration_flags(several=True)
  flags.DEFINE_string(
    "predictions",
    None,
    "File of similarities, in place of an encoder: with the columns gold (or score, or label) and one or more "
    "methods, as test_results.tsv or a file that bert-flow score wrote; or with --task one similarity per line.",
  )
  flags.DEFINE_string("split", None, "Evaluated split: train, dev or test. Default: the task's; test of beir.")
  flags.DEFINE_enum("metric", None, ["correlation", "auc"], "Score. Default: the task's, or correlation.")
  common_flags.define_senteval_flags()
  flags.DEFINE_list("senteval_tasks", None, "SentEval's names of tasks; default: those whose data exists.")
  common_flags.define_output_folder("Folder for results.json, report.html and, by task, test_results.tsv.")


def check_flags():
  """Validates the flags before anything is loaded."""
  common_flags.check_calibration_flags()
  # A folder may be written in two ways.
  if FLAGS.flow_folder is not None:
    folders = [os.path.realpath(os.path.expanduser(folder)) for folder in FLAGS.flow_folder if folder]
    if not folders or len(set(folders)) < len(FLAGS.flow_folder):
      value = ",".join(FLAGS.flow_folder)
      raise ConfigError(f"flow_folder={value}: expected calibrations, each once and none empty", "flow_folder")
  elif FLAGS.predictions is None:
    common_flags.check_encoder_flags()
  # The three kinds of evaluation exclude each other: tasks, SentEval's tasks, a file of similarities.
  if FLAGS.senteval is None:
    common_flags.reject(["senteval_tasks", "senteval_trusted"], "needs senteval, the folder of SentEval's data")
  else:
    for names in (["task", "metric", "predictions"], _DATA_FLAGS):
      common_flags.reject(names, "has no use with senteval, which has its own tasks")
  if FLAGS.beir is not None:
    names = ["task", "metric", "predictions", "senteval", *_DATA_FLAGS]
    for name in ("max_record_bytes", "split"):
      names.remove(name)
    common_flags.reject(names, "has no use with beir, which is the task")
  else:
    common_flags.reject(["ignore_identical_ids"], "needs beir, the folder of a search")
  if FLAGS.predictions is not None:
    for names in (["flow_folder", "allow_other_encoder"], common_flags.encoder_flags()):
      common_flags.reject(names, "has no use with predictions, where nothing is embedded")
    if not common_flags.given(["task"]):
      common_flags.reject(_DATA_FLAGS, "needs task if predictions is given")
    elif len(FLAGS.task) != 1:
      raise ConfigError(f"task={','.join(FLAGS.task)}: expected one task, as predictions are of one", "task")


def selected_tasks(folder: RunFolder | None) -> list[TaskData]:
  """Loads the tasks of the flags, each with the split that is evaluated."""
  # The folder may have results of other tasks, which would be lost.
  if FLAGS.beir is not None:
    search = load_beir(FLAGS.beir, FLAGS.split, FLAGS.max_record_bytes, FLAGS.ignore_identical_ids)
    logging.info("%s: %s", search.name, search.source)
    if folder is not None:
      folder.check([search.name])
    return [search]
  paths = (FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold)
  own_file = (FLAGS.max_record_bytes, FLAGS.columns, FLAGS.header)
  tasks = load_scored_tasks(FLAGS.task, *paths, FLAGS.split, FLAGS.metric, *own_file)
  if folder is not None:
    folder.check([task.spec.name for task in tasks])
  return tasks


def load_models() -> tuple[dict[str, "SentenceModel"], dict[str, Any]]:
  """Loads {method: model} of the flags, the encoder alone first, and describes them for results.json."""
  from bert_flow_tf.runs import eval_run

  # The calibrations' folders name the encoder; without a calibration, the flags do.
  folders = FLAGS.flow_folder or []
  if folders:
    arguments = common_flags.given_model_arguments()
    models = eval_run.load_calibrated(folders, allow_other_encoder=FLAGS.allow_other_encoder, **arguments)
  else:
    models = {WITHOUT_FLOW: common_flags.load_model()}
  return models, eval_run.describe_models(models, folders)


def main() -> None:
  """Evaluates the encoder, or the file of similarities, and reports."""
  check_flags()
  if FLAGS.output is None:
    run_evaluation(None)
    return
  folder = RunFolder(pathlib.Path(FLAGS.output), "output_dir", by_task=True)
  with owned(folder.path, "output_dir"):
    run_evaluation(folder)


def run_evaluation(folder: RunFolder | None) -> None:
  """Evaluates the models of the flags, prints a table, and writes a folder unless it is None."""
  # Entries of results.json in any run.
  watch = Stopwatch()
  about = {"seconds": watch.seconds, **common_flags.about()}

  if FLAGS.senteval is not None:
    quiet.import_tensorflow()
    from bert_flow_tf.runs.eval_run import evaluate_senteval

    settings = {"batch_size": FLAGS.predict_batch_size, "trusted": FLAGS.senteval_trusted}
    evaluate_senteval(FLAGS.senteval, FLAGS.senteval_tasks, load_models, watch, folder, about, **settings)
    return

  if FLAGS.predictions is not None:
    # Gold stands in the file, or is a task's.
    task = None
    if common_flags.given(["task"]):
      (task,) = selected_tasks(folder)
    with watch.timing("evaluating"):
      task, evaluations = score_predictions(FLAGS.predictions, task, FLAGS.metric)
      records = [task_record(task, evaluations)]
    about |= {"predictions": FLAGS.predictions}
  else:
    tasks = selected_tasks(folder)
    from bert_flow_tf.runs.eval_run import evaluate_models

    models, of_models = load_models()
    records = evaluate_models(models, tasks, watch, FLAGS.predict_batch_size, FLAGS.cached_dir)
    about |= of_models
  # The files come before the table, which names the page.
  results = [record.result for record in records]
  about["data"] = {result.name: result.source for result in results}
  path = None
  if folder is not None:
    names = ", ".join(result.name for result in results)
    path = folder.write(f"Evaluation on {names}", records, about, predictions=FLAGS.predictions is None)
  print_results(results, watch.seconds, path)


console = runner.command(define_flags, main, resumes=False, take_arguments=common_flags.take_task_file)

if __name__ == "__main__":
  console()
