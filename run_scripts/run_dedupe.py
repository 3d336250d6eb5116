"""Leaves out the near-duplicates of a file: sentences that are as similar to an earlier one as --threshold.

bert-flow dedupe sentences.txt --report=dropped.tsv --dry_run
bert-flow dedupe sentences.txt --output=distinct.txt
bert-flow dedupe new.csv --column=name,address --against=old.csv --output=added.csv
bert-flow dedupe --vectors=FOLDER --output=distinct_ids.txt
"""

import os
import pathlib
import sys
from collections.abc import Callable, Sequence

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.input_format import JSONL, TEXT
from bert_flow_tf.data.files.rows import Records, read_records
from bert_flow_tf.data.files.source import joined
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors import Duplicates, find_duplicates, rows_with_text
from bert_flow_tf.vectors.duplicates import counts_of, duplicates_of_folder, report_table
from bert_flow_tf.vectors.vector_folder import VectorFolder
from run_scripts import common_flags, help_page, runner, text_flags

FLAGS = flags.FLAGS
_MODEL = "static:mini"
_REPORTS = (".tsv", ".jsonl")


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings, ("input", "input_format", "column", "header", "max_record_bytes"))
  text_flags.define_vectors_flag("Compared in place of input; the output has the ids of those that are kept.")
  text = "File of records, with --vectors a folder, which the input is compared with, too; they are not written. "
  flags.DEFINE_string("against", None, f"{text}Flags of columns hold for both files.")
  help_page.put_under("against", "corpus")
  text_flags.define_index_flag()
  flags.DEFINE_float("threshold", 0.9, "Smallest cosine of near-duplicates.", lower_bound=-1, upper_bound=1)
  text = "Compare although random pairs of the input reach the threshold, by which unrelated records are left out."
  flags.DEFINE_boolean("allow_unrelated", False, text)
  common_flags.define_model_flags(model=_MODEL)
  text_flags.define_fit_flag()
  text_flags.define_output_flag("File of the records that are kept; it may be the input")
  text = "File of the records that are left out, each with its original, their cosine and the reason: .tsv or .jsonl."
  flags.DEFINE_string("report", None, text)
  flags.DEFINE_boolean("dry_run", False, "Log the counts and write nothing but the report.")
  for name in ("report", "dry_run"):
    help_page.put_under(name, "io")


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  text_flags.check_vectors_flags(["model", "init_checkpoint", "flow_folder"])
  if common_flags.given(["recipe", "calibration", "sentence_embedding_type"]) and not common_flags.given(["model"]):
    FLAGS["model"].value = EncoderSettings().model  # a calibration removes its cone
  text_flags.check_text_flags()
  text_flags.check_output_file("report")
  if FLAGS.report is not None and not FLAGS.report.lower().endswith(_REPORTS):
    raise ConfigError(f"report={FLAGS.report}: expected a name that ends in .tsv or .jsonl", "report")
  if FLAGS.dry_run:
    common_flags.reject(["output"], "has no use with dry_run, which writes no records; leave one out")


def check_output(paths: list[str]) -> None:
  """Raises a ConfigError if a file is written in place of another that is read or written.

  The output may be the input, unless a calibration is fitted on it: the next run would have another fit.
  """
  for path in paths:
    if text_flags.is_same_file(FLAGS.report, path):
      raise ConfigError(f"report={FLAGS.report}: is the file of the records; expected another file", "report")
  if None not in (FLAGS.report, FLAGS.output) and os.path.realpath(FLAGS.report) == os.path.realpath(FLAGS.output):
    raise ConfigError(f"report={FLAGS.report}: is the output, too; expected another file", "report")
  for path in paths[1:]:
    if text_flags.is_same_file(FLAGS.output, path):
      message = f"output={FLAGS.output}: is the file of against, whose records would be lost; expected another file"
      raise ConfigError(message, "output")
  if FLAGS.calibration is not None and any(text_flags.is_same_file(FLAGS.output, path) for path in paths):
    message = f"output={FLAGS.output}: is the input, on which {FLAGS.calibration} is fitted, so that the same command "
    raise ConfigError(f"{message}would fit it on fewer sentences and drop more; expected another file", "output")


def read(path: str) -> tuple[Records, list[str]]:
  """Returns the records of a file, and the text of each, in which several columns stand one after the other."""
  records = read_records(path, common_flags.settings(JobSettings).format_of([path]), keep_empty=True)
  return records, list(map(joined, records.texts))


