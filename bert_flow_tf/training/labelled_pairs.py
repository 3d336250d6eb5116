"""Pairs of sentences with targets, as token ids, for the training of an encoder."""

import copy
import hashlib
from collections.abc import Sequence
from random import Random

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import TrainingError

_PADDING = -1


class LabelledPairs:
  """Pairs of a siamese training, each `dupe_factor` times in a row.

  The first copy of a pair is the pair itself. In every other copy, one random word piece of each side is [MASK], as in
  the published code.

  Args:
    encoder: the encoder.
    sentences_a: first sentences.
    sentences_b: second sentences.
    targets: float [n]; NaN for a pair without a label, which only a flow's loss uses.
    max_seq_length: largest number of tokens of a sentence.
    pad_to_max: pads every batch to max_seq_length instead of its longest sentence, so that XLA compiles once.
    dupe_factor: number of copies of each pair.
    random: draws the masks, the first side before the second; it is copied. None for seed 0.

  Attributes:
    num_pairs: number of pairs, without copies; `len` counts the copies.

  Raises:
    TrainingError: the numbers of sentences and targets differ, or a copy has no word piece to mask.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    sentences_a: Sequence[str],
    sentences_b: Sequence[str],
    targets: Sequence[float] | np.ndarray,
    max_seq_length: int = 64,
    pad_to_max: bool = False,
    dupe_factor: int = 1,
    random: Random | None = None,
  ) -> None:
    targets = np.asarray(targets, np.float32)
    if not len(sentences_a) == len(sentences_b) == len(targets) or targets.ndim != 1:
      raise TrainingError(
        f"{len(sentences_a)} first and {len(sentences_b)} second sentences, targets of shape {list(targets.shape)}; "
        "expected equal numbers"
      )
    tokenizer = encoder.tokenizer
    self.num_pairs = len(targets)
    self._targets = np.repeat(targets, dupe_factor)
    self._pad_id = tokenizer.pad_id
    self._length = int(max_seq_length) if pad_to_max else None
    sides = [tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    if dupe_factor > 1:
      sides = _with_copies(sides, dupe_factor, copy.copy(random) if random else Random(0), tokenizer.mask_id)
    self._lengths = [np.array([len(ids) for ids in side], np.int64) for side in sides]
    self._ids = [np.concatenate(side) if len(side) else np.zeros(0, np.int32) for side in sides]

  def __len__(self) -> int:
    return len(self._targets)

  @property
  def labelled(self) -> int:
    """Number of rows with a target, copies included."""
    return int(np.count_nonzero(~np.isnan(self._targets)))

  def fingerprint(self) -> str:
    """Returns the hexadecimal sha256 of token ids and targets, which identifies the data when a training is resumed."""
    digest = hashlib.sha256()
    if self._length is not None:  # the masks of dropout follow from the padded shape
      digest.update(f"padded to {self._length}".encode())
    for array in (*self._lengths, *self._ids, self._targets):
      digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (ids a, ids b, targets).

    Ids are int32 [batch, seq_len], -1 after a sentence's end, targets float32 [batch].
    """
    with tf.device("CPU"):  # input pipelines run on it
      sides = [
        tf.RaggedTensor.from_row_lengths(ids, lengths) for ids, lengths in zip(self._ids, self._lengths, strict=True)
      ]
      targets = tf.constant(self._targets)

    def chosen(rows):
      ids = [tf.gather(side, rows).to_tensor(_PADDING, shape=[None, self._length]) for side in sides]
      return (*ids, tf.gather(targets, rows))

    return positions.map(chosen)

  def tokens(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids with [PAD] after a sentence's end, and mask, int32 [batch, seq_len], of ids from `features`."""
    mask = tf.cast(ids >= 0, tf.int32)
    return tf.where(ids >= 0, ids, self._pad_id), mask


def _with_copies(
  sides: Sequence[Sequence[np.ndarray]], dupe_factor: int, random: Random, mask_id: int
) -> list[list[np.ndarray]]:
  """Returns the token ids of both sides with each pair `dupe_factor` times, all copies but the first one masked.

  Raises:
    TrainingError: a sentence has no word piece.
  """
  copies: list[list[np.ndarray]] = [[], []]
  for number, pair in enumerate(zip(*sides, strict=True), start=1):
    for ids, rows in zip(pair, copies, strict=True):
      if len(ids) < 3:
        raise TrainingError(
          f"dupe_factor={dupe_factor}: training pair {number} has a sentence without words, of which no copy can be "
          "masked; remove the pair, or use dupe_factor=1",
          argument="dupe_factor",
        )
      rows.append(ids)
    for _ in range(dupe_factor - 1):
      for ids, rows in zip(pair, copies, strict=True):
        masked = ids.copy()
        masked[random.randint(1, len(ids) - 2)] = mask_id  # between [CLS] and [SEP]
        rows.append(masked)
  return copies
