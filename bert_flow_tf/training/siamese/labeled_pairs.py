"""Pairs of sentences with targets, as token ids, for the training of an encoder."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.pipeline import TokenPairs


class LabeledPairs(TokenPairs):
  """Pairs of a siamese training, each `dupe_factor` times in a row; a target NaN stands for a pair without a label."""

  def __init__(
    self,
    encoder: SentenceEncoder,
    sentences_a: Sequence[str],
    sentences_b: Sequence[str],
    targets: Sequence[float] | np.ndarray,
    max_seq_length: int = 64,
    pad_to_max: bool = False,  # to max_seq_length, so that XLA compiles once
    dupe_factor: int = 1,
    random: Random | None = None,
  ) -> None:
    tokenizer = encoder.tokenizer
    self.num_pairs = len(targets)
    self._targets = np.repeat(np.asarray(targets, np.float32), dupe_factor)
    sides = [tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    if dupe_factor > 1:
      if tokenizer.mask_id is None:
        message = f"dupe_factor={dupe_factor}: {encoder.name} has no token that masks a word; use dupe_factor=1"
        raise TrainingError(message, argument="dupe_factor")
      sides = _with_copies(sides, dupe_factor, copy.copy(random or Random(0)), tokenizer.mask_id)
    super().__init__(sides, tokenizer.pad_id, max_seq_length if pad_to_max else None)

  @property
  def labelled(self) -> int:
    """Number of rows with a target, copies included."""
    return int(np.count_nonzero(~np.isnan(self._targets)))

  def fingerprint(self) -> str:
    """Returns the hexadecimal sha256 of token ids and targets, which identifies the data when a training is resumed."""
    digest = hashlib.sha256()
    if self._length is not None:  # the masks of dropout follow from the padded shape
      digest.update(f"padded to {self._length}".encode())
    for array in self._lengths + self._ids + [self._targets]:
      digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

  def reader(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """Returns the function that `features` maps: to (ids a, ids b, targets), the last float32 [batch]."""
    ids_of = super().reader()
    with tf.device("CPU"):
      targets = tf.constant(self._targets)
    return lambda rows: (*ids_of(rows), tf.gather(targets, rows))


def _with_copies(
  sides: Sequence[Sequence[np.ndarray]], dupe_factor: int, random: Random, mask_id: int
) -> list[list[np.ndarray]]:
  """Returns the token ids of both sides with each pair `dupe_factor` times, all copies but the first one masked."""
  copies: list[list[np.ndarray]] = [[], []]
  for number, pair in enumerate(zip(*sides, strict=True), start=1):
    if min(map(len, pair)) < 3:
      raise TrainingError(
        f"dupe_factor={dupe_factor}: training pair {number} has a sentence without words, of which no copy can be "
        "masked; remove the pair, or use dupe_factor=1",
        argument="dupe_factor",
      )
    for ids, rows in zip(pair, copies, strict=True):
      rows.append(ids)
    # Random draws have the published order: copy by copy, the first side before the second side.
    for _ in range(dupe_factor - 1):
      for ids, rows in zip(pair, copies, strict=True):
        masked = ids.copy()
        masked[random.randint(1, len(ids) - 2)] = mask_id  # between [CLS] and [SEP]
        rows.append(masked)
  return copies
