"""TensorFlow 1 checkpoints: which one is meant, what is in it, and its values. No pickle is involved."""

import math
import os
import pathlib
import re

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import EncoderError

_INDEX = ".index"
# What stands after a checkpoint's prefix in the names of its files.
_FILE = re.compile(r"(.+)\.(?:index|meta|data-\d{5}-of-\d{5})")
_GOOGLE = "bert_model.ckpt"
_STATE = "checkpoint"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
# float32 holds every value of these exactly.
_EXACT = (tf.float32, tf.float16, tf.bfloat16)


class Tf1Checkpoint:
  """An opened checkpoint.

  Attributes:
    prefix: str, the path of its files without ".index" and ".data-...".
    shapes: {variable: shape as a tuple of int}.
  """

  def __init__(self, prefix):
    """Opens a checkpoint; reads no values yet.

    Args:
      prefix: as `find_prefix` gives it.

    Raises:
      EncoderError: its files are damaged or cut, or a data file is absent; or it is one of TensorFlow 2.
    """
    self.prefix = os.fspath(prefix)
    if re.search(r"[*?\[\\]", self.prefix):  # TensorFlow takes it for a pattern
      raise EncoderError(f"{self.prefix}: TensorFlow reads no checkpoint with *, ?, [ or \\ in its path: rename it.")
    try:
      self._reader = tf.train.load_checkpoint(self.prefix)
      self.shapes = {name: tuple(shape) for name, shape in self._reader.get_variable_to_shape_map().items()}
      self._dtypes = dict(self._reader.get_variable_to_dtype_map())
    except Exception as error:  # TensorFlow raises OpError, IndexError, protobuf's and whatever it likes
      raise self._damaged(_INDEX, error) from error
    if _OBJECTS in self.shapes:
      raise EncoderError(
        f"{self.prefix}: found a checkpoint of TensorFlow 2 objects, expected one of TensorFlow 1 with variables named "
        "bert/...: pass a Hugging Face folder of the model instead."
      )
    self._check_size()

  def read(self, name):
    """A variable's value, an array in its stored dtype.

    Raises:
      EncoderError: it cannot be read.
    """
    try:
      return np.asarray(self._reader.get_tensor(name))
    except Exception as error:
      raise self._damaged(f" ({name})", error) from error

  def read_weight(self, name, shape):
    """A variable that is a weight: float32 array.

    Args:
      name: the variable.
      shape: what it must have.

    Raises:
      EncoderError: another shape, not a float that float32 holds exactly, not finite, or it cannot be read.
    """
    self.check_shape(name, shape)
    if self._dtypes[name] not in _EXACT:
      raise EncoderError(f"{self.prefix}: found {name} of {self._dtypes[name].name}, expected float32.")
    value = self.read(name).astype(np.float32)
    if not np.isfinite(value).all():
      raise EncoderError(f"{self.prefix}: {name} holds NaN or infinity: the checkpoint is of no use, take another.")
    return value

  def check_shape(self, name, shape):
    """Raises EncoderError unless a variable has the shape."""
    if self.shapes[name] != tuple(shape):
      raise EncoderError(
        f"{self.prefix}: found {name} of shape {list(self.shapes[name])}, expected {list(shape)} by the configuration: "
        "use the bert_config.json that belongs to the checkpoint."
      )

  def _check_size(self):
    """Before a shape is believed and memory reserved for it: the data files are there, and large enough."""
    prefix = pathlib.Path(self.prefix)
    pattern = re.compile(re.escape(prefix.name) + r"\.data-\d{5}-of-(\d{5})")
    shards = {path.name: match for path in prefix.parent.iterdir() if (match := pattern.fullmatch(path.name))}
    expected = int(next(iter(shards.values()))[1]) if shards else 1
    if len(shards) < expected:
      raise EncoderError(
        f"{self.prefix}: found {len(shards)} of its {expected} data files ({prefix.name}.data-...), expected all "
        "beside the index: copy or download them too."
      )
    found = sum((prefix.parent / name).stat().st_size for name in shards)
    needed = sum(math.prod(shape) * self._dtypes[name].size for name, shape in self.shapes.items())
    if found < needed:
      raise EncoderError(
        f"{self.prefix}: its data files hold {found} bytes, expected at least {needed} by the index: they are cut, "
        "copy or download them again."
      )

  def _damaged(self, what, error):
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return EncoderError(
      f"{self.prefix}{what}: cannot be read ({type(error).__name__}: {reason}): copy or download the checkpoint again."
    )


def is_prefix(path):
  """Whether a path is a checkpoint's prefix: the files are PATH.index and PATH.data-..."""
  path = os.fspath(path)
  return bool(os.path.basename(path)) and os.path.isfile(path + _INDEX)


def prefixes_in(folder):
  """Names of the checkpoints in a folder, sorted."""
  return sorted(path.name.removesuffix(_INDEX) for path in pathlib.Path(folder).glob("?*" + _INDEX) if path.is_file())


def find_prefix(path):
  """The checkpoint that a path means.

  Args:
    path: a prefix, one of a checkpoint's files, or a folder. Of several checkpoints in a folder, bert_model.ckpt is
      taken, else the one that TensorFlow's file `checkpoint` calls the latest.

  Returns:
    Its prefix, a str.

  Raises:
    EncoderError: there is none there, or several and nothing says which.
  """
  path = os.path.expanduser(os.fspath(path))
  if is_prefix(path):
    return path
  part = _FILE.fullmatch(path)
  if part and is_prefix(part[1]):
    return part[1]
  if not os.path.isdir(path):
    raise EncoderError(
      f"{path}: found no {os.path.basename(path)}.index, expected the prefix of a TensorFlow 1 checkpoint, such as "
      "FOLDER/model.ckpt-1000, whose files are model.ckpt-1000.index and model.ckpt-1000.data-00000-of-00001."
    )
  found = prefixes_in(path)
  if not found:
    raise EncoderError(f"{path}: found no checkpoint in this folder, expected model.ckpt-N.index and its data files.")
  chosen = found[0] if len(found) == 1 else _GOOGLE if _GOOGLE in found else _latest(path)
  if chosen not in found:
    raise EncoderError(
      f"{path}: found {len(found)} checkpoints ({', '.join(found)}), expected one, or bert_model.ckpt, or a file "
      f"`{_STATE}` that names the latest: pass the prefix of one, as {os.path.join(path, found[0])}."
    )
  if len(found) > 1:
    logging.info("%s holds %d checkpoints (%s): %s is taken", path, len(found), ", ".join(found), chosen)
  return os.path.join(path, chosen)


def _latest(folder):
  """Name of the checkpoint that the file `checkpoint` calls the latest, wherever it was when that was written."""
  try:
    text = (pathlib.Path(folder) / _STATE).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError):
    return None
  match = re.search(r'^\s*model_checkpoint_path\s*:\s*"([^"\n]+)"', text, re.MULTILINE)
  return os.path.basename(match[1]) if match else None
