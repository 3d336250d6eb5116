"""Embedding of sentences: tokenizer, BERT and pooling."""

import importlib.metadata
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.data.pairs import check_sentences
from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.batching import check_finite, embed_in_batches
from bert_flow_tf.encoder.bert import BertEncoder, load_bert
from bert_flow_tf.encoder.cache import CHUNK_SENTENCES, EmbeddingCache
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.token_weights import TokenWeights, make_token_weights, parse_token_weights
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.progress import Progress

# Packages whose versions change embeddings by rounding, or by a fixed error.
_PACKAGES = ("tensorflow", "transformers", "tokenizers")
# To be raised when the encoder's operations or the size of its steps change, which changes the rounding too.
_COMPUTATION = 2


class SentenceEncoder:
  """Frozen BERT that turns sentences into embeddings u, the flow's input.

      encoder = SentenceEncoder.from_pretrained("mini")
      embeddings = encoder.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]

  Attributes:
    bert: the BERT, with the TFBertModel in `bert.model`.
    tokenizer: the tokenizer.
    hidden_size: width of BERT's hidden states.
    num_hidden_layers: number of transformer blocks.
    token_weights: weights of tokens in the mean; None for equal ones.
  """

  def __init__(
    self, bert: BertEncoder, tokenizer: SentenceTokenizer, token_weights: TokenWeights | None = None
  ) -> None:
    self.bert = bert
    self.tokenizer = tokenizer
    self.token_weights = token_weights
    self.hidden_size = bert.config.hidden_size
    self.num_hidden_layers = bert.config.num_hidden_layers
    self._functions = {}

  @classmethod
  def from_pretrained(
    cls,
    name: str | os.PathLike,
    cache_dir: str | os.PathLike | None = None,
    precision: str = "float32",
    hidden_act: str | None = None,
    bert_config_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    max_input_chars_per_word: int | None = None,
    token_weights: str | None = None,
    frequency_corpus: str | os.PathLike | None = None,
    revision: str | None = None,
  ) -> "SentenceEncoder":
    """Loads an encoder.

    Args:
      name: `mini` (packaged), base, large, large-wwm, base-cased, large-cased, large-wwm-cased, a local
        Hugging Face folder, Google's TensorFlow 1 folder, or a hub id `org/name`; or "static:" and one of these, for
        its word rows without the transformer.
      cache_dir: folder of the hub's cache; None for its default.
      precision: number format of BERT's matrix products, float32, bfloat16 or float16; see `encoder.precision`.
      hidden_act: activation in place of that of the encoder's files; see `encoder.bert.load_bert`.
      bert_config_file: configuration of a TensorFlow 1 checkpoint, if it is in another folder.
      vocab_file: vocab.txt of a TensorFlow 1 checkpoint, if it is in another folder.
      max_input_chars_per_word: see `SentenceTokenizer.from_pretrained`.
      token_weights: weights of tokens in the mean that makes an embedding, see `token_weights.make_token_weights`; None
        for uniform, or for idf if the encoder is static.
      frequency_corpus: file with a sentence per line, for token_weights=idf; None for the packaged English table.
      revision: commit, branch or tag of a hub model; None for main.

    Raises:
      ConfigError: an argument is not allowed, or frequency_corpus cannot be read.
      EncoderError: it does not exist, is damaged or is not a BERT.
    """
    if token_weights is not None:
      parse_token_weights(token_weights)  # before the long loading
    bert = load_bert(name, cache_dir, precision, hidden_act, bert_config_file, vocab_file, revision)
    tokenizer = SentenceTokenizer.from_pretrained(bert.folder, bert.name, max_input_chars_per_word)
    token_weights = token_weights or bert.declared.token_weights
    return cls(bert, tokenizer, make_token_weights(token_weights, tokenizer, frequency_corpus))

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

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling of a `sentence_embedding_type` for this model; a Pooling is returned as it is.

    Args:
      sentence_embedding_type: see `pooling.parse_pooling`; None for the one that the encoder's files declare, or
        avg-first-last; word-rows if the encoder is static.

    Raises:
      ConfigError: unknown value, or one that needs a transformer for a static encoder.
      EncoderError: `cls`, but the checkpoint has no pooler; or the declared pooling is not supported.
    """
    pooling = self.bert.declared.pooling() if sentence_embedding_type is None else sentence_embedding_type
    name = getattr(pooling, "name", pooling)
    if self.bert.is_static and name != pooling_lib.WORD_ROWS:
      raise ConfigError(
        f"sentence_embedding_type={name}: '{self.name}' has no transformer whose output it could pool; expected "
        f"{pooling_lib.WORD_ROWS}",
        argument="sentence_embedding_type",
      )
    if not isinstance(pooling, Pooling):
      pooling = pooling_lib.parse_pooling(pooling, self.num_hidden_layers)
    if pooling.kind == "cls" and not self.bert.has_pooler:
      raise EncoderError(
        f"sentence_embedding_type=cls: the checkpoint of '{self.name}' has no weights for the pooled output (it was "
        "saved with a masked-language-model head); use an average such as avg-first-last",
        argument="sentence_embedding_type",
      )
    return pooling

  def dim(self, sentence_embedding_type: str | Pooling | None = None) -> int:
    """Returns the size of the embeddings that `encode` returns.

    Raises:
      ConfigError: unknown sentence_embedding_type.
    """
    return self.pooling(sentence_embedding_type).dim(self.hidden_size)

  def embed_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor,
    pooling: str | Pooling,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Embeds a padded batch; also inside a tf.function. No gradient flows into the encoder.

    Args:
      ids: int32 Tensor of shape [batch, seq_len].
      mask: int32 Tensor of shape [batch, seq_len], 1 for tokens, 0 for padding.
      pooling: a Pooling, or a `sentence_embedding_type`.
      dropout_seed: int32 Tensor of shape [2] for BERT's dropout, which the published code uses while it fits the flow
        (flag `encoder_dropout`); None for no dropout.

    Returns:
      float32 Tensor of shape [batch, dim].
    """
    pooling = self.pooling(pooling)
    hidden_states, pooled_output = self.bert(ids, mask, dropout_seed)
    weights = mask if self.token_weights is None else self.token_weights.of(ids, mask)
    word_rows = self.bert.word_rows(ids) if pooling.reads_words else None
    return tf.stop_gradient(pooling.pool(hidden_states, weights, pooled_output, word_rows))

  def encode(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 64,
    show_progress: bool | None = None,
    cache: EmbeddingCache | str | os.PathLike | None = None,
  ) -> np.ndarray:
    """Embeds sentences, without dropout: each distinct sentence once, in batches of similar length.

    The cache is written after every 16384 sentences, which a killed run loses at most.

    Args:
      sentences: list of n str.
      sentence_embedding_type: see `pooling`.
      max_seq_length: largest number of tokens of a sentence, [CLS] and [SEP] included; None for the declared
        one, or 64.
      batch_size: largest number of sentences in a step; changes results by float rounding only.
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
    pooling, dim = self.pooling(sentence_embedding_type), self.dim(sentence_embedding_type)
    max_seq_length = self.bert.check_max_seq_length(max_seq_length)
    if not is_integer(batch_size, 1):
      raise ConfigError(f"batch_size={batch_size}: expected a positive integer", argument="batch_size")
    if cache is not None and not isinstance(cache, EmbeddingCache):
      cache = EmbeddingCache(cache)
    positions = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
    rows = np.fromiter(map(positions.__getitem__, sentences), np.int64, len(sentences))
    unique, first, key = list(positions), np.unique(rows, return_index=True)[1], ""
    embeddings, cached = np.empty([len(unique), dim], np.float32), np.zeros(len(unique), bool)
    if cache is not None and unique:
      key = cache.key(self._cache_settings(pooling, max_seq_length))
      embeddings, cached = cache.load(key, unique, dim)
      self.tokenizer.warn_of_unknown_text([unique[i] for i in np.flatnonzero(cached)])
    missing = np.flatnonzero(~cached)
    if missing.size:
      with Progress(len(unique), show_progress is not False, done=int(cached.sum())) as progress:
        for start in range(0, len(missing), CHUNK_SENTENCES):
          chosen = missing[start : start + CHUNK_SENTENCES]
          chunk = [unique[i] for i in chosen]
          values = self.embed_ids(self.tokenizer(chunk, max_seq_length), pooling, batch_size, progress)
          check_finite(values, first[chosen], self.name)
          embeddings[chosen] = values
          if cache is not None:
            cache.save(key, chunk, values)
    return embeddings if len(unique) == len(sentences) else embeddings[rows]

  def embed_ids(
    self,
    ids: Sequence[np.ndarray],
    sentence_embedding_type: str | Pooling | None = None,
    batch_size: int = 64,
    progress: Progress | None = None,
  ) -> np.ndarray:
    """Embeds token ids, in batches of similar length, without dropout and cache.

    Args:
      ids: n int32 arrays [seq_len], with [CLS] and [SEP], as `tokenizer` gives them.
      sentence_embedding_type: see `pooling`.
      batch_size: see `encode`.
      progress: counter of the embedded sentences; None for none.

    Returns:
      float32 array of shape [n, dim].
    """
    pooling, progress = self.pooling(sentence_embedding_type), progress or Progress(len(ids), show=False)
    if self.bert.is_static:
      embeddings = self.bert.model.embed(ids, None if self.token_weights is None else self.token_weights.table)
      progress.update(len(ids))
      return embeddings
    embed = self._function(pooling)
    return embed_in_batches(embed, ids, self.dim(pooling), batch_size, self.tokenizer.pad_id, progress)

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
    return EncoderIdentity(
      name=self.name,
      weights_sha256=self.weights_checksum,
      tokenizer_sha256=self.tokenizer_checksum,
      architecture=self.bert.architecture,
      sentence_embedding_type=pooling.name,
      pooling=(pooling.kind, *pooling.blocks),
      max_seq_length=self.bert.check_max_seq_length(max_seq_length),
      low_dim=low_dim,
      precision=self.precision,
      max_input_chars_per_word=self.tokenizer.max_input_chars_per_word,
      revision=self.bert.revision,
      **({} if self.token_weights is None else self.token_weights.identity()),
    )

  def _function(self, pooling):
    """Returns `embed_batch` as a graph, traced once for all shapes, without the blocks that the pooling ignores."""
    if pooling not in self._functions:
      spec = tf.TensorSpec([None, None], tf.int32)

      @tf.function(input_signature=[spec, spec], autograph=False)
      def embed(ids, mask):
        return self.embed_batch(ids, mask, pooling)

      self._functions[pooling] = embed
    return self._functions[pooling]

  def _cache_settings(self, pooling, max_seq_length):
    """Returns everything except the text that decides embeddings, including their rounding."""
    settings = self.identity(pooling, max_seq_length).deciding()
    # Only GPUs round float32 products to TF32.
    if tf.config.list_logical_devices("GPU") and tf.config.experimental.tensor_float_32_execution_enabled():
      settings["precision"] = "tf32" if self.precision == "float32" else self.precision
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {**settings, "versions": versions, "computation": _COMPUTATION}