def dedupe_file() -> None:
  """Compares the records of a file and writes those that are kept."""
  (path,) = text_flags.input_files(max_files=1)
  paths, old, old_texts = [path], None, []
  if FLAGS.against is not None:
    paths.append(FLAGS.against)
    with naming("against"):
      old, old_texts = read(FLAGS.against)
  check_output(paths)
  new, new_texts = read(path)
  if not FLAGS.dry_run:
    text_flags.check_output_kind(new.kind, path)
  texts, against = old_texts + new_texts, len(old_texts)
  with_text = rows_with_text(texts)  # the others are not compared
  model = text_flags.load_text_model([texts[row] for row in with_text])
  duplicates = find_duplicates(
    None,
    FLAGS.threshold,
    True,
    texts=texts,
    model=model,
    index=FLAGS.index,
    against=against,
    batch_size=FLAGS.predict_batch_size,
    allow_unrelated=FLAGS.allow_unrelated,
  )
  unknown = np.count_nonzero(np.isin(duplicates.incomparable, with_text[with_text >= against]))
  if unknown:
    message = "%s of nothing but pieces that the encoder's vocabulary does not know ([UNK]): kept, not compared"
    logging.warning(message, counted(unknown, "sentence"))

  def record(row):
    if row < against:
      return old.path, old.numbers[row], texts[row]
    return path, new.numbers[row - against], texts[row]

  notes = []
  compared = np.count_nonzero(with_text >= against)
  if compared < len(new_texts):
    notes.append(f"{counted(len(new_texts) - compared, 'record')} without text among them, not compared")
  if new.blank_lines:
    notes.append(f"{counted(new.blank_lines, 'blank line')} left out")
  log_counts(duplicates, "sentence", len(with_text) - compared, len(new_texts), notes)
  kept = duplicates.kept
  write_kept(new.content((kept[kept >= against] - against).tolist()), duplicates, record)


def dedupe_vectors() -> None:
  """Compares the vectors of --vectors and writes the ids of those that are kept."""
  check_output([])
  old, against = None, 0
  if FLAGS.against is not None:
    with naming("against", instead_of="vectors"):
      old = VectorFolder.open(FLAGS.against)
    against = len(old.rows)
  vectors = VectorFolder.open(FLAGS.vectors)
  arguments = {"against": old, "allow_unrelated": FLAGS.allow_unrelated}
  duplicates = duplicates_of_folder(vectors, FLAGS.threshold, FLAGS.index, True, **arguments)

  def record(row):
    if row < against:
      return FLAGS.against, old.id_of(row)
    return FLAGS.vectors, vectors.id_of(row - against)

  log_counts(duplicates, "vector", against, len(vectors.rows))
  ids = [vectors.id_of(row - against) for row in duplicates.kept.tolist() if row >= against]
  write_kept("".join(f"{name}\n" for name in ids).encode("utf-8"), duplicates, record)


def log_counts(duplicates: Duplicates, name: str, against: int, records: int, notes: Sequence[str] = ()) -> None:
  """Logs how many of a number of records are kept and left out; `notes` are further counts."""
  unread = len(duplicates.differently_unread)
  if unread:
    message = "%s kept although as similar to another, as they differ in numbers, or in what the encoder does not "
    message += "read: behind its last token%s, unknown to its vocabulary, or without weight"
    hint = " (--max_seq_length)" if FLAGS.vectors is None else ""
    logging.warning(message, counted(unread, name), hint)
  if against:
    notes = [*notes, f"compared with {against} of {FLAGS.against}"]
  logging.info("%s", counts_of(duplicates, name, records, notes))


def write_kept(content: bytes, duplicates: Duplicates, record: Callable[[int], tuple]) -> None:
  """Writes the report and the output; `record` as in `report_table`."""
  if FLAGS.report is not None:
    table = report_table(duplicates, record, FLAGS.vectors is None, kind_of(FLAGS.report) == JSONL)
    text_flags.write_file(FLAGS.report, table.encode("utf-8", "backslashreplace"))
  if not FLAGS.dry_run:
    text_flags.write_output(content)


def main() -> None:
  """Reads the sentences or vectors, compares them, and writes those that are kept."""
  check_flags()
  if FLAGS.vectors is not None:
    text_flags.check_output_kind(TEXT)
    dedupe_vectors()
  else:
    dedupe_file()


console = runner.command(define_flags, main, resumes=False, prints_output=True)

if __name__ == "__main__":
  console()
