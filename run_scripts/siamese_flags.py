"""The flags of run_siamese.py: the original's names, what they may not say together, the experiment's name."""

import hashlib
import json
import os
import pathlib

from absl import flags

from bert_flow_tf.data import nli
from bert_flow_tf.data.flow_corpus import LEARNING_RATE
from bert_flow_tf.data.tasks import KINDS, task_names
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import encoder_label
from run_scripts import common_flags

FLAGS = flags.FLAGS

# The published setting for NLI; a flow alone has the batches of run_flow.py.
_BATCH_SIZE, _FLOW_BATCH_SIZE = 16, 32
# A checkpoint of a BERT that is trained holds its weights three times, that of a flow is small.
_CHECKPOINT_STEPS, _FLOW_CHECKPOINT_STEPS = 1000, 100
# Flags that decide the result and have no part of their own in the name of an experiment.
_UNNAMED_FLAGS = (
  "max_seq_length",
  "low_dim",
  "precision",
  "flow_model_config",
  "actnorm_init",
  "permutation",
  "train_batch_size",
  "train_splits",
  "num_examples",
  "dupe_factor",
  "l2_penalty",
  "warmup_proportion",
  "early_stopping",
  "early_stopping_patience",
)


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_string("task", None, f"One of {', '.join(task_names(KINDS))}.")
  flags.DEFINE_alias("task_name", "task")
  flags.DEFINE_boolean("do_train", False, "Train, and save encoder, classifier and flow in the experiment's folder.")
  flags.DEFINE_boolean("do_eval", False, "Figures of the dev and test splits that have gold.")
  flags.DEFINE_boolean("do_predict", False, "Write predictions of the test split.")
  flags.DEFINE_boolean("do_predict_on_dev", False, "Write those of the dev split, in place of test.")
  flags.DEFINE_boolean("do_predict_on_full", False, "Write those of all splits, in place of test.")
  flags.DEFINE_boolean("predict_pool", False, "Write the predicted pairs' sentence embeddings too.")
  common_flags.define_data_flags()
  common_flags.define_encoder_flags()
  _define_training_flags()
  common_flags.define_flow_flags()
  for name in ("train_batch_size", "save_checkpoints_steps"):
    FLAGS.set_default(name, None)  # by what is trained
  flags.DEFINE_string("output_parent_dir", "exp", "Folder of the experiments' folders.")
  flags.DEFINE_string("exp_name", None, "Name of this experiment's folder; made from the flags if not given.")
  flags.DEFINE_string("exp_name_prefix", "exp", "First part of a name made from the flags.")


def _define_training_flags():
  flags.DEFINE_list("train_splits", ["train"], "Splits whose labels are trained on.")
  flags.DEFINE_boolean(
    "use_full_for_training",
    False,
    "Sentences of all splits take part in the flow's loss; labels of train_splits alone.",
  )
  flags.DEFINE_integer(
    "num_examples",
    -1,
    "Labels that train the encoder: -1 all, 0 none (the encoder is frozen and the flow fitted on it), n those of n "
    "pairs drawn by --seed.",
    lower_bound=-1,
  )
  flags.DEFINE_integer("dupe_factor", 1, "How often every pair stands in an epoch.", lower_bound=1)
  flags.DEFINE_boolean("flow", False, "Compare latents of a flow on the embeddings, in place of embeddings.")
  flags.DEFINE_boolean("flow_loss", False, "The flow's own loss, bits per dimension, joins. Needs --flow.")
  flags.DEFINE_float("learning_rate", 2e-5, "Highest rate of BERT and the classifier.")
  flags.DEFINE_float("warmup_proportion", 0.1, "Part of the steps in which that rate rises; it then falls to 0.")
  flags.DEFINE_float("l2_penalty", 0.0, "Factor of half the sum of squares of BERT's weights in the loss.")
  flags.DEFINE_boolean("early_stopping", False, "Look at dev at each checkpoint, and end with the weights best there.")
  flags.DEFINE_integer(
    "early_stopping_patience", 3, "Looks in a row without a better figure that end the training.", lower_bound=1
  )
  flags.DEFINE_boolean(
    "deterministic", False, "Make operations of a GPU deterministic, so that a resumed training is exact there too."
  )


def frozen():
  """Whether no label trains the encoder: the flow alone is fitted."""
  return FLAGS.num_examples == 0


def train_batch_size():
  """--train_batch_size, or what suits what is trained."""
  return _given("train_batch_size", _FLOW_BATCH_SIZE if frozen() else _BATCH_SIZE)


def save_checkpoints_steps():
  """--save_checkpoints_steps, likewise."""
  return _given("save_checkpoints_steps", _FLOW_CHECKPOINT_STEPS if frozen() else _CHECKPOINT_STEPS)


