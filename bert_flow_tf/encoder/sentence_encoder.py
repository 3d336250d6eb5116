"""Embedding of sentences: tokenizer, BERT and pooling."""

import functools
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.encoder import own_model
from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.bert import BertEncoder, load_bert
from bert_flow_tf.encoder.cache import CHUNK_SENTENCES, EmbeddingCache
from bert_flow_tf.encoder.characters import CharacterTable
from bert_flow_tf.encoder.fine_tuning import EncoderLayer
from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import LOADING, EncoderSettings, keywords
from bert_flow_tf.encoder.source import absolute_name
from bert_flow_tf.encoder.token_weights import UNIFORM, TokenWeights, make_token_weights, parse_token_weights
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer, pad_batch
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import check_counts
from bert_flow_tf.io.experiment import SAVED_MODEL, WORD_VECTORS
from bert_flow_tf.progress import Progress

# Packages whose versions change embeddings by rounding, or by a fixed error.
_PACKAGES = ("tensorflow", "transformers", "tokenizers")
# To be raised when the encoder's operations or the size of its steps change, which changes the rounding too.
_COMPUTATION = 2
# Tokens of a step on a CPU. One constant, as it decides the rounding of some embeddings (a product of few rows adds up
# in another order). From 512 to 2048 tokens the CPU time differs by 2%; 384 take up to 4% more, 128 up to 13% (384, 768
# and 1024 wide; oneDNN with AVX2, AVX512 and AVX512-BF16).
_CPU_TOKENS = 768
# On a GPU a step has as many tokens as `batch_size` sentences of this length: few short sentences would leave it idle.
_GPU_LENGTH = 64


