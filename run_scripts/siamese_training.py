"""Trains what run_siamese.py's flags ask for, or loads what an earlier call trained."""

import contextlib
import json
import pathlib
import resource
import sys

import numpy as np
import tensorflow as tf
from absl import flags, logging

import bert_flow_tf
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.encoder import fine_tuning, saving
from bert_flow_tf.encoder.identity import check_encoder
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.evaluation.siamese_figures import Model, dev_figure
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.storage import FLOW_FOLDER
from bert_flow_tf.io import files
from bert_flow_tf.io.experiment import make_folder
from bert_flow_tf.training.calibrations import make_flow
from bert_flow_tf.training.classifier import CLASSIFIER_FOLDER
from bert_flow_tf.training.early_stopping import EarlyStopping
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.objectives import CosineObjective, SoftmaxObjective
from bert_flow_tf.training.schedule import num_steps
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.siamese_settings import SiameseSettings
from bert_flow_tf.training.siamese_trainer import SiameseTrainer
from bert_flow_tf.training.sources import embedding_pairs
from run_scripts import common_flags, siamese_flags

FLAGS = flags.FLAGS

ENCODER, CLASSIFIER, FLOW, FACTS = "encoder", "classifier", "flow", "training.json"


def load_encoder(name, strategy):
  """The encoder of a name, pooling checked; its weights are on every device where they are to be trained."""
  trained = FLAGS.do_train and not siamese_flags.frozen()
  # What is trained is loaded in float32, for mixed precision rounds the weights anew at each call.
  precision = "float32" if trained else FLAGS.precision
  with strategy.scope() if trained else contextlib.nullcontext():
    encoder = bert_flow_tf.SentenceEncoder.from_pretrained(name, FLAGS.model_cache_dir, precision)
  encoder.bert.check_max_seq_length(FLAGS.max_seq_length)
  pooling = encoder.pooling(FLAGS.sentence_embedding_type)
  logging.info("%s: %d dimensions, %s", encoder.name, dim_of(encoder), pooling.describe())
  return encoder


def dim_of(encoder):
  """Dimensions of the embeddings by the flags."""
  return encoder.dim(FLAGS.sentence_embedding_type, common_flags.low_dim())


def make_model(encoder, flow=None, classifier=None, cached=True):
  """The `Model` of the flags; cached: with --cached_dir."""
  arguments = common_flags.embedding_arguments()
  return Model(encoder, arguments, flow, classifier, FLAGS.predict_batch_size, FLAGS.cached_dir if cached else None)


def make_strategy():
  """The `tf.distribute.Strategy` of the flags."""
  if FLAGS.deterministic:
    tf.random.set_seed(FLAGS.seed)  # without any, what is random is refused below
    tf.config.experimental.enable_op_determinism()
  return bert_flow_tf.make_strategy(FLAGS.distribution_strategy)


def flow_config():
  """The `FlowConfig` of the flags; None without --flow."""
  return FlowConfig.from_json_file(FLAGS.flow_model_config) if FLAGS.flow else None


def fit_frozen_flow(task, chosen, encoder, config, strategy, folder, watch):
  """Fits the flow on what the encoder gives, whose weights stay as they are.

  The published code has BERT's dropout on here, and lets its weights shrink by 1 % of the learning rate a step.

  Args:
    task: `TaskData`.
    chosen: `TrainingPairs`.
    encoder: the `SentenceEncoder`.
    config: `FlowConfig`.
    strategy: `tf.distribute.Strategy`.
    folder: the experiment's.
    watch: `Stopwatch`.

  Returns:
    `Model`, and what training.json says.

  Raises:
    TrainingError: the encoder's weights changed all the same.
  """
  before = encoder.weights_checksum
  settings = FlowSettings(
    flow_model_config=config,
    actnorm_init=FLAGS.actnorm_init,
    permutation=FLAGS.permutation,
    flow_learning_rate=siamese_flags.flow_learning_rate(task),
    num_train_epochs=siamese_flags.num_train_epochs(task),
    train_batch_size=siamese_flags.train_batch_size(),
    seed=FLAGS.seed,
    use_xla=FLAGS.use_xla,
    save_checkpoints_steps=siamese_flags.save_checkpoints_steps(),
  )
  flow, trainer = make_flow(settings, dim_of(encoder), strategy, folder)
  steps = trainer.num_steps(len(chosen.pairs), settings.num_train_epochs)
  model = make_model(encoder, flow)
  numbers = trainer.pairs_seen(len(chosen.pairs), settings.num_train_epochs)
  seen = chosen.pairs.take(numbers)
  make_folder(folder)  # what was refused above leaves no trace
  with watch.timing("embedding"):
    embeddings = model.embeddings([seen])
  with watch.timing("training"):
    flow.fit_source(embedding_pairs(embeddings, seen, numbers, len(chosen.pairs)))
  if encoder.weights_checksum != before:
    raise TrainingError("the encoder's weights changed while the flow was fitted: this is a bug")
  flow.encoder = encoder.identity(**model.arguments).to_dict()
  flow.save(folder / FLOW)
  facts = {"steps": steps, "epochs": settings.num_train_epochs, "flow_learning_rate": settings.rate}
  return model, {"frozen": True, **facts, "encoder_sha256": before}


