"""Fits a flow on a task's sentences and evaluates similarity without and with it.

python run_flow.py --task=STS-B --model=large
"""

import functools
import hashlib
import json
import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

import bert_flow_tf
from bert_flow_tf.calibration.fitting import check_k_on_dev, fit_linear
from bert_flow_tf.calibration.spec import FLOW, parse_calibrations
from bert_flow_tf.data.flow_corpus import NLI, TARGET, choose_flow_corpus
from bert_flow_tf.data.settings import CorpusSettings, DataSettings
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.task_figures import (
  WITH_FLOW,
  WITHOUT_FLOW,
  Embeddings,
  by_split,
  evaluate,
  gains,
  original_eval_results,
  say,
)
from bert_flow_tf.io.experiment import Stopwatch, encoder_label, make_folder
from bert_flow_tf.training.cluster import read_tf_config
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from run_scripts import common_flags
from run_scripts.exporting import check_export_flags, check_export_of_run, define_export_flags, export

FLAGS = flags.FLAGS

# BERT's learning rate in the original's name of an experiment; the encoder is frozen here.
_ORIGINAL_LEARNING_RATE = 5e-5
# Flags that decide the result and have no part of their own in the name of an experiment.
_UNNAMED_FLAGS = (
  "max_seq_length",
  "low_dim",
  "precision",
  "actnorm_init",
  "permutation",
  "train_batch_size",
  "encoder_dropout",
  "use_xla",
  "flow_corpus",
  "use_full_for_training",
  "calibration",
)


def define_flags():
  """The flags of this runner."""
  common_flags.define_settings(DataSettings)
  common_flags.define_encoder_flags()
  common_flags.define_settings(CorpusSettings)
  common_flags.define_flow_flags()
  common_flags.define_settings(RunSettings)
  flags.DEFINE_string("output_parent_dir", "exp", "Folder of the experiments' folders.")
  flags.DEFINE_string("exp_name", None, "Name of this experiment's folder; made from the flags if not given.")
  flags.DEFINE_string("exp_name_prefix", "exp", "First part of a name made from the flags.")
  define_export_flags()


def experiment_name(task, settings):
  """The original's name of an experiment, and what it leaves out: encoder, flow config, seed, other flags.

  Args:
    task: the task's name.
    settings: `FlowSettings`.
  """
  full = FLAGS.use_full_for_training in (None, True) and FLAGS.flow_corpus in (None, TARGET)
  parts = [
    f"{FLAGS.exp_name_prefix}_t_{task}",
    f"ep_{settings.num_train_epochs:.2f}",
    f"lr_{_ORIGINAL_LEARNING_RATE:.2e}",
    f"e_{FLAGS.sentence_embedding_type}",
    f"f_11_{settings.learning_rate:.2e}",
    *["allsplits"] * full,
    f"m_{encoder_label(encoder_name())}",
    f"c_{pathlib.Path(FLAGS.flow_model_config).stem.removeprefix('config_')}",
    f"s_{FLAGS.seed}",
  ]
  others = {name: FLAGS[name].value for name in _UNNAMED_FLAGS if FLAGS[name].value != FLAGS[name].default}
  if task == "custom":
    others["data_dir"] = os.path.abspath(FLAGS.data_dir)
  if others:
    parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
  return "_".join(parts)


def encoder_name():
  """Where the encoder comes from: --init_checkpoint, else --model."""
  return FLAGS.init_checkpoint or FLAGS.model


def experiment_folder(task, settings):
  """The folder of this run's results."""
  return pathlib.Path(FLAGS.output_parent_dir) / (FLAGS.exp_name or experiment_name(task, settings))


def check_flags():
  """Refuses what needs no file to be seen wrong; returns the calibrations' specs.

  Raises:
    ConfigError: two flags contradict each other, or a calibration is unknown.
  """
  common_flags.check_not_empty(("output_parent_dir", "exp_name", "cached_dir", "model_cache_dir"))
  specs = parse_calibrations(FLAGS.calibration)
  if FLAGS.distribution_strategy == "multi_worker_mirrored":
    read_tf_config()
  check_export_of_run(len(specs))
  if FLAGS.encoder_dropout and not any(spec.method == FLOW for spec in specs):
    raise ConfigError("--encoder_dropout changes how a flow is fitted, and --calibration has no flow; leave it out")
  return specs


