"""Fits a flow on a task's sentences and evaluates similarity without and with it.

bert-flow fit --task=STS-B --model=large
bert-flow fit pairs.tsv --calibration=soft-whitening
bert-flow fit --beir=FOLDER --queries=queries.txt --calibration=soft-whitening
"""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Sequence

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.calibration.names import FLOW, CalibrationSpec, check_affine, check_k_on_dev, parse_calibrations
from bert_flow_tf.data.beir import BeirSettings
from bert_flow_tf.data.flow_corpus import CorpusSettings, load_task_and_corpus
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.kinds import STATIC, split_name
from bert_flow_tf.encoder.settings import EncoderSettings, reject_openvino
from bert_flow_tf.encoder.transformer.number_formats import reject_int8
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import OutputSettings
from bert_flow_tf.io.files import owned
from bert_flow_tf.serving.settings import MODEL2VEC, ExportSettings
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

# Parts of the settings, by their names in `FlowRunSettings`.
_SETTINGS = {
  "data": DataSettings,
  "beir": BeirSettings,
  "corpus": CorpusSettings,
  "embedding": EncoderSettings,
  "flow": FlowSettings,
  "run": RunSettings,
  "output": OutputSettings,
}


def define_flags() -> None:
  """Defines the flags of this runner."""
  for part in _SETTINGS.values():
    common_flags.define_settings(part)
  common_flags.define_recipe_flag()
  common_flags.define_export_flags()


def check_flags() -> list[CalibrationSpec]:
  """Validates the flags before anything is loaded, and returns the calibrations."""
  common_flags.use_recipe()
  common_flags.check_encoder_flags()
  specs = parse_calibrations(FLAGS.calibration)
  if FLAGS.distribution_strategy == "multi_worker_mirrored":
    quiet.import_tensorflow()
    from bert_flow_tf.training.workers import read_tf_config

    read_tf_config()
  if FLAGS.beir is None:
    common_flags.reject(["split", "fit_queries", "ignore_identical_ids"], "needs beir, the folder of a search")
  else:
    common_flags.reject(["task", "stsb_gold", "columns", "header"], "has no use with beir, which is the task")
  if FLAGS.fit_queries:
    common_flags.reject(["queries"], "has no use with fit_queries, which takes the queries of beir; leave one out")
  _check_export(specs)
  if FLAGS.encoder_dropout and not any(spec.method == FLOW for spec in specs):
    raise ConfigError("encoder_dropout: needs a flow in calibration", argument="encoder_dropout")
  if FLAGS.encoder_dropout:
    reject_int8(FLAGS.precision, "encoder_dropout is part of a training")
    reject_openvino(FLAGS.engine, "encoder_dropout embeds in each step of a training")
  return specs


def _check_export(specs: Sequence[CalibrationSpec]) -> None:
  """Validates the export's flags, for some calibrations, and that its packages are installed."""
  # Without an export, its other flags have no meaning.
  if FLAGS.export_dir is None:
    names = [field.name for field in dataclasses.fields(ExportSettings)]
    common_flags.reject(names, "needs export_dir, the folder of the served model")
    return
  # With an export, the fitted model must be a model that can be served.
  if len(specs) > 1:
    raise ConfigError(
      f"export_dir={FLAGS.export_dir}: expected one calibration, got {len(specs)}; bert-flow export takes one",
      argument="export_dir",
    )
  common_flags.check_export_flags()
  if FLAGS.format == MODEL2VEC:
    name = common_flags.settings(EncoderSettings).encoder_name
    if split_name(name)[0] is not STATIC:
      raise ConfigError(f"model={name}: format={MODEL2VEC} is of {STATIC.form}, or of bert-flow distill", "model")
    for spec in specs:
      check_affine(spec)


def main() -> None:
  """Fits the calibrations, evaluates them, and writes the experiment's folder."""
  # Everything that a user can have got wrong, down to the data, before TensorFlow and the encoder.
  specs = check_flags()
  parts = {name: common_flags.settings(part) for name, part in _SETTINGS.items()}
  parts["flow"].check()
  task, corpus = load_task_and_corpus(parts["data"], parts["corpus"], parts["beir"])
  check_k_on_dev(specs, task)
  # TensorFlow takes seconds to import: the errors above come before that.
  quiet.import_tensorflow()
  from bert_flow_tf.runs.flow_run import FlowRun, FlowRunSettings
  from bert_flow_tf.runs.run_folder import print_results
  from bert_flow_tf.training.strategies import make_strategy
  from bert_flow_tf.training.workers import wait_for_all

  # Fit everywhere; evaluate and write in one process, while the others wait.
  wait, growth = FLAGS.worker_wait_seconds, FLAGS.gpu_memory_growth
  strategy = make_strategy(FLAGS.distribution_strategy, wait, FLAGS.deterministic, growth, FLAGS.encoder_dropout)
  model = common_flags.load_model(strategy=strategy)
  run = FlowRun(model, FlowRunSettings(**parts), specs, task, corpus, strategy)
  run.check()
  with owned(run.folder, "exp_name") if run.is_chief else contextlib.nullcontext():
    run.fit()
    if run.is_chief:
      result, page = run.evaluate(common_flags.about())
      print_results([result], run.watch.seconds, page)
      if FLAGS.export_dir is not None:
        ((method, calibrated),) = run.calibrated.items()
        common_flags.export(calibrated, run.calibration_folder(method))
  wait_for_all(strategy)


console = runner.command(define_flags, main, take_arguments=common_flags.take_task_file)

if __name__ == "__main__":
  console()
