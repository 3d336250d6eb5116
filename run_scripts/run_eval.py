"""Evaluates saved calibrations on several tasks, or a file of similarities against gold.

python run_eval.py --flow_folder=exp/NAME/flow --task=STS-B,SICK-R,STS-12-16 --data_dir=FOLDER
python run_eval.py --flow_folder=exp/NAME/flow --senteval=SentEval/data
python run_eval.py --predictions=exp/NAME/test_results.tsv
"""

import dataclasses
import functools
import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from absl import flags, logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task, load_task, task_names
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.predictions import check_predictions, read_predictions
from bert_flow_tf.evaluation.task_figures import (
  WITHOUT_FLOW,
  Embeddings,
  by_split,
  evaluate,
  figures_of_split,
  gains,
  say,
)
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from run_scripts import common_flags, senteval_run
from run_scripts.saved import DECIDING_FLAGS, check_saved, load_encoder, load_saved, saved_identity

FLAGS = flags.FLAGS

_DATA_FLAGS = ("data_dir", "tfds_data_dir", "stsb_gold", "split")
_ENCODER_FLAGS = ("model", "init_checkpoint", "model_cache_dir", *DECIDING_FLAGS, "predict_batch_size", "cached_dir")


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_list("task", ["sample"], f"One or more of {', '.join(task_names())}.")
  flags.DEFINE_alias("task_name", "task")
  common_flags.define_data_flags()
  common_flags.define_encoder_flags()
  flags.DEFINE_list(
    "flow_folder",
    None,
    "Folders of calibrations that run_flow saved, as exp/NAME/flow,exp/NAME/whitening-64. They say which encoder, "
    "pooling, max_seq_length and low_dim are used, unless those flags are given. Without it, the encoder alone.",
  )
  flags.DEFINE_boolean("allow_other_encoder", False, "Apply a calibration to another encoder than it was fitted for.")
  flags.DEFINE_string(
    "predictions",
    None,
    "File of similarities, in place of an encoder: a TSV with the columns gold and one or more methods, as "
    "test_results.tsv; or with --task a similarity a line.",
  )
  flags.DEFINE_enum("split", None, ["train", "dev", "test"], "Evaluated split; the task's own if not given.")
  flags.DEFINE_enum("metric", None, ["correlation", "auc"], "The task's own, or correlation, if not given.")
  senteval_run.define_flags()
  flags.DEFINE_string("output_dir", None, "Folder for results.json and, by task, test_results.tsv.")


def check_flags():
  """Refuses flags that contradict each other.

  Raises:
    ConfigError: they do.
  """
  common_flags.check_not_empty(("predictions", "senteval", "output_dir", "cached_dir", "model_cache_dir"))
  if FLAGS.senteval is None and common_flags.given(["senteval_tasks"]):
    raise ConfigError("--senteval_tasks needs --senteval=FOLDER, to say where SentEval's data is")
  if FLAGS.senteval is not None:
    useless = common_flags.given(["task", "metric", "predictions", *_DATA_FLAGS])
    if useless:
      raise ConfigError(f"--{useless[0]} is of no use with --senteval, which has its own tasks; leave one out")
  if FLAGS.predictions is not None:
    useless = common_flags.given(["flow_folder", "allow_other_encoder", *_ENCODER_FLAGS])
    if useless:
      raise ConfigError(f"--{useless[0]} is of no use with --predictions, where nothing is embedded; leave one out")
    useless = [] if common_flags.given(["task"]) else common_flags.given(_DATA_FLAGS)
    if useless:
      raise ConfigError(f"--{useless[0]} needs --task beside --predictions, to say whose gold it is about")
  if FLAGS.allow_other_encoder and FLAGS.flow_folder is None:
    raise ConfigError("--allow_other_encoder needs --flow_folder: there is no calibration to apply")


def load_tasks():
  """The `TaskData` of --task, each with the one split that is evaluated.

  Raises:
    ConfigError: a task is unknown or named twice, or has no gold.
    DataError: its data cannot be read.
  """
  specs = [find_task(name.strip()) for name in FLAGS.task]
  names = [spec.name for spec in specs]
  if not names or len(set(names)) < len(names):
    raise ConfigError(f"--task={','.join(FLAGS.task)}: expected one or more tasks, each once")
  if names == ["sample"] and FLAGS.data_dir:
    raise ConfigError(f"--data_dir={FLAGS.data_dir}: --task=sample reads no files, say which --task does")
  tasks = [load_task(name, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold) for name in names]
  for task in tasks:
    logging.info("%s: %s", task.spec.name, task.source)
  return [_evaluated_split(task) for task in tasks]


