"""Flags that the runners share, and how a runner starts and fails."""

import importlib.metadata
import os
import platform
import sys

from absl import app, flags, logging

import bert_flow_tf
from bert_flow_tf.data.tasks import TASKS
from bert_flow_tf.errors import BertFlowError, ConfigError

FLAGS = flags.FLAGS


def define_data_flags():
  """--task and where its files are."""
  flags.DEFINE_string("task", "sample", f"One of {', '.join(spec.name for spec in TASKS)}.")
  flags.DEFINE_alias("task_name", "task")
  flags.DEFINE_string("data_dir", None, "Folder of data files; for STS-B, STS/STSBenchmark/sts-{train,dev,test}.csv.")
  flags.DEFINE_string("tfds_data_dir", None, "Folder of TensorFlow Datasets, where --data_dir is not given.")
  flags.DEFINE_string("stsb_gold", None, "The benchmark's sts-test.csv, for STS-B from TensorFlow Datasets.")


def define_encoder_flags():
  """--model and how it makes an embedding."""
  flags.DEFINE_string(
    "model",
    "mini",
    "Encoder: mini, base, large, large-wwm, their -cased twins, a hub id, or a Hugging Face folder.",
  )
  flags.DEFINE_string(
    "init_checkpoint", None, "Hugging Face folder of a fine-tuned encoder; takes the place of --model."
  )
  flags.DEFINE_string("model_cache_dir", None, "Folder of the model hub's cache; its own default if not given.")
  flags.DEFINE_string(
    "sentence_embedding_type",
    "avg-first-last",
    "avg, cls, avg-first-last (= avg-last-2), avg-last-N, avg-last-last-N, avg-last-concat-N or avg-top-N.",
  )
  flags.DEFINE_integer("max_seq_length", 64, "Most tokens of a sentence, [CLS] and [SEP] included.")
  flags.DEFINE_integer("low_dim", -1, "Groups of neighbouring dimensions to average; -1 for none.")
  flags.DEFINE_integer("predict_batch_size", 64, "Sentences embedded at once.", lower_bound=1)
  flags.DEFINE_string("cached_dir", None, "Folder where embeddings are kept between runs.")


def run(main):
  """Starts a runner: parses flags, and turns what a user can mend into one line and exit status 1."""
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  for flag in own_flags():
    FLAGS.register_key_flag_for_module(sys.argv[0], flag)  # what --help lists
  app.run(lambda argv: sys.exit(_guarded(main, argv)), flags_parser=_parse)


def _parse(argv):
  try:
    rest = FLAGS(argv)
  except flags.Error as error:
    sys.exit(_fail(f"{str(error).strip()}; --help lists the flags"))
  if len(rest) > 1:
    sys.exit(_fail(f"found the argument {rest[1]!r}, expected flags alone, as --flag=value"))
  if FLAGS["verbosity"].using_default_value:
    logging.set_verbosity(logging.INFO)
    # TensorFlow reports there how long each checkpoint's sharding took.
    logging.get_absl_handler().addFilter(lambda record: record.filename != "functional_saver.py")
  return rest


def _guarded(main, argv):
  try:
    main(argv)
  except (BertFlowError, OSError) as error:  # OSError: a disk that is full, a name that is too long
    return _fail(error)
  except KeyboardInterrupt:
    return _fail("interrupted; the same command goes on from the last checkpoint, where there is one", 130)
  return 0


def _fail(message, status=1):
  print(f"error: {' '.join(str(message).split())}", file=sys.stderr)
  return status


def own_flags():
  """Our flags with their values: those that were not defined by absl itself."""
  absl_modules = ("absl.", "tensorflow", "tensorflow_datasets")
  by_module = FLAGS.flags_by_module_dict()
  return [flag for module in sorted(by_module) for flag in by_module[module] if not module.startswith(absl_modules)]


def versions():
  """{package: version} of what computes the numbers."""
  packages = ("tensorflow", "tf-keras", "tensorflow-probability", "transformers", "numpy", "scipy")
  found = {package: importlib.metadata.version(package) for package in packages}
  return {"bert_flow_tf": bert_flow_tf.__version__, "python": platform.python_version(), **found}


def low_dim():
  """--low_dim as the library takes it: None for the original's -1.

  Raises:
    ConfigError: neither -1 nor positive.
  """
  if FLAGS.low_dim == -1:
    return None
  if FLAGS.low_dim < 1:
    raise ConfigError(f"--low_dim={FLAGS.low_dim}: expected a positive number, or -1 for none")
  return FLAGS.low_dim
