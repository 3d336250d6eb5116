"""Checkpoints of the original's training, `model.ckpt-N`: encoder, flow and classifier.

bert/embeddings/..., bert/encoder/..., bert/pooler/...    the encoder, under Google's names
bert/flow/revnet_0/...                                    the flow
loss/output_weights                                       the classifier of siamese fine-tuning
.../adam_m, .../adam_v, global_step                       the optimizer, not converted
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder import tf1_names
from bert_flow_tf.encoder.tf1_reader import Tf1Checkpoint
from bert_flow_tf.errors import EncoderError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.files import temporary_folder
from bert_flow_tf.tf1 import flow_config

_STEP = re.compile(r"-(\d{1,18})$")


@dataclasses.dataclass(frozen=True)
class Tf1Parts:
  """Variables of a checkpoint: {name: shape} of the encoder, names of flow and classifier, {name: kind} of the rest."""

  encoder: dict[str, tuple[int, ...]]
  flow: list[str]
  classifier: list[str]
  left_out: dict[str, str]

  def counts(self) -> dict[str, int]:
    """Returns {kind: number of variables} of those that are left out, in the order of the names."""
    return dict(collections.Counter(self.left_out.values()))


def group_variables(checkpoint: Tf1Checkpoint, config: dict) -> Tf1Parts:
  """Returns every variable of a checkpoint in its part; `config` is the content of its bert_config.json.

  Raises:
    EncoderError: a variable of the encoder is missing, or one is unknown; the message lists all of them.
  """
  names = checkpoint.shapes
  # What no other part claims must be the encoder's: a variable of unknown use is an error, not left out.
  encoder: list[str] = []
  parts = Tf1Parts(tf1_names.bert_shapes(config, pooler=tf1_names.has_pooler(names)), [], [], {})
  for name in sorted(names):
    kind = tf1_names.left_out(name, names)
    if kind:
      parts.left_out[name] = kind
    elif name.startswith(tf1_names.FLOW):
      parts.flow.append(name)
    elif name == tf1_names.CLASSIFIER:
      parts.classifier.append(name)
    else:
      encoder.append(name)
  tf1_names.check_names(encoder, parts.encoder, checkpoint.prefix)
  for name, shape in parts.encoder.items():
    checkpoint.check_shape(name, shape)
  return parts


def read_flow(checkpoint: Tf1Checkpoint, names: list[str], config: FlowConfig | None = None) -> Glow:
  """Returns the flow of a checkpoint; its configuration follows from names and shapes of the variables.

  `config` is the expected configuration, which also gives the dropout of the coupling. As the published runner makes
  it, the flow has `actnorm_init` "glorot".

  Raises:
    FlowError: a variable is missing, unknown or has an unexpected shape; the message lists the names.
    ConfigError: `config` does not fit the variables.
  """
  # The flow's own names are those below bert/flow/.
  variables = {}
  for name in names:
    variables[name.removeprefix(tf1_names.FLOW)] = checkpoint.read_weight(name, checkpoint.shapes[name])
  try:
    inferred = flow_config.infer_config(variables)
    if config is not None:
      flow_config.check_config(config, inferred.config)
    flow = Glow(config or inferred.config, inferred.dim, "glorot", inferred.permutation)
    flow.load_tf1_variables(variables)
  except FlowError as error:
    raise FlowError(f"{checkpoint.prefix}: {error}") from error
  return flow


def flow_variables(flow: Glow) -> dict[str, np.ndarray]:
  """Returns {name in a checkpoint: float32 array}."""
  return {tf1_names.FLOW + name: array for name, array in flow.tf1_variables().items()}


def check_same(checkpoint: Tf1Checkpoint, variables: Mapping[str, np.ndarray]) -> None:
  """Raises an EncoderError if some of a checkpoint's variables are not equal to arrays bit by bit."""
  for name, array in variables.items():
    # Half-precision checkpoints are read as float32, which holds every value of theirs.
    stored = checkpoint.read(name)
    if stored.dtype != array.dtype and stored.dtype.name in ("float16", "bfloat16"):
      stored = stored.astype(np.float32)
    if (stored.dtype, stored.shape, stored.tobytes()) != (array.dtype, array.shape, array.tobytes()):
      raise EncoderError(f"{checkpoint.prefix}: {name} changed in the conversion; please report this bug")


def step_of(prefix: str | pathlib.Path) -> int | None:
  """Returns the N of a prefix that ends in -N, TensorFlow's notation of the global step."""
  match = _STEP.search(str(prefix))
  return match and int(match[1])


def check_free(prefix: pathlib.Path) -> None:
  """Raises an EncoderError if no checkpoint can be written at a prefix."""
  if prefix.is_dir() or not prefix.name:
    problem = f"is a folder, expected the prefix of a checkpoint, such as {prefix / 'model.ckpt-0'}"
  elif re.search(r"[*?\[\\]", str(prefix)):
    problem = "TensorFlow cannot read a checkpoint with *, ?, [ or \\ in its path; choose another"
  elif prefix.with_name(f"{prefix.name}.index").exists():
    problem = "a checkpoint of this name exists; choose another name, or delete it"
  else:
    return
  raise EncoderError(f"output_checkpoint={prefix}: {problem}", argument="output_checkpoint")


def write_checkpoint(prefix: pathlib.Path, variables: Mapping[str, np.ndarray]) -> None:
  """Writes a TensorFlow 1 checkpoint. Its .index file exists only if all of it is written.

  `prefix` is the path of its files without ".index" and ".data-..."; one that ends in -N adds global_step = N.
  """
  check_free(prefix)
  prefix = prefix.resolve()
  step = step_of(prefix)
  if step is not None:
    variables = {**variables, tf1_names.GLOBAL_STEP: np.array(step, np.int64)}
  try:
    with temporary_folder(prefix) as folder:
      _save(folder / prefix.name, variables)
      for path in sorted(folder.iterdir()):  # .data-... before .index
        path.rename(prefix.with_name(path.name))
  except (OSError, tf.errors.OpError) as error:
    problem = str(error).splitlines()[0]
    raise EncoderError(
      f"output_checkpoint={prefix}: cannot be written ({problem})", argument="output_checkpoint"
    ) from error


def _save(prefix: pathlib.Path, variables: Mapping[str, np.ndarray]) -> None:
  """Runs the operation of TensorFlow 1's Saver; the Saver's graph would take a minute for a BERT."""
  names = list(variables)
  with tf.device("/cpu:0"):
    tensors = [tf.constant(variables[name]) for name in names]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
