"""The base of all encoders: embedding of sentences with a cache, and the identity of the embeddings."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import importlib.metadata
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.encoder.cache import CHUNK_SENTENCES, EmbeddingCache
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY, Declared
from bert_flow_tf.encoder.checkpoints.source import absolute_name
from bert_flow_tf.encoder.identity import EncoderIdentity, FitSettings
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import TENSORFLOW, EncoderSettings
from bert_flow_tf.encoder.text.characters import CharacterTable
from bert_flow_tf.encoder.text.token_weights import UNIFORM, TokenWeights, make_token_weights
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import check_counts, shown
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.lazy import load_tensorflow
from bert_flow_tf.progress import Progress, either_name

if TYPE_CHECKING:
  import tensorflow as tf

# Packages whose versions change embeddings by rounding, or by a fixed error.
_PACKAGES = ("tensorflow", "tokenizers")
# Increase when operations or step sizes change: rounding changes, so cached embeddings must not be reused.
_COMPUTATION = 4
# Tokens per step on a CPU. It is a constant because it changes the rounding of some embeddings (a product of few rows
# adds up in another order). From 512 to 2048 tokens the CPU time differs by 2%; 384 take up to 4% more, 128 up to 13%
# (384, 768 and 1024 wide; oneDNN with AVX2, AVX512 and AVX512-BF16).
_CPU_TOKENS = 768
# On a GPU a step has as many tokens as `batch_size` sentences of this length: few short sentences would leave it idle.
_GPU_LENGTH = 64


class TextGraph(Protocol):
  """Embedding of text in a graph of TensorFlow.

  Attributes:
    takes_ids: whether it takes ids of tokens, too; such a graph is an `EncoderGraph`.
    without_text: reason why it takes ids alone; None if it takes text.
  """

  takes_ids: bool
  without_text: str | None

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """The weights of the encoder, if they are used."""

  def trainable_variables(self) -> Sequence[tf.Variable]:
    """Returns the weights that get gradients."""

  def features(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
    """UTF-8 text string [n] -> embeddings float32 [n, dim], ids int32 [n, seq_len], numbers of tokens int32 [n].

    Ids and numbers are None if the encoder has no tokens.
    """

  def track(self, module: tf.Module) -> None:
    """Makes what a SavedModel of the graph needs, besides its variables, a part of a module that is to be saved."""


class TokenEncoder(Protocol):
  """Parts of a `SentenceEncoder` that its graph and its Keras layer need."""

  name: str
  num_hidden_layers: int
  tokenizer: SentenceTokenizer
  token_weights: TokenWeights | None

  @property
  def is_user_model(self) -> bool:
    """See `SentenceEncoder`."""

  @property
  def max_tokens(self) -> int:
    """See `SentenceEncoder`."""

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """See `SentenceEncoder`."""

  @property
  def weights(self) -> Sequence[tf.Variable]:
    """See `SentenceEncoder`."""

  def dim(self, sentence_embedding_type: Pooling) -> int:
    """See `TextEncoder`."""

  def identity(self, sentence_embedding_type: Pooling, max_seq_length: int) -> EncoderIdentity:
    """See `TextEncoder`."""

  def trained_weights(self, pooling: Pooling) -> list[tf.Variable]:
    """See `SentenceEncoder`."""

  def embed_batch(self, ids: tf.Tensor, mask: tf.Tensor, pooling: Pooling) -> tf.Tensor:
    """See `SentenceEncoder`."""

  def pooled_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor,
    pooling: Pooling,
    dropout_seed: tf.Tensor | None = None,
    packed: bool = True,
  ) -> tf.Tensor:
    """See `SentenceEncoder`."""


class TextEncoder(abc.ABC):
  """Encoder of sentences: the base of transformers and static encoders, of SavedModels and of word vectors.

  Attributes:
    settings: the `EncoderSettings` that it was loaded with.
    name: name or folder that it was loaded from.
    revision: commit of a model of the hub; None for others.
    declared: pooling, length and prompts that its files declare, or the defaults of its kind.
    prompt: text that is put before each sentence.
    truncate_dim: number of dimensions that are kept; None for all.
    precision: number format of its matrix products.
    engine: what computes its hidden states, "tensorflow" or "openvino".
    tokenizer: cuts text into the tokens of `embed_ids`.
    token_weights: weights of tokens in the mean; None for equal ones.
    hidden_size: width of its hidden states, or of its vectors.
    word_size: width of the word embeddings, which ELECTRA and ALBERT widen; None without any.
    num_hidden_layers: number of transformer blocks.
    has_tokens: whether it cuts text into tokens, which have ids, weights and a largest number.
    has_pooler: whether it has weights for the pooled output.
    is_bert: whether it is a BERT, which checkpoints of TensorFlow 1 can hold.
    has_loaded_weights: False if its weights were trained since they were loaded.
  """

  settings: EncoderSettings
  name: str
  tokenizer: Any
  hidden_size: int
  revision: str | None = None
  declared = Declared()
  prompt = ""
  truncate_dim: int | None = None
  precision = "float32"
  engine = TENSORFLOW
  token_weights: TokenWeights | None = None
  word_size: int | None = None
  num_hidden_layers = 0
  has_tokens = has_pooler = is_bert = False
  has_loaded_weights = True

  def __repr__(self) -> str:
    sizes = f"num_hidden_layers={self.num_hidden_layers}, hidden_size={self.hidden_size}"
    return f"{type(self).__name__}({self.name!r}, {sizes}, precision={self.precision!r})"

  @classmethod
  @abc.abstractmethod
  def load(cls, settings: EncoderSettings, fit: FitSettings | None = None) -> Self:
    """Loads the encoder of settings, whose name is of this kind.

    `fit`: the weights of a fit, and the settings that replace `settings` for these weights.
    """

  @property
  @abc.abstractmethod
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the weights."""

  @property
  def deciding_settings(self) -> Json:
    """Settings of the encoder's files that change embeddings and no weight."""
    return {}

  @abc.abstractmethod
  def count_params(self) -> int:
    """Returns the number of weights."""

  @abc.abstractmethod
  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling of a `sentence_embedding_type`; a Pooling is returned as it is."""

  @abc.abstractmethod
  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the number of tokens, the declared one for None; EncoderError if it is not allowed."""

  @abc.abstractmethod
  def check_has_transformer(self, purpose: str) -> None:
    """Raises EncoderError without a transformer; `purpose`: what it cannot do, "be trained"."""

  @abc.abstractmethod
  def embed_ids(
    self,
    ids: Sequence[np.ndarray],
    sentence_embedding_type: str | Pooling | None = None,
    batch_size: int = 64,
    progress: Progress | None = None,
  ) -> np.ndarray:
    """Returns embeddings of n int32 arrays [seq_len] of the tokenizer, float32 [n, dim]."""

  @abc.abstractmethod
  def text_graph(self, pooling: Pooling | None, max_seq_length: int) -> TextGraph:
    """Returns the encoder as a graph; without a pooling, embeddings have 0 dimensions."""

  @abc.abstractmethod
  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress):
    """Returns embeddings of n texts, float32 [n, dim]."""

  def with_prompt(self, prompt: str) -> Self:
    """Returns an encoder that puts another text before each sentence; ConfigError if this kind takes none."""
    if prompt:
      raise ConfigError(f"prompt={prompt!r}: {self.name} takes no prompt; put it before the sentences", "prompt")
    return self

  def prompt_of(self, role: str) -> str:
    """Returns the text before each query or document of a search: a given one, a declared one, or `prompt`."""
    prompt = self._role_prompts()[f"{role}_prompt"]
    return self.prompt if prompt is None else prompt

  def _role_prompts(self):
    """Returns the settings query_prompt and document_prompt; None where `prompt` counts."""
    # A prompt that is given is the documents'; an empty one is for no prompts at all.
    given, query, document = self.settings.prompt, self.settings.query_prompt, self.settings.document_prompt
    if query is None and given != "":
      query = self.declared.prompt_of(QUERY)
      if given:
        query = query or None
    if document is None and given is None:
      document = self.declared.prompt_of(DOCUMENT)
    return {"query_prompt": query, "document_prompt": document}

  def for_documents(self) -> Self:
    """Returns an encoder on the same weights whose `prompt` is that of documents; itself if no text has a role."""
    return self._for_role(DOCUMENT)

  def for_queries(self) -> Self:
    """Returns an encoder on the same weights whose `prompt` is that of queries; itself if no text has a role."""
    return self._for_role(QUERY)

  def _for_role(self, role):
    if set(self._role_prompts().values()) == {None}:
      return self
    query, document, prompt = self.prompt_of(QUERY), self.prompt_of(DOCUMENT), self.prompt_of(role)
    encoder = copy.copy(self.with_prompt(prompt))
    encoder.settings = dataclasses.replace(self.settings, prompt=prompt, query_prompt=query, document_prompt=document)
    return encoder

  def knows(self, texts: Sequence[str], max_seq_length: int | None = None) -> np.ndarray:
    """Returns whether the encoder knows a word or piece of each text, bool [n].

    Texts of nothing but unknown pieces, [UNK], have equal embeddings. A SavedModel does not tell, and all are True.
    """
    return np.ones(len(texts), bool)

  def unread(
    self,
    texts: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    reads_all_pieces: bool = False,
  ) -> list[str]:
    """Returns the parts of each text that do not change its embedding, as they are written; "" if there are none.

    They are unknown to the vocabulary, behind the last token that is read, or of pieces whose weight is 0; marks of
    punctuation are no parts. Texts with equal embeddings and other parts are different texts. A SavedModel does not
    tell what it reads: nothing counts as unread.

    Args:
      texts: n texts.
      sentence_embedding_type: see `encode`.
      max_seq_length: see `encode`.
      reads_all_pieces: whether pieces of weight 0 are read by a step behind the encoder, as `Characters` are.
    """
    return [""] * len(texts)

  @property
  def tokenizer_checksum(self) -> str:
    """Hexadecimal SHA-256 of the vocabulary and the tokenizer's settings."""
    return self.tokenizer.checksum

  @functools.cached_property
  def characters(self) -> CharacterTable:
    """The characters of its word pieces, by the sentences of `frequency_corpus`, or by general English."""
    weights: Any = self.token_weights
    if weights is None or weights.frequency_corpus is None:
      weights = make_token_weights("idf", self.tokenizer)
    return CharacterTable(self.tokenizer.with_prompt(""), weights)

  def check_has_tokens(self, calibration: str) -> None:
    """Raises a ConfigError if it has no word pieces, of which a calibration takes the characters."""
    if not self.has_tokens:
      message = f"calibration={calibration}: {self.name} has no word pieces, whose characters it takes"
      raise ConfigError(message, argument="calibration")

  def is_for_similarity(self, pooling: Pooling) -> bool:
    """Returns whether it was trained for similarity: its files declare a pooling, and it is no mean of word rows."""
    return bool(self.declared.source) and pooling.kind != "words"

  def dim(self, sentence_embedding_type: str | Pooling | None = None) -> int:
    """Returns the size of the embeddings that `encode` returns."""
    dim = self.pooling(sentence_embedding_type).dim(self.hidden_size, self.word_size)
    return min(dim, self.truncate_dim or dim)

  @either_name
  def encode(
    self,
    sentences: Texts,
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 64,
    show_progress: bool | None = None,
    cache: EmbeddingCache | str | os.PathLike | None = None,
  ) -> np.ndarray:
    """Embeds sentences, without dropout: each distinct sentence once, in batches of similar length.

    The cache is written after every 16384 sentences; a killed run loses no more.

    Args:
      sentences: n sentences, as `check_sentences` takes them: a list of str, a string tensor, ...
      sentence_embedding_type: see `pooling`.
      max_seq_length: largest number of tokens of a sentence, [CLS] and [SEP] included; None for the declared number,
        or 64.
      batch_size: largest number of sentences in a step, on a GPU if they have 64 tokens; changes results by float
        rounding only.
      show_progress: False to show neither a bar on a terminal nor lines in the log.
      cache: a cache or its folder, or None. Cached sentences are not embedded again; the others are added.

    Returns:
      float32 array of shape [n, dim], in the order of `sentences`.

    Raises:
      DataError: `sentences` is a single str, or an element is not a str.
      ConfigError: `sentence_embedding_type` or `batch_size` is not allowed.
      EncoderError: `max_seq_length` is out of the model's range, or an embedding is not finite.
    """
    sentences = check_sentences(sentences)
    pooling = self.pooling(sentence_embedding_type)
    max_seq_length = self.check_max_seq_length(max_seq_length)
    check_counts(batch_size=batch_size)
    # Each distinct sentence once; `rows` leads back, `first` is for messages.
    positions = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
    rows = np.fromiter(map(positions.__getitem__, sentences), np.int64, len(sentences))
    first = np.unique(rows, return_index=True)[1]
    unique = list(positions)
    result = np.empty([len(sentences), self.dim(pooling)], np.float32)
    embeddings = result[: len(unique)]
    cached = np.zeros(len(unique), bool)
    if isinstance(cache, str | os.PathLike):
      cache = EmbeddingCache(cache)
    if cache is not None and unique:
      key = cache.key(self._cache_settings(pooling, max_seq_length))
      embeddings[:], cached = cache.load(key, unique, self.dim(pooling))
      ids = self.tokenizer.warn_of_text([unique[i] for i in np.flatnonzero(cached)], max_seq_length)
      if self.token_weights is not None:
        self.token_weights.warn_of_text(ids)
    missing = np.flatnonzero(~cached)
    if missing.size:
      with Progress(len(unique), show_progress is not False, done=int(cached.sum())) as progress:
        for start in range(0, len(missing), CHUNK_SENTENCES):
          rows_of_chunk = missing[start : start + CHUNK_SENTENCES]
          chunk = [unique[i] for i in rows_of_chunk]
          values = self._embed_texts(chunk, pooling, max_seq_length, batch_size, progress)
          self._check_finite(values, first[rows_of_chunk])
          embeddings[rows_of_chunk] = values
          if cache is not None:
            cache.save(key, chunk, values)
    if len(unique) < len(sentences):
      # In place, as a corpus may fill half of the memory. The row of a sentence never stands behind it, so that the
      # last ones are written first.
      for start in reversed(range(0, len(sentences), CHUNK_SENTENCES)):
        result[start : start + CHUNK_SENTENCES] = result[rows[start : start + CHUNK_SENTENCES]]
    return result

  def _check_finite(self, embeddings, numbers):
    """Raises EncoderError unless embeddings [n, dim] of sentences with these numbers [n] are finite."""
    bad = numbers[~np.isfinite(embeddings).all(axis=1)]
    if len(bad):
      embedding = f"its embedding by '{self.name}' is not finite, as for {len(bad)} distinct sentences"
      raise EncoderError(f"sentence {bad[0]} (counted from 0): {embedding}; the weights are damaged or overflow")

  def fingerprint(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
  ) -> str:
    """Returns the hexadecimal SHA-256 of everything that decides the result of `encode` for the same arguments."""
    return EmbeddingCache.key(self._cache_settings(sentence_embedding_type, max_seq_length), sentences)

  def identity(
    self,
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    low_dim: int | None = None,
  ) -> EncoderIdentity:
    """Returns the identity of the embeddings that `encode` returns, and of `low_dim` after a calibration."""
    pooling = self.pooling(sentence_embedding_type)
    architecture = self.deciding_settings
    # Values of the files replace settings that the user left out.
    settings = self.settings.saved()
    for name in settings.keys() & self.tokenizer.settings.keys():
      settings[name] = self.tokenizer.settings[name]
    settings |= {
      "revision": self.revision,
      "precision": self.precision,
      "engine": self.engine,
      "prompt": self.prompt,
      **self._role_prompts(),
      "truncate_dim": self.truncate_dim or 0,
      "hidden_act": architecture.get("hidden_act"),
      "token_weights": UNIFORM,
      "frequency_corpus": None,
      "number_weight": 0.0,
      "sentence_embedding_type": pooling.name,
      "max_seq_length": self.check_max_seq_length(max_seq_length),
      "low_dim": low_dim,
    }
    table_sha256 = None
    if self.token_weights is not None:
      settings["token_weights"] = self.token_weights.name
      settings["frequency_corpus"] = self.token_weights.frequency_corpus
      settings["number_weight"] = self.token_weights.number_weight
      table_sha256 = self.token_weights.checksum
    saved_name = self.name
    if self.revision is None:  # a model of the hub has one
      saved_name = absolute_name(saved_name)
    return EncoderIdentity(
      name=saved_name,
      weights_sha256=self.weights_checksum,
      tokenizer_sha256=self.tokenizer.checksum,
      pooling=pooling.identity,
      architecture=architecture,
      settings=EncoderSettings.of(**settings),
      token_weights_sha256=table_sha256,
    )

  def _cache_settings(self, pooling, max_seq_length):
    """Returns everything except the text that decides embeddings, including their rounding."""
    settings = self.identity(pooling, max_seq_length).deciding()
    packages = _PACKAGES
    if self.engine != TENSORFLOW:
      settings["engine"], packages = self.engine, (*_PACKAGES, self.engine)
    if self.precision == "float32" and self.engine == TENSORFLOW and _has_tf32():
      settings["precision"] = "tf32"
    versions = {package: importlib.metadata.version(package) for package in packages}
    return {**settings, "versions": versions, "computation": _COMPUTATION}


def _has_tf32():
  """Returns whether TensorFlow rounds float32 products to TF32, as only GPUs do."""
  tf = load_tensorflow()
  return bool(tf.config.list_logical_devices("GPU") and tf.config.experimental.tensor_float_32_execution_enabled())


def check_loaded(encoder: object) -> None:
  """Raises a ConfigError for what is no loaded encoder, as its name, or a `SentenceModel` around it."""
  if isinstance(getattr(encoder, "encoder", None), TextEncoder):
    message = f"encoder: expected a loaded encoder, got a {type(encoder).__name__}; give its attribute encoder"
    raise ConfigError(message, argument="encoder")
  if not hasattr(encoder, "identity"):
    message = f"encoder={shown(encoder)}: expected a loaded encoder; SentenceEncoder.from_pretrained(name) loads it"
    raise ConfigError(message, argument="encoder")


def sentences_of_step(length: int, batch_size: int, has_gpu: bool) -> int:
  """Returns the number of sentences of a step whose longest has `length` tokens: a step has a number of tokens."""
  if has_gpu:
    return max(1, batch_size * _GPU_LENGTH // length)
  # On a CPU short sentences must not wait for memory.
  return min(batch_size, max(1, _CPU_TOKENS // length))
