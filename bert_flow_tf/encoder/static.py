"""Static encoders: the rows of a BERT's word-embedding matrix, without its transformer."""

import functools
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import tensorflow as tf
from safetensors import safe_open

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.experiment import STATIC

TOKEN_WEIGHTS = "idf"

_NAME = "bert/embeddings/word_embeddings/weight"
# Name of the matrix in PyTorch's and TensorFlow's files, of a bare model or one with a head.
_IN_FILES = re.compile(r"(?:.*[./])?embeddings[./]word_embeddings[./](?:weight|embeddings)(?::0)?")


class WordRows(tf.Module):
  """Model with the part of a TFBertModel that needs no transformer: the word-embedding matrix.

  Attributes:
    config: a BERT's transformers.BertConfig, with num_hidden_layers 0 and room for 65536 positions.
    weight: the matrix, float32 variable of shape [vocab, hidden].
    weights: list of `weight` alone.
  """

  def __init__(self, config: Any, rows: np.ndarray) -> None:
    super().__init__(name="static")
    self.config = config
    self.weight = tf.Variable(rows, trainable=False, name=f"static/{_NAME}", dtype=tf.float32)
    self.weights = [self.weight]

  def get_input_embeddings(self) -> "WordRows":
    """Returns the object whose `weight` is the matrix, as transformers' models do."""
    return self

  @functools.cached_property
  def unit_rows(self) -> np.ndarray:
    """The rows, each divided by its length, float32 array of shape [vocab, hidden]."""
    return tf.math.l2_normalize(self.weight, axis=1).numpy()

  def embed(self, ids: Sequence[np.ndarray], table: np.ndarray | None) -> np.ndarray:
    """Embeds token ids with one sparse product, ten times as fast as padded batches in a graph.

    Args:
      ids: n int32 arrays of shape [seq_len].
      table: weights of the word pieces, float32 [vocab], as those of `TokenWeights`; None for equal ones.

    Returns:
      Weighted means of the unit rows, float32 array of shape [n, hidden]. The means are unweighted where all weights
      are 0.
    """
    pieces, lengths = np.concatenate(ids), np.fromiter(map(len, ids), np.int64, len(ids))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    weights = np.ones(len(pieces), np.float32) if table is None else table[pieces]
    weights = np.where(np.repeat(np.add.reduceat(weights, starts[:-1]) > 0, lengths), weights, np.float32(1))
    weights /= np.repeat(np.add.reduceat(weights, starts[:-1]), lengths)
    return scipy.sparse.csr_array((weights, pieces, starts), (len(ids), len(self.unit_rows))) @ self.unit_rows

  def count_params(self) -> int:
    """Returns the number of weights."""
    return int(np.prod(self.weight.shape))


def base_name(name: Any) -> Any:
  """Returns the name of a static encoder's BERT; None for any other model.

  Raises:
    EncoderError: "static:" without a name, or twice.
  """
  text = os.fspath(name) if isinstance(name, str | os.PathLike) else ""
  if not text.startswith(STATIC):
    return None
  base = text.removeprefix(STATIC)
  if not base or base.startswith(STATIC):
    raise EncoderError(
      f"model='{text}': expected {STATIC}NAME, with the name, folder or hub id of a BERT, such as {STATIC}mini",
      argument="model",
    )
  return base


def check_settings(name: str, precision: str, hidden_act: str | None) -> None:
  """Raises ConfigError for a setting of the transformer, which a static encoder does not have."""
  for argument, value, default in (("precision", precision, "float32"), ("hidden_act", hidden_act, None)):
    if value != default:
      raise ConfigError(f"{argument}={value}: {name} has no transformer that could use it; leave it out", argument)


def read_word_rows(folder: pathlib.Path, weights: str, shape: tuple[int, int]) -> np.ndarray | None:
  """Reads the word-embedding matrix of a Hugging Face folder, and no other weight.

  Args:
    folder: the folder.
    weights: name of its weights file, of `folder.find_weights`.
    shape: [vocab, hidden], of the configuration.

  Returns:
    float32 array; None if the file is not of safetensors.

  Raises:
    EncoderError: the file is damaged, or its matrix is absent, of another shape or not finite.
  """
  if ".safetensors" not in weights:
    return None
  files = folder_lib.shards(folder / weights) or [weights]
  try:
    rows = next((rows for file in files if (rows := _find(folder / file)) is not None), None)
  except Exception as error:  # safetensors raises errors of many classes
    raise EncoderError(
      f"{folder}: cannot read the word embeddings from {weights} ({folder_lib.reason(folder / weights, error)}); "
      "download or save it again"
    ) from error
  if rows is None or rows.shape != shape:
    found = "none" if rows is None else f"{list(rows.shape)}"
    raise EncoderError(
      f"{folder}: expected word embeddings of config.json's shape {list(shape)} in {weights}, got {found}; use the "
      "config.json that was saved with the weights"
    )
  if not np.isfinite(rows).all():
    raise EncoderError(f"{folder}: {weights} holds NaN or infinity in {_NAME}:0; use another checkpoint")
  return rows


def _find(path):
  """Returns the word-embedding matrix of a safetensors file, float32 [vocab, hidden], or None."""
  with safe_open(path, "tf") as tensors:  # TensorFlow has bfloat16
    for name in tensors.keys():  # noqa: SIM118
      if _IN_FILES.fullmatch(name):
        return tf.cast(tensors.get_tensor(name), tf.float32).numpy()
  return None
