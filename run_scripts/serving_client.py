"""Asks a model server for the similarity of sentence pairs and prints one score per line.

bert-flow serve-check --server=localhost:8500 --input=pairs.tsv
bert-flow serve-check --server=http://localhost:8501 --input=pairs.tsv
bert-flow serve-check --server=localhost:8500 --golden=served/1/assets.extra/golden.json
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import counted
from bert_flow_tf.serving.client import make_client, pairs_of_file
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this client."""
  flags.DEFINE_string("server", "localhost:8500", "HOST:PORT of the server's gRPC, or http://HOST:PORT of its REST.")
  text = "File of pairs: lines of two sentences with a tab between them, or another format; - for standard input."
  flags.DEFINE_list("input", [], text)
  common_flags.define_settings(DataSettings, ("max_record_bytes",))
  flags.DEFINE_string("golden", None, "golden.json of the export: the server is compared with it, in place of input.")
  flags.DEFINE_string("model_name", "bert_flow", "Name of the model on the server.")
  flags.DEFINE_integer("version", None, "Version of the model; the server's choice by default.", lower_bound=0)
  flags.DEFINE_integer("predict_batch_size", 64, "Pairs per request.", lower_bound=1)
  flags.DEFINE_alias("batch_size", "predict_batch_size")
  flags.DEFINE_float("timeout", 30.0, "Seconds to wait for an answer.", lower_bound=0.001)


def main() -> None:
  """Reads pairs and prints a line for each: score and sentences, separated by tabs; or checks the server."""
  arguments = {"model_name": FLAGS.model_name, "version": FLAGS.version, "timeout": FLAGS.timeout}
  if FLAGS.golden is not None:
    if FLAGS.input:
      raise ConfigError("input: has no use with golden, which contains the pairs", argument="input")
    with _client(arguments) as client:
      count, difference = client.check(FLAGS.golden)
    print(f"{counted(count, 'pair')}, largest difference from {FLAGS.golden}: {difference:.1e}")
    return
  if len(FLAGS.input) != 1:
    raise ConfigError("input: expected one file of pairs, two sentences per line, or -", argument="input")
  # Lines are printed as the server answers, a request at a time.
  pairs = pairs_of_file(FLAGS.input[0], FLAGS.max_record_bytes)
  with _client(arguments) as client:
    for start in range(0, len(pairs), FLAGS.predict_batch_size):
      batch = pairs[start : start + FLAGS.predict_batch_size]
      for score, (a, b) in zip(client.similarities(batch), batch, strict=True):
        print(f"{score:.4f}\t{a}\t{b}")


def _client(arguments):
  """Returns the server's client. TensorFlow, which gRPC needs, is imported without its lines."""
  if "://" not in FLAGS.server:
    quiet.import_tensorflow()
  return make_client(FLAGS.server, **arguments)


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