def _evaluated_split(task):
  """The task with no split but --split, or its own, and with --metric."""
  name, split = task.spec.name, FLAGS.split or task.spec.eval_split
  if split is None:
    raise ConfigError(f"--task={name}: {task.source} has no gold scores, so that there is nothing to compare with")
  if split not in task.splits:
    raise ConfigError(f"--split={split}: {name} has {', '.join(task.splits)}")
  pairs = task.splits[split]
  if np.isnan(pairs.scores).all():
    raise ConfigError(f"--split={split}: no pair of {name} has gold there")
  return _with_metric(TaskData(dataclasses.replace(task.spec, eval_split=split), {split: pairs}, task.source))


def _with_metric(task):
  metric = FLAGS.metric or task.spec.metric
  gold = task.splits[task.spec.eval_split].scores
  others = gold[~np.isnan(gold) & (gold != 0) & (gold != 1)]
  if metric == "auc" and others.size:
    raise ConfigError(f"--metric=auc needs gold of 0 and 1, found {others[0]:g} ({task.source})")
  return dataclasses.replace(task, spec=task.spec.with_metric(metric))


def evaluate_predictions():
  """Figures of --predictions: [(`TaskData`, {method: (figures, cosines)})].

  Raises:
    ConfigError: a file without gold, and no --task.
    DataError: the file is malformed, or does not belong to the task.
  """
  path = os.path.expanduser(FLAGS.predictions)
  gold, similarities, first_line = read_predictions(path)
  if common_flags.given(["task"]):
    tasks = load_tasks()
    if len(tasks) > 1:
      raise ConfigError(f"--task={','.join(FLAGS.task)}: --predictions are those of one task")
    task = tasks[0]
    _check_gold(path, task, gold, next(iter(similarities.values())), first_line)
  elif gold is None:
    raise ConfigError(f"--predictions={FLAGS.predictions} has no column of gold; --task=... says whose it is")
  else:
    blank = [""] * len(gold)
    spec = dataclasses.replace(find_task("custom"), name=pathlib.Path(path).name, eval_split="test")
    task = _with_metric(TaskData(spec, {"test": SentencePairs(blank, blank, gold)}, path))
  split = task.spec.eval_split
  pairs = task.splits[split]
  check_predictions(path, similarities, pairs.scores, first_line)
  found = {
    method: (figures_of_split(split, pairs, values, task.spec.metric), {split: values})
    for method, values in similarities.items()
  }
  if not next(iter(found.values()))[0]:
    raise DataError(f"{path}: every gold is nan, expected one or more numbers")
  return [(task, found)]


def _check_gold(path, task, gold, similarities, first_line):
  """Refuses a file that is not about the task's pairs."""
  split = task.spec.eval_split
  scores = task.splits[split].scores
  if len(similarities) != len(scores):
    raise DataError(
      f"{path} has {len(similarities)} similarities, the {split} split of {task.spec.name} {len(scores)} pairs"
    )
  # Some files and data sets round it, to 5 or 6 decimals.
  differ = [] if gold is None else np.flatnonzero(~np.isclose(gold, scores, rtol=0.0, atol=1e-5, equal_nan=True))
  if len(differ):
    row = differ[0]
    raise DataError(
      f"{path}, line {row + first_line}: gold is {gold[row]}, in the {split} split of {task.spec.name} it is "
      f"{scores[row]}; leave --task out to take the file's own"
    )


def load_model():
  """The encoder, how it embeds, {method: `Saved`} of --flow_folder, and facts about them for results.json."""
  saved = {} if FLAGS.flow_folder is None else load_saved(FLAGS.flow_folder)
  folder, identity = saved_identity(saved)
  encoder, arguments = load_encoder(folder, identity)
  encoder.bert.check_max_seq_length(arguments["max_seq_length"])
  dim = encoder.dim(arguments["sentence_embedding_type"], arguments["low_dim"])
  identity = encoder.identity(**arguments)
  check_saved(saved, identity, dim, FLAGS.allow_other_encoder)
  pooling = encoder.pooling(arguments["sentence_embedding_type"]).describe()
  logging.info("%s: %d dimensions, %s", encoder.name, dim, pooling)
  for method, (folder, calibration) in saved.items():
    logging.info("%s: %s in %s", method.replace("_", " "), calibration.name, folder)
  calibrations = {name: {"name": one.calibration.name, "folder": one.folder} for name, one in saved.items()}
  return encoder, arguments, saved, {"encoder": {**identity, "pooling": pooling}, "calibrations": calibrations}


