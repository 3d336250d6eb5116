"""Pairs of sentences with targets, as token ids, for the training of an encoder."""

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import TrainingError

_PADDING = -1


class LabelledPairs:
  """Pairs of a siamese training.

  Args:
    encoder: the encoder.
    sentences_a: first sentences.
    sentences_b: second sentences.
    targets: float [n]; NaN for a pair without a label, which only a flow's loss uses.
    max_seq_length: largest number of tokens of a sentence.
    pad_to_max: pads every batch to max_seq_length instead of its longest sentence, so that XLA compiles once.

  Raises:
    TrainingError: the numbers of sentences and targets differ.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    sentences_a: Sequence[str],
    sentences_b: Sequence[str],
    targets: Sequence[float] | np.ndarray,
    max_seq_length: int = 64,
    pad_to_max: bool = False,
  ) -> None:
    self._targets = np.asarray(targets, np.float32)
    if not len(sentences_a) == len(sentences_b) == len(self._targets) or self._targets.ndim != 1:
      raise TrainingError(
        f"found {len(sentences_a)} and {len(sentences_b)} sentences and targets of shape "
        f"{list(self._targets.shape)}; expected equal numbers"
      )
    self._pad_id = encoder.tokenizer.pad_id
    self._length = int(max_seq_length) if pad_to_max else None
    sides = [encoder.tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    self._lengths = [np.array([len(ids) for ids in side], np.int64) for side in sides]
    self._ids = [np.concatenate(side) if len(side) else np.zeros(0, np.int32) for side in sides]

  def __len__(self) -> int:
    return len(self._targets)

  @property
  def labelled(self) -> int:
    """Number of pairs with a target."""
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