class SentenceEncoder:
  """BERT that turns sentences into embeddings u, the flow's input.

      encoder = SentenceEncoder.from_pretrained("mini")
      embeddings = encoder.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      encoder = SentenceEncoder(model, tokenizer)  # a TFBertModel of your own, which stays what it is
      layer = encoder.as_layer(trainable=True)  # a Keras layer from sentences to embeddings

  Args:
    bert: a transformers.TFBertModel, or a `BertEncoder`.
    tokenizer: transformers' BertTokenizer or BertTokenizerFast, its folder, or a `SentenceTokenizer`.
    token_weights: weights of tokens in the mean; None for equal ones.
    settings: `EncoderSettings`, of which a TFBertModel takes the precision.

  Attributes:
    bert: the BERT, with the TFBertModel in `bert.model`.
    tokenizer: the tokenizer.
    hidden_size: width of BERT's hidden states.
    word_size: width of the word embeddings, which ELECTRA and ALBERT widen; None without any.
    num_hidden_layers: number of transformer blocks.
    token_weights: weights of tokens in the mean; None for equal ones.
    settings: the `EncoderSettings` that it was loaded with.
    has_tokens: whether it cuts text into tokens, which have ids, weights and a largest number.
  """

  has_tokens = True
  word_size: int | None = None

  def __init__(
    self,
    bert: Any,
    tokenizer: Any,
    token_weights: TokenWeights | None = None,
    settings: EncoderSettings | None = None,
  ) -> None:
    self.settings = settings or EncoderSettings()
    if not isinstance(bert, BertEncoder):
      bert, tokenizer = own_model.parts_of(bert, tokenizer, self.settings.precision)
    self.bert: BertEncoder = bert
    self.tokenizer: SentenceTokenizer = tokenizer
    self.token_weights = token_weights
    self.hidden_size = bert.config.hidden_size
    self.num_hidden_layers = bert.config.num_hidden_layers
    self.word_size = self.bert.word_size
    self._functions: dict[Pooling, Callable] = {}

  @classmethod
  def from_pretrained(cls, name: str | os.PathLike, **arguments: Any) -> "SentenceEncoder":
    """Loads an encoder. Within a strategy's scope it gets a copy on each device, and they embed together.

    Args:
      name: `mini` (packaged), base, large, large-wwm, base-cased, large-cased, large-wwm-cased, a local
        Hugging Face folder, Google's TensorFlow 1 folder, or a hub id `org/name`; or "static:" and one of these, for
        its word rows without the transformer; or "saved_model:" and the folder of a SavedModel from text to vectors;
        or "glove:" and a file of word vectors.
      **arguments: the settings of `EncoderSettings` that decide how it is loaded, with the defaults and the meaning of
        the runners' flags: cache_dir and revision (of the hub), precision, hidden_act, max_input_chars_per_word,
        token_weights and frequency_corpus; bert_config_file and vocab_file of a TensorFlow 1 checkpoint, if they are in
        another folder; saved_model_output.

    Raises:
      ConfigError: an argument is not allowed, or frequency_corpus cannot be read.
      EncoderError: it does not exist, is damaged or is not a BERT.
    """
    return cls.load(EncoderSettings.of(name, **arguments))

  @classmethod
  def load(cls, settings: EncoderSettings) -> "SentenceEncoder":
    """Loads the encoder of the settings; see `from_pretrained`."""
    if settings.encoder_name.startswith(SAVED_MODEL):
      from bert_flow_tf.encoder.saved_model_encoder import SavedModelEncoder  # which inherits from this class

      return SavedModelEncoder(settings)
    if settings.encoder_name.startswith(WORD_VECTORS):
      from bert_flow_tf.encoder.word_encoder import WordEncoder  # likewise

      return WordEncoder(settings)
    if settings.token_weights is not None:
      parse_token_weights(settings.token_weights)  # before the long loading
    bert = load_bert(settings)
    tokenizer = SentenceTokenizer.from_pretrained(bert.folder, bert.name, settings.loading_arguments())
    tokenizer.check_ids(bert.config.vocab_size)
    bert.declared.check_letter_case(tokenizer.do_lower_case)
    token_weights = settings.token_weights or bert.declared.token_weights
    weights = make_token_weights(token_weights, tokenizer, settings.frequency_corpus)
    return cls(bert, tokenizer, weights, settings)

  def __repr__(self) -> str:
    sizes = f"num_hidden_layers={self.num_hidden_layers}, hidden_size={self.hidden_size}"
    return f"{type(self).__name__}({self.name!r}, {sizes}, precision={self.precision!r})"

  @property
  def name(self) -> str:
    """Name or folder that it was loaded from."""
    return self.bert.name

  @property
  def precision(self) -> str:
    """Number format of BERT's matrix products."""
    return self.bert.precision

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of BERT's weights."""
    return self.bert.weights_checksum

  @property
  def tokenizer_checksum(self) -> str:
    """Hexadecimal SHA-256 of the vocabulary and the tokenizer's settings."""
    return self.tokenizer.checksum

  def count_params(self) -> int:
    """Returns the number of weights."""
    return int(self.bert.model.count_params())

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling of a `sentence_embedding_type` for this model; a Pooling is returned as it is.

    None is the one that the encoder's files declare, or avg-first-last; word-rows if the encoder is static.
    """
    pooling = sentence_embedding_type
    if pooling is None:
      pooling = self.bert.declared.pooling()
    name = pooling
    if isinstance(pooling, Pooling):
      name = pooling.name
    argument = "sentence_embedding_type"
    if self.bert.is_static and name != pooling_lib.WORD_ROWS:
      problem = f"'{self.name}' has no transformer whose output it could pool; expected {pooling_lib.WORD_ROWS}"
      raise ConfigError(f"{argument}={name}: {problem}", argument)
    if not isinstance(pooling, Pooling):
      pooling = pooling_lib.parse_pooling(pooling, self.num_hidden_layers)
    if pooling.kind == "cls" and not self.bert.has_pooler:
      problem = f"'{self.name}' has no weights for the pooled output; use an average such as avg-first-last"
      raise EncoderError(f"{argument}=cls: {problem}", argument)
    return pooling

  def check_has_tokens(self, calibration: str) -> None:
    """Raises a ConfigError if it has no word pieces, of which a calibration takes the characters."""
    if not self.has_tokens:
      message = f"calibration={calibration}: {self.name} has no word pieces, whose characters it takes"
      raise ConfigError(message, argument="calibration")

  @functools.cached_property
  def characters(self) -> CharacterTable:
    """The characters of its word pieces, by the sentences of `frequency_corpus`, or those of the package."""
    self.check_has_tokens("characters")
    weights: Any = self.token_weights
    if weights is None or weights.frequency_corpus is None:
      weights = make_token_weights("idf", self.tokenizer)
    return CharacterTable(self.tokenizer, weights)

  def dim(self, sentence_embedding_type: str | Pooling | None = None) -> int:
    """Returns the size of the embeddings that `encode` returns."""
    return self.pooling(sentence_embedding_type).dim(self.hidden_size, self.word_size)

  def embed_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor,
    pooling: str | Pooling,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns embeddings, float32 [batch, dim], of ids and mask, int32 [batch, seq_len]; also inside a tf.function.

    No gradient flows into the encoder. `dropout_seed`, int32 [2], is for BERT's dropout, which the published code uses
    while it fits the flow (flag `encoder_dropout`); None for no dropout.
    """
    return tf.stop_gradient(self.pooled_batch(ids, mask, pooling, dropout_seed))

  def pooled_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor,
    pooling: str | Pooling,
    dropout_seed: tf.Tensor | None = None,
    training: bool = False,
  ) -> tf.Tensor:
    """Returns what `embed_batch` returns; gradients flow into BERT. `training` without a seed is Keras' own dropout."""
    pooling = self.pooling(pooling)
    hidden_states, pooled_output = self.bert(ids, mask, dropout_seed, training)
    weights, word_rows = mask, None
    if self.token_weights is not None:
      weights = self.token_weights.of(ids, mask)
    if pooling.reads_words:
      word_rows = self.bert.word_rows(ids, widened=pooling.kind == "mix")
    return pooling.pool(hidden_states, weights, pooled_output, word_rows)

  def as_layer(
    self,
    trainable: bool = False,
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    **kwargs: Any,
  ) -> EncoderLayer:
    """Returns a Keras layer from sentences or their ids to embeddings, on the weights of this encoder.

    Args:
      trainable: whether it has the weights as `trainable_variables`, those on which the embedding depends, and
        `training=True` means dropout. The encoder returns the embeddings of the weights as they are at each time.
      sentence_embedding_type: see `pooling`.
      max_seq_length: see `encode`; ids are taken as they are.
      **kwargs: of a Keras layer, as `name`.

    Raises:
      ConfigError, EncoderError: an argument is not allowed, or a static encoder is to be trained.
    """
    max_seq_length = self.bert.check_max_seq_length(max_seq_length)
    if trainable:
      self.bert.check_has_transformer("be trained")
    # Copies of the weights in half precision would not be trained, and any Keras layer may be; graphs hold them, too.
    self.bert.compute_in(self.precision, frozen=False)
    self._functions.clear()
    return EncoderLayer(self, self.pooling(sentence_embedding_type), max_seq_length, trainable, **kwargs)

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

    The cache is written after every 16384 sentences, which a killed run loses at most.

    Args:
      sentences: n sentences, as `check_sentences` takes them: a list of str, a string tensor, ...
      sentence_embedding_type: see `pooling`.
      max_seq_length: largest number of tokens of a sentence, [CLS] and [SEP] included; None for the declared
        one, or 64.
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
    max_seq_length = self.bert.check_max_seq_length(max_seq_length)
    check_counts(batch_size=batch_size)
    # Each distinct sentence once; `rows` leads back, `first` is for messages.
    positions = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
    rows = np.fromiter(map(positions.__getitem__, sentences), np.int64, len(sentences))
    first = np.unique(rows, return_index=True)[1]
    unique = list(positions)
    embeddings = np.empty([len(unique), self.dim(pooling)], np.float32)
    cached = np.zeros(len(unique), bool)
    if isinstance(cache, str | os.PathLike):
      cache = EmbeddingCache(cache)
    if cache is not None and unique:
      key = cache.key(self._cache_settings(pooling, max_seq_length))
      embeddings, cached = cache.load(key, unique, self.dim(pooling))
      self.tokenizer.warn_of_text([unique[i] for i in np.flatnonzero(cached)], max_seq_length)
    missing = np.flatnonzero(~cached)
    if missing.size:
      with Progress(len(unique), show_progress is not False, done=int(cached.sum())) as progress:
        for start in range(0, len(missing), CHUNK_SENTENCES):
          chosen = missing[start : start + CHUNK_SENTENCES]
          chunk = [unique[i] for i in chosen]
          values = self._embed_texts(chunk, pooling, max_seq_length, batch_size, progress)
          self._check_finite(values, first[chosen])
          embeddings[chosen] = values
          if cache is not None:
            cache.save(key, chunk, values)
    if len(unique) == len(sentences):
      return embeddings
    return embeddings[rows]

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress):
    """Returns embeddings of n texts, float32 [n, dim]."""
    return self.embed_ids(self.tokenizer(texts, max_seq_length), pooling, batch_size, progress)

  def embed_ids(
    self,
    ids: Sequence[np.ndarray],
    sentence_embedding_type: str | Pooling | None = None,
    batch_size: int = 64,
    progress: Progress | None = None,
  ) -> np.ndarray:
    """Returns embeddings of n int32 arrays [seq_len] as `tokenizer` gives them, float32 [n, dim], without cache."""
    pooling = self.pooling(sentence_embedding_type)
    progress = progress or Progress(len(ids), show=False)
    if self.bert.is_static:
      table = None
      if self.token_weights is not None:
        table = self.token_weights.table
      progress.update(len(ids))
      return self.bert.model.embed(ids, table)
    # The longest come first, so that a batch that is too large fails at once.
    embed = self._function(pooling)
    embeddings = np.empty([len(ids), self.dim(pooling)], np.float32)
    order = np.argsort([-len(row) for row in ids], kind="stable")
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    start = 0
    while start < len(ids):
      # A batch for each device; the last of all batches may go to several.
      parts, batches = [], []
      while len(parts) < self.bert.replicas and start < len(ids):
        count = sentences_of_step(len(ids[order[start]]), batch_size, has_gpu)
        parts.append(order[start : start + count])
        batches.append(pad_batch([ids[i] for i in parts[-1]], self.tokenizer.pad_id))
        start += count
      batches += batches[-1:] * (self.bert.replicas - len(batches))
      for part, values in zip(parts, embed(batches), strict=False):
        embeddings[part] = values.numpy()
        progress.update(len(part))
    return embeddings

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
    architecture = self.bert.architecture
    # What the files decided replaces what the user left open.
    settings = self.settings.saved()
    for name in settings.keys() & self.tokenizer.settings.keys():
      settings[name] = self.tokenizer.settings[name]
    settings |= {
      "revision": self.bert.revision,
      "precision": self.precision,
      "hidden_act": architecture.get("hidden_act"),
      "token_weights": UNIFORM,
      "frequency_corpus": None,
      "sentence_embedding_type": pooling.name,
      "max_seq_length": self.bert.check_max_seq_length(max_seq_length),
      "low_dim": low_dim,
    }
    table_sha256 = None
    if self.token_weights is not None:
      settings["token_weights"] = self.token_weights.name
      settings["frequency_corpus"] = self.token_weights.frequency_corpus
      table_sha256 = self.token_weights.checksum
    saved_name = self.name
    if self.bert.revision is None:  # a model of the hub has one
      saved_name = absolute_name(saved_name)
    return EncoderIdentity(
      name=saved_name,
      weights_sha256=self.weights_checksum,
      tokenizer_sha256=self.tokenizer_checksum,
      pooling=(pooling.kind, *pooling.blocks),
      architecture=architecture,
      settings=EncoderSettings.of(**settings),
      token_weights_sha256=table_sha256,
    )

  def _function(self, pooling):
    """Returns `embed_batch` of a batch for each device as a graph.

    It is traced once for all shapes, without the blocks that the pooling ignores.
    """
    if pooling not in self._functions:
      spec, strategy = tf.TensorSpec([None, None], tf.int32), self.bert.strategy
      of_replica = functools.partial(self.embed_batch, pooling=pooling)

      @tf.function(input_signature=[[(spec, spec)] * self.bert.replicas], autograph=False)
      def embed(batches):
        if len(batches) == 1:
          return [of_replica(*batches[0])]
        dealt = strategy.experimental_distribute_values_from_function(lambda to: batches[to.replica_id_in_sync_group])
        return strategy.experimental_local_results(strategy.run(of_replica, args=dealt))

      self._functions[pooling] = embed
    return self._functions[pooling]

  def _cache_settings(self, pooling, max_seq_length):
    """Returns everything except the text that decides embeddings, including their rounding."""
    settings = self.identity(pooling, max_seq_length).deciding()
    # Only GPUs round float32 products to TF32.
    has_tf32 = tf.config.list_logical_devices("GPU") and tf.config.experimental.tensor_float_32_execution_enabled()
    if has_tf32 and self.precision == "float32":
      settings["precision"] = "tf32"
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {**settings, "versions": versions, "computation": _COMPUTATION}


