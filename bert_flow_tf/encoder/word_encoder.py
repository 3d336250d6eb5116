"""Encoder of sentences by word vectors (model `glove:FILE`): the averages of `WordVectors`, used as any encoder."""

import os
from typing import Any, NoReturn

from bert_flow_tf.encoder.declared import Declared
from bert_flow_tf.encoder.saved_model_encoder import SavedModelEncoder, check_settings
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.encoder.word_vectors import AVERAGE, WordVectors
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.experiment import WORD_VECTORS


class WordEncoder(SavedModelEncoder):
  """Encoder of sentences by word vectors, with the interface of `SentenceEncoder` except for what needs tokens."""

  own_pooling = AVERAGE

  def __init__(self, settings: EncoderSettings, vectors: WordVectors | None = None) -> None:
    """Loads the vectors of the settings' file, unless they are given; see `SentenceEncoder.from_pretrained`."""
    check_settings(settings, "is a file of word vectors")
    if vectors is None:
      vectors = WordVectors.from_file(os.path.expanduser(settings.encoder_name.removeprefix(WORD_VECTORS)))
    super().__init__(settings, _File(vectors))
    self.vectors = vectors

  def count_params(self) -> int:
    """Returns the number of weights."""
    return int(self.vectors.vectors.size)

  def text_graph(self) -> Any:
    """Raises EncoderError: its words are cut in Python."""
    self.bert.check_has_transformer("be a part of a graph, as an export needs it")

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress=None):
    embeddings = self.vectors.encode(texts, max_seq_length=max_seq_length)
    if progress is not None:
      progress.update(len(texts))
    return embeddings


class _File:
  """Those parts of `BertEncoder` that need neither tokens nor a graph."""

  is_static = has_pooler = is_bert = False
  precision, revision = "float32", None
  declared = Declared(AVERAGE.name, STATIC_MAX_SEQ_LENGTH)

  def __init__(self, vectors: WordVectors) -> None:
    self.name, self.dim, self.weights_checksum = vectors.name, vectors.vectors.shape[1], vectors.weights_checksum
    self.architecture: dict[str, Any] = {}

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the largest number of words; EncoderError for another value than a positive integer."""
    if max_seq_length is None:
      return STATIC_MAX_SEQ_LENGTH
    if not is_integer(max_seq_length, 1):
      raise EncoderError(f"max_seq_length={max_seq_length}: expected a positive number of words", "max_seq_length")
    return int(max_seq_length)

  def check_has_transformer(self, purpose: str) -> NoReturn:
    """Raises EncoderError; `purpose`: what it cannot do, "be trained"."""
    raise EncoderError(f"model={self.name}: word vectors cannot {purpose}; use a BERT, such as mini", "model")
