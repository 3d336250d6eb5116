"""Where a fit takes the two embeddings of a pair from: computed once, or anew with dropout."""

import hashlib

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import TrainingError


class EmbeddingPairs:
  """Pairs of embeddings computed once, as a frozen encoder gives them.

  Args:
    a, b: the two sentences' embeddings, [n, dim] each, row i of both being one pair.
    fingerprint: what a resumed fit compares its data by; None for a checksum of the embeddings.
    numbers: int [n], where a and b hold only those of `num_pairs` pairs that the fit will see (`Trainer.pairs_seen`):
      the number of each row's pair. None where they hold all.
    num_pairs: of `numbers`.

  Raises:
    TrainingError: not numbers, shapes that differ or are not [n, dim], or a row that is not finite.
  """

  def __init__(self, a, b, fingerprint=None, numbers=None, num_pairs=None):
    self._fingerprint = fingerprint
    self._rows = None
    try:
      with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        self._sides = [np.asarray(side, np.float32) for side in (a, b)]
    except (TypeError, ValueError) as error:
      raise TrainingError(f"pairs of embeddings are not numbers ({error}): pass what encoder.encode gives") from error
    shapes = [side.shape for side in self._sides]
    if shapes[0] != shapes[1] or len(shapes[0]) != 2:
      raise TrainingError(f"embeddings of pairs have shapes {shapes[0]} and {shapes[1]}, expected two [n, dim]")
    for name, side in zip("ab", self._sides, strict=True):
      bad = np.flatnonzero(~np.isfinite(side).all(axis=1))
      if bad.size:
        raise TrainingError(
          f"embedding {name} of pair {bad[0]} (counted from 0) has NaN or infinite values, expected finite ones"
        )

    if numbers is not None:
      self._rows = np.full([num_pairs], -1, np.int64)
      self._rows[numbers] = np.arange(len(self._sides[0]))

  @property
  def dim(self) -> int:
    """Dimensions of an embedding."""
    return self._sides[0].shape[1]

  def __len__(self):
    return len(self._sides[0] if self._rows is None else self._rows)

  def fingerprint(self):
    """The fingerprint given, else the hexadecimal sha256 of the embeddings."""
    if self._fingerprint is not None:
      return self._fingerprint
    digest = hashlib.sha256(repr(self._sides[0].shape).encode())
    for side in self._sides:
      digest.update(np.ascontiguousarray(side))
    return digest.hexdigest()

  def features(self, positions):
    """Maps a dataset of positions [batch] to one of (a [batch, dim], b [batch, dim])."""
    with tf.device("CPU"):  # where pipelines run
      sides = [tf.constant(side) for side in self._sides]
      if self._rows is not None:
        rows = tf.constant(self._rows)
        positions = positions.map(lambda chosen: tf.gather(rows, chosen))
    return positions.map(lambda chosen: tuple(tf.gather(side, chosen) for side in sides))

  def embed(self, features, dropout_seed):
    """The two embeddings themselves."""
    del dropout_seed  # the encoder has run already, without dropout
    return features


def embedding_pairs(embeddings, pairs, numbers=None, num_pairs=None):
  """Returns the `EmbeddingPairs` of sentence pairs, with the fingerprint of what decides their embeddings.

  Args:
    embeddings: `Embeddings` of their sentences.
    pairs: the `SentencePairs`.
    numbers: see `EmbeddingPairs`.
    num_pairs: see `EmbeddingPairs`.
  """
  sides = embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b)
  return EmbeddingPairs(*sides, embeddings.fingerprint(pairs), numbers, num_pairs)


class SentencePairsWithDropout:
  """Pairs embedded anew at each step with BERT's dropout on, as the published code does.

  Args:
    encoder: a `SentenceEncoder`.
    sentences_a, sentences_b: the pairs.
    sentence_embedding_type, max_seq_length, low_dim: as in `SentenceEncoder.encode`.
  """

  def __init__(self, encoder, sentences_a, sentences_b, sentence_embedding_type, max_seq_length=64, low_dim=None):
    self._encoder = encoder
    self._pooling = encoder.pooling(sentence_embedding_type)
    self._low_dim = low_dim
    self._sides = [encoder.tokenizer(side, max_seq_length) for side in (sentences_a, sentences_b)]
    sentences = [*sentences_a, *sentences_b]
    self._fingerprint = "dropout " + encoder.fingerprint(sentences, self._pooling, max_seq_length, low_dim)

  def __len__(self):
    return len(self._sides[0])

  def fingerprint(self):
    """What a resumed fit compares its data by: encoder, pooling and text."""
    return self._fingerprint

  def features(self, positions):
    """Maps a dataset of positions [batch] to one of token ids, ragged [batch, seq_len], of both sides."""
    sides = [tf.RaggedTensor.from_row_lengths(np.concatenate(side), [len(ids) for ids in side]) for side in self._sides]
    return positions.map(lambda chosen: tuple(tf.gather(side, chosen).to_tensor(-1) for side in sides))

  def embed(self, features, dropout_seed):
    """Runs the encoder on both sides: two float32 [batch, dim]."""
    embedded = []
    for side, ids in enumerate(features):
      seed = tf.random.experimental.stateless_fold_in(dropout_seed, side)
      mask = tf.cast(ids >= 0, tf.int32)
      ids = tf.where(ids >= 0, ids, self._encoder.tokenizer.pad_id)
      embedded.append(self._encoder.embed_batch(ids, mask, self._pooling, seed, low_dim=self._low_dim))
    return embedded