def load_data():
  """The task and what the calibrations are fitted on: `TaskData`, `FlowCorpus`."""
  task = load_task(FLAGS.task, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold)
  corpus = choose_flow_corpus(common_flags.settings(CorpusSettings), task, FLAGS.data_dir, FLAGS.tfds_data_dir)
  if task.spec.name == "sample" and FLAGS.data_dir and corpus.name != NLI:
    raise ConfigError(f"--data_dir={FLAGS.data_dir}: --task=sample reads no files, say which --task does")
  logging.info("%s: %s", task.spec.name, task.source)
  return task, corpus


def embed(encoder, sets):
  """`Embeddings` of all sentences of the `SentencePairs`."""
  return Embeddings(encoder, sets, FLAGS.predict_batch_size, FLAGS.cached_dir, **common_flags.embedding_arguments())


def fit_flow(flow, trainer, corpus, encoder, embeddings, watch):
  """Fits the flow on embeddings computed once, or anew with dropout."""
  from bert_flow_tf.training.calibrations import flow_source

  if FLAGS.encoder_dropout:
    arguments = common_flags.embedding_arguments()
    pairs = corpus.pairs
    source = bert_flow_tf.SentencePairsWithDropout(encoder, pairs.sentences_a, pairs.sentences_b, **arguments)
    return flow.fit_source(source)

  def embed_seen(pairs):
    with watch.timing("embedding"):
      return embed(encoder, [pairs])

  return flow.fit_source(flow_source(flow, trainer, corpus.pairs, embeddings, embed_seen))


def fit(specs, corpus, of_corpus, task, of_task, flow):
  """{method: fitted calibration}, in the order of the specs.

  Args:
    specs: `CalibrationSpec`s.
    corpus: `FlowCorpus`.
    of_corpus: `Embeddings` of its sentences; a flow alone needs none.
    task: `TaskData`.
    of_task: `Embeddings` of its sentences.
    flow: what gives the fitted flow.
  """
  fitted = dict.fromkeys(WITH_FLOW if spec.method == FLOW else spec.name for spec in specs)
  others = [spec for spec in specs if spec.method != FLOW]
  rows = of_corpus.rows(corpus.pairs) if others else None
  for spec in others:  # these take seconds, and one that is refused is better refused before the flow is fitted
    fitted[spec.name] = fit_linear(spec, rows, task, of_task)
  if WITH_FLOW in fitted:
    fitted[WITH_FLOW] = flow()
  return fitted


def describe(task, corpus, encoder, calibrations, fitted):
  """What `results.json` says beside the figures."""
  about = {
    "task": task.spec.name,
    "data": task.source,
    "encoder": {
      "name": encoder.name,
      "weights_sha256": encoder.weights_checksum,
      "pooling": encoder.pooling(FLAGS.sentence_embedding_type).describe(),
    },
    "flow_corpus": {"name": corpus.name, "data": corpus.source},
    "calibrations": [calibration.name for calibration in calibrations.values()],
    "fitted_on": fitted,
    "flags": {flag.name: flag.value for flag in common_flags.own_flags()},
    "versions": common_flags.versions(),
  }
  if WITH_FLOW in calibrations:
    flow = calibrations[WITH_FLOW].flow
    about |= {"flow": flow.settings(), "constant_dimensions": flow.constant_dimensions}
  return about


