"""Characters of a sentence, the last step of a model after its calibration; no TensorFlow here."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration.combined import joined_contents
from bert_flow_tf.calibration.interface import KIND, Calibration, Contents
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.evaluation.metrics import normalized, tied_at_1
from bert_flow_tf.io import archive
from bert_flow_tf.io.checks import is_integer

CHARACTERS = "characters"
DEFAULT_DIM = 1024
# With the largest K of characters-K, 30,000 word pieces take 1 GB.
MIN_DIM, MAX_DIM = 8, 8192


def characters_name(dim: int) -> str:
  """Returns the name of characters as `parse_calibration` reads it."""
  return CHARACTERS if dim == DEFAULT_DIM else f"{CHARACTERS}-{dim}"


class Characters:
  """Last step of a model: z -> [z / |z|, c] of calibrated embeddings z [n, k] and characters c [n, dim].

  The cosine of two results is the mean of the cosines of z and c. With k = 0 the characters stand alone. Nothing is
  fitted: `CharacterTable` in `encoder` defines c.

  Args:
    encoder: encoder with word pieces.
    max_seq_length: number of tokens of a sentence that are read.
    dim: dimensions of c.

  Raises:
    ConfigError: dim is not allowed, or the encoder has no word pieces, or a prompt.
  """

  def __init__(self, encoder: Any, max_seq_length: int, dim: int = DEFAULT_DIM) -> None:
    if not is_integer(dim, MIN_DIM) or dim > MAX_DIM:
      raise ConfigError(f"characters={dim}: expected an integer from {MIN_DIM} to {MAX_DIM}", argument="characters")
    self.dim = int(dim)
    self.name = characters_name(self.dim)
    encoder.check_has_tokens(self.name)
    if encoder.prompt:
      message = f'{self.name}: the encoder puts {encoder.prompt!r} before each sentence; load it with prompt=""'
      raise ConfigError(message, argument="characters")
    self._encoder, self._max_seq_length = encoder, max_seq_length

  def append(self, z: np.ndarray, sentences: Sequence[str]) -> np.ndarray:
    """z [n, k] of n sentences -> [z / |z|, c], float32 [n, k + dim]; rows of zeros stay."""
    if len(sentences) != len(z):
      raise DataError(f"sentences: {len(sentences)} for {len(z)} embeddings; {self.name} needs them all", "sentences")
    characters = self._encoder.characters.of(self._ids(sentences), self.dim)
    return np.concatenate([normalized(z), characters], axis=1)

  def cosines(self, z: np.ndarray, sentences: Sequence[str]) -> np.ndarray:
    """Returns the cosine of [z / |z|, c] of each of the first n sentences and its partner n places on, float64 [n].

    Here c is exact: a sparse vector, which `append` projects. A cosine with zeros is 0.
    """
    n = len(z) // 2
    # The parts of a row have length 1, or 0, which counts in the row's length.
    dots, squares = np.zeros(n), np.zeros(2 * n)
    for part in (self._encoder.characters.exact(self._ids(sentences)), normalized(z)):
      dots += np.asarray((part[:n] * part[n:]).sum(axis=1))
      squares += np.asarray((part * part).sum(axis=1))
    lengths = np.sqrt(squares[:n] * squares[n:])
    return tied_at_1(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0))

  def table(self) -> np.ndarray:
    """Returns the row of each word piece: the sum of a sentence's rows, divided by its length, is c."""
    return self._encoder.characters.dense(self.dim)

  def save(self, folder: str | os.PathLike, calibration: Calibration | None, identity: dict[str, Any]) -> None:
    """Writes a calibration, if there is one, and the characters after it, for `read_calibration`."""
    settings = {"method": CHARACTERS, "dim": self.dim, "table_sha256": self._encoder.characters.checksum}
    contents: Contents = (settings, {})
    if calibration is not None:
      contents = joined_contents([calibration.contents(), contents])
    archive.write(folder, KIND, {**contents[0], "encoder": identity}, contents[1])

  def check_saved(self, settings: dict[str, Any], where: str) -> None:
    """Raises an EncoderError if a model saved at `where` has other frequencies of word pieces."""
    if settings["table_sha256"] not in (None, self._encoder.characters.checksum):
      raise EncoderError(
        f"{where}: fitted with other frequencies of word pieces than this version or frequency_corpus has; fit it "
        "again, which takes seconds",
        "folder",
      )

  def _ids(self, sentences):
    return self._encoder.tokenizer(sentences, self._max_seq_length, warn=False)
