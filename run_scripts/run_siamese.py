"""Fine-tunes an encoder on pairs, with a flow or without; evaluates and predicts with it. The published runner.

bert-flow siamese --task_name=ALLNLI --do_train --model=base --data_dir=FOLDER
bert-flow siamese --task_name=STS-B --do_train --do_predict --flow=1 --flow_loss=1 --num_examples=0

Flags, defaults and files follow the published code, not bert-flow fit, whose defaults stand in brackets:
sentence_embedding_type avg (avg-first-last), max_seq_length 128 (64), flow_model_config config_l3_d3_w32
(config_l2_d3_w32), num_train_epochs 3 (1), and use_full_for_training is 0. docs/fine_tuning.md lists the
differences from the published code.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.data.siamese_task import TrainingPairs, predicted_pairs, training_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import KINDS, DataSettings, load_task, task_names
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import OutputSettings
from bert_flow_tf.io.files import owned
from bert_flow_tf.report import result_files
from bert_flow_tf.training.siamese.settings import SiameseEmbedding, SiameseSettings, siamese_name
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

# Flags of the published runner without a meaning: {flag: (default, reason)}. It reads the first three nowhere.
_WITHOUT_MEANING = {
  "label_min": (0.0, "the task decides the scale of its labels"),
  "label_max": (5.0, "the task decides the scale of its labels"),
  "auc": (False, "the task decides its metric; results.json has the AUC of tasks with labels 0 and 1"),
  "log_every_step": (10, "progress is shown all the time, and TensorBoard has every step"),
  "start_delay_secs": (120, "early_stopping evaluates once an epoch"),
  "throttle_secs": (600, "early_stopping evaluates once an epoch"),
}
# Where the published runner has SentEval.
_SENTEVAL = "../SentEval"
_DEFINE: dict[type, Callable[..., flags.FlagHolder]] = {
  float: flags.DEFINE_float,
  bool: flags.DEFINE_boolean,
  int: flags.DEFINE_integer,
}


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_string("task", None, f"One of {', '.join(task_names(KINDS))}, in any case; also --task_name.")
  flags.DEFINE_alias("task_name", "task")
  flags.DEFINE_boolean("do_train", False, "Train, and save checkpoints, encoder, classifier and flow.")
  flags.DEFINE_boolean("do_eval", False, "Evaluate the latest checkpoint on dev: eval_results.txt.")
  flags.DEFINE_boolean("do_predict", False, "Write the cosines of the test split: test_results.tsv.")
  flags.DEFINE_boolean("do_predict_on_dev", False, "With do_predict: predict the dev split, instead of test.")
  flags.DEFINE_boolean("do_predict_on_full", False, "With do_predict: predict test, dev and train, instead of test.")
  flags.DEFINE_boolean("predict_pool", False, "Write embeddings instead of cosines: test_pooled.tsv.")
  flags.DEFINE_string("eval_checkpoint_name", None, "Checkpoint of the experiment's folder that do_predict uses.")
  flags.DEFINE_integer("eval_batch_size", 8, "Pairs of an evaluation step, whose losses have the mean `loss`.", 1)
  flags.DEFINE_boolean(
    "do_senteval",
    False,
    "Evaluate init_checkpoint on SentEval's tasks, from senteval or else ../SentEval, and do nothing else.",
  )
  common_flags.define_senteval_flags()
  flags.DEFINE_string("senteval_tasks", "", "SentEval's names of tasks, with commas; default: those whose data exists.")
  for name, (default, reason) in _WITHOUT_MEANING.items():
    _DEFINE[type(default)](name, default, f"Without meaning: {reason}.")
  common_flags.define_data_flags(own_file=True)
  common_flags.define_settings(SiameseEmbedding)
  names = [field.name for field in dataclasses.fields(SiameseSettings)]
  names.remove("worker_wait_seconds")  # an encoder is trained on one machine
  common_flags.define_settings(SiameseSettings, names)
  common_flags.define_settings(OutputSettings)


def predicted() -> list[str]:
  """Returns the names of the predicted splits: test, or instead dev, full or both; none without do_predict."""
  if not FLAGS.do_predict:
    return []
  return [name for name in ("dev", "full") if FLAGS[f"do_predict_on_{name}"].value] or ["test"]


def check_flags(settings: SiameseSettings) -> None:
  """Validates the flags before anything is loaded; a ConfigError names one that is missing or contradicts another."""
  for name in common_flags.given(list(_WITHOUT_MEANING)):
    logging.info("%s has no meaning: %s", name, _WITHOUT_MEANING[name][1])
  for name in ("do_predict_on_dev", "do_predict_on_full"):
    if FLAGS[name].value and not FLAGS.do_predict:
      logging.warning("%s: does nothing without do_predict", name)
  if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.do_senteval):
    raise ConfigError(
      "do_train: nothing to do; expected one or more of do_train, do_eval, do_predict, do_senteval", "do_train"
    )
  for name in ("predict_pool", "eval_checkpoint_name"):
    if FLAGS[name].value and not FLAGS.do_predict:
      raise ConfigError(f"{name}: has no effect without do_predict; add do_predict", argument=name)
  settings.check_flow()
  if FLAGS.do_train and settings.trains:
    settings.check_training(FLAGS.precision, FLAGS.engine)


def choose_pairs(settings: SiameseSettings, task: TaskData) -> TrainingPairs | None:
  """Returns the training pairs; None if nothing is trained."""
  if not FLAGS.do_train:
    return None
  if not settings.trains:
    logging.info("num_train_epochs=%g: nothing is trained", settings.num_train_epochs)
    return None
  if settings.early_stopping and not task.splits_with_gold(("dev",)):
    raise ConfigError(f"early_stopping: {task.name} has no dev split with gold ({task.source})", "early_stopping")
  full, copies = settings.use_full_for_training, settings.dupe_factor
  return training_pairs(task, settings.train_splits, full, settings.num_examples, copies, settings.seed)


def evaluated_splits(settings: SiameseSettings, task: TaskData, pairs: TrainingPairs | None) -> list[str]:
  """Returns the names of the splits to evaluate, the one of eval_results.txt first; none without do_eval."""
  needs_classifier = (FLAGS.do_eval or FLAGS.do_predict) and task.labels and not FLAGS.init_checkpoint
  if needs_classifier and pairs and settings.frozen:
    raise ConfigError(
      f"num_examples=0: without labels no classifier is trained that could evaluate or predict {task.name}; evaluate "
      "the flow with bert-flow eval",
      argument="num_examples",
    )
  for name in predicted():
    predicted_pairs(task, name)  # raises an error if it has none
  if not FLAGS.do_eval:
    return []
  splits = task.splits_with_gold(("dev", "test"))
  if not splits:
    raise ConfigError(f"do_eval: {task.name} has neither dev nor test with gold ({task.source})", argument="do_eval")
  if pairs is not None and not settings.frozen:
    trained = [split for split in splits if split in pairs.splits]
    if trained:
      logging.warning("%s: trained on %s, whose scores therefore mean little", task.name, " and ".join(trained))
  return splits


def main() -> None:
  """Trains or loads, evaluates, predicts, and writes the experiment's folder."""
  if not FLAGS.task:
    raise ConfigError(f"task: missing; expected one of {', '.join(task_names(KINDS))}", argument="task")
  kinds = (DataSettings, SiameseEmbedding, SiameseSettings, OutputSettings)
  data, embedding, settings, output = map(common_flags.settings, kinds)
  check_flags(settings)
  task = load_task(
    data.task,
    data.data_dir,
    data.tfds_data_dir,
    data.stsb_gold,
    KINDS,
    as_published=settings.as_published,
    **data.own_file,
  )
  if task.spec.packaged and data.data_dir:
    raise ConfigError(f"data_dir={data.data_dir}: the task {task.name} reads no files, another task does", "data_dir")
  logging.info("%s: %s", task.name, task.source)
  pairs = choose_pairs(settings, task)
  splits = evaluated_splits(settings, task, pairs)
  folder = output.folder(siamese_name(output.exp_name_prefix, FLAGS.task, embedding, settings))
  if pairs is not None or splits:
    result_files.check_replaceable(folder, [task.name], "exp_name")
  # TensorFlow takes seconds to import: the errors above come before that.
  quiet.import_tensorflow()
  from bert_flow_tf.runs.eval_run import evaluate_senteval
  from bert_flow_tf.runs.run_folder import RunFolder
  from bert_flow_tf.runs.siamese_run import SiameseRun

  about = common_flags.about()
  run = SiameseRun(task, embedding, settings, folder, about)
  with owned(folder, "exp_name"):
    if FLAGS.do_senteval:
      run.parts.load_whole(embedding.encoder_name)
      about |= {"seconds": run.watch.seconds}
      settings = {"batch_size": 128, "trusted": FLAGS.senteval_trusted, "as_published": True}
      results = RunFolder(folder)
      tasks = FLAGS.senteval_tasks.split(",") if FLAGS.senteval_tasks else None
      folder_of_data = FLAGS.senteval or _SENTEVAL
      evaluate_senteval(folder_of_data, tasks, lambda: (run.methods(), {}), run.watch, results, about, **settings)
      return
    if pairs is not None:
      run.train(pairs)
    if splits:
      run.evaluate(splits, FLAGS.eval_batch_size)
    for name in predicted():
      run.predict(name, FLAGS.eval_checkpoint_name, FLAGS.predict_pool)
    run.write()


console = runner.command(define_flags, main)

if __name__ == "__main__":
  console()
