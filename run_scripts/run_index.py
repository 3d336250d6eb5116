"""Writes an index beside the vectors of `bert-flow embed`, by which `bert-flow search` reads a part of them.

bert-flow embed --input='corpus/*' --flow_folder=exp/NAME/flow --output=vectors
bert-flow index vectors
bert-flow search --vectors=vectors "Who plays?"

It needs FAISS: pip install 'bert-flow-tf[search]'. New shards are added by the same command.
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import ConfigError
from run_scripts import runner, text_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  text_flags.define_vectors_flag("Default: the argument without a flag.")
  text = (
    "bm25 for an index with the words of the texts, which bert-flow embed --keep_text has kept, too. Default: none."
  )
  flags.DEFINE_string("hybrid", None, text)


def take_folder(arguments: list[str]) -> None:
  """Makes the argument the folder of vectors."""
  if FLAGS.vectors is not None or len(arguments) > 1:
    raise ConfigError(f"vectors={','.join(arguments)[:200]}: expected one folder", argument="vectors")
  FLAGS.vectors = arguments[0]


def main() -> None:
  """Writes the index and logs what it finds."""
  if FLAGS.vectors is None:
    raise ConfigError("vectors: missing; expected a folder that bert-flow embed wrote", argument="vectors")
  from bert_flow_tf.vectors.sentence_index import index_vectors

  index_vectors(FLAGS.vectors, hybrid=FLAGS.hybrid).log()


console = runner.command(define_flags, main, take_arguments=take_folder)

if __name__ == "__main__":
  console()
