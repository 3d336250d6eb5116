"""Leaves out the near-duplicates of a file: sentences that are as similar to an earlier one as --threshold.

bert-flow dedupe sentences.txt --flow_folder=exp/NAME/flow --threshold=0.9 --output=distinct.txt
bert-flow dedupe --vectors=FOLDER --output=distinct_ids.txt
"""

import os
import pathlib
import sys
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.readers.records import Records, read_records
from bert_flow_tf.data.readers.text import TEXT
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.neighbors import near_duplicates, rows_with_text
from bert_flow_tf.neighbors.duplicates import first_equal, first_similar
from bert_flow_tf.progress import counted
from run_scripts import common_flags, runner, text_flags

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings, ("input", "input_format", "column", "header", "max_record_bytes"))
  text_flags.define_vectors_flag("Compared in place of input; the output has the ids of those that are kept.")
  text_flags.define_index_flag()
  flags.DEFINE_float("threshold", 0.9, "Smallest cosine of near-duplicates.", lower_bound=-1, upper_bound=1)
  common_flags.define_model_flags()
  text_flags.define_fit_flag()
  text_flags.define_output_flag("File of the records that are kept; it may be the input")


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  text_flags.check_vectors_flags(["model", "init_checkpoint", "flow_folder"])
  text_flags.check_text_flags()


def check_output(path: str) -> None:
  """Raises a ConfigError if a calibration is fitted on a file that is replaced: the next run would have another fit."""
  if FLAGS.calibration is None or FLAGS.output is None or not (os.path.exists(FLAGS.output) and os.path.exists(path)):
    return
  if os.path.samefile(FLAGS.output, path):
    message = f"output={FLAGS.output}: is the input, on which {FLAGS.calibration} is fitted, so that the same command "
    raise ConfigError(f"{message}would fit it on fewer sentences and drop more; expected another file", "output")


def is_known(model: "SentenceModel", texts: list[str]) -> np.ndarray:
  """Returns for each text whether a `SentenceModel` knows a piece or word of it, bool [n].

  Texts of nothing but unknown pieces, [UNK], have equal embeddings whatever they say.
  """
  if any(step.reads_tokens for step in model.steps):  # characters, which see the letters
    return np.ones(len(texts), bool)
  tokenizer = model.encoder.with_prompt("").tokenizer
  if hasattr(model.encoder, "vectors"):  # word vectors: zeros without a known word
    return model.encode(texts, calibrated=False).any(axis=1)
  unknown = tokenizer.ids.get(tokenizer.specials["unk_token"]) if hasattr(tokenizer, "specials") else None
  if unknown is None:
    return np.ones(len(texts), bool)
  # The mark of a word's start alone is no piece of it.
  nothing = {unknown, tokenizer.ids.get("\u2581", unknown), *tokenizer.special_ids}
  ids = tokenizer(texts, model.max_seq_length, warn=False)
  return np.array([not nothing.issuperset(row.tolist()) for row in ids], bool)


def kept_rows(model: "SentenceModel", sentences: list[str], with_text: np.ndarray) -> np.ndarray:
  """Returns the rows of sentences to keep, increasing: those without near-duplicates before, blank or unknown ones."""
  # Equal sentences are embedded once.
  firsts = with_text[first_equal([sentences[row] for row in with_text])]
  distinct = np.unique(firsts)
  known = distinct[is_known(model, [sentences[row] for row in distinct])]
  embeddings = model.encode([sentences[row] for row in known], FLAGS.predict_batch_size, show_progress_bar=True)
  is_zero = ~embeddings.any(axis=1)
  comparable = known[~is_zero]
  unknown = np.count_nonzero(~np.isin(firsts, comparable))
  if unknown:
    message = "%s of nothing but pieces that the encoder's vocabulary does not know ([UNK]): kept, not compared"
    logging.warning(message, counted(unknown, "sentence"))
  kept = near_duplicates(embeddings, FLAGS.threshold, show_progress_bar=True, index=FLAGS.index)
  is_dropped = np.zeros(len(sentences), bool)
  is_dropped[known] = kept != np.arange(len(kept))
  is_dropped[with_text[(firsts != with_text) & np.isin(firsts, comparable)]] = True
  return np.flatnonzero(~is_dropped)


def kept_ids() -> list[str]:
  """Returns the ids of the vectors of --vectors that are kept."""
  from bert_flow_tf.corpus.vectors import VectorFolder

  vectors = VectorFolder.open(FLAGS.vectors)
  vectors.check()
  is_zero = np.concatenate([~block.any(axis=1) for _, block in vectors.rows.blocks()])
  kept = first_similar(vectors.rows, np.flatnonzero(~is_zero), FLAGS.threshold, FLAGS.index, True)
  rows = np.flatnonzero(kept == np.arange(len(kept)))
  logging.info("%s of %d kept", counted(len(rows), "vector"), len(kept))
  return [vectors.id_of(row) for row in rows.tolist()]


def main() -> None:
  """Reads the sentences or vectors, compares them, and writes those that are kept."""
  check_flags()
  if FLAGS.vectors is not None:
    text_flags.check_output_kind(TEXT)
    text_flags.write_output("".join(f"{name}\n" for name in kept_ids()).encode("utf-8"))
    return
  (path,) = text_flags.input_files(max_files=1)
  check_output(path)
  settings = common_flags.settings(JobSettings)
  read = read_records(path, settings.format_of([path]), keep_empty=True)
  text_flags.check_output_kind(read.kind, path)
  sentences = [texts[0] for texts in read.texts]
  with_text = rows_with_text(sentences)
  model = text_flags.load_text_model([sentences[row] for row in with_text])
  rows = kept_rows(model, sentences, with_text)
  log_counts(read, len(rows), len(sentences) - len(with_text))
  text_flags.write_output(read.content(rows.tolist()))


def log_counts(read: Records, kept: int, without_text: int) -> None:
  """Logs the number of kept records and of all records."""
  counts = [f"{counted(kept, 'sentence')} of {len(read.texts)} kept"]
  if without_text:
    counts.append(f"{counted(without_text, 'record')} without text among them, not compared")
  if read.blank_lines:
    counts.append(f"{counted(read.blank_lines, 'blank line')} left out")
  logging.info("%s", "; ".join(counts))


console = runner.command(define_flags, main, resumes=False, prints_output=True)

if __name__ == "__main__":
  console()
