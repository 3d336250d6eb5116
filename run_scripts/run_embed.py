"""Embeds a corpus of any size: text, TSV, gzip or TFRecord files to shards of vectors with ids.

python run_embed.py --input='corpus/*.txt.gz' --flow_folder=exp/NAME/flow --output_dir=vectors
"""

import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus import formats, shards
from bert_flow_tf.corpus.beam_options import parse_options
from bert_flow_tf.corpus.beam_running import run_beam
from bert_flow_tf.corpus.index import changed_input, find_inputs
from bert_flow_tf.corpus.manifest import Manifest
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.corpus.streaming import pending, run_streaming
from bert_flow_tf.errors import DataError
from bert_flow_tf.io.experiment import Stopwatch
from run_scripts import common_flags, embed_flags

FLAGS = flags.FLAGS


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_list("input", None, "Files, or globs of files, of sentences; in quotes, as 'corpus/*.txt.gz'.")
  flags.DEFINE_string("output_dir", None, "Folder of the vectors; that of an interrupted run goes on.")
  flags.DEFINE_enum(
    "input_format", None, formats.KINDS, "A sentence a line, or as --column says; by the files' names if not given."
  )
  flags.DEFINE_string("column", None, "Where the sentence is: a TSV's column by name or number, a TFRecord's feature.")
  flags.DEFINE_string("id_column", None, "Where a record's id is, as --column; records are numbered if not given.")
  flags.DEFINE_boolean(
    "header", None, "The first line of a TSV names its columns; so if not given, where a column is given by name."
  )
  flags.DEFINE_enum(
    "empty_lines", formats.SKIP, [formats.SKIP, formats.BAD, formats.EMBED], "What becomes of an empty sentence."
  )
  flags.DEFINE_integer("max_record_bytes", 1 << 20, "Longer lines and records are bad ones.", 1, 1 << 30)
  flags.DEFINE_enum("output_format", shards.NPY, shards.OUTPUTS, "Files of vectors.")
  flags.DEFINE_integer("shard_size", 16384, "Most records of a shard, which is what an interrupted run loses.", 1)
  flags.DEFINE_integer("shard_bytes", 1 << 26, "Most bytes of records of a shard, which a process holds at once.", 1)
  common_flags.define_encoder_flags()
  flags.DEFINE_string(
    "flow_folder",
    None,
    "Folder of a calibration that run_flow saved, as exp/NAME/flow. It says which encoder, pooling, max_seq_length and "
    "low_dim are used, unless those flags are given. Without it, the encoder alone.",
  )
  flags.DEFINE_boolean("allow_other_encoder", False, "Apply a calibration to another encoder than it was fitted for.")
  flags.DEFINE_string("saved_model", None, "Folder of an exported SavedModel, in place of an encoder.")
  flags.DEFINE_string(
    "runner", None, "Runner of Apache Beam, as DirectRunner or FlinkRunner; this process alone if not given."
  )
  flags.DEFINE_list(
    "beam_options", [], "Options of Apache Beam, as direct_running_mode=multi_processing,direct_num_workers=2."
  )


def finish(index, folder, manifest):
  """The counters {counter: number} of a run whose shards are all there; writes them.

  Raises:
    DataError: a file was changed while it was read, or a record is missing.
  """
  left, done = pending(index, folder)
  counters = shards.add_counters(done.values())
  if left or counters[shards.READ] != index.records:
    raise DataError(f"{folder.folder}: {len(left)} shards are missing; the same command goes on with them")
  changed = changed_input(index.inputs)
  if changed is not None:
    raise DataError(f"{changed} was changed while this run read it; embed it again into another --output_dir")
  manifest.write(index, counters)
  return counters


def say(index, folder, counters, seconds, embedded_now):
  """Prints what came of the run."""
  print(f"{folder.folder}: {len(index.shards)} shards of {folder.dim} dimensions")
  for name, number in counters.items():
    print(f"  {name:24} {number:>12,}")
  if counters[shards.BAD]:
    print(f"bad records, with file, line and reason: {folder.dead_letters()}")
  rate = f", {embedded_now / seconds['embedding']:,.0f} records a second" if embedded_now else ""
  print(", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()) + rate)


def main(argv):
  """Files, records, shards, vectors."""
  del argv
  watch = Stopwatch()
  embed_flags.check_flags()
  options = None if FLAGS.runner is None else parse_options(FLAGS.runner, FLAGS.beam_options)
  paths = find_inputs(FLAGS.input)
  wanted = embed_flags.input_format(paths)
  output = FLAGS.output_dir if "://" in FLAGS.output_dir else os.path.abspath(os.path.expanduser(FLAGS.output_dir))
  with watch.timing("loading"):
    embedder = embed_flags.make_embedder()
  settings = {"input": vars(wanted), "embedder": embedder.identity, "dim": embedder.dim}
  settings |= {name: FLAGS[name].value for name in ("output_format", "shard_size", "shard_bytes")}
  manifest = Manifest(output, settings, {**embedder.about, "versions": common_flags.versions()})
  manifest.check()
  with manifest.lock():
    with watch.timing("indexing"):
      index = manifest.begin(paths, wanted, FLAGS.shard_size, FLAGS.shard_bytes)
    folder = ShardFolder(output, len(index.shards), FLAGS.output_format, embedder.dim)
    tasks, done = pending(index, folder)
    records = sum(task.records for task in tasks)
    logging.info("%d records in %d shards, %d of them finished", index.records, len(index.shards), len(done))
    with watch.timing("embedding"):
      if options is None:
        run_streaming(index, folder, wanted, embedder.embed)
      else:
        run_beam(index, folder, wanted, embedder.recipe, FLAGS.runner, options)
    counters = finish(index, folder, manifest)
  say(index, folder, counters, watch.seconds, records)


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
