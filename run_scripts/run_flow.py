"""Fits a flow on a task's sentences and evaluates similarity without and with it.

python run_flow.py --task=STS-B --model=large
"""

import contextlib
import hashlib
import json
import pathlib
import sys
import time

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

import bert_flow_tf
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.flow.config import FlowConfig, packaged_configs
from run_scripts import common_flags
from run_scripts.task_figures import Embeddings, evaluate, gains, original_eval_results

FLAGS = flags.FLAGS

# BERT's learning rate in the original's name of an experiment; the encoder is frozen here.
_ORIGINAL_LEARNING_RATE = 5e-5
# Flags that decide the result and have no part of their own in the name of an experiment.
_UNNAMED_FLAGS = (
  "max_seq_length",
  "low_dim",
  "actnorm_init",
  "permutation",
  "train_batch_size",
  "encoder_dropout",
)
_UNNAMED_FLAGS += ("use_xla",)


def define_flags():
  """The flags of this runner."""
  common_flags.define_data_flags()
  common_flags.define_encoder_flags()
  flags.DEFINE_string(
    "flow_model_config", "config_l2_d3_w32", f"One of {', '.join(packaged_configs())}, or a json file."
  )
  flags.DEFINE_enum("actnorm_init", "data", ["data", "glorot"], "Actnorm from data, or as the published runner.")
  flags.DEFINE_enum("permutation", "reverse", ["reverse", "random"], "As the published code, or as the paper.")
  flags.DEFINE_float("flow_learning_rate", 1e-3, "Constant learning rate of the flow.")
  flags.DEFINE_float("num_train_epochs", None, "Passes over the pairs; the task's own if not given (STS-B 1).")
  flags.DEFINE_integer("train_batch_size", 32, "Pairs a step, over all devices.")
  flags.DEFINE_boolean("use_full_for_training", True, "Fit on train, dev and test sentences, or on train alone.")
  flags.DEFINE_boolean("encoder_dropout", False, "Embed anew at each step with BERT's dropout, as the published code.")
  flags.DEFINE_integer("seed", 1234, "Of initial weights, order of the pairs and dropout.", 0, 2**31 - 1)
  flags.DEFINE_string(
    "distribution_strategy",
    "default",
    "default: all GPUs, or the CPU; mirrored: the same through a MirroredStrategy always; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
  )
  flags.DEFINE_boolean("use_xla", None, "Compile the step; where it pays if not given.")
  flags.DEFINE_integer("save_checkpoints_steps", 100, "Steps between checkpoints.", lower_bound=1)
  flags.DEFINE_string("output_parent_dir", "exp", "Folder of the experiments' folders.")
  flags.DEFINE_string("exp_name", None, "Name of this experiment's folder; made from the flags if not given.")
  flags.DEFINE_string("exp_name_prefix", "exp", "First part of a name made from the flags.")


def experiment_name(task, epochs):
  """The original's name of an experiment, and what it leaves out: encoder, flow config, seed, other flags.

  Args:
    task: the task's name.
    epochs: passes over the pairs.
  """
  parts = [
    f"{FLAGS.exp_name_prefix}_t_{task}",
    f"ep_{epochs:.2f}",
    f"lr_{_ORIGINAL_LEARNING_RATE:.2e}",
    f"e_{FLAGS.sentence_embedding_type}",
    f"f_11_{FLAGS.flow_learning_rate:.2e}",
    *["allsplits"] * FLAGS.use_full_for_training,
    f"m_{pathlib.Path(encoder_name()).name}",
    f"c_{pathlib.Path(FLAGS.flow_model_config).stem.removeprefix('config_')}",
    f"s_{FLAGS.seed}",
  ]
  others = {name: FLAGS[name].value for name in _UNNAMED_FLAGS if FLAGS[name].value != FLAGS[name].default}
  if others:
    parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
  return "_".join(parts)


def encoder_name():
  """Where the encoder comes from: --init_checkpoint, else --model."""
  return FLAGS.init_checkpoint or FLAGS.model


def experiment_folder(task, epochs):
  """The folder of this run's results."""
  return pathlib.Path(FLAGS.output_parent_dir) / (FLAGS.exp_name or experiment_name(task, epochs))


def make_folder(folder):
  """Makes the experiment's folder.

  Raises:
    ConfigError: it cannot be made.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise ConfigError(
      f"--output_parent_dir={FLAGS.output_parent_dir}: {folder} cannot be made ({error.strerror}); choose another"
    ) from error


class Stopwatch:
  """Seconds spent, by what they were spent on."""

  def __init__(self):
    self.seconds = {}

  @contextlib.contextmanager
  def timing(self, what):
    """Adds the seconds of the block to `what`."""
    start = time.monotonic()
    yield
    self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - start


def make_source(encoder, embeddings, pairs):
  """What the flow is fitted on: embeddings computed once, or anew with dropout."""
  if not FLAGS.encoder_dropout:
    return embeddings.pairs(pairs)
  return bert_flow_tf.SentencePairsWithDropout(
    encoder,
    pairs.sentences_a,
    pairs.sentences_b,
    FLAGS.sentence_embedding_type,
    FLAGS.max_seq_length,
    common_flags.low_dim(),
  )


def make_trainer(flow, strategy, folder):
  """The `Trainer` that the flags describe, working in the experiment's folder."""
  return bert_flow_tf.Trainer(
    flow,
    FLAGS.flow_learning_rate,
    strategy,
    FLAGS.train_batch_size,
    FLAGS.seed,
    FLAGS.use_xla,
    checkpoint_folder=folder / "checkpoints",
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
    summary_folder=folder / "tensorboard",
  )


