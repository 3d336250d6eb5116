"""Flags and files of the commands that read and write text or compare vectors: score, search, dedupe, index."""

import gzip
import io
import os
import pathlib
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from absl import flags, logging

from bert_flow_tf.calibration.names import ALLOWED, parse_calibration
from bert_flow_tf.corpus.shard_plan import find_inputs
from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.input_format import PARQUET, TEXT, TSV
from bert_flow_tf.encoder.settings import LOADING, POOLING
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io import files
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.inverted_lists import AUTO, INDEXES
from bert_flow_tf.vectors.unrelated import is_calibrated
from run_scripts import common_flags, help_page

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS
# {kind of file: ending of its name}, where they differ
_ENDINGS = {TEXT: "txt"}
_STANDARD_OUTPUT = (None, "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_OTHER_PACKINGS = (".bz2", ".lz4", ".lzma", ".xz", ".zip", ".zst")  # rejected for output, because readers unpack them


def define_fit_flag() -> None:
  """Defines --recipe and --calibration of a command that fits a calibration on its input, if that is asked for."""
  text = f"Calibration to fit on the sentences of the input, if flow_folder is not given: {ALLOWED}. Default: none."
  flags.DEFINE_string("calibration", None, text)
  common_flags.define_recipe_flag()


def define_vectors_flag(text: str) -> None:
  """Defines --vectors, a folder of vectors in place of text."""
  flags.DEFINE_string("vectors", None, f"Folder of vectors that bert-flow embed wrote, or of several such. {text}")
  help_page.put_under("vectors", "corpus")


def define_index_flag() -> None:
  """Defines --index of a command that compares sentences."""
  text = (
    "exact compares all; ivf finds nearly all by inverted lists, which need pip install 'bert-flow-tf[search]', and "
  )
  text += "measures how many; auto is exact where that takes about a minute at most."
  flags.DEFINE_enum("index", AUTO, INDEXES, text)


def check_vectors_flags(names: list[str], allowed: Sequence[str] = ()) -> None:
  """Raises a ConfigError if flags of these names, or that decide the vectors, unless allowed, are beside --vectors."""
  if FLAGS.vectors is None:
    return
  if FLAGS.input:
    message = f"input={','.join(FLAGS.input)[:200]}: has no use with vectors, which are compared; leave one out"
    raise ConfigError(message, argument="input")
  names = [*names, "input_format", "column", "header", "max_record_bytes", "allow_other_encoder"]
  of_encoder = common_flags.encoder_flags((LOADING, POOLING), leave_out=["model_cache_dir", *allowed])
  names += ["recipe", "calibration", *of_encoder]
  common_flags.reject(names, "has no use with vectors, which are embedded already; leave one out")


def define_output_flag(text: str) -> None:
  """Defines --output of a command that writes a single file."""
  flags.DEFINE_string(
    "output", None, f"{text}. Default: standard output, which is also -. A name that ends in .gz is gzipped."
  )


def check_output_file(name: str = "output") -> None:
  """Raises a ConfigError if a flag names a file that cannot be written."""
  path = FLAGS[name].value
  if path in _STANDARD_OUTPUT or _is_stream(path):
    return
  is_other = os.path.exists(path) and not os.path.isfile(path)  # a folder, or a disk, which would be overwritten
  folder = pathlib.Path(path).absolute().parent
  if is_other or not folder.is_dir():
    raise ConfigError(f"{name}={path}: expected a file in an existing folder", name)
  if not os.access(folder, os.W_OK):
    raise ConfigError(f"{name}={path}: the folder {folder} cannot be written; choose another folder", name)


def is_same_file(path: str | None, other: str) -> bool:
  """Returns whether a path, which may be missing, is another name of a file, and no terminal or pipe."""
  return path is not None and os.path.isfile(path) and os.path.exists(other) and os.path.samefile(path, other)


def _is_stream(path):
  """Returns whether a path is a pipe, a terminal or another open file of a process, which cannot be replaced."""
  mode = os.stat(path).st_mode if os.path.exists(path) else 0
  is_open_file = stat.S_ISREG(mode) and path.startswith(("/dev/fd/", "/proc/"))
  return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or is_open_file


def check_text_flags() -> None:
  """Validates the common flags of the commands that read and write text."""
  check_output_file()
  common_flags.check_calibration_flags()
  if FLAGS.flow_folder is not None:
    common_flags.reject(["recipe", "calibration"], "has no use with flow_folder; leave one out")
  common_flags.use_recipe()
  if FLAGS.calibration is not None:
    parse_calibration(FLAGS.calibration)


def input_files(max_files: int | None = None) -> list[str]:
  """Returns the paths of --input; raises a ConfigError if a file does not exist, or for more than `max_files`."""
  paths = find_inputs(FLAGS.input)
  if max_files is not None and len(paths) > max_files:
    raise ConfigError(f"input={','.join(paths)[:200]}: expected one file, got {len(paths)}", argument="input")
  return paths


def load_text_model(
  sentences: list[str] | tuple[list[str], list[str]], documents: bool = False, queries: Sequence[str] | None = None
) -> "SentenceModel":
  """Loads the `SentenceModel` of a command that compares texts; --calibration is fitted on these sentences or pairs.

  `documents`: whether they are searched, and have the prompt of documents; `queries`: those of the fit.
  """
  model = common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder)
  if documents:
    model = model.for_documents()
  if FLAGS.calibration is not None:
    of_queries = ""
    if queries is not None:
      of_queries = f" and on {counted(len(queries), 'query', ',')} of {FLAGS.queries}"
    logging.info("fitting %s on the sentences of %s%s", FLAGS.calibration, ", ".join(FLAGS.input), of_queries)
    model.fit(sentences, calibration=FLAGS.calibration, queries=queries, batch_size=FLAGS.predict_batch_size)
  else:
    log_uncalibrated(
      model, "--recipe=NAME or --calibration=NAME fits a calibration on the input, --flow_folder loads one"
    )
  return model


