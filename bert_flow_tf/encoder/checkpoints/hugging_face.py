"""Weights of a Hugging Face folder: checked against config.json and loaded. Every weight comes from the files."""

import contextlib
import functools
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import ml_dtypes  # noqa: F401  # gives NumPy the type bfloat16
import numpy as np
from safetensors import safe_open

from bert_flow_tf.encoder.checkpoints.files import VOCAB_TXT, EncoderFiles, check_vocabulary, failure
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.weights import Read, StoredWeights, check_weights, from_pytorch, path_of_name
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

# Types of safetensors: floats of weights, and types of quantized weights. Buffers of positions have integers.
_FLOATS, _QUANTIZED = ("F64", "F32", "F16", "BF16"), re.compile("I8|U8|F8.*|F4.*")
# Prefixes of names in wrapped models: DataParallel, and the Transformer of sentence-transformers.
_HOLDERS = re.compile(r"^(?:module\.|0\.|auto_model\.)+")


class StoredTensor(NamedTuple):
  """Tensor of a file, in TensorFlow's orientation."""

  shape: tuple[int, ...]
  read: Read


class HuggingFaceWeights:
  """Weights of a folder with a config.json, which are read when they are asked for."""

  def __init__(self, files: EncoderFiles, changes: Json) -> None:
    """Checks config.json and the vocabulary, and opens the files; `changes`: values in place of config.json's."""
    values = dict(files.config)
    values |= {files.architecture.key(name): value for name, value in changes.items()}
    if files.reads_vocab_txt:
      check_vocabulary(files, VOCAB_TXT, values["vocab_size"])
    self._config = EncoderConfig(values)
    paths = self._find(files)
    self._where = paths[0]
    with _reading(self._where):
      self._tensors = self._open(paths)

  def _find(self, files: EncoderFiles) -> list[pathlib.Path]:
    """Returns the paths of the files, of which the first stands for all in messages."""
    return files.find_weights()

  def _open(self, paths: list[pathlib.Path]) -> dict[str, StoredTensor]:
    """Returns {path: tensor} of the files."""
    tensors: dict[str, StoredTensor] = {}
    for path in paths:
      if path.suffix == ".h5":
        tensors |= _read_hdf5(path, self._config.architecture.main)
      elif path.suffix == ".safetensors":
        tensors |= _read_safetensors(path, self._config.architecture.main)
    return tensors

  def stored(self) -> StoredWeights:
    """Returns the weights; EncoderError if the files do not hold the weights that config.json describes."""
    config, where = self._config, self._where
    with _reading(where):
      has_pooler = f"{config.architecture.pooler}/kernel" in self._tensors
      check_weights(config, {path: tensor.shape for path, tensor in self._tensors.items()}, has_pooler, where)
    arrays = {path: functools.partial(_read_from, where, tensor.read) for path, tensor in self._tensors.items()}
    return StoredWeights(config, arrays, has_pooler, where)

  def word_embeddings(self) -> np.ndarray:
    """Returns the matrix of word embeddings, float32 [vocab, word_size], and reads no other weight."""
    config, where = self._config, self._where
    shape = (config.vocab_size, config.word_size)
    words = config.architecture.words
    found = None
    if words in self._tensors:
      found = self._tensors[words].shape
    if found != shape:
      raise EncoderError(
        f"{where}: expected word embeddings of config.json's shape {list(shape)}, got {list(found or ()) or 'none'}"
      )
    rows = _read_from(where, self._tensors[words].read)
    if not np.isfinite(rows).all():
      raise EncoderError(f"{where} holds NaN or infinity in {config.architecture.main}/{words}; use another checkpoint")
    return rows


def _read_from(where, read):
  """Returns the array of a tensor in the files of `where`."""
  with _reading(where):
    return read()


def _read_safetensors(path, main):
  """Returns the tensors of a file that PyTorch or a TensorFlow model of transformers wrote."""
  content = safe_open(path, "np")
  tensors = {}
  for name in content.keys():  # noqa: SIM118
    part = content.get_slice(name)
    shape = tuple(part.get_shape())
    if _QUANTIZED.fullmatch(part.get_dtype()) and name.endswith("weight"):
      expected = "float32, float16 or bfloat16; use the folder of the model before it was quantized"
      raise EncoderError(f"{path}: {name} has the type {part.get_dtype()}, expected {expected}")
    if part.get_dtype() not in _FLOATS:
      continue
    if "/" in name:
      tensors[_below(main, name)] = StoredTensor(shape, functools.partial(_read, content, name))
      continue
    key = path_of_name(_HOLDERS.sub("", name).removeprefix(f"{main}."))
    shape = from_pytorch(key, np.empty(shape, bool)).shape
    tensors[key] = StoredTensor(shape, functools.partial(_read, content, name, key))
  return tensors


def _read(content, name, path=""):
  """Returns a tensor as float32; `path` of a tensor of PyTorch, whose kernels are transposed."""
  with np.errstate(over="ignore"):  # of float64; what reads a weight says that it is infinite
    value = content.get_tensor(name).astype(np.float32, copy=False)
  return from_pytorch(path, value)


def _read_hdf5(path, main):
  """Returns the tensors of a tf_model.h5."""
  import h5py

  tensors = {}

  def add(name, item):
    if isinstance(item, h5py.Dataset):
      tensors[_below(main, name)] = StoredTensor(item.shape, lambda: np.asarray(item, np.float32))

  h5py.File(path).visititems(add)
  return tensors


def _below(main, name):
  """Returns the path below the main layer of TensorFlow's name, with or without the name of the model."""
  return re.sub(rf".*?(?:^|/){main}/(?!.*/{main}/)", "", name.partition(":")[0])


@contextlib.contextmanager
def _reading(weights: pathlib.Path) -> Iterator[None]:
  """Makes one EncoderError of the many that safetensors, h5py and NumPy raise in the block."""
  try:
    yield
  except EncoderError:
    raise
  except Exception as error:
    about = f"cannot be loaded as the model that config.json describes ({failure(weights, error)})"
    raise EncoderError(f"{weights} {about}; download or save it again") from error
