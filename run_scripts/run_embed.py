"""Embeds a corpus of any size: text, TSV, CSV, JSON lines, Parquet or TFRecords to shards of vectors with ids.

bert-flow embed --input='corpus/*.txt.gz' --flow_folder=exp/NAME/flow --output=vectors
"""

import os
import pathlib
import sys
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.encoder.settings import LOADING, NAME, POOLING
from bert_flow_tf.errors import DataError
from bert_flow_tf.vectors.shards import BAD, EMBEDDED, READ, SKIPPED_EMPTY
from run_scripts import common_flags, quiet, runner

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings)
  common_flags.define_model_flags()
  common_flags.define_query_prompt_flag()
  flags.DEFINE_string(
    "saved_model",
    None,
    "Folder of an exported SavedModel, used in place of an encoder. A SavedModel is a program, which can read and "
    "write files: give only one that you trust.",
  )


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  common_flags.reject(["cached_dir"], "no use here, as finished shards are not embedded again")
  # A SavedModel has its encoder and calibration in it.
  names = common_flags.encoder_flags((NAME, LOADING, POOLING))
  names += ["flow_folder", "query_prompt"]
  names.remove("saved_model_output")
  if FLAGS.saved_model is not None:
    common_flags.reject(names, "no use with saved_model, which contains an encoder and its settings; leave one out")
  common_flags.check_calibration_flags()


def load_model() -> "SentenceModel":
  """Loads the SavedModel, or the encoder and its calibration."""
  if FLAGS.saved_model is not None:
    quiet.import_tensorflow()
    from bert_flow_tf.corpus.models import load_saved_model

    return load_saved_model(os.path.expanduser(FLAGS.saved_model), FLAGS.saved_model_output)
  model = common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder)
  logging.info("%s: %d dimensions", model.name, model.output_dim)
  return model


def main() -> None:
  """Loads the model, embeds the corpus and prints the counters."""
  check_flags()
  job = EmbeddingJob(common_flags.settings(JobSettings))
  with job.watch.timing("loading"):
    model = load_model()
    from bert_flow_tf.corpus.models import embedder_of

    embedder = embedder_of(model, FLAGS.flow_folder, FLAGS.model_cache_dir)
  result = job.run(embedder, FLAGS.predict_batch_size, {"versions": common_flags.versions()})
  print(result.describe())
  counters = result.counters
  if not counters[EMBEDDED]:
    found = f"{counters[READ]} read, {counters[BAD]} bad, {counters[SKIPPED_EMPTY]} empty"
    name = ",".join(FLAGS.input)[:200]
    raise DataError(f"input={name}: no record was embedded ({found}); expected sentences", "input")


console = runner.command(define_flags, main)

if __name__ == "__main__":
  console()
