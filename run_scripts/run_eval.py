"""Evaluates saved calibrations on several tasks, or a file of similarities against gold.

python run_scripts/run_eval.py --flow_folder=exp/NAME/flow --task=STS-B,SICK-R,STS-12-16 --data_dir=FOLDER
python run_scripts/run_eval.py --flow_folder=exp/NAME/flow --senteval=SentEval/data
python run_scripts/run_eval.py --predictions=exp/NAME/test_results.tsv
"""

import dataclasses
import functools
import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.data.tasks import task_names
from bert_flow_tf.encoder.settings import EmbeddingSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import page, report
from bert_flow_tf.evaluation.gains import gains, say
from bert_flow_tf.evaluation.scored_tasks import load_scored_tasks, score_predictions
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW, Embeddings, by_split, evaluate, method_names
from bert_flow_tf.integrations import senteval_engine
from bert_flow_tf.integrations.senteval_run import evaluate_tasks
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS

_DATA_FLAGS = ("data_dir", "tfds_data_dir", "stsb_gold", "split")
_ENCODER_FLAGS = tuple(field.name for field in dataclasses.fields(EmbeddingSettings))


def define_flags():
  """Defines the flags of this runner."""
  flags.DEFINE_list("task", ["sample"], f"One or more of {', '.join(task_names())}.")
  flags.DEFINE_alias("task_name", "task")
  common_flags.define_data_flags()
  common_flags.define_encoder_flags()
  flags.DEFINE_list(
    "flow_folder",
    None,
    "Folders of calibrations, as exp/NAME/flow,exp/NAME/whitening-64. They decide encoder, pooling, max_seq_length, "
    "low_dim, precision and token_weights, except for flags on the command line. Default: the encoder alone.",
  )
  flags.DEFINE_boolean("allow_other_encoder", False, "Apply a calibration to another encoder than it was fitted for.")
  flags.DEFINE_string(
    "predictions",
    None,
    "File of similarities, in place of an encoder: a TSV with the columns gold and one or more methods, as "
    "test_results.tsv; or with --task one similarity per line.",
  )
  flags.DEFINE_enum("split", None, ["train", "dev", "test"], "Evaluated split; the task's own if not given.")
  flags.DEFINE_enum("metric", None, ["correlation", "auc"], "The task's own, or correlation, if not given.")
  common_flags.define_senteval_flags()
  flags.DEFINE_list(
    "senteval_tasks",
    None,
    f"SentEval's names of tasks; default: those of {', '.join(senteval_engine.SIMILARITY_TASKS)} whose data exists.",
  )
  flags.DEFINE_string("output_dir", None, "Folder for results.json, report.html and, by task, test_results.tsv.")


def check_flags():
  """Validates the flags before anything is loaded.

  Raises:
    ConfigError: flags contradict each other.
  """
  common_flags.check_not_empty(("predictions", "senteval", "output_dir", "cached_dir", "model_cache_dir"))
  common_flags.check_calibration_flags()
  if FLAGS.flow_folder is not None:
    folders = [os.path.realpath(os.path.expanduser(folder)) for folder in FLAGS.flow_folder if folder]
    if not folders or len(set(folders)) < len(FLAGS.flow_folder):
      value = ",".join(FLAGS.flow_folder)
      raise _error("flow_folder", f"={value}: expected folders of calibrations, each once and none empty")
  if FLAGS.senteval is None:
    _reject(["senteval_tasks", "senteval_trusted"], "needs senteval, the folder of SentEval's data")
  else:
    _reject(["task", "metric", "predictions", *_DATA_FLAGS], "has no use with senteval, which has its own tasks")
  if FLAGS.predictions is not None:
    useless = ["flow_folder", "allow_other_encoder", *_ENCODER_FLAGS]
    _reject(useless, "has no use with predictions, where nothing is embedded")
    if not common_flags.given(["task"]):
      _reject(_DATA_FLAGS, "needs task if predictions is given")


def _reject(names, reason):
  """Raises a ConfigError if one of these flags is on the command line."""
  for name in common_flags.given(names):
    raise _error(name, f": {reason}")


def _error(argument, message):
  return ConfigError(f"{argument}{message}", argument=argument)


def load_tasks():
  """Loads the tasks of the flags: list of `TaskData`, each with the one split that is evaluated."""
  files = (FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold)
  tasks = load_scored_tasks(FLAGS.task, *files, FLAGS.split, FLAGS.metric)
  report.check_replaceable(FLAGS.output_dir, [task.spec.name for task in tasks], "output_dir")
  return tasks


def load_models():
  """Loads the encoder's `SentenceModel`, {method: `SentenceModel`} of flow_folder, and entries of results.json."""
  from bert_flow_tf.model import SentenceModel

  arguments = common_flags.given_model_arguments() | {"allow_other_encoder": FLAGS.allow_other_encoder}
  loaded = []
  for folder in FLAGS.flow_folder or []:
    loaded.append(SentenceModel.load(folder, **arguments))
    # The next calibrations share encoder and pooling.
    arguments |= {"model": loaded[0].encoder, **loaded[0].identity.model_arguments()}
  model = loaded[0] if loaded else common_flags.load_model()
  models = dict(zip(method_names(getattr(each.calibration, "name", "none") for each in loaded), loaded, strict=True))
  pooling = model.encoder.pooling(model.identity.sentence_embedding_type).describe()
  logging.info("%s: %d dimensions, %s", model.encoder.name, model.dim, pooling)
  calibrations = {
    method: {"name": getattr(calibrated.calibration, "name", "none"), "folder": os.path.expanduser(folder)}
    for (method, calibrated), folder in zip(models.items(), FLAGS.flow_folder or [], strict=True)
  }
  if FLAGS.output_dir is not None:
    make_folder(FLAGS.output_dir, "output_dir")
  return model, models, {"encoder": {**model.identity.to_dict(), "pooling": pooling}, "calibrations": calibrations}


