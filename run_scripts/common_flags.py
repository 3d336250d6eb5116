"""Flags that the runners share, and how a runner starts and fails."""

import importlib.metadata
import os
import platform
import sys

from absl import app, flags, logging

import bert_flow_tf
from bert_flow_tf.data.tasks import TASKS
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.flow.config import packaged_configs
from bert_flow_tf.training import fitting

FLAGS = flags.FLAGS

# Where TensorFlow logs how long each checkpoint's sharding took, and every collective operation it makes.
_TENSORFLOW_ALONE = (
  "functional_saver.py",
  "collective_all_reduce_strategy.py",
  "cross_device_ops.py",
  "mirrored_strategy.py",
)


def define_task_flag():
  """--task."""
  flags.DEFINE_string("task", "sample", f"One of {', '.join(spec.name for spec in TASKS)}.")
  flags.DEFINE_alias("task_name", "task")


def define_data_flags():
  """Where the files of tasks are."""
  flags.DEFINE_string("data_dir", None, "Folder of data files; for STS-B, STS/STSBenchmark/sts-{train,dev,test}.csv.")
  flags.DEFINE_string("tfds_data_dir", None, "Folder of TensorFlow Datasets, where --data_dir is not given.")
  flags.DEFINE_string("stsb_gold", None, "The benchmark's sts-test.csv, for STS-B from TensorFlow Datasets.")


def define_model_flags():
  """Which encoder."""
  flags.DEFINE_string(
    "model",
    "mini",
    "Encoder: mini, base, large, large-wwm, their -cased twins, a hub id, or a Hugging Face or Google (TF1) folder.",
  )
  flags.DEFINE_string(
    "init_checkpoint", None, "Folder, or TF1 checkpoint, of a fine-tuned encoder; takes the place of --model."
  )


def define_encoder_flags():
  """--model and how it makes an embedding."""
  define_model_flags()
  define_pooling_flags()
  define_embedding_flags()


def define_pooling_flags():
  """What an embedding is made of."""
  flags.DEFINE_string(
    "sentence_embedding_type",
    "avg-first-last",
    "avg, cls, avg-first-last (= avg-last-2), avg-last-N, avg-last-last-N, avg-last-concat-N or avg-top-N.",
  )
  flags.DEFINE_integer("low_dim", -1, "Groups of neighbouring dimensions to average; -1 for none.")


def define_embedding_flags():
  """How sentences are embedded, whatever the pooling."""
  flags.DEFINE_string("model_cache_dir", None, "Folder of the model hub's cache; its own default if not given.")
  flags.DEFINE_integer("max_seq_length", 64, "Most tokens of a sentence, [CLS] and [SEP] included.")
  flags.DEFINE_integer("predict_batch_size", 64, "Most sentences embedded at once.", lower_bound=1)
  flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What the encoder computes in, its weights being float32: the halves are faster where GPU or CPU has instructions "
    "for them. The flow is float32 always.",
  )
  flags.DEFINE_string("cached_dir", None, "Folder where embeddings are kept between runs.")


def define_corpus_flags():
  """Which sentences a calibration is fitted on."""
  flags.DEFINE_string(
    "flow_corpus",
    None,
    "Sentences that the calibrations are fitted on: target (all sentences of the task), train (its train split), nli "
    "(SNLI and MNLI, from --data_dir or TensorFlow Datasets), or a text file or TSV. target if not given, or train "
    "with --nouse_full_for_training.",
  )
  flags.DEFINE_boolean(
    "use_full_for_training",
    None,
    "1: fit on train, dev and test sentences as the published code, which reads the one file of each of STS-12 to "
    "STS-16 as all three and so shows every pair three times; 0: on train alone. Not given: --flow_corpus says it.",
  )


def define_flow_flags():
  """How a flow is made and fitted."""
  flags.DEFINE_string(
    "flow_model_config", "config_l2_d3_w32", f"One of {', '.join(packaged_configs())}, or a json file."
  )
  flags.DEFINE_enum("actnorm_init", "data", ["data", "glorot"], "Actnorm from data, or as the published runner.")
  flags.DEFINE_enum("permutation", "reverse", ["reverse", "random"], "As the published code, or as the paper.")
  flags.DEFINE_float("flow_learning_rate", None, "Constant learning rate of the flow; 1e-3, or 2e-5 for nli.")
  flags.DEFINE_float(
    "num_train_epochs", None, "Passes over the pairs; the task's own if not given (STS-B 1), 0.15 for nli."
  )
  flags.DEFINE_integer("train_batch_size", 32, "Pairs a step, over all devices.")
  flags.DEFINE_integer("seed", 1234, "Of initial weights, order of the pairs and dropout.", 0, 2**31 - 1)
  flags.DEFINE_string(
    "distribution_strategy",
    "default",
    "default: all GPUs, or the CPU; mirrored: the same through a MirroredStrategy always; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
  )
  flags.DEFINE_boolean("use_xla", None, "Compile the step; where it pays if not given.")
  flags.DEFINE_integer("save_checkpoints_steps", 100, "Steps between checkpoints.", lower_bound=1)