def evaluate_encoder(watch):
  """Figures of the encoder without and with --flow_folder: what `evaluate_predictions` gives, and facts for results."""
  tasks = load_tasks()
  encoder, arguments, saved, about = load_model()
  if FLAGS.output_dir is not None:
    make_folder(FLAGS.output_dir, "output_dir")
  with watch.timing("embedding"):
    sets = [pairs for task in tasks for pairs in task.splits.values()]
    embeddings = Embeddings(encoder, sets, FLAGS.predict_batch_size, FLAGS.cached_dir, **arguments)
  transforms = {WITHOUT_FLOW: lambda u: u} | {name: one.calibration.transform for name, one in saved.items()}
  with watch.timing("evaluating"):
    found = [(task, {name: evaluate(task, embeddings, f) for name, f in transforms.items()}) for task in tasks]
  return found, about


def evaluate_senteval(watch):
  """Figures on SentEval's tasks, said and written.

  Raises:
    ConfigError: a task failed, once the others are written.
  """
  with senteval_run.opened(FLAGS.predict_batch_size) as (engine, tasks):
    encoder, arguments, saved, about = load_model()
    if FLAGS.output_dir is not None:
      make_folder(FLAGS.output_dir, "output_dir")
    embed = functools.partial(encoder.encode, batch_size=FLAGS.predict_batch_size, cache=FLAGS.cached_dir, **arguments)
    results, failed = senteval_run.run(engine, tasks, embed, saved, watch)
  about |= {"senteval": {"by": engine.name, "failed": failed}, **facts(watch)}
  if FLAGS.output_dir is not None:
    report.write_results(pathlib.Path(FLAGS.output_dir), {"results": results, **about})
  senteval_run.say(results, watch.seconds)
  if failed:
    raise ConfigError(f"--senteval: {len(failed)} of {len(failed) + len(results)} tasks failed: {', '.join(failed)}")


def facts(watch):
  """What results.json says of any run."""
  return {
    "seconds": watch.seconds,
    "flags": {flag.name: flag.value for flag in common_flags.own_flags()},
    "versions": common_flags.versions(),
  }


def write(evaluated, results, intervals, about):
  """Writes results.json and, of what was embedded, each task's predictions below --output_dir."""
  folder = pathlib.Path(FLAGS.output_dir)
  make_folder(folder, "output_dir")
  report.write_results(folder, {"results": results, "gain": intervals, **about})
  for task, found in [] if FLAGS.predictions else evaluated:
    (pairs,) = task.splits.values()
    cosines = {method: similarities[task.spec.eval_split] for method, (_, similarities) in found.items()}
    make_folder(folder / task.spec.name, "output_dir")
    report.write_predictions(folder / task.spec.name, pairs, cosines)


def main(argv):
  """Similarities, from an encoder or from a file; agreement with gold; report."""
  del argv
  watch = Stopwatch()
  check_flags()
  if FLAGS.senteval is not None:
    evaluate_senteval(watch)
    return
  if FLAGS.predictions is None:
    evaluated, about = evaluate_encoder(watch)
  else:
    with watch.timing("evaluating"):
      evaluated, about = evaluate_predictions(), {"predictions": FLAGS.predictions}
  results = {task.spec.name: by_split(found) for task, found in evaluated}
  intervals = {}
  for task, found in evaluated:
    cosines = {method: similarities for method, (_, similarities) in found.items()}
    intervals[task.spec.name] = gains(task, cosines) if len(cosines) > 1 else {}
  about |= {
    "data": {task.spec.name: task.source for task, _ in evaluated},
    **facts(watch),
  }
  if FLAGS.output_dir is not None:
    write(evaluated, results, intervals, about)
  say(_rows(results), _rows(intervals), watch.seconds)


def _rows(by_task):
  """{task: {split: ...}} as the table's {row: ...}: the splits of one task, else each with its task's name."""
  named = {name: f"{name} " for name in by_task} if len(by_task) > 1 else dict.fromkeys(by_task, "")
  return {named[name] + split: value for name, splits in by_task.items() for split, value in splits.items()}


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
