"""Sentences as averages of word vectors (model `glove:FILE`), the first row of the paper's Table 2."""

import os
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from bert_flow_tf.encoder.checkpoints.declared import Declared
from bert_flow_tf.encoder.identity import FitSettings
from bert_flow_tf.encoder.kinds import split_name
from bert_flow_tf.encoder.other.vector_encoder import VectorEncoder
from bert_flow_tf.encoder.other.word_vectors import AVERAGE, WordVectors
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer, shown


class WordEncoder(VectorEncoder):
  """Encoder of sentences by averages of the vectors of a file."""

  only_pooling = AVERAGE
  kind = "word vectors"
  declared = Declared(AVERAGE.name, STATIC_MAX_SEQ_LENGTH)

  def __init__(
    self, settings: EncoderSettings, fit: FitSettings | None = None, vectors: WordVectors | None = None
  ) -> None:
    """Loads the vectors of the settings' file, unless they are given; see `SentenceEncoder.from_pretrained`."""
    super().__init__(settings, fit)
    self.check_settings("is a file of word vectors")
    if vectors is None:
      vectors = WordVectors.from_file(os.path.expanduser(split_name(settings.encoder_name)[1]))
    self.vectors, self.name = vectors, vectors.name
    self.choose_settings(vectors.weights_checksum)
    self.hidden_size = vectors.vectors.shape[1]

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the file's text."""
    return self.vectors.weights_checksum

  def count_params(self) -> int:
    """Returns the number of weights."""
    return int(self.vectors.vectors.size)

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the largest number of words; EncoderError for another value than a positive integer."""
    if max_seq_length is None:
      return STATIC_MAX_SEQ_LENGTH
    if not is_integer(max_seq_length, 1):
      raise EncoderError(
        f"max_seq_length={shown(max_seq_length)}: expected a positive number of words", "max_seq_length"
      )
    return int(max_seq_length)

  def knows(self, texts: Sequence[str], max_seq_length: int | None = None) -> np.ndarray:
    """See the base class: whether a word of each text has a vector."""
    words = self.vectors.split(texts, self.check_max_seq_length(max_seq_length))
    return np.array([bool(known) for known, _ in words], bool)

  def unread(
    self,
    texts: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    reads_all_pieces: bool = False,
  ) -> list[str]:
    """See the base class: the words without a vector, and behind the last word that is read."""
    words = self.vectors.split(texts, self.check_max_seq_length(max_seq_length))
    return [" ".join(others) for _, others in words]

  def text_graph(self, pooling: Pooling | None, max_seq_length: int) -> NoReturn:
    """Raises EncoderError: its words are cut in Python."""
    self.check_has_transformer("be a part of a graph, as an export needs it")

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress):
    embeddings = self.vectors.encode(texts, max_seq_length=max_seq_length)
    progress.update(len(texts))
    return embeddings
