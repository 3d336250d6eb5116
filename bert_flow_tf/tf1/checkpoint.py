"""Checkpoints of the original's training, `model.ckpt-N`: encoder, flow and classifier.

bert/embeddings/..., bert/encoder/..., bert/pooler/...    the encoder, under Google's names
bert/flow/revnet_0/...                                    the flow
loss/output_weights                                       the classifier of siamese fine-tuning
.../adam_m, .../adam_v, global_step                       the optimizer, not converted
"""

import pathlib
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.checkpoints import tf1_names
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.files import temporary_folder
from bert_flow_tf.training.siamese.objectives import Classifier

_STEP = re.compile(r"-(\d{1,18})$")


def model_variables(
  encoder: SentenceEncoder, flow: Glow | None, classifier: Classifier | None
) -> dict[str, np.ndarray]:
  """Returns {name in a checkpoint: float32 array} of all parts."""
  variables = encoder.tf1_variables()
  if flow is not None:
    variables |= flow_variables(flow)
  if classifier is not None:
    variables[tf1_names.CLASSIFIER] = classifier.output_weights.numpy()
  return variables


def flow_variables(flow: Glow) -> dict[str, np.ndarray]:
  """Returns {name in a checkpoint: float32 array}."""
  return {tf1_names.FLOW + name: array for name, array in flow.tf1_variables().items()}


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
  raise EncoderError(f"{prefix}: {problem}")


def write_checkpoint(prefix: pathlib.Path, variables: Mapping[str, np.ndarray]) -> None:
  """Writes a TensorFlow 1 checkpoint, with global_step N for PREFIX-N; .index exists only if all of it is written."""
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
    raise EncoderError(f"{prefix}: cannot be written ({str(error).splitlines()[0]})") from error


def _save(prefix: pathlib.Path, variables: Mapping[str, np.ndarray]) -> None:
  """Runs the operation of TensorFlow 1's Saver; the Saver's graph would take a minute for a BERT."""
  names = list(variables)
  with tf.device("/cpu:0"):
    tensors = list(map(tf.constant, variables.values()))
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