def describe(task, encoder, flow, fitted):
  """What `results.json` says beside the figures."""
  return {
    "task": task.spec.name,
    "data": task.source,
    "encoder": {
      "name": encoder.name,
      "weights_sha256": encoder.weights_checksum,
      "pooling": encoder.pooling(FLAGS.sentence_embedding_type).describe(),
    },
    "flow": flow.settings(),
    "constant_dimensions": flow.constant_dimensions,
    "fitted_on": fitted,
    "flags": {flag.name: flag.value for flag in common_flags.own_flags()},
    "versions": common_flags.versions(),
  }


def main(argv):
  """Text, tokens, encoder, embeddings, flow, similarity, report."""
  del argv
  watch = Stopwatch()
  config = FlowConfig.from_json_file(FLAGS.flow_model_config)
  task = load_task(FLAGS.task, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold)
  epochs = task.spec.num_train_epochs if FLAGS.num_train_epochs is None else FLAGS.num_train_epochs
  pairs = task.fitting_pairs(FLAGS.use_full_for_training)
  if task.spec.name == "sample" and FLAGS.data_dir:
    raise ConfigError(f"--data_dir={FLAGS.data_dir}: --task=sample reads no files, say which --task does")
  logging.info("%s: %s", task.spec.name, task.source)

  # The first use of TensorFlow, whose import takes seconds: what is wrong above is said before it.
  strategy = bert_flow_tf.make_strategy(FLAGS.distribution_strategy)
  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(encoder_name(), FLAGS.model_cache_dir)
  pooling = encoder.pooling(FLAGS.sentence_embedding_type)
  encoder.bert.check_max_seq_length(FLAGS.max_seq_length)
  with strategy.scope():
    dim = encoder.dim(pooling, common_flags.low_dim())
    flow = bert_flow_tf.Glow(config, dim, FLAGS.actnorm_init, FLAGS.permutation, FLAGS.seed)
  folder = experiment_folder(task.spec.name, epochs)
  trainer = make_trainer(flow, strategy, folder)
  steps = trainer.num_steps(len(pairs), epochs)
  make_folder(folder)  # what was refused above leaves no trace
  logging.info("%s: %d dimensions, %s", encoder.name, dim, pooling.describe())
  logging.info("fitting %s on %d pairs in %d steps; results in %s", FLAGS.flow_model_config, len(pairs), steps, folder)

  with watch.timing("embedding"):
    embeddings = Embeddings(
      encoder,
      task,
      FLAGS.predict_batch_size,
      FLAGS.cached_dir,
      sentence_embedding_type=FLAGS.sentence_embedding_type,
      max_seq_length=FLAGS.max_seq_length,
      low_dim=common_flags.low_dim(),
    )
  with watch.timing("evaluating"):
    without_flow, cosines_without = evaluate(task, embeddings, lambda u: u)
  with watch.timing("fitting"):
    trainer.fit(make_source(encoder, embeddings, pairs), epochs)
  with watch.timing("evaluating"):
    with_flow, cosines_with = evaluate(task, embeddings, lambda u: flow.transform(u).numpy())

  if trainer.is_chief:
    flow.save(folder / "flow")
    results = {name: {"without_flow": without_flow[name], "with_flow": with_flow[name]} for name in with_flow}
    with watch.timing("evaluating"):
      intervals = gains(task, cosines_without, cosines_with)
    fitted = {
      "pairs": len(pairs),
      "sentences": len({*pairs.sentences_a, *pairs.sentences_b}),
      "steps": steps,
      "epochs": epochs,
    }
    about = describe(task, encoder, flow, fitted)
    report.write_results(folder, {"results": results, "gain": intervals, "seconds": watch.seconds, **about})
    if task.spec.eval_split is not None:
      split = task.spec.eval_split
      cosines = {"without_flow": cosines_without[split], "with_flow": cosines_with[split]}
      report.write_predictions(folder, task.splits[split], cosines)
      original = original_eval_results(task, embeddings, flow, cosines_with[split], steps)
      report.write_eval_results(folder, original)
    say(results, intervals, watch.seconds)


def say(results, intervals, seconds):
  """Prints the table and the gain's interval; says in the log why a figure is NaN."""
  print(report.table(results, seconds))
  for name, gain in intervals.items():
    low, high, level = gain["low"], gain["high"], 100 * gain["level"]
    print(f"gain in Spearman on {name}: {gain['gain']:+.2f}, {level:.0f}% interval {low:+.2f} to {high:+.2f}")
  if not results:
    logging.info("no gold scores: the flow is fitted, there is nothing to evaluate")
  for name, methods in results.items():
    for method, found in methods.items():
      if found["reason"]:
        logging.warning("no figure on %s %s: %s", name, method.replace("_", " "), found["reason"])


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
