"""Distills an encoder into a table of vectors, one per token, which model2vec and sentence-transformers load.

bert-flow distill --model=mini --output=static
bert-flow distill --model=mini --output=static --calibration=soft-whitening --corpus=sentences.txt --dim=256
bert-flow distill --model=static:FOLDER --output=static --calibration=soft-whitening --corpus=sentences.txt
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.calibration.names import check_affine, parse_calibration
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.kinds import STATIC, split_name
from bert_flow_tf.encoder.settings import COMPUTING, LOADING, NAME, EncoderSettings
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.io.files import check_new_folder
from bert_flow_tf.serving.settings import ExportSettings
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

# Flags of the encoder that decide the table, not the embeddings of its tokens.
_OF_TABLE = ("token_weights", "frequency_corpus")


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_encoder_flags((NAME, LOADING, COMPUTING), leave_out=("cached_dir",))
  common_flags.define_settings(EncoderSettings, ("sentence_embedding_type",))
  common_flags.define_output_folder("Folder of the table, new or empty: model.safetensors, tokenizer.json, ...")
  text = (
    "Calibration to fit on corpus, without labels, and to put into the vectors: mean, sn, whitening, whitening-K, "
    "soft-whitening, soft-whitening-K, tempered-whitening, natsv-K or sn+natsv-K."
  )
  flags.DEFINE_string("calibration", None, text)
  flags.DEFINE_string("corpus", None, "File of sentences, or of pairs, on which the calibration is fitted.")
  flags.DEFINE_integer(
    "dim", None, "Number of leading directions of a whitening, soft-whitening or tempered-whitening. Default: all."
  )
  text = "Whether embeddings are divided by their length. Default: if there is a calibration, or the static model does."
  flags.DEFINE_boolean("normalize", None, text)
  common_flags.define_settings(ExportSettings, ("dtype",))
  common_flags.define_settings(DataSettings, ("max_record_bytes",))


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  if not FLAGS.output:
    raise ConfigError("output: missing; expected the folder of the table", argument="output")
  check_new_folder(FLAGS.output, "output")
  common_flags.check_encoder_flags()
  if FLAGS.calibration is None:
    common_flags.reject(["corpus", "dim"], "needs a calibration, which is fitted on corpus")
    return
  check_affine(parse_calibration(FLAGS.calibration))
  if FLAGS.corpus is None:
    raise ConfigError(
      f"calibration={FLAGS.calibration}: needs --corpus, a file of sentences to fit it on", "calibration"
    )


def main() -> None:
  """Writes the table and prints a line about it."""
  check_flags()
  sentences = None
  if FLAGS.corpus is not None:
    with naming("corpus"):
      sentences, _ = read_custom_pairs(FLAGS.corpus, FLAGS.max_record_bytes)
  settings = common_flags.settings(EncoderSettings)
  loading, of_table = settings.loading_arguments(), {}
  if split_name(settings.encoder_name)[0] is not STATIC:
    of_table = {name: loading.pop(name) for name in _OF_TABLE}
  quiet.import_tensorflow()
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
  from bert_flow_tf.serving.distill import distill

  encoder = SentenceEncoder.from_pretrained(settings.encoder_name, **loading)
  with naming("corpus", "sentences"), naming("output", "folder"):
    distill(
      encoder,
      FLAGS.output,
      sentences=sentences,
      calibration=FLAGS.calibration,
      dim=FLAGS.dim,
      sentence_embedding_type=settings.sentence_embedding_type,
      dtype=FLAGS.dtype,
      normalize=FLAGS.normalize,
      batch_size=settings.predict_batch_size,
      **of_table,
    )
  common_flags.print_table(FLAGS.output)


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
