"""Adds the similarity of each pair, a cosine, to a file of TSV, CSV, JSON lines or Parquet.

bert-flow score pairs.tsv --flow_folder=exp/NAME/flow --output=scored.tsv
bert-flow score pairs.csv --columns=question,answer --recipe=recommended
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.custom import with_text
from bert_flow_tf.data.files.rows import read_pairs
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags, runner, text_flags

FLAGS = flags.FLAGS

# Name of the new column, where the file names its columns.
COLUMN = "similarity"


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings, ("input", "input_format", "header", "max_record_bytes"))
  flags.DEFINE_list(
    "columns",
    None,
    "The two columns of sentences: names, or in TSV and CSV numbers from 1. Default: sentence1 and sentence2, if the "
    "columns have names, else the first two; or the second and the third of three, if the first is a number.",
  )
  common_flags.define_model_flags()
  text_flags.define_fit_flag()
  text_flags.define_output_flag("File with the further column; it may be the input")


def fitted_pairs(path: str, a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
  """Returns the pairs that --calibration is fitted on: as in `fit`, those without an empty sentence."""
  if FLAGS.calibration is None:
    return a, b
  pairs = with_text(SentencePairs.without_gold(a, b), path)
  return list(pairs.sentences_a), list(pairs.sentences_b)


def main() -> None:
  """Reads the pairs, computes their cosines, and writes the file."""
  text_flags.check_text_flags()
  (path,) = text_flags.input_files(max_files=1)
  arguments = {
    "hint": "; or --columns names the two, or in TSV and CSV gives their numbers, as 1,2",
    "max_bytes": FLAGS.max_record_bytes,
  }
  read = read_pairs(path, FLAGS.columns or (), FLAGS.header, FLAGS.input_format, **arguments)
  if COLUMN in map(str.strip, read.names):
    raise ConfigError(f"input={path}: already has a column {COLUMN!r}; remove or rename it", "input")
  text_flags.check_output_kind(read.kind, path)
  a, b = map(list, zip(*read.texts, strict=True))
  model = text_flags.load_text_model(fitted_pairs(path, a, b))
  cosines = model.similarity(a, b, FLAGS.predict_batch_size, show_progress_bar=True)
  # An empty cell is similar to nothing.
  column = []
  for first, second, cosine in zip(a, b, cosines, strict=True):
    is_pair = first.strip() and second.strip()
    column.append(float(cosine) if is_pair else None)
  text_flags.write_output(read.content(range(len(a)), COLUMN, column))


console = runner.command(define_flags, main, resumes=False, prints_output=True)

if __name__ == "__main__":
  console()
