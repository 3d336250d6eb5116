"""Checkpoints of the original's training, `model.ckpt-N`: taken apart into encoder, flow and classifier, and written.

bert/embeddings/..., bert/encoder/..., bert/pooler/...    the encoder, under Google's names
bert/flow/revnet_0/...                                    the flow
output_weights                                            the classifier of siamese fine-tuning
.../adam_m, .../adam_v, global_step                       the optimizer, left out
"""

import dataclasses
import pathlib
import re
import shutil

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder import tf1_names
from bert_flow_tf.encoder.tf1_reader import Tf1Checkpoint
from bert_flow_tf.errors import EncoderError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.storage import check_names as check_flow_names
from bert_flow_tf.tf1 import flow_config

CLASSIFIER = "output_weights"
_STEP = re.compile(r"-(\d{1,18})$")


@dataclasses.dataclass(frozen=True)
class Tf1Parts:
  """Which variable of a checkpoint goes where; every one is in exactly one of the four.

  Attributes:
    encoder: {name: shape}.
    flow: names, empty where there is no flow.
    classifier: `[output_weights]` or empty.
    left_out: {name: what it is}, see `tf1_names.left_out`.
  """

  encoder: dict
  flow: list
  classifier: list
  left_out: dict

  def counts(self):
    """{what was left out: number of variables}, in the order of the names."""
    kinds = list(self.left_out.values())
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def take_apart(checkpoint, values):
  """Says of every variable where it goes.

  Args:
    checkpoint: a `Tf1Checkpoint`.
    values: of its bert_config.json, see `google_folder.read_config`.

  Returns:
    `Tf1Parts`.

  Raises:
    EncoderError: a variable of the encoder is missing, or one is unknown; the message lists all of them.
  """
  names = checkpoint.shapes
  left_out = {name: kind for name in sorted(names) if (kind := tf1_names.left_out(name, names))}
  rest = [name for name in sorted(names) if name not in left_out]
  flow = [name for name in rest if name.startswith(tf1_names.FLOW)]
  classifier = [name for name in rest if name == CLASSIFIER]
  encoder = sorted(set(rest) - {*flow, *classifier})
  tf1_names.check_layers(names, values, checkpoint.prefix)
  expected = tf1_names.bert_shapes(values, pooler=tf1_names.has_pooler(names))
  tf1_names.check_names(encoder, expected, checkpoint.prefix)
  for name, shape in expected.items():
    checkpoint.check_shape(name, shape)
  return Tf1Parts(expected, flow, classifier, left_out)


def read_flow(checkpoint, names, given=None):
  """The flow of a checkpoint, its shape told from the variables.

  Args:
    checkpoint: a `Tf1Checkpoint`.
    names: `Tf1Parts.flow`.
    given: `FlowConfig` that it is said to have, for the coupling's dropout; None to tell all from the variables.

  Returns:
    A `Glow` of float32 with the checkpoint's weights, made as the published runner makes one: `actnorm_init` "glorot".

  Raises:
    FlowError: a variable is missing, unknown or of another shape; the message lists the names.
    EncoderError: a variable cannot be read, is not finite or of another type than float32.
    ConfigError: `given` does not fit the variables.
  """
  variables = {
    name.removeprefix(tf1_names.FLOW): checkpoint.read_weight(name, checkpoint.shapes[name]) for name in names
  }
  try:
    found = flow_config.read_config(variables)
    if given is not None:
      flow_config.check_config(found.config, given)
    flow = Glow(given or found.config, found.dim, "glorot", found.permutation)
    check_flow_names(names, flow_variables(flow), "variables of the original's flow")
    flow.load_tf1_variables(variables)
  except FlowError as error:
    raise FlowError(f"{checkpoint.prefix}: {error}") from error
  return flow


def flow_variables(flow):
  """{name in a checkpoint: float32 array} of a `Glow`."""
  return {tf1_names.FLOW + name: array for name, array in flow.tf1_variables().items()}


def check_same(checkpoint, variables):
  """Compares values bit by bit with what is in a checkpoint.

  Args:
    checkpoint: a `Tf1Checkpoint`.
    variables: {name: array}, of any number of its variables.

  Raises:
    EncoderError: a value or a type differs.
  """
  for name, array in variables.items():
    stored = checkpoint.read(name)
    if stored.dtype != array.dtype and stored.dtype.name in ("float16", "bfloat16"):
      stored = stored.astype(np.float32)
    if (stored.dtype, stored.shape, stored.tobytes()) != (array.dtype, array.shape, array.tobytes()):
      raise EncoderError(f"{checkpoint.prefix}: {name} is not the same in the converted folder: please report this.")


def step_of(prefix):
  """The N of a prefix that ends in -N, which is TensorFlow's way to say the global step; None without."""
  match = _STEP.search(pathlib.Path(prefix).name)
  return match and int(match[1])


def check_place(prefix):
  """Refuses a prefix at which there is a checkpoint.

  Raises:
    EncoderError: there is one, or no file name.
  """
  prefix = pathlib.Path(prefix)
  if prefix.is_dir() or not prefix.name:
    raise EncoderError(f"{prefix} is a folder, expected a checkpoint's prefix in it: {prefix / 'model.ckpt-0'}")
  if re.search(r"[*?\[\\]", str(prefix)):
    raise EncoderError(f"{prefix}: TensorFlow reads no checkpoint with *, ?, [ or \\ in its path; choose another")
  if prefix.with_name(f"{prefix.name}.index").exists():
    raise EncoderError(f"{prefix}: there is a checkpoint of this name; choose another, or delete it")


def write_checkpoint(prefix, variables):
  """Writes a TensorFlow 1 checkpoint and reads it back; it is whole or has no .index, without which it is none.

  Args:
    prefix: path of its files without ".index" and ".data-..."; one that ends in -N gets global_step = N.
    variables: {name: array}.

  Raises:
    EncoderError: there is a checkpoint of this name, or it cannot be written.
  """
  check_place(prefix)
  prefix = pathlib.Path(prefix).resolve()
  step = step_of(prefix)
  variables = variables if step is None else {**variables, tf1_names.GLOBAL_STEP: np.array(step, np.int64)}
  beside = prefix.with_name(f".{prefix.name}.writing")  # the same each time: what a killed process left is cleared away
  try:
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _save(beside / prefix.name, variables)
    check_same(Tf1Checkpoint(beside / prefix.name), variables)
    for path in sorted(beside.iterdir()):  # .data-... before .index
      path.rename(prefix.with_name(path.name))
  except (OSError, tf.errors.OpError) as error:
    raise EncoderError(f"checkpoint {prefix} cannot be written ({str(error).splitlines()[0]})") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)


def _save(prefix, variables):
  """What TensorFlow 1's Saver runs, without the graph that it runs it in, which takes a minute for a BERT."""
  names = list(variables)
  with tf.device("/cpu:0"):
    tensors = [tf.constant(variables[name]) for name in names]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
