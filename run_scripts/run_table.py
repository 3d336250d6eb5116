"""Computes the paper's tables and figures with the encoders at hand, beside the paper's own numbers.

python run_table.py --table=2 --model=base,large
"""

import contextlib
import dataclasses
import datetime
import functools
import os
import pathlib
import platform
import shlex
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.data.flow_corpus import NLI, TARGET, load_flow_corpus
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import files
from bert_flow_tf.io.experiment import make_folder
from bert_flow_tf.tables import results_page
from bert_flow_tf.tables.makers import Makers, check_tasks
from bert_flow_tf.tables.models import load_models
from bert_flow_tf.tables.plan import FIGURES, TABLES, is_of_use, make_plan
from bert_flow_tf.tables.store import Store
from bert_flow_tf.tables.workbench import Settings
from bert_flow_tf.training.settings import FlowSettings
from run_scripts import common_flags

FLAGS = flags.FLAGS

# What a table's own command leaves out: it names that table alone.
_NOT_IN_COMMAND = ("table", "figure", "results_page", "output_dir")


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_list("table", [], f"Tables to compute: {', '.join(TABLES)}, or all.")
  flags.DEFINE_list("figure", [], f"Figures to draw: {', '.join(FIGURES)}, or all.")
  flags.DEFINE_list("task", [], "Only these columns of Tables 2 and 3 and of transfer; all if not given.")
  flags.DEFINE_list(
    "model", ["mini"], "Encoders, as run_flow.py's --model, or glove:FILE for averaged word vectors of that file."
  )
  flags.DEFINE_list("nli_model", [], "Hugging Face folders of encoders fine-tuned on NLI, for Tables 3, 4 and 8.")
  common_flags.define_data_flags()
  common_flags.define_embedding_flags()
  common_flags.define_flow_flags()
  flags.DEFINE_list(
    "calibration", ["sn", "whitening"], "Further calibrations, as rows of Tables 2, 3 and 5 and isotropy; may be empty."
  )
  flags.DEFINE_list("transfer_corpus", [], "Further files of sentences, or nli, as rows of transfer.")
  flags.DEFINE_integer("num_seeds", 1, "Seeds of the flow, from --seed on; Table 8 takes 5 if not given.", 1)
  flags.DEFINE_string("frequency_file", None, "For Table 1: a word and its count a line.")
  flags.DEFINE_string("corpus", None, "For Table 1: a text file whose words are counted.")
  flags.DEFINE_string(
    "output_dir", "exp/tables", "Folder of the tables; a run that was stopped goes on from what is there."
  )
  flags.DEFINE_string("results_page", None, "File for a page of all tables in --output_dir, such as RESULTS.md.")


def _settings(tasks):
  """The `Settings` of the flags; corpora are read, and strategies made, once."""
  fitted = common_flags.settings(FlowSettings)
  fitted.check()
  packages = {name: common_flags.versions()[name] for name in ("tensorflow", "tensorflow-probability")}

  @functools.cache
  def load_corpus(name):
    return load_flow_corpus(name, None, FLAGS.data_dir, FLAGS.tfds_data_dir)

  @functools.cache
  def flow_settings(corpus, seed):
    return dataclasses.replace(fitted.for_corpus(corpus), seed=seed)

  def flow_key(corpus, seed):
    from bert_flow_tf.data.pipeline import ORDER  # with TensorFlow, which is imported by now

    decisive = flow_settings(corpus, seed).identity() | {"order": ORDER, "versions": packages}
    return {name: value for name, value in decisive.items() if name != "use_xla"}

  return Settings(
    tasks,
    load_corpus,
    flow_settings,
    flow_key,
    FLAGS.max_seq_length,
    FLAGS.predict_batch_size,
    FLAGS.cached_dir or os.path.join(FLAGS.output_dir, "embeddings"),
  )


def _check_flow(plan, settings):
  """Refuses settings of the flow, and corpora that are smaller than a batch, before anything long."""
  from bert_flow_tf.training.calibrations import make_flow

  corpora = [load_flow_corpus(TARGET, task) for task in settings.tasks.values()]
  corpora += [settings.load_corpus(name) for name in plan.transfer_corpora if name != NLI]
  if plan.fits_on_nli:
    with contextlib.suppress(DataError):  # its rows will say so
      corpora.append(settings.load_corpus(NLI))
  trainer = None
  for corpus in corpora:
    chosen = settings.flow_settings(corpus, plan.seed)
    if trainer is None:
      _, trainer = make_flow(chosen, 1 << (chosen.config.n_levels + 1), show_progress=False)
    trainer.num_steps(len(corpus.pairs), chosen.epochs)


def _about(name, models):
  """What a table was made with, json values."""
  given = [flag for flag in common_flags.own_flags() if flag.present and flag.name not in _NOT_IN_COMMAND]
  given = [flag for flag in given if is_of_use(flag.name, name)]
  parts = [f"--table={name}", *(part for flag in given for part in flag.serialize().splitlines())]
  return {
    "command": shlex.join(["python", "run_scripts/run_table.py", *parts]),
    "versions": common_flags.versions(),
    "encoders": {model.title: model.bench.encoder.weights_checksum for model in models},
    "date": datetime.date.today().isoformat(),
    "machine": f"{platform.machine()}, {os.cpu_count()} cores",
  }


def _make(plan):
  """Tasks and encoders, then table by table and figure by figure."""
  tasks = {name: load_task(name, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold) for name in plan.tasks()}
  check_tasks(plan, tasks)
  settings = _settings(tasks)
  _check_flow(plan, settings)
  folder = pathlib.Path(FLAGS.output_dir)
  store = Store(folder / "cells")
  models = load_models(plan, settings, store, FLAGS.max_seq_length, FLAGS.model_cache_dir, FLAGS.precision)
  make_folder(folder, "output_dir")  # what was refused above leaves no trace
  makers = Makers(plan, *models)
  for name in plan.tables:
    table = makers.table(name, _about(name, makers.models_of(name)))
    for extension, text in (("md", table.markdown()), ("csv", table.csv()), ("json", table.json())):
      files.write_text(folder / f"table_{name}.{extension}", text)
    print(table.markdown())
  for name in plan.figures:
    for path in makers.figure(name, folder):
      logging.info("wrote %s", path)


def main(argv):
  """What the flags ask for, then the page of all that is there."""
  del argv
  plan = make_plan(FLAGS)
  if plan.tables or plan.figures:
    _make(plan)
  if FLAGS.results_page:
    results_page.write(FLAGS.results_page, FLAGS.output_dir)
    logging.info("wrote %s", FLAGS.results_page)


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