def sentences_of_step(length: int, batch_size: int, has_gpu: bool) -> int:
  """Returns the number of sentences of a step whose longest has `length` tokens: a step has a number of tokens."""
  if has_gpu:
    return max(1, batch_size * _GPU_LENGTH // length)
  # On a CPU short sentences must not wait for memory.
  return min(batch_size, max(1, _CPU_TOKENS // length))


def load_encoder(
  identity: EncoderIdentity | VectorsIdentity | None,
  where: str,
  model: str | SentenceEncoder | None = None,
  cache_dir: str | os.PathLike | None = None,
  **settings: Any,
) -> tuple[SentenceEncoder, dict[str, Any]]:
  """Loads the encoder that an identity at `where` names, or `model`; `settings` replace those of the identity.

  Returns the encoder, and the arguments sentence_embedding_type, max_seq_length and low_dim as far as they are known.
  """
  # First the settings of the fit, then those that the user gives in their place.
  arguments: dict[str, Any] = {}
  chosen = model
  if isinstance(identity, EncoderIdentity):
    arguments = identity.settings.saved()
    chosen = model or identity.name
  if chosen is None:
    raise EncoderError(f"{where}: fitted on {identity or 'an unknown encoder'}; name it, as model=mini", "folder")
  # The files of another model decide some settings; without one, a hub model is loaded at the commit of the identity.
  if model is not None:
    for name in keywords("of_files", False):
      arguments.pop(name, None)
  if settings.get("token_weights") == "uniform":
    arguments.pop("frequency_corpus", None)  # only idf counts
  arguments |= settings
  loading = {name: arguments.pop(name) for name in EncoderSettings().arguments(LOADING) if name in arguments}
  if isinstance(chosen, SentenceEncoder):
    own = chosen.settings.arguments(LOADING)
    for name in own.keys() & settings.keys():
      if settings[name] != own[name]:
        raise ConfigError(f"{name}={settings[name]}: the encoder is already loaded, with {own[name]}", name)
    return chosen, arguments
  try:
    return SentenceEncoder.from_pretrained(chosen, cache_dir=cache_dir, **loading), arguments
  except EncoderError as error:
    if model is not None:
      raise
    message = f"{where}: its encoder cannot be loaded: {error}; model= can name its folder"
    raise EncoderError(message, "folder") from error
