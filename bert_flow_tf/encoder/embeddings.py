"""Embeddings of the sentences of pairs, computed once; without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs

if TYPE_CHECKING:
  from bert_flow_tf.encoder.text_encoder import TextEncoder


class Embeddings:
  """Embeddings of sentences: `values` of the distinct sentences, float32 [n, dim]."""

  def __init__(
    self,
    encoder: TextEncoder,
    sets: Iterable[SentencePairs],
    batch_size: int = 64,
    cache: str | os.PathLike | None = None,
    show_progress: bool | None = None,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
  ) -> None:
    self._rows: dict[str, int] = {}
    for pairs in sets:
      for sentence in _both_sides(pairs):
        self._rows.setdefault(sentence, len(self._rows))
    self.values = encoder.encode(
      list(self._rows),
      sentence_embedding_type=sentence_embedding_type,
      max_seq_length=max_seq_length,
      batch_size=batch_size,
      show_progress=show_progress,
      cache=cache,
    )
    self._embedding_type, self._max_seq_length = sentence_embedding_type, max_seq_length
    self._encoder = encoder

  def have(self, pairs: SentencePairs) -> bool:
    """Returns whether the embeddings of all sentences of the pairs are known."""
    return self._rows.keys() >= set(_both_sides(pairs))

  def of(self, sentences: Sequence[str]) -> np.ndarray:
    """Returns the embeddings of sentences, float32 [n, dim], in their order."""
    return self.values[list(map(self._rows.__getitem__, sentences))]

  def calibrated_by(
    self, transform: Callable[[np.ndarray, Sequence[str]], np.ndarray]
  ) -> Callable[[Sequence[str]], np.ndarray]:
    """Returns the function from sentences to their embeddings after `SentenceModel.transform` of a model."""
    return lambda sentences: transform(self.of(sentences), sentences)

  def fingerprint(self, pairs: SentencePairs) -> str:
    """Returns a hash of everything that decides the embeddings of the pairs."""
    return self._encoder.fingerprint(
      _both_sides(pairs), sentence_embedding_type=self._embedding_type, max_seq_length=self._max_seq_length
    )


def find_embeddings(pairs: SentencePairs, cached: Sequence[Embeddings]) -> Embeddings | None:
  """Returns the first embeddings that have all sentences of the pairs, or None."""
  for embeddings in cached:
    if embeddings.have(pairs):
      return embeddings
  return None


def _both_sides(pairs):
  return list(pairs.sentences_a) + list(pairs.sentences_b)
