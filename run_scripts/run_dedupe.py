"""Leaves out the near-duplicates of a file: sentences that are as similar to an earlier one as --threshold.

bert-flow dedupe sentences.txt --flow_folder=exp/NAME/flow --threshold=0.9 --output=distinct.txt
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.readers.records import read_records
from bert_flow_tf.neighbors import near_duplicates
from bert_flow_tf.progress import counted
from run_scripts import common_flags, runner, text_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings, ("input", "input_format", "column", "header"))
  flags.DEFINE_float("threshold", 0.9, "Smallest cosine of near-duplicates.", lower_bound=-1, upper_bound=1)
  common_flags.define_model_flags()
  text_flags.define_fit_flag()
  text_flags.define_output_flag("File of the records that are kept; it may be the input")


def main() -> None:
  """Reads the sentences, compares them, and writes those that are kept."""
  text_flags.check_text_flags()
  (path,) = text_flags.input_files(max_files=1)
  settings = common_flags.settings(JobSettings)
  read = read_records(path, settings.format_of([path]))
  text_flags.check_printable(read.kind)
  sentences = [texts[0] for texts in read.texts]
  model = text_flags.load_text_model(sentences)
  embeddings = model.encode(sentences, FLAGS.predict_batch_size, show_progress_bar=True)
  kept = near_duplicates(embeddings, FLAGS.threshold, show_progress_bar=True)
  rows = [row for row, representative in enumerate(kept) if row == representative]
  logging.info("%s of %d kept", counted(len(rows), "sentence"), len(sentences))
  text_flags.write_output(read.content(rows))


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
