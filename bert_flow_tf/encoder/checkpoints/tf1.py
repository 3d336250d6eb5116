"""Reading of checkpoints of TensorFlow 1 and 2. Nothing is unpickled."""

from __future__ import annotations

import glob
import os
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from bert_flow_tf.encoder.checkpoints.files import (
  CHECKPOINT_INDEX,
  EncoderFiles,
  check_is_no_part,
  checkpoint_prefixes_in,
  failure,
  is_checkpoint_prefix,
)
from bert_flow_tf.encoder.checkpoints.preset_files import is_preset
from bert_flow_tf.errors import EncoderError, one_line

if TYPE_CHECKING:
  from tensorflow.core.protobuf import trackable_object_graph_pb2

# Names of a checkpoint's files: its prefix and one of these endings.
_FILE = re.compile(r"(.+)\.(?:index|meta|data-\d{5}-of-\d{5})")
_GOOGLE = "bert_model.ckpt"
_STATE = "checkpoint"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
# float32 holds every value of these exactly.
_EXACT = ("float32", "float16", "bfloat16")


class Checkpoint:
  """An opened checkpoint, whose values are read on demand; `shapes` is {variable: shape}.

  `is_object_based`: whether tf.train.Checkpoint wrote it, whose keys are paths of objects.
  """

  def __init__(self, prefix: str | os.PathLike) -> None:
    """Opens the checkpoint of a prefix; EncoderError if its index is damaged."""
    import tensorflow as tf

    self.prefix = os.fspath(prefix)
    if re.search(r"[*?\[\\]", self.prefix):  # TensorFlow takes it for a pattern
      raise EncoderError(f"{self.prefix}: TensorFlow reads no checkpoint with *, ?, [ or \\ in its path; rename it")
    try:
      self._reader = tf.train.load_checkpoint(self.prefix)
      self.shapes = {name: tuple(shape) for name, shape in self._reader.get_variable_to_shape_map().items()}
      self._dtypes = dict(self._reader.get_variable_to_dtype_map())
    except Exception as error:  # TensorFlow raises errors of many classes
      raise self._damaged(CHECKPOINT_INDEX, error) from error
    self.is_object_based = _OBJECTS in self.shapes

  def read(self, name: str) -> np.ndarray:
    """Returns a variable's value in its stored dtype."""
    try:
      return np.asarray(self._reader.get_tensor(name))
    except Exception as error:
      raise self._damaged(f" ({name})", error) from error

  def objects(self) -> trackable_object_graph_pb2.TrackableObjectGraph:
    """Returns the graph of the objects of an object-based checkpoint."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    try:
      # Not as an array, which would lose the null bytes at the end.
      return trackable_object_graph_pb2.TrackableObjectGraph.FromString(self._reader.get_tensor(_OBJECTS))
    except Exception as error:  # of TensorFlow and of protocol buffers
      raise self._damaged(f" ({_OBJECTS})", error) from error

  def read_weight(self, name: str, shape: Sequence[int]) -> np.ndarray:
    """Returns a weight, a float32 array; EncoderError if shape or dtype are others, or a value is not finite."""
    self.check_shape(name, shape)
    if self._dtypes[name].name not in _EXACT:
      raise EncoderError(f"{self.prefix}: expected {name} of float32, got {self._dtypes[name].name}")
    value = self.read(name).astype(np.float32)
    if not np.isfinite(value).all():
      raise EncoderError(f"{self.prefix}: {name} holds NaN or infinity; use another checkpoint")
    return value

  def check_shape(self, name: str, shape: Sequence[int]) -> None:
    """Raises an EncoderError unless a variable has a shape."""
    if self.shapes[name] != tuple(shape):
      expected = f"expected the configuration's shape {list(shape)}, got {list(self.shapes[name])}"
      raise EncoderError(f"{self.prefix}: {name}: {expected}; use the checkpoint's own bert_config.json")

  def _damaged(self, part, error):
    paths = [path for path in map(pathlib.Path, sorted(glob.glob(f"{self.prefix}.*"))) if path.is_file()]
    reasons = [failure(path, error) for path in paths]
    reason = next((found for found in reasons if "LFS" in found), f"{type(error).__name__}: {one_line(error)}")
    return EncoderError(f"{self.prefix}{part}: cannot be read ({reason}); copy or download the checkpoint again")


def find_prefix(path: str | os.PathLike) -> str:
  """Returns the prefix of a checkpoint, given the prefix, a file of the checkpoint, or a folder with a checkpoint."""
  # If a folder has several, bert_model.ckpt is used, else the latest according to TensorFlow's file `checkpoint`.
  path = os.path.expanduser(os.fspath(path))
  if is_checkpoint_prefix(path):
    return path
  part = _FILE.fullmatch(path)
  if part and is_checkpoint_prefix(part[1]):
    return part[1]
  folder = pathlib.Path(path)
  if folder.is_file():
    folder = folder.parent
  if folder.is_dir() and is_preset(EncoderFiles(folder)):
    mend = f"it needs no conversion: give --model={folder}; save_encoder, in Python, writes it as a Hugging Face folder"
    raise EncoderError(f"{path}: a preset of KerasHub, expected a checkpoint of TensorFlow; {mend}")
  if not os.path.isdir(path):
    raise EncoderError(f"{path}: no {os.path.basename(path)}.index; expected a prefix, such as FOLDER/model.ckpt-1000")
  names = checkpoint_prefixes_in(path)
  if not names:
    check_is_no_part(path)
    raise EncoderError(f"{path}: no checkpoint; expected a file model.ckpt-N.index in this folder")
  name = names[0]
  if _GOOGLE in names:
    name = _GOOGLE
  elif len(names) > 1:
    name = _latest(path)
  if name not in names:
    listed = ", ".join(names)
    raise EncoderError(
      f"{path}: several checkpoints ({listed}), and no file `{_STATE}` names the latest; give a prefix"
    )
  if len(names) > 1:
    logging.info("%s holds %d checkpoints (%s): %s is used", path, len(names), ", ".join(names), name)
  return os.path.join(path, name)


def _latest(folder):
  """Returns the name of the latest checkpoint in the file `checkpoint`, without its folder at that time, or None."""
  try:
    text = (pathlib.Path(folder) / _STATE).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError):
    return None
  match = re.search(r'^[ \t]*model_checkpoint_path[ \t]*:[ \t]*"([^"\n]+)"', text, re.MULTILINE)
  return match and os.path.basename(match[1])
