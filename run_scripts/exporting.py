"""A model for TF Serving, by the flags that `run_export` and `run_flow --export_dir` share."""

import importlib.util
import json
import os
import pathlib

from absl import flags, logging

from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags

FLAGS = flags.FLAGS

_EXPORT_FLAGS = ("version", "model_name", "normalize", "weights_dtype")
# What a run's results.json says that explains the served model.
_ORIGIN = ("task", "data", "flow_corpus", "fitted_on", "flags", "versions")


def define_export_flags():
  """--export_dir, and what is written there."""
  flags.DEFINE_string("export_dir", None, "The served model's folder, in which every version gets one.")
  flags.DEFINE_integer("version", None, "Version of the served model; the next free one if not given.")
  flags.DEFINE_string("model_name", "bert_flow", "What the server calls the model.")
  flags.DEFINE_boolean("normalize", False, "Give served embeddings the length 1.")
  flags.DEFINE_string(
    "weights_dtype", "float32", "Of the encoder's matrices on disk: float32, float16 or bfloat16, half the size."
  )


def check_export_arguments():
  """Refuses what needs no model to be seen wrong, before hours of fitting; imports TensorFlow, which takes seconds.

  Raises:
    ConfigError: not allowed values, or a package that exporting needs is not installed.
  """
  missing = [name for name in ("tensorflow_text", "tensorflow_serving") if importlib.util.find_spec(name) is None]
  if missing:
    raise ConfigError(
      f"--export_dir={FLAGS.export_dir}: {' and '.join(missing)} cannot be imported: "
      "pip install 'bert-flow-tf[serving]'"
    )
  from bert_flow_tf.serving.export import check_arguments

  check_arguments(FLAGS.version, FLAGS.model_name, FLAGS.weights_dtype)


def check_export_of_run(calibrations):
  """Refuses what `run_flow` cannot export, before it fits anything.

  Args:
    calibrations: how many are fitted.

  Raises:
    ConfigError: the flags contradict each other.
  """
  if FLAGS.export_dir is None:
    useless = common_flags.given(_EXPORT_FLAGS)
    if useless:
      raise ConfigError(f"--{useless[0]} is of no use without --export_dir, which names the served model's folder")
    return
  if not FLAGS.export_dir:
    raise ConfigError("--export_dir is empty; expected a folder, or leave the flag out")
  if calibrations > 1:
    raise ConfigError(
      f"--export_dir={FLAGS.export_dir}: one calibration is served, --calibration has {calibrations}; give one, or "
      "export the one you want with run_export"
    )
  if FLAGS.precision != "float32":
    raise ConfigError(f"--precision={FLAGS.precision}: a served model computes in float32; leave out --export_dir")


def origin(folder):
  """What the run that fitted a calibration left beside it, for metadata.json; {} where there is nothing.

  Args:
    folder: of the calibration, or None.
  """
  path = pathlib.Path(folder or "").resolve().parent / "results.json"
  if folder is None or not path.is_file():
    return {}
  try:
    results = json.loads(path.read_text(encoding="utf-8"))
    found = {key: results[key] for key in _ORIGIN if key in results}
    return {"origin": {"folder": str(folder), **found}, "figures": results.get("results", {})}
  except (OSError, ValueError, AttributeError) as error:
    logging.warning("%s cannot be read (%s): metadata.json goes without the figures", path, error)
    return {}


def export(encoder, calibration, arguments, folder):
  """Writes a version of --export_dir, and prints what it is.

  Args:
    encoder: `SentenceEncoder`.
    calibration: fitted, or None.
    arguments: how sentences are embedded, as `SentenceEncoder.encode` takes it.
    folder: the calibration's, or None.

  Raises:
    BertFlowError: what `export_model` raises.
  """
  from bert_flow_tf.serving.export import export_model

  settings = {name: FLAGS[name].value for name in _EXPORT_FLAGS}
  base = os.path.expanduser(FLAGS.export_dir)
  _say(export_model(encoder, calibration, base, about=origin(folder), **arguments, **settings))


def _say(layout):
  """Prints what was written, and how a server would be started."""
  from bert_flow_tf.serving.assets import docker_command

  described = json.loads(layout.metadata.read_text(encoding="utf-8"))
  encoder, calibration = described["encoder"], described["calibration"]
  size = sum(path.stat().st_size for path in layout.folder.rglob("*") if path.is_file())
  dims = f"{calibration['dim']} dimensions"
  if calibration["output_dim"] != calibration["dim"]:
    dims += f", {calibration['output_dim']} calibrated"
  print(f"{layout.folder}: {encoder['name']}, calibration {calibration['name']}, {dims}, {size / 1e6:.1f} MB")
  print(f"signatures: {', '.join(described['signatures'])}")
  agreement = described["agreement_with_python"]
  differences = f"{agreement['pooled']:.1g} pooled, {agreement['calibrated']:.1g} calibrated"
  print(f"largest difference from the embeddings in Python, in parts of the largest number: {differences}")
  print(f"not run by us: {docker_command(described['model_name'], layout.base.resolve())}")
