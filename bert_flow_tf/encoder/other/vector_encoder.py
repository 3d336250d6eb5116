"""Base of the encoders that give vectors of whole texts: no tokens, no blocks to pool."""

from collections.abc import Sequence
from typing import Any, NoReturn, Self

import numpy as np

from bert_flow_tf.encoder.identity import FitSettings
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import LOADING, EncoderSettings, absent_values
from bert_flow_tf.encoder.text.token_weights import UNIFORM
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.files import Json
from bert_flow_tf.progress import Progress


class VectorEncoder(TextEncoder):
  """Encoder that gives vectors of whole texts.

  Attributes:
    only_pooling: its only pooling.
    kind: "a SavedModel", for messages.
  """

  only_pooling: Pooling
  kind: str

  def __init__(self, settings: EncoderSettings, fit: FitSettings | None = None) -> None:
    self.settings = settings
    self.tokenizer = WhitespaceTokenizer()
    self._fit = fit

  @classmethod
  def load(cls, settings: EncoderSettings, fit: FitSettings | None = None) -> Self:
    """See the base class."""
    return cls(settings, fit)

  def choose_settings(self, weights_checksum: str) -> None:
    """Takes the settings of a fit if the weights are its weights."""
    if self._fit is not None:
      self.settings = self._fit.choose(self.settings, weights_checksum)

  def check_settings(self, reason: str) -> None:
    """Raises ConfigError for a setting of loading that needs tokens, blocks or a hub."""
    useless = dict.fromkeys(self.settings.arguments(LOADING), reason)
    for keyword in ("saved_model_output", "cache_dir"):
      del useless[keyword]
    # The settings of a saved identity may have these values.
    for keyword, value in {"token_weights": UNIFORM, **absent_values()}.items():
      if getattr(self.settings, keyword) == value:
        del useless[keyword]
    self.settings.check_useful(useless)

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the only pooling; ConfigError for the name of another pooling, as it has no blocks."""
    if sentence_embedding_type not in (None, self.only_pooling.name, self.only_pooling):
      message = f"sentence_embedding_type={sentence_embedding_type}: {self.name} gives vectors, not blocks to pool"
      raise ConfigError(f"{message}; leave it out", "sentence_embedding_type")
    return self.only_pooling

  def is_for_similarity(self, pooling: Pooling) -> bool:
    """Returns whether it was trained for similarity, as SavedModels from text to vectors are, and word vectors not."""
    return pooling.kind != "words"

  def check_has_transformer(self, purpose: str) -> NoReturn:
    """Raises EncoderError; `purpose`: what it cannot do, "be trained"."""
    raise EncoderError(f"model={self.name}: {self.kind} cannot {purpose}; use a BERT, as mini", "model")

  def pooled_batch(self, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises EncoderError: it has no ids."""
    self.check_has_transformer("take ids of tokens")

  def as_layer(self, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises EncoderError; `SentenceModel.as_function` embeds text in the graph of a SavedModel."""
    self.check_has_transformer("be a layer on ids")

  def embed_ids(
    self,
    ids: Sequence[np.ndarray],
    sentence_embedding_type: str | Pooling | None = None,
    batch_size: int = 64,
    progress: Progress | None = None,
  ) -> np.ndarray:
    """Returns embeddings of the texts of n int32 arrays [words] as `tokenizer` gives them, float32 [n, dim]."""
    texts = list(map(self.tokenizer.text, ids))
    progress = progress or Progress(len(texts), show=False)
    return self._embed_texts(texts, self.only_pooling, None, batch_size, progress)


class WhitespaceTokenizer:
  """Splits at white space and numbers the words; `calibration=auto` mixes sentences by it."""

  checksum = ""

  def __init__(self) -> None:
    self.settings: Json = {}
    self._numbers: dict[str, int] = {}
    self._words: list[str] = []

  def __call__(self, sentences: Sequence[str], max_seq_length: int = 0, warn: bool = True) -> list[np.ndarray]:
    """Returns int32 arrays [words + 2] of sentences, with a 0 at both ends."""
    rows = []
    for sentence in sentences:
      words = sentence.split()
      for word in words:
        if self._numbers.setdefault(word, len(self._words)) == len(self._words):
          self._words.append(word)
      rows.append(np.array([0, *map(self._numbers.__getitem__, words), 0], np.int32))
    return rows

  def text(self, row: np.ndarray) -> str:
    """Returns the words of an array, with spaces between."""
    return " ".join(map(self._words.__getitem__, row[1:-1]))

  def warn_of_text(self, sentences: Sequence[str], max_seq_length: int) -> None:
    """Does nothing: no text is cut or unknown."""
