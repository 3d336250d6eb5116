"""Pairs of sentences with targets, as token ids, for an encoder that is trained."""

import hashlib

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import TrainingError

_PADDING = -1


class LabelledPairs:
  """Pairs as a siamese fit takes them.

  Args:
    encoder: a `SentenceEncoder`.
    sentences_a, sentences_b: the pairs.
    targets: float [n]; NaN where a pair has no label and so takes part in a flow's loss alone.
    max_seq_length: the most tokens of a sentence.
    pad_to_max: pad every batch to max_seq_length in place of its longest sentence, so that XLA compiles once.

  Raises:
    TrainingError: there are not as many of each.
  """

  def __init__(self, encoder, sentences_a, sentences_b, targets, max_seq_length=64, pad_to_max=False):
    self._targets = np.asarray(targets, np.float32)
    if not len(sentences_a) == len(sentences_b) == len(self._targets) or self._targets.ndim != 1:
      raise TrainingError(
        f"found {len(sentences_a)} and {len(sentences_b)} sentences and targets of shape "
        f"{list(self._targets.shape)}; expected as many of each"
      )
    self._pad_id = encoder.tokenizer.pad_id
    self._length = int(max_seq_length) if pad_to_max else None
    sides = [encoder.tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    self._lengths = [np.array([len(ids) for ids in side], np.int64) for side in sides]
    self._ids = [np.concatenate(side) if len(side) else np.zeros(0, np.int32) for side in sides]

  def __len__(self):
    return len(self._targets)

  @property
  def labelled(self):
    """How many pairs have a target."""
    return int(np.count_nonzero(~np.isnan(self._targets)))

  def fingerprint(self):
    """Hexadecimal sha256 of token ids and targets: what a resumed fit compares its data by."""
    digest = hashlib.sha256()
    if self._length is not None:  # the masks of dropout follow from the padded shape
      digest.update(f"padded to {self._length}".encode())
    for array in (*self._lengths, *self._ids, self._targets):
      digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()

  def features(self, positions):
    """Maps a dataset of positions [batch] to one of (ids a, ids b, targets).

    Ids are int32 [batch, seq_len], -1 after a sentence's end, targets float32 [batch].
    """
    with tf.device("CPU"):  # where pipelines run
      sides = [
        tf.RaggedTensor.from_row_lengths(ids, lengths) for ids, lengths in zip(self._ids, self._lengths, strict=True)
      ]
      targets = tf.constant(self._targets)

    def chosen(rows):
      ids = [tf.gather(side, rows).to_tensor(_PADDING, shape=[None, self._length]) for side in sides]
      return (*ids, tf.gather(targets, rows))

    return positions.map(chosen)

  def tokens(self, ids):
    """Ids with [PAD] after the end, and mask, int32 [batch, seq_len], of ids as `features` gives them."""
    mask = tf.cast(ids >= 0, tf.int32)
    return tf.where(ids >= 0, ids, self._pad_id), mask
