"""Embeds a corpus of any size: text, TSV, CSV, JSON lines, Parquet or TFRecords to shards of vectors with ids.

bert-flow embed --input='corpus/*.txt.gz' --flow_folder=exp/NAME/flow --output=vectors
"""

import pathlib
import sys
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.encoder.kinds import SAVED_MODEL
from bert_flow_tf.errors import DataError, EncoderError
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.shards import BAD, EMBEDDED, READ, SKIPPED_EMPTY
from run_scripts import common_flags, help_page, runner

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings)
  common_flags.define_model_flags()
  common_flags.define_query_prompt_flag()
  text = f"Another name of --model={SAVED_MODEL.form}. A SavedModel is a program, which can read and write files: "
  flags.DEFINE_string("saved_model", None, f"{text}give only one that you trust.")
  help_page.put_under("saved_model", "encoder")


def use_saved_model() -> None:
  """Makes the folder of --saved_model the encoder of --model."""
  if FLAGS.saved_model is not None:
    common_flags.reject(
      ["model", "init_checkpoint"], "has no use with saved_model, which is the encoder; leave one out"
    )
    FLAGS.model = f"{SAVED_MODEL.prefix}{FLAGS.saved_model.removeprefix(SAVED_MODEL.prefix)}"
    FLAGS["model"].present += 1


def load_embedder() -> "SentenceModel":
  """Loads the encoder and its calibration; an EncoderError names the encoder's flag as the command line does."""
  try:
    model = common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder)
  except EncoderError as error:
    if FLAGS.saved_model is None or error.argument != "model":
      raise
    message = str(error).replace(f"model={FLAGS.model}", f"saved_model={FLAGS.saved_model}", 1)
    raise EncoderError(message.replace(SAVED_MODEL.form, "FOLDER"), "saved_model") from error
  logging.info("%s: %d dimensions", model.name, model.output_dim)
  return model


def main() -> None:
  """Loads the model, embeds the corpus and prints the counters."""
  common_flags.reject(["cached_dir"], "no use here, as finished shards are not embedded again")
  common_flags.check_calibration_flags()
  use_saved_model()
  job = EmbeddingJob(common_flags.settings(JobSettings))
  with job.watch.timing("loading"):
    model = load_embedder()
    from bert_flow_tf.corpus.models import embedder_of

    embedder = embedder_of(model, FLAGS.flow_folder, FLAGS.model_cache_dir)
  result = job.run(embedder, FLAGS.predict_batch_size, {"versions": common_flags.versions()})
  print(result.describe())
  counters = result.counters
  reasons = f"{result.folder.folder}/dead-letter-*.tsv has file, line and reason"
  if not counters[EMBEDDED]:
    found = f"{counters[READ]} read, {counters[BAD]} bad, {counters[SKIPPED_EMPTY]} empty"
    name = ",".join(FLAGS.input)[:200]
    kinds = ", ".join(kind for kind in counters if kind.startswith(f"{BAD} ("))
    hint = f"; {kinds}: {reasons}" if kinds else ""
    raise DataError(f"input={name}: no record was embedded ({found}); expected sentences{hint}", "input")
  if counters[BAD]:
    logging.warning("%s not embedded: %s", counted(counters[BAD], "bad record", ","), reasons)


console = runner.command(define_flags, main)

if __name__ == "__main__":
  console()