def transforms_of(model, models):
  """Returns {method: function of embeddings [n, dim]}, without a calibration first."""
  return {WITHOUT_FLOW: model.reduce} | {name: calibrated.transform for name, calibrated in models.items()}


def evaluate_encoder(watch):
  """Evaluates the encoder without and with the calibrations.

  Returns:
    [(`TaskData`, {method: (scores, cosines)})], entries of results.json, and the embeddings and transforms.
  """
  tasks = load_tasks()
  model, models, about = load_models()
  with watch.timing("embedding"):
    sets = [pairs for task in tasks for pairs in task.splits.values()]
    arguments = model.identity.pooling_arguments()
    embeddings = Embeddings(model.encoder, sets, FLAGS.predict_batch_size, FLAGS.cached_dir, **arguments)
  transforms = transforms_of(model, models)
  with watch.timing("evaluating"):
    scores = [(task, {name: evaluate(task, embeddings, f) for name, f in transforms.items()}) for task in tasks]
  return scores, about, (embeddings, transforms)


def evaluate_predictions():
  """Evaluates the file of similarities: [(`TaskData`, {method: (scores, cosines)})]."""
  tasks = load_tasks() if common_flags.given(["task"]) else [None]
  if len(tasks) > 1:
    raise _error("task", f"={','.join(FLAGS.task)}: expected one task, as predictions are of one")
  return [score_predictions(FLAGS.predictions, tasks[0], FLAGS.metric)]


def evaluate_senteval(watch):
  """Evaluates on SentEval's tasks, writes the results and prints the table.

  Raises:
    ConfigError: a task failed; the others are written before.
  """
  with senteval_engine.task_path(FLAGS.senteval) as path:
    engine = senteval_engine.find_engine(FLAGS.senteval, path, FLAGS.predict_batch_size, FLAGS.senteval_trusted)
    tasks = senteval_engine.check_tasks(FLAGS.senteval_tasks, path, engine)
    logging.info("%s: %s", engine.name, ", ".join(tasks))
    report.check_replaceable(FLAGS.output_dir, tasks, "output_dir")
    model, models, about = load_models()
    embed = functools.partial(model.embed, batch_size=FLAGS.predict_batch_size)
    results, failed = evaluate_tasks(engine, tasks, embed, transforms_of(model, models), watch)
  if not results:
    raise _error("senteval", f"={FLAGS.senteval}: {next(iter(failed.values()))}")
  about |= {"senteval": {"by": engine.name, "failed": failed}, **facts(watch)}
  if FLAGS.output_dir is not None:
    report.write_results(pathlib.Path(FLAGS.output_dir), {"results": results, **about})
  print(report.table({row: methods for rows in results.values() for row, methods in rows.items()}, watch.seconds))
  if failed:
    raise _error("senteval", f": {len(failed)} of {len(failed) + len(results)} tasks failed: {', '.join(failed)}")


def facts(watch):
  """Returns the entries that results.json has in any run."""
  return {
    "seconds": watch.seconds,
    "flags": common_flags.values(),
    "versions": common_flags.versions(),
  }


def write(evaluated, results, intervals, about, shown):
  """Writes results.json, the predictions of each task that was embedded, and the page, whose path it returns."""
  folder = pathlib.Path(FLAGS.output_dir)
  make_folder(folder, "output_dir")
  report.write_results(folder, {"results": results, "gain": intervals, **about})
  for task, scores in [] if FLAGS.predictions else evaluated:
    if task.spec.eval_split is None:
      continue
    (pairs,) = task.splits.values()
    cosines = {method: similarities[task.spec.eval_split] for method, (_, similarities) in scores.items()}
    make_folder(folder / task.spec.name, "output_dir")
    report.write_predictions(folder / task.spec.name, pairs, cosines)
  tasks = [page.evaluated(task, *shown, scores, intervals[task.spec.name]) for task, scores in evaluated]
  return page.write_page(folder, f"Evaluation on {', '.join(results)}", tasks, about)


def main(argv):
  """Evaluates the encoder, or the file of similarities, and reports."""
  del argv
  watch = Stopwatch()
  check_flags()
  if FLAGS.senteval is not None:
    evaluate_senteval(watch)
    return
  if FLAGS.predictions is None:
    evaluated, about, shown = evaluate_encoder(watch)
  else:
    with watch.timing("evaluating"):
      evaluated, about, shown = evaluate_predictions(), {"predictions": FLAGS.predictions}, (None, {})
  results = {task.spec.name: by_split(scores) for task, scores in evaluated}
  intervals = {}
  for task, scores in evaluated:
    cosines = {method: similarities for method, (_, similarities) in scores.items()}
    intervals[task.spec.name] = gains(task, cosines) if len(cosines) > 1 else {}
  about |= {"data": {task.spec.name: task.source for task, _ in evaluated}, **facts(watch)}
  path = None
  if FLAGS.output_dir is not None:
    path = write(evaluated, results, intervals, about, shown)
  say(_rows(results), _rows(intervals), watch.seconds, path)


def _rows(by_task):
  """Returns the rows of the table: the splits of one task, or "TASK SPLIT" of several."""
  named = {name: f"{name} " for name in by_task} if len(by_task) > 1 else dict.fromkeys(by_task, "")
  return {named[name] + split: value for name, splits in by_task.items() for split, value in splits.items()}


def console():
  """Runs the installed command."""
  define_flags()
  runner.run(main, resumes=False)


if __name__ == "__main__":
  console()