def write(folder, task, embeddings, found, calibrations, about):
  """Writes the experiment's folder; returns {split: {method: figures}} and {split: {method: gain}}."""
  identity = about.pop("identity")
  for method, calibration in calibrations.items():
    calibration.encoder = identity
    calibration.save(folder / (FLOW if method == WITH_FLOW else calibration.name))
  results = by_split(found)
  cosines = {method: similarities for method, (_, similarities) in found.items()}
  intervals = gains(task, cosines)
  report.write_results(folder, {"results": results, "gain": intervals, **about})
  split = task.spec.eval_split
  if split is not None:
    report.write_predictions(folder, task.splits[split], {method: of[split] for method, of in cosines.items()})
    if WITH_FLOW in found:
      steps, flow = about["fitted_on"]["steps"], calibrations[WITH_FLOW].flow
      original = original_eval_results(task, embeddings, flow, cosines[WITH_FLOW][split], steps)
      report.write_eval_results(folder, original)
  return results, intervals


def main(argv):
  """Text, tokens, encoder, embeddings, calibrations, similarity, report."""
  del argv
  watch = Stopwatch()
  specs = check_flags()
  settings = common_flags.settings(FlowSettings)
  settings.config  # noqa: B018
  task, corpus = load_data()
  check_k_on_dev(specs, task)

  # The first use of TensorFlow, whose import takes seconds: what is wrong above is said before it.
  from bert_flow_tf.training.calibrations import make_flow
  from bert_flow_tf.training.distribution import is_chief, wait_for_all

  if FLAGS.export_dir is not None:
    check_export_flags()
  settings = settings.for_corpus(corpus)
  strategy = bert_flow_tf.make_strategy(settings.distribution_strategy)
  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(encoder_name(), FLAGS.model_cache_dir, FLAGS.precision)
  pooling = encoder.pooling(FLAGS.sentence_embedding_type)
  encoder.bert.check_max_seq_length(FLAGS.max_seq_length)
  folder = experiment_folder(task.spec.name, settings)
  dim = encoder.dim(pooling, common_flags.low_dim())
  flow, trainer = (
    make_flow(settings, dim, strategy, folder) if any(spec.method == FLOW for spec in specs) else (None, None)
  )
  steps = trainer.num_steps(len(corpus.pairs), settings.num_train_epochs) if flow else None
  if is_chief(strategy):
    make_folder(folder)  # what was refused above leaves no trace
  logging.info("%s: %d dimensions, %s", encoder.name, dim, pooling.describe())
  logging.info("fitting on %d pairs (%s); results in %s", len(corpus.pairs), corpus.source, folder)
  if flow:
    logging.info("flow: %d steps (%g epochs) at rate %g", steps, settings.num_train_epochs, settings.learning_rate)

  with watch.timing("embedding"):
    embeddings = of_corpus = embed(encoder, task.splits.values())
    if any(spec.method != FLOW for spec in specs) and not embeddings.have(corpus.pairs):
      of_corpus = embed(encoder, [corpus.pairs])
  with watch.timing("fitting"):
    fitted_flow = functools.partial(fit_flow, flow, trainer, corpus, encoder, of_corpus, watch)
    calibrations = fit(specs, corpus, of_corpus, task, embeddings, fitted_flow)
  if not is_chief(strategy):
    wait_for_all(strategy)
    return
  with watch.timing("evaluating"):
    transforms = {WITHOUT_FLOW: lambda u: u} | {name: found.transform for name, found in calibrations.items()}
    found = {method: evaluate(task, embeddings, transform) for method, transform in transforms.items()}

  sentences = len({*corpus.pairs.sentences_a, *corpus.pairs.sentences_b})
  fitted = {"pairs": len(corpus.pairs), "sentences": sentences}
  if flow:
    fitted |= {"steps": steps, "epochs": settings.num_train_epochs, "learning_rate": settings.learning_rate}
  about = describe(task, corpus, encoder, calibrations, fitted)
  about |= {"seconds": watch.seconds, "identity": encoder.identity(**common_flags.embedding_arguments()).to_dict()}
  say(*write(folder, task, embeddings, found, calibrations, about), watch.seconds)
  if FLAGS.export_dir is not None:
    (calibration,) = calibrations.values()
    saved = folder / (FLOW if flow else calibration.name)
    export(bert_flow_tf.SentenceModel(encoder, calibration, **common_flags.embedding_arguments()), saved)
  wait_for_all(strategy)


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