def load_flow_corpus(task):
  """The `FlowCorpus` of --flow_corpus and --use_full_for_training.

  Args:
    task: `TaskData` that is evaluated.

  Raises:
    ConfigError: the two contradict each other.
  """
  name, use_full = FLAGS.flow_corpus, FLAGS.use_full_for_training
  if use_full is not None and name is None:
    return fitting.published_corpus(task, use_full)
  if use_full is not None:
    raise ConfigError(
      f"--flow_corpus={name} and --use_full_for_training={use_full} both say what the flow is fitted on; leave one out"
    )
  data_dir = None if task.spec.name == "custom" else FLAGS.data_dir  # there it is the task's own file
  return fitting.load_flow_corpus(fitting.TARGET if name is None else name, task, data_dir, FLAGS.tfds_data_dir)


def flow_settings(config, corpus, seed=None):
  """The `FlowSettings` of the flags; the corpus decides what they leave open.

  Args:
    config: `FlowConfig`.
    corpus: `FlowCorpus`.
    seed: --seed if None.
  """
  given = {"learning_rate": FLAGS.flow_learning_rate, "num_train_epochs": FLAGS.num_train_epochs}
  return fitting.FlowSettings(
    config=config,
    strategy=bert_flow_tf.make_strategy(FLAGS.distribution_strategy),
    actnorm_init=FLAGS.actnorm_init,
    permutation=FLAGS.permutation,
    **{name: getattr(corpus, name) if value is None else value for name, value in given.items()},
    train_batch_size=FLAGS.train_batch_size,
    seed=FLAGS.seed if seed is None else seed,
    use_xla=FLAGS.use_xla,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
  )


def given(names):
  """Those of the flags that stand on the command line."""
  return [name for name in names if not FLAGS[name].using_default_value]


def check_not_empty(names):
  """Refuses flags of paths that are there and empty, as an unset variable of a shell makes them.

  Raises:
    ConfigError: one is.
  """
  for name in names:
    if FLAGS[name].value == "":
      raise ConfigError(f"--{name} is empty; expected a path, or leave the flag out")


def embedding_arguments():
  """How sentences are embedded, as the methods of `SentenceEncoder` take it."""
  return {
    "sentence_embedding_type": FLAGS.sentence_embedding_type,
    "max_seq_length": FLAGS.max_seq_length,
    "low_dim": low_dim(),
  }


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
  for flag in own_flags():  # "=~/" reaches us as it is, and only a path begins so
    if isinstance(flag.value, str) and flag.value.startswith("~/"):
      flag.value = os.path.expanduser(flag.value)
  if FLAGS["verbosity"].using_default_value:
    logging.set_verbosity(logging.INFO)
    logging.get_absl_handler().addFilter(lambda record: record.filename not in _TENSORFLOW_ALONE)
  return rest


def _guarded(main, argv):
  try:
    main(argv)
  except BertFlowError as error:
    return _fail(_with_flag(error))
  except OSError as error:  # a full disk, a name that is too long
    return _fail(error)
  except Exception as error:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(error, tensorflow.errors.ResourceExhaustedError):
      raise
    reason = " ".join(error.message.split())[:200]
    return _fail(f"memory or disk does not suffice ({reason}); take a smaller batch size, or make room")
  except KeyboardInterrupt:
    return _fail("interrupted; the same command goes on from the last checkpoint, where there is one", 130)
  return 0


# Arguments of the library whose flag has another name.
_FLAG_OF_ARGUMENT = {"learning_rate": "flow_learning_rate"}


def _with_flag(error):
  """Returns the error's message, with the flag in place of the argument's name that it begins with."""
  message, argument = str(error), error.argument
  flag = _FLAG_OF_ARGUMENT.get(argument, argument)
  if flag is None or flag not in FLAGS or not message.startswith(argument):
    return message
  return f"--{flag}{message.removeprefix(argument)}"


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
