"""Batches of masked-language modeling: the sentences of a step, and their masked pieces."""

import dataclasses
from collections.abc import Sequence

import numpy as np

# Devlin et al. 2019, section 3.1: of 15 % of the pieces, 80 % become [MASK], 10 % a random piece, 10 % stay.
MASKED = 0.15
BECOME_MASK = 0.8
BECOME_ANY = 0.1
# Number of batches among which sentences are sorted by length.
_POOL_BATCHES = 64


@dataclasses.dataclass(frozen=True)
class MaskedBatch:
  """Input of one step.

  Attributes:
    ids: int32 [batch, seq_len], pieces as BERT sees them, [PAD] after a sentence.
    mask: int32 [batch, seq_len], 1 for pieces, 0 for padding.
    positions: int32 [masked, 2], row and column of the predicted pieces, row by row.
    labels: int32 [masked], the original pieces.
  """

  ids: np.ndarray
  mask: np.ndarray
  positions: np.ndarray
  labels: np.ndarray

  def rows(self, start: int, stop: int) -> "MaskedBatch":
    """Returns the batch of the rows from start to stop - 1."""
    inside = (self.positions[:, 0] >= start) & (self.positions[:, 0] < stop)
    positions = self.positions[inside] - np.array([start, 0], np.int32)
    return MaskedBatch(self.ids[start:stop], self.mask[start:stop], positions, self.labels[inside])


class MaskedBatches:
  """The batches of a training; each follows from the seed and its step alone.

  Each pass over the sentences has its own order. The sentences of 64 consecutive batches are sorted by length, so that
  a batch needs little padding, and these batches come in random order.

  Args:
    sentences: int32 arrays [seq_len], with [CLS] and [SEP], as `SentenceTokenizer` returns them.
    batch_size: sentences of a batch, at most all of them. The rest of a pass, less than a batch, is not used.
    mask_id: id of [MASK].
    special_ids: ids that are never masked: [CLS], [SEP], [PAD].
    vocab_size: number of pieces.
    pad_id: id of [PAD].
    seed: integer, not negative.
  """

  def __init__(
    self,
    sentences: Sequence[np.ndarray],
    batch_size: int,
    mask_id: int,
    special_ids: Sequence[int],
    vocab_size: int,
    pad_id: int = 0,
    seed: int = 0,
  ) -> None:
    self._lengths = np.array([len(ids) for ids in sentences])
    self._ids = np.concatenate(sentences)
    self._starts = np.concatenate([[0], np.cumsum(self._lengths)])[:-1]
    self._batch_size, self._mask_id, self._special_ids = batch_size, mask_id, np.array(special_ids)
    self._vocab_size, self._pad_id, self._seed = vocab_size, pad_id, seed
    self._pass, self._pool = (None, None), (None, None)

  @property
  def batches_a_pass(self) -> int:
    """Number of batches in a pass over the sentences."""
    return len(self._lengths) // self._batch_size

  def __call__(self, step: int) -> MaskedBatch:
    """Returns the batch of a step, counted from 0."""
    rows = self._rows(step)
    lengths = self._lengths[rows]
    inside = np.arange(lengths.max()) < lengths[:, np.newaxis]
    ids = np.full(inside.shape, self._pad_id, np.int32)
    ids[inside] = self._ids[
      np.concatenate([np.arange(s, s + n) for s, n in zip(self._starts[rows], lengths, strict=True)])
    ]
    rng = np.random.default_rng([self._seed, step, 1])
    candidates = inside & ~np.isin(ids, self._special_ids)
    masked, positions, labels = mask_pieces(ids, candidates, self._mask_id, self._vocab_size, rng)
    return MaskedBatch(masked, inside.astype(np.int32), positions, labels)

  def _rows(self, step):
    number, batch = divmod(step, self.batches_a_pass)
    if self._pass[0] != number:
      order = np.random.default_rng([self._seed, number, 2]).permutation(len(self._lengths))
      self._pass, self._pool = (number, order), (None, None)
    pool, batch = divmod(batch, _POOL_BATCHES)
    if self._pool[0] != pool:
      count = min(_POOL_BATCHES, self.batches_a_pass - pool * _POOL_BATCHES)
      first = pool * _POOL_BATCHES * self._batch_size
      rows = self._pass[1][first : first + count * self._batch_size]
      rows = rows[np.argsort(self._lengths[rows], kind="stable")].reshape([count, self._batch_size])
      self._pool = (pool, np.random.default_rng([self._seed, number, 3, pool]).permutation(rows))
    return self._pool[1][batch]


def mask_pieces(
  ids: np.ndarray, candidates: np.ndarray, mask_id: int, vocab_size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Masks 15 % of the candidates of each sentence, at least one if it has any.

  Args:
    ids: int32 [batch, seq_len].
    candidates: bool [batch, seq_len], the pieces that may be masked.
    mask_id: id of [MASK].
    vocab_size: number of pieces.
    rng: source of random numbers.

  Returns:
    ids with the masked ones replaced, int32 [batch, seq_len]; positions and labels as in `MaskedBatch`.
  """
  counts = candidates.sum(axis=1)
  numbers = np.minimum(np.maximum(np.round(MASKED * counts), 1), counts)
  draws = np.where(candidates, rng.random(ids.shape), 2.0)
  ranks = np.argsort(np.argsort(draws, axis=1), axis=1)
  positions = np.argwhere(ranks < numbers[:, np.newaxis])
  labels = ids[positions[:, 0], positions[:, 1]]
  kinds = rng.random(len(labels))
  anything = rng.integers(0, vocab_size, len(labels))
  new = np.where(kinds < BECOME_MASK, mask_id, np.where(kinds < BECOME_MASK + BECOME_ANY, anything, labels))
  masked = ids.copy()
  masked[positions[:, 0], positions[:, 1]] = new
  return masked, positions.astype(np.int32), labels.astype(np.int32)
