"""Encoder of sentences by a SavedModel (model `saved_model:FOLDER`), which takes text and gives vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.pooling import OUTPUT, Pooling
from bert_flow_tf.encoder.saved_model import SavedText, first_line
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder, sentences_of_step
from bert_flow_tf.encoder.settings import LOADING, EncoderSettings
from bert_flow_tf.encoder.token_weights import UNIFORM
from bert_flow_tf.encoder.tokenizer import repair_surrogates
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.progress import Progress

# Of a text's bytes, as many as a token has about, which decides how many texts are in a step.
_BYTES_OF_TOKEN = 4


class SavedModelEncoder(SentenceEncoder):
  """Encoder of sentences by a SavedModel, with the interface of `SentenceEncoder` except for what needs tokens."""

  has_tokens = False
  own_pooling = Pooling(OUTPUT, OUTPUT, (), 0)

  def __init__(self, settings: EncoderSettings, bert: Any = None) -> None:
    """Loads the encoder of the settings, unless `bert` is it; see `SentenceEncoder.from_pretrained`."""
    if bert is None:
      check_settings(settings, "is a SavedModel, which takes text and gives vectors")
      bert = SavedText(settings.encoder_name, settings.saved_model_output)
    self.settings = settings
    self.bert: Any = bert
    self.tokenizer: Any = Words()
    self.token_weights = None
    self.hidden_size, self.num_hidden_layers = self.bert.dim, 0

  def count_params(self) -> int:
    """Returns the number of weights."""
    return sum(int(np.prod(variable.shape)) for variable in self.bert.variables)

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling; ConfigError for another one, as a SavedModel has no blocks."""
    if sentence_embedding_type not in (None, self.own_pooling.name, self.own_pooling):
      message = f"sentence_embedding_type={sentence_embedding_type}: {self.name} gives vectors, not blocks to pool"
      raise ConfigError(f"{message}; leave it out", "sentence_embedding_type")
    return self.own_pooling

  def pooled_batch(self, *args: Any, **kwargs: Any) -> Any:
    """Raises EncoderError: it has no ids."""
    self.bert.check_has_transformer("take ids of tokens")

  def as_layer(self, *args: Any, **kwargs: Any) -> Any:
    """Raises EncoderError; `SentenceModel.as_function` embeds text in the graph of a SavedModel."""
    self.bert.check_has_transformer("be a layer on ids")

  def text_graph(self) -> SavedText:
    """Returns the graph from text to vectors, which takes the place of `EncoderGraph`."""
    return self.bert

  def embed_ids(
    self,
    ids: Sequence[np.ndarray],
    sentence_embedding_type: str | Pooling | None = None,
    batch_size: int = 64,
    progress: Progress | None = None,
  ) -> np.ndarray:
    """Returns embeddings of the texts of n int32 arrays [words] as `tokenizer` gives them, float32 [n, dim]."""
    return self._embed_texts(list(map(self.tokenizer.text, ids)), self.pooling(), None, batch_size, progress)

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress=None):
    progress = progress or Progress(len(texts), show=False)
    encoded = np.array([repair_surrogates(text).encode() for text in texts] + [None], object)[:-1]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    order = np.argsort(-lengths, kind="stable")
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    embeddings = np.empty([len(texts), self.hidden_size], np.float32)
    start = 0
    while start < len(texts):
      count = sentences_of_step(1 + int(lengths[order[start]]) // _BYTES_OF_TOKEN, batch_size, has_gpu)
      chosen = order[start : start + count]
      try:
        embeddings[chosen] = self.bert.of_text(tf.constant(encoded[chosen])).numpy()
      except tf.errors.OpError as error:
        which = f"one of {len(chosen)} texts, the first {texts[chosen[0]][:60]!r}"
        raise EncoderError(f"model={self.name}: it fails on {which} ({first_line(error)})") from error
      progress.update(len(chosen))
      start += count
    return embeddings


class Words:
  """Numbers of the words between spaces in place of tokens, for `auto`, which mixes sentences."""

  checksum = ""

  def __init__(self) -> None:
    self.settings: dict[str, Any] = {}
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


def check_settings(settings, reason):
  """Raises ConfigError for a setting of loading that needs tokens, blocks or a hub."""
  useless = dict.fromkeys(settings.arguments(LOADING), reason)
  for keyword in ("saved_model_output", "cache_dir"):
    del useless[keyword]
  if settings.token_weights == UNIFORM:  # as an identity has it
    del useless["token_weights"]
  settings.check_useful(useless)
