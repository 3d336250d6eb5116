"""Fits a calibration on vectors of any origin, or applies one, without an encoder.

bert-flow calibrate --input=a.npy --calibration=whitening-128 --output=whitening
bert-flow calibrate --input=b.npy --flow_folder=whitening --output=calibrated
"""

import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.calibration.names import ALLOWED
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import counted
from bert_flow_tf.training.settings import FlowSettings
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  text = "Files, globs or folders of vectors: .npy of shape [n, dim], as bert-flow embed writes them."
  flags.DEFINE_list("input", [], text)
  flags.DEFINE_alias("vectors", "input")
  flags.DEFINE_string("calibration", "flow", f"Calibration to fit, unless flow_folder is given: {ALLOWED}.")
  flags.DEFINE_string("flow_folder", None, "Folder of a calibration to apply.")
  flags.DEFINE_alias("calibration_folder", "flow_folder")
  flags.DEFINE_string(
    "output", None, "Fit: folder of the calibration. Apply: folder of the new vectors, or a file for a single file."
  )
  text = "Files, globs or folders of vectors of queries, where input has the documents that are searched: a fit."
  flags.DEFINE_list("queries", None, text)
  text = (
    "Role of the vectors to which a calibration is applied: query, whose mean a fit with queries knows, or document."
  )
  flags.DEFINE_enum("role", DOCUMENT, [QUERY, DOCUMENT], text)
  flags.DEFINE_string(
    "vectors_of",
    None,
    "Description of the vectors, any text. A fit saves it; where a calibration is applied it must be the same.",
  )
  common_flags.define_settings(FlowSettings)


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  # Either a fit, which takes the flow's flags, or an application of a fitted calibration.
  for name in ("input", "output"):
    if not FLAGS[name].value:
      raise ConfigError(f"{name}: missing; expected {'files' if name == 'input' else 'a path'}", argument=name)
  if FLAGS.flow_folder is not None:
    fitting = ["calibration", "queries", *flow_settings()]
    common_flags.reject(fitting, "has no use with flow_folder, whose calibration is applied: nothing is fitted")
  else:
    common_flags.reject(["role"], "needs flow_folder, the calibration to apply; a fit takes queries=FILES")


def flow_settings() -> dict:
  """Returns the flags of the flow's fit that are on the command line."""
  values = vars(common_flags.settings(FlowSettings))
  return {name: values[name] for name in common_flags.given(values)}


def main() -> None:
  """Fits or applies a calibration."""
  check_flags()
  from bert_flow_tf.vectors.calibrate_files import apply_to_files, fit_files

  # A fit writes a calibration, an application new vectors.
  output = os.path.expanduser(FLAGS.output)
  if FLAGS.flow_folder is None:
    fitted = fit_files(FLAGS.input, FLAGS.calibration, output, FLAGS.vectors_of, FLAGS.queries or (), **flow_settings())
    print(f"{output}: {fitted.name}, {fitted.dim} dimensions, {fitted.output_dim} calibrated")
  else:
    counts = apply_to_files(FLAGS.input, FLAGS.flow_folder, output, FLAGS.vectors_of, FLAGS.role)
    text = f"{counted(sum(counts.values()), 'vector', ',')} in {counted(len(counts), 'file')}"
    earlier = len(list(pathlib.Path(output).glob("*.npy"))) - len(counts)
    if earlier > 0:
      text += f", {counted(earlier, 'file')} finished before"
    print(f"{output}: {text}")


console = runner.command(define_flags, main)

if __name__ == "__main__":
  console()
