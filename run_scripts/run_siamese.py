"""Fine-tunes an encoder on labelled pairs, with a flow or without; evaluates and predicts with it.

python run_siamese.py --task_name=ALLNLI --do_train --do_eval --model=base --data_dir=FOLDER
python run_siamese.py --task_name=STS-B --do_train --do_predict --flow --flow_loss --num_examples=0
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from absl import flags, logging

from bert_flow_tf.data import siamese_task
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report, siamese_figures
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW, original_agreement, say
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from run_scripts import common_flags, siamese_flags

FLAGS = flags.FLAGS


def choose_pairs(task):
  """`TrainingPairs` of the flags; None without --do_train."""
  if not FLAGS.do_train:
    return None
  return siamese_task.training_pairs(
    task,
    FLAGS.train_splits,
    FLAGS.use_full_for_training,
    FLAGS.num_examples,
    FLAGS.dupe_factor,
    FLAGS.flow_loss,
    FLAGS.seed,
  )


def evaluated_splits(task):
  """Names of the splits to evaluate; none without --do_eval.

  Raises:
    ConfigError: none has gold, or labels are to be predicted without a classifier.
  """
  if (FLAGS.do_eval or siamese_flags.predicted()) and task.labels and FLAGS.do_train and siamese_flags.frozen():
    raise ConfigError(
      f"--num_examples=0: without labels there is no classifier to evaluate or predict {task.name} with; leave do_eval "
      "and do_predict out, and evaluate the flow with run_eval.py --flow_folder"
    )
  if not FLAGS.do_eval:
    return []
  splits = task.splits_with_gold(("dev", "test"))
  if not splits:
    raise ConfigError(f"--do_eval: {task.name} has neither dev nor test with gold ({task.source}); leave it out")
  trained = [split for split in splits if FLAGS.do_train and split in FLAGS.train_splits]
  if trained and not siamese_flags.frozen():
    logging.warning("%s: the figures of %s are of pairs that were trained on", task.name, " and ".join(trained))
  return splits


def check_dev(task):
  """Refuses early stopping without a dev split that says something.

  Raises:
    ConfigError: there is none.
  """
  if not (FLAGS.do_train and FLAGS.early_stopping):
    return
  if not task.splits_with_gold(("dev",)):
    raise ConfigError(f"--early_stopping: {task.name} has no dev split with gold ({task.source}); leave it out")
  if "dev" in FLAGS.train_splits:
    raise ConfigError("--early_stopping looks at dev, which --train_splits trains on; leave one out")


def make_model(task, chosen, folder, watch):
  """Trains or loads the `Model`; returns it and what training.json says."""
  # The first use of TensorFlow, whose import takes seconds: what is wrong above is said before it.
  from run_scripts import siamese_training

  config = siamese_training.flow_config()
  strategy = siamese_training.make_strategy()
  if chosen is None:
    model = siamese_training.load(task, strategy, folder)
    make_folder(folder)
    return model, siamese_training.read_facts(folder)
  encoder = siamese_training.load_encoder(FLAGS.init_checkpoint or FLAGS.model, strategy)
  pairs = f"{chosen.labelled} labelled and {chosen.unlabelled} other pairs"
  logging.info("training on %s (%s); results in %s", pairs, task.source, folder)
  fit = siamese_training.fit_frozen_flow if siamese_flags.frozen() else siamese_training.train
  model, facts = fit(task, chosen, encoder, config, strategy, folder, watch)
  facts |= {
    "task": task.name,
    "data": task.source,
    "splits": list(chosen.splits),
    "labelled": chosen.labelled,
    "unlabelled": chosen.unlabelled,
    "dupe_factor": FLAGS.dupe_factor,
    "dropped_without_label": task.dropped,
  }
  siamese_training.write_facts(folder, facts)
  _say_training(facts)
  return model, facts


def _say_training(facts):
  if facts.get("seconds_per_step"):
    memory = ", ".join(f"{size / 2**30:.2f} GiB ({device})" for device, size in facts["peak_memory_bytes"].items())
    print(
      f"trained {facts['steps']} steps of {facts['batch_size']} pairs, {facts['seconds_per_step']:.3f} s a step, peak "
      f"memory {memory}"
    )


def eval_results(task, model, results, predictions, embeddings, facts):
  """{key: value} of eval_results.txt, the original's keys: correlations from -1 to 1, accuracy from 0 to 1."""
  evaluated = list(predictions if task.labels else predictions[WITHOUT_FLOW])
  split = task.spec.eval_split if task.spec.eval_split in evaluated else evaluated[0]
  values = {"global_step": facts["steps"]} if "steps" in facts else {}
  if task.labels:
    found = results[split]
    return values | {"eval_accuracy": found["accuracy"] / 100, "eval_loss": found["loss"], "loss": found["loss"]}
  method = WITH_FLOW if model.flow else WITHOUT_FLOW
  pairs, cosines = task.splits[split], predictions[method][split]
  loss = float(np.nanmean((cosines - task.targets(pairs)) ** 2))
  values |= {"eval_loss": loss, "loss": loss}
  values |= original_agreement(task.spec.metric, cosines, pairs.scores)
  if model.flow:
    sides = (embeddings.of(side) for side in (pairs.sentences_a, pairs.sentences_b))
    flow_loss = float(sum(model.flow.flow.bits_per_dim(side).numpy().mean() for side in sides))
    total = flow_loss + (loss if facts.get("labelled") else 0.0)  # without labels the flow's loss alone is minimised
    values |= {"eval_loss_flow": flow_loss, "eval_loss_total": total, "loss": total}
  return values


def main(argv):
  """Labelled pairs, encoder, training, figures, predictions."""
  del argv
  watch = Stopwatch()
  siamese_flags.check_flags()
  task = load_task(FLAGS.task, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold, KINDS)
  if task.name == "sample" and FLAGS.data_dir:
    raise ConfigError(f"data_dir={FLAGS.data_dir}: the task sample reads no files, another task does", "data_dir")
  logging.info("%s: %s", task.name, task.source)
  chosen, splits = choose_pairs(task), evaluated_splits(task)
  check_dev(task)
  for name in siamese_flags.predicted():
    siamese_figures.predicted_pairs(task, name)
  folder = siamese_flags.experiment_folder(task)
  model, facts = make_model(task, chosen, folder, watch)
  results = {}
  if splits:
    with watch.timing("evaluating"):
      results, predictions, embeddings = siamese_figures.evaluate_splits(task, model, splits)
      values = eval_results(task, model, results, predictions, embeddings, facts)
    report.write_eval_results(folder, values)
  for name in siamese_flags.predicted():
    with watch.timing("predicting"):
      siamese_figures.write_predictions(folder, name, task, model, FLAGS.predict_pool)
    logging.info("predictions of %s in %s", name, folder / f"{name}_results.tsv")
  about = {
    "task": task.name,
    "data": task.source,
    "dropped_without_label": task.dropped,
    "encoder": model.encoder.identity(**model.arguments).to_dict(),
    "training": facts,
    "seconds": watch.seconds,
    "flags": {flag.name: flag.value for flag in common_flags.own_flags()},
    "versions": common_flags.versions(),
  }
  if results or FLAGS.do_train or not (folder / report.RESULTS_FILE).exists():  # predicting leaves the figures there
    report.write_results(folder, {"results": results, **about})
  if not results:
    print(f"seconds: {report.spent(watch.seconds)}")
  elif task.labels:
    print(siamese_figures.classification_table(results, watch.seconds))
  else:
    say(results, {}, watch.seconds)


def console():
  """Entry point of the installed command."""
  siamese_flags.define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