def train(task, chosen, encoder, config, strategy, folder, watch):
  """Fine-tunes the encoder, with a flow where there is a config; arguments and result as `fit_frozen_flow`."""
  settings = SiameseSettings(
    learning_rate=FLAGS.learning_rate,
    warmup_proportion=FLAGS.warmup_proportion,
    train_batch_size=siamese_flags.train_batch_size(),
    flow_learning_rate=siamese_flags.flow_learning_rate(task),
    flow_loss=FLAGS.flow_loss,
    l2_penalty=FLAGS.l2_penalty,
    seed=FLAGS.seed,
    use_xla=bool(FLAGS.use_xla),
    save_checkpoints_steps=siamese_flags.save_checkpoints_steps(),
  )
  epochs, before = siamese_flags.num_train_epochs(task), encoder.weights_checksum
  num_steps(len(chosen.pairs), settings.train_batch_size, epochs)  # what is refused is refused before text is tokenized
  fine_tuning.use_mixed_precision(encoder.bert, FLAGS.precision)
  dim = dim_of(encoder)
  with strategy.scope():
    objective = SoftmaxObjective(dim, task.labels, FLAGS.seed) if task.labels else CosineObjective()
    glow = config and bert_flow_tf.Glow(config, dim, FLAGS.actnorm_init, FLAGS.permutation, FLAGS.seed)
  flow = glow and FlowCalibration(glow)
  model = make_model(encoder, flow, objective if task.labels else None)
  trainer = SiameseTrainer(
    encoder,
    encoder.pooling(FLAGS.sentence_embedding_type),
    objective,
    glow,
    settings,
    strategy,
    common_flags.low_dim(),
    folder / "checkpoints",
    folder / "tensorboard",
  )
  early_stopping = None
  if FLAGS.early_stopping:
    looked_at = make_model(encoder, flow, model.classifier, cached=False)  # these weights are not met again
    early_stopping = EarlyStopping(lambda: dev_figure(task, looked_at), FLAGS.early_stopping_patience)
  make_folder(folder)  # what was refused above leaves no trace
  with watch.timing("tokenizing"):
    sides = (chosen.pairs.sentences_a, chosen.pairs.sentences_b)
    source = LabelledPairs(encoder, *sides, chosen.targets, FLAGS.max_seq_length, pad_to_max=settings.use_xla)
  with watch.timing("training"):
    result = trainer.fit(source, epochs, early_stopping)
  facts = {
    "frozen": False,
    "steps": result.steps,
    "planned_steps": result.planned_steps,
    "epochs": epochs,
    "batch_size": settings.train_batch_size,
    "learning_rate": settings.learning_rate,
    "best_on_dev": result.best and {"figure": result.best[0], "step": result.best[1]},
    "seconds_per_step": None if np.isnan(result.seconds_per_step) else result.seconds_per_step,
    "peak_memory_bytes": peak_memory(),
    "encoder_sha256_before": before,
  }
  _save(model, objective, folder)
  return model, facts | {"encoder_sha256": encoder.weights_checksum}


def _save(model, objective, folder):
  """Writes encoder, classifier and flow; what they say of the encoder is where it is saved."""
  encoder = model.encoder
  saving.save_encoder(encoder, folder / ENCODER)
  encoder.bert.name, encoder.bert.folder = str(folder / ENCODER), folder / ENCODER
  identity = encoder.identity(**model.arguments).to_dict()
  if model.classifier:
    objective.encoder = identity
    objective.save(folder / CLASSIFIER)
  if model.flow:
    model.flow.encoder = identity
    model.flow.save(folder / FLOW)


def load(task, strategy, folder):
  """The `Model` that --do_train left in a folder; the encoder of the flags where there is none.

  Raises:
    ConfigError: a flow or classifier is asked for that is not there.
    BertFlowError: something there is damaged, or belongs to another encoder.
  """
  tuned = saving.is_encoder(folder / ENCODER)
  encoder = load_encoder(str(folder / ENCODER) if tuned else FLAGS.init_checkpoint or FLAGS.model, strategy)
  identity, flow, classifier = encoder.identity(**common_flags.embedding_arguments()), None, None
  if FLAGS.flow:
    if not FLOW_FOLDER.is_in(folder / FLOW):
      raise ConfigError(f"--flow: there is no flow in {folder / FLOW}; add --do_train, or name its --exp_name")
    flow = FlowCalibration.load(folder / FLOW)
    check_encoder(flow, identity, folder / FLOW)
  if task.labels:
    if not CLASSIFIER_FOLDER.is_in(folder / CLASSIFIER):
      raise ConfigError(
        f"--task={task.name}: there is no classifier in {folder / CLASSIFIER}; add --do_train, or name the --exp_name "
        "of a training"
      )
    classifier = SoftmaxObjective.load(folder / CLASSIFIER)
    check_encoder(classifier, identity, folder / CLASSIFIER)
    if classifier.labels != tuple(task.labels) or classifier.dim != dim_of(encoder):
      raise ConfigError(
        f"{folder / CLASSIFIER} has {classifier.dim} dimensions and the labels {', '.join(classifier.labels)}, "
        f"expected {dim_of(encoder)} and {', '.join(task.labels)}"
      )
  return make_model(encoder, flow, classifier)


def write_facts(folder, facts):
  """Writes training.json."""
  files.write_text(pathlib.Path(folder) / FACTS, json.dumps(facts, indent=2) + "\n")


def read_facts(folder):
  """What training.json says; empty where there is none.

  Raises:
    ConfigError: it is damaged.
  """
  path = pathlib.Path(folder) / FACTS
  if not path.exists():
    return {}
  try:
    return dict(json.loads(path.read_text(encoding="utf-8")))
  except (OSError, ValueError, TypeError) as error:
    raise ConfigError(f"{path} cannot be read ({error}); remove it, or train again") from error


def peak_memory():
  """{"host": bytes, "GPU:0": bytes}: the most that this process held so far."""
  unit = 1 if sys.platform == "darwin" else 1024
  found = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
  for index, _ in enumerate(tf.config.list_logical_devices("GPU")):
    found[f"GPU:{index}"] = tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
  return found
