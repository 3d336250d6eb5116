"""Characters of a sentence, a step of a model after its calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.calibration.step import Contents, Features, Step, check_features, unit_rows
from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.evaluation.metrics import normalized, tied_at_1
from bert_flow_tf.io.checks import is_integer, shown
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  import tensorflow as tf

  from bert_flow_tf.calibration.step import Array
  from bert_flow_tf.encoder.text.characters import CharacterTable
  from bert_flow_tf.encoder.text_encoder import TextEncoder

CHARACTERS = "characters"
DEFAULT_DIM = 1024
# With the largest K of characters-K, 30,000 word pieces take 1 GB.
MIN_DIM, MAX_DIM = 8, 8192


def characters_name(dim: int) -> str:
  """Returns the name of characters as `parse_calibration` reads it."""
  return CHARACTERS if dim == DEFAULT_DIM else f"{CHARACTERS}-{dim}"


class Characters(Step, methods=(CHARACTERS,)):
  """z -> [z / |z|, c] of embeddings z [n, k] and characters c [n, dim] of the tokens.

  The cosine of two results is the mean of the cosines of z and c. As the first step of a model the characters stand
  alone, k = 0. Nothing is fitted: `CharacterTable` in `encoder` defines c.

  Args:
    dim: dimensions of c.
    encoder: encoder with word pieces; a model sets it by `bound_to`.
    table_sha256: checksum of the table with which the step was saved; None for a new step.

  Raises:
    ConfigError: dim is not allowed.
  """

  reads_embedding = False
  reads_tokens = True

  def __init__(
    self, dim: int = DEFAULT_DIM, encoder: TextEncoder | None = None, table_sha256: str | None = None
  ) -> None:
    if not is_integer(dim, MIN_DIM) or dim > MAX_DIM:
      raise ConfigError(
        f"characters={shown(dim)}: expected an integer from {MIN_DIM} to {MAX_DIM}", argument="characters"
      )
    self.dim = int(dim)
    self._encoder, self._table_sha256 = encoder, table_sha256

  @property
  def name(self) -> str:
    """See the base class."""
    return characters_name(self.dim)

  @property
  def _table(self) -> CharacterTable:
    assert self._encoder is not None, "a model binds its steps"
    return self._encoder.characters

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """The row of each word piece, [vocab_size, dim]."""
    return [self._table.variable(self.dim)]

  def bound_to(self, encoder: TextEncoder) -> Characters:
    """Returns the step with the table of an encoder, which must have word pieces and no prompt."""
    encoder.check_has_tokens(self.name)
    if encoder.prompt:
      message = f'{self.name}: the encoder puts {encoder.prompt!r} before each sentence; load it with prompt=""'
      raise ConfigError(message, argument="characters")
    return Characters(self.dim, encoder, self._table_sha256)

  def check_encoder(self, encoder: TextEncoder, where: str) -> None:
    """Raises an EncoderError if the step was saved with other frequencies of word pieces."""
    if self._table_sha256 not in (None, encoder.characters.checksum):
      raise EncoderError(
        f"{where}: fitted with other frequencies of word pieces than this version or frequency_corpus has; fit it "
        "again, which takes seconds",
        "folder",
      )

  def output_dim_of(self, dim: int) -> int:
    """See the base class."""
    return dim + self.dim

  def __call__(self, features: Features) -> Array:
    """z [n, k] of n sentences -> [z / |z|, c], float32 [n, k + dim]; rows of zeros stay."""
    check_features(features)
    tf = functions_for(features.embedding, features.ids)
    mask = tf.sequence_mask(features.lengths, tf.shape(features.ids)[1])
    is_array = isinstance(mask, np.ndarray)
    table = self._table.rows(self.dim) if is_array else self.variables[0]
    rows = tf.gather(table, tf.where(mask, features.ids, 0))
    characters = tf.reduce_sum(rows * tf.expand_dims(tf.cast(mask, tf.float32), 2), axis=1)
    return tf.concat([unit_rows(tf.cast(features.embedding, tf.float32)), unit_rows(characters)], axis=1)

  def cosines(self, embeddings: np.ndarray, tokens: Sequence[np.ndarray] = ()) -> np.ndarray:
    """See the base class; here c is exact: a sparse vector, which the step projects. A cosine with zeros is 0."""
    n = len(embeddings) // 2
    # The parts of a row have length 1, or 0, which counts in the row's length.
    dots, squares = np.zeros(n), np.zeros(2 * n)
    for part in (self._table.exact(tokens), normalized(embeddings)):
      dots += np.asarray((part[:n] * part[n:]).sum(axis=1))
      squares += np.asarray((part * part).sum(axis=1))
    lengths = np.sqrt(squares[:n] * squares[n:])
    return tied_at_1(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0))

  def contents(self) -> Contents:
    """Returns the dimensions, and the checksum of the table."""
    # A saved step that no model has bound yet knows the checksum alone.
    checksum = self._table_sha256 if self._encoder is None else self._table.checksum
    return {"method": CHARACTERS, "dim": self.dim, "table_sha256": checksum}, {}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> Characters:
    """Returns the step of `contents`, for any encoder."""
    del arrays
    return cls(settings["dim"], table_sha256=settings["table_sha256"])
