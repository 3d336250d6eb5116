"""Fine-tunes an encoder on labelled pairs, with a flow or without; evaluates and predicts with it.

python run_scripts/run_siamese.py --task_name=ALLNLI --do_train --do_eval --model=base --data_dir=FOLDER
python run_scripts/run_siamese.py --task_name=STS-B --do_train --do_predict --flow --flow_loss --num_examples=0
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.data.settings import DataSettings
from bert_flow_tf.data.siamese_task import TrainingPairs, training_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import KINDS, load_task, task_names
from bert_flow_tf.encoder.settings import EmbeddingSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report, siamese_scores
from bert_flow_tf.evaluation.task_scores import Embeddings, say
from bert_flow_tf.io.experiment import OutputSettings, Stopwatch
from bert_flow_tf.training.siamese_settings import SiameseSettings, siamese_name
from run_scripts import common_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_string("task", None, f"One of {', '.join(task_names(KINDS))}.")
  flags.DEFINE_alias("task_name", "task")
  flags.DEFINE_boolean("do_train", False, "Train, and save encoder, classifier and flow in the experiment's folder.")
  flags.DEFINE_boolean("do_eval", False, "Evaluate the dev and test splits that have gold.")
  flags.DEFINE_boolean("do_predict", False, "Write predictions of the test split.")
  flags.DEFINE_boolean("do_predict_on_dev", False, "Write predictions of the dev split, instead of test.")
  flags.DEFINE_boolean("do_predict_on_full", False, "Write predictions of all splits, instead of test.")
  flags.DEFINE_boolean("predict_pool", False, "Write the sentence embeddings of the predicted pairs too.")
  common_flags.define_data_flags()
  for part in (EmbeddingSettings, SiameseSettings, OutputSettings):
    common_flags.define_settings(part)


def predicted() -> list[str]:
  """Returns the names of the predicted splits: test, or instead dev, full or both."""
  others = [name for name in ("dev", "full") if FLAGS[f"do_predict_on_{name}"].value]
  return others or ["test"] * FLAGS.do_predict


def check_flags(settings: SiameseSettings) -> None:
  """Validates the flags before anything is loaded.

  Raises:
    ConfigError: flags are missing or contradict each other.
  """
  common_flags.check_not_empty(("output_parent_dir", "exp_name", "cached_dir", "model_cache_dir"))
  if not FLAGS.task:
    raise ConfigError(f"task: missing; expected one of {', '.join(task_names(KINDS))}", argument="task")
  if not (FLAGS.do_train or FLAGS.do_eval or predicted()):
    raise ConfigError("do_train: nothing to do; expected one or more of do_train, do_eval, do_predict", "do_train")
  if FLAGS.predict_pool and not predicted():
    raise ConfigError("predict_pool: writes embeddings of predicted pairs; add do_predict", argument="predict_pool")
  if settings.distribution_strategy == "multi_worker_mirrored":
    raise ConfigError(
      "distribution_strategy=multi_worker_mirrored: an encoder is trained on one machine; use default or mirrored",
      argument="distribution_strategy",
    )
  if FLAGS.do_train:
    settings.check_training()
    if FLAGS.precision == "float16" and not settings.frozen:
      raise ConfigError(
        "precision=float16: small gradients underflow; use bfloat16, which has float32's range, or float32",
        argument="precision",
      )


def choose_pairs(settings: SiameseSettings, task: TaskData) -> TrainingPairs | None:
  """Returns the training pairs; None without do_train.

  Raises:
    ConfigError: the task lacks a split or labels.
  """
  if not FLAGS.do_train:
    return None
  if settings.early_stopping and not task.splits_with_gold(("dev",)):
    raise ConfigError(
      f"early_stopping: {task.name} has no dev split with gold ({task.source})", argument="early_stopping"
    )
  return training_pairs(
    task,
    settings.train_splits,
    settings.use_full_for_training,
    settings.num_examples,
    settings.dupe_factor,
    settings.seed,
  )


def evaluated_splits(settings: SiameseSettings, task: TaskData, chosen: TrainingPairs | None) -> list[str]:
  """Returns the names of the splits to evaluate; none without do_eval.

  Raises:
    ConfigError: no split has gold, or labels are to be predicted without a classifier.
  """
  if (FLAGS.do_eval or predicted()) and task.labels and FLAGS.do_train and settings.frozen:
    raise ConfigError(
      f"num_examples=0: without labels no classifier is trained that could evaluate or predict {task.name}; evaluate "
      "the flow with run_eval.py",
      argument="num_examples",
    )
  for name in predicted():
    siamese_scores.predicted_pairs(task, name)
  if not FLAGS.do_eval:
    return []
  splits = task.splits_with_gold(("dev", "test"))
  if not splits:
    raise ConfigError(f"do_eval: {task.name} has neither dev nor test with gold ({task.source})", argument="do_eval")
  trained = [split for split in splits if chosen is not None and split in chosen.splits]
  if trained and not settings.frozen:
    logging.warning("%s: trained on %s, whose scores therefore mean little", task.name, " and ".join(trained))
  return splits


def main(argv: list[str]) -> None:
  """Trains or loads, evaluates, predicts, and writes the experiment's folder."""
  del argv
  watch = Stopwatch()
  data, embedding, given, output = map(
    common_flags.settings, (DataSettings, EmbeddingSettings, SiameseSettings, OutputSettings)
  )
  check_flags(given)
  task = load_task(data.task, data.data_dir, data.tfds_data_dir, data.stsb_gold, KINDS)
  if task.name == "sample" and data.data_dir:
    raise ConfigError(f"data_dir={data.data_dir}: the task sample reads no files, another task does", "data_dir")
  logging.info("%s: %s", task.name, task.source)
  settings = given.resolved(bool(task.labels), task.spec.num_train_epochs)
  chosen = choose_pairs(settings, task)
  splits = evaluated_splits(settings, task, chosen)
  folder = output.folder(siamese_name(task, data, embedding, given, output))
  # These import TensorFlow, which takes seconds: the errors above come before that.
  from bert_flow_tf.model import SentenceModel
  from bert_flow_tf.training.siamese_job import SiameseJob

  job = SiameseJob(task, embedding, settings, folder, watch)
  trained = job.load() if chosen is None else job.train(chosen)
  facts, classifier = trained.facts, trained.classifier
  if chosen is not None and facts.get("seconds_per_step"):
    memory = ", ".join(f"{size / 2**30:.2f} GiB ({device})" for device, size in facts["peak_memory_bytes"].items())
    steps = f"trained {facts['steps']} steps of {facts['batch_size']} pairs, {facts['seconds_per_step']:.3f} s a step"
    print(f"{steps}, peak memory {memory}")
  model = SentenceModel(trained.encoder, trained.flow, cache=embedding.cached_dir, **embedding.pooling_arguments())

  def embed(sets):
    arguments = (model.encoder, sets, embedding.predict_batch_size, embedding.cached_dir)
    return Embeddings(*arguments, **embedding.pooling_arguments())

  results = {}
  if splits:
    with watch.timing("evaluating"):
      embeddings = embed([task.splits[split] for split in splits])
      results, predictions = siamese_scores.evaluate_splits(task, embeddings, model.calibration, classifier, splits)
      values = siamese_scores.eval_results(task, embeddings, model.calibration, results, predictions, facts)
    report.write_eval_results(folder, values)
  for name in predicted():
    with watch.timing("predicting"):
      embeddings = embed([siamese_scores.predicted_pairs(task, name)])
      arguments = (embeddings, model.calibration, classifier, FLAGS.predict_pool)
      siamese_scores.write_predictions(folder, name, task, *arguments)
    logging.info("predictions of %s in %s", name, folder / f"{name}_results.tsv")
  about = {
    "task": task.name,
    "data": task.source,
    "dropped_without_label": task.dropped,
    "encoder": model.identity.to_dict(),
    "training": facts,
    "seconds": watch.seconds,
    "flags": common_flags.values(),
    "versions": common_flags.versions(),
  }
  if results or FLAGS.do_train or not (folder / report.RESULTS_FILE).exists():  # prediction alone keeps the scores
    report.write_results(folder, {"results": results, **about})
  if not results:
    print(f"seconds: {report.spent(watch.seconds)}")
  elif task.labels:
    print(siamese_scores.classification_table(results, watch.seconds))
  else:
    say(results, {}, watch.seconds)


def console() -> None:
  """Starts the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