def log_uncalibrated(model: "SentenceModel", hint: str) -> None:
  """Logs that a model has no calibration, and what to do."""
  if not is_calibrated(model):
    logging.info("the similarity is not calibrated; %s", hint)


def check_output_kind(kind: str, path: str = "") -> None:
  """Raises a ConfigError if a file of this kind cannot be printed, or if --output's ending is of another kind.

  The ending of the input's `path` is allowed, too.
  """
  if FLAGS.output in _STANDARD_OUTPUT:
    if kind == PARQUET:
      value = ": missing" if FLAGS.output is None else f"={FLAGS.output}"
      raise ConfigError(f"output{value}; expected a file, as a Parquet file is not printed", argument="output")
    return
  if FLAGS.output.lower().endswith(_OTHER_PACKINGS):
    expected = "expected another ending: output is packed by gzip alone, by the ending .gz; .bz2 and .xz are only read"
    raise ConfigError(f"output={FLAGS.output}: {expected}", argument="output")
  # A TSV may be a .txt; endings that are not known count as .txt.
  if kind_of(FLAGS.output) not in (kind, kind_of(path), TEXT) and not (kind == TEXT and kind_of(FLAGS.output) == TSV):
    message = f"output={FLAGS.output}: {kind} is written; expected a name that ends in .{_ENDINGS.get(kind, kind)}"
    raise ConfigError(message, argument="output")


def use_utf8(*streams: TextIO) -> None:
  """Makes standard streams UTF-8, as files are, whatever the locale's encoding is."""
  for stream in streams:
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(encoding="utf-8", errors="strict")


def write_output(content: bytes) -> None:
  """Writes the file of --output, atomically, or to standard output; it is the last thing that a command does."""
  if FLAGS.output in _STANDARD_OUTPUT:
    use_utf8(sys.stdout)
    help_page.show(content.decode("utf-8").removesuffix("\n"))
  write_file(FLAGS.output, content)


def write_file(path: str, content: bytes) -> None:
  """Writes a file, atomically, or to a pipe or device; gzipped if the name ends in .gz."""
  if path.lower().endswith(".gz"):
    content = gzip.compress(content, mtime=0)
  if _is_stream(path):
    with open(path, "ab") as file:
      file.write(content)
  else:
    files.write_bytes(os.path.realpath(path), content)  # a link stays
  logging.info("wrote %s", path)