def flow_learning_rate(task):
  """--flow_learning_rate, or the published one; for a flow alone on NLI the paper's smaller one."""
  return _given("flow_learning_rate", nli.LEARNING_RATE if frozen() and task.labels else LEARNING_RATE)


def num_train_epochs(task):
  """--num_train_epochs, or the published number."""
  if frozen() and task.labels:
    return _given("num_train_epochs", nli.NUM_TRAIN_EPOCHS)
  if frozen():
    return _given("num_train_epochs", task.spec.num_train_epochs)
  return _given("num_train_epochs", 1.0)


def _given(name, default):
  return default if FLAGS[name].value is None else FLAGS[name].value


def predicted():
  """Names of what is predicted: test, or in its place dev, full or both."""
  others = [name for name in ("dev", "full") if FLAGS[f"do_predict_on_{name}"].value]
  return others or ["test"] * FLAGS.do_predict


def check_flags():
  """Refuses what needs no file to be seen wrong.

  Raises:
    ConfigError: flags are missing or contradict each other.
  """
  if not FLAGS.task:
    raise ConfigError(f"--task is missing; expected one of {', '.join(task_names(KINDS))}")
  if not (FLAGS.do_train or FLAGS.do_eval or predicted()):
    raise ConfigError("nothing to do: expected one or more of --do_train, --do_eval, --do_predict")
  if FLAGS.predict_pool and not predicted():
    raise ConfigError("--predict_pool writes embeddings of predicted pairs: add --do_predict")
  if FLAGS.flow_loss and not FLAGS.flow:
    raise ConfigError("--flow_loss is the loss of a flow: add --flow")
  if FLAGS.distribution_strategy == "multi_worker_mirrored":
    raise ConfigError(
      "--distribution_strategy=multi_worker_mirrored: an encoder is trained on one machine; take default or mirrored"
    )
  for name in ("train_batch_size", "save_checkpoints_steps"):
    value = FLAGS[name].value
    if value is not None and value < 1:
      raise ConfigError(f"--{name}={value}: expected at least 1")
  if FLAGS.do_train:
    _check_training()


def _check_training():
  if not FLAGS.train_splits:
    raise ConfigError("--train_splits is empty; expected one or more of train, dev, test")
  if len(set(FLAGS.train_splits)) < len(FLAGS.train_splits):
    raise ConfigError(f"--train_splits={','.join(FLAGS.train_splits)} names a split twice; expected each once")
  if frozen():
    if not (FLAGS.flow and FLAGS.flow_loss):
      raise ConfigError(
        "--num_examples=0: no label trains the encoder, so that only a flow can be fitted; add --flow --flow_loss, or "
        "give labels (--num_examples=-1)"
      )
    if FLAGS.early_stopping:
      raise ConfigError("--early_stopping looks at dev's labels, and --num_examples=0 uses none; leave one out")
  elif FLAGS.precision == "float16":
    raise ConfigError(
      "--precision=float16: small gradients underflow in it, so that no encoder can be trained; take bfloat16, "
      "which has float32's range, or float32"
    )
  if FLAGS.use_full_for_training and not FLAGS.flow_loss:
    raise ConfigError(
      "--use_full_for_training adds sentences without their labels, which the flow's loss alone can use; add --flow "
      "--flow_loss, or leave it out"
    )


def experiment_name(task):
  """The original's name of an experiment, and what it leaves out: encoder, seed, other flags.

  Args:
    task: `TaskData`.
  """
  model = FLAGS.init_checkpoint or FLAGS.model
  parts = [
    f"{FLAGS.exp_name_prefix}_t_{task.name}",
    f"ep_{num_train_epochs(task):.2f}",
    f"lr_{FLAGS.learning_rate:.2e}",
    f"e_{FLAGS.sentence_embedding_type}",
    *[f"f_1{int(FLAGS.flow_loss)}_{flow_learning_rate(task):.2e}"] * FLAGS.flow,
    *["allsplits"] * FLAGS.use_full_for_training,
    f"m_{encoder_label(model)}",
    f"s_{FLAGS.seed}",
  ]
  others = {name: FLAGS[name].value for name in _UNNAMED_FLAGS if FLAGS[name].value != FLAGS[name].default}
  if task.name == "custom":
    others["data_dir"] = os.path.abspath(FLAGS.data_dir)
  if others:
    parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
  return "_".join(parts)


def experiment_folder(task):
  """The folder of this experiment."""
  common_flags.check_not_empty(("output_parent_dir", "exp_name", "cached_dir", "model_cache_dir"))
  return pathlib.Path(FLAGS.output_parent_dir).expanduser() / (FLAGS.exp_name or experiment_name(task))
