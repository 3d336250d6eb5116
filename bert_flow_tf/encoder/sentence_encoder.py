"""From sentences to embeddings: the one place that joins tokenizer, BERT and pooling."""

import importlib.metadata

import numpy as np
import tensorflow as tf

from bert_flow_tf.data.features import SentenceTokenizer, pad_batch
from bert_flow_tf.data.sentences import check_sentences
from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.bert import load_bert
from bert_flow_tf.encoder.cache import CHUNK_SENTENCES, EmbeddingCache
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.progress import Progress

# On a CPU larger steps are slower, as their activations leave its cache: a BERT of base's size took 39 % longer for
# 2048 tokens at once, 24 % longer for 128, 6 to 8 % longer for 256, 512, 768 and 1024 (two cores, medians of 5 rounds).
_CPU_TOKENS = 384
# Packages whose versions change embeddings by rounding, or by a fixed error.
_PACKAGES = ("tensorflow", "transformers", "tokenizers")


class SentenceEncoder:
  """A frozen BERT that turns sentences into embeddings u, the flow's input.

      encoder = SentenceEncoder.from_pretrained("mini")
      embeddings = encoder.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]

  Attributes:
    bert: the BertEncoder, with the TFBertModel in `bert.model`.
    tokenizer: the SentenceTokenizer.
  """

  def __init__(self, bert, tokenizer):
    self.bert = bert
    self.tokenizer = tokenizer
    self._functions = {}

  @classmethod
  def from_pretrained(cls, name, cache_dir=None, precision="float32"):
    """Loads an encoder.

    Args:
      name: `mini` (packaged), base, large, large-wwm, base-cased, large-cased, large-wwm-cased, a local
        Hugging Face folder, Google's TensorFlow 1 folder, or a hub id `org/name`.
      cache_dir: folder of the hub's cache, its default if None.
      precision: number format of BERT's matrix products, float32, bfloat16 or float16; see `encoder.precision`.

    Raises:
      ConfigError: no such precision.
      EncoderError: it cannot be found, is damaged or is no BERT.
    """
    bert = load_bert(name, cache_dir, precision)
    return cls(bert, SentenceTokenizer.from_pretrained(bert.folder, bert.name))

  @property
  def name(self):
    """The `--model` value."""
    return self.bert.name

  @property
  def hidden_size(self):
    """Width of BERT's hidden states."""
    return self.bert.config.hidden_size

  @property
  def num_hidden_layers(self):
    """Number of transformer blocks."""
    return self.bert.config.num_hidden_layers

  @property
  def precision(self):
    """Number format of BERT's matrix products."""
    return self.bert.precision

  @property
  def weights_checksum(self):
    """Hexadecimal sha256 of BERT's weights."""
    return self.bert.weights_checksum

  @property
  def tokenizer_checksum(self):
    """Hexadecimal sha256 of the vocabulary and the tokenizer's settings."""
    return self.tokenizer.checksum

  def pooling(self, sentence_embedding_type):
    """Resolves a `sentence_embedding_type` (or passes a Pooling through) for this model.

    Raises:
      ConfigError: unknown value.
      EncoderError: `cls`, but the checkpoint had no pooler.
    """
    pooling = sentence_embedding_type
    if not isinstance(pooling, pooling_lib.Pooling):
      pooling = pooling_lib.parse_pooling(pooling, self.num_hidden_layers)
    if pooling.kind == "cls" and not self.bert.has_pooler:
      raise EncoderError(
        f"sentence_embedding_type=cls: the checkpoint of '{self.name}' has no weights for the pooled output "
        "(it was saved with a masked-language-model head): choose an average such as avg-first-last."
      )
    return pooling

  def dim(self, sentence_embedding_type="avg-first-last", low_dim=None):
    """Size of the embeddings that `encode` gives with these arguments."""
    dim = self.pooling(sentence_embedding_type).dim(self.hidden_size)
    if low_dim is None:
      return dim
    pooling_lib.check_low_dim(dim, low_dim)
    return low_dim

  def embed_batch(self, ids, mask, pooling, dropout_seed=None, low_dim=None):
    """Embeds a padded batch; also inside a tf.function. No gradient flows into the encoder.

    Args:
      ids: int32 Tensor of shape [batch, seq_len].
      mask: int32 Tensor of shape [batch, seq_len], 1 for tokens, 0 for padding.
      pooling: a Pooling, or a `sentence_embedding_type`.
      dropout_seed: int32 Tensor of shape [2] for BERT's dropout, as while the published code fits the flow
        (`--encoder_dropout`); None for none.
      low_dim: number of groups of neighbouring dimensions to average, or None.

    Returns:
      float32 Tensor of shape [batch, dim].
    """
    hidden_states, pooled_output = self.bert(ids, mask, dropout_seed)
    embeddings = self.pooling(pooling).pool(hidden_states, mask, pooled_output)
    if low_dim is not None:
      embeddings = pooling_lib.low_dim(embeddings, low_dim)
    return tf.stop_gradient(embeddings)

  def encode(
    self,
    sentences,
    sentence_embedding_type="avg-first-last",
    max_seq_length=64,
    batch_size=64,
    low_dim=None,
    show_progress=None,
    cache=None,
  ):
    """Embeds sentences, without dropout; equal ones once, those of like length together.

    16384 of them at a time: what a killed run loses where there is a cache.

    Args:
      sentences: list of str.
      sentence_embedding_type: str, see `pooling.parse_pooling`.
      max_seq_length: int, the most tokens of a sentence, [CLS] and [SEP] included.
      batch_size: int, most sentences a step; changes results by float rounding only.
      low_dim: number of groups of neighbouring dimensions to average, or None.
      show_progress: a bar on a terminal, else a line in the log every ten seconds; neither if False.
      cache: an EmbeddingCache, a folder for one, or None. What it has is not embedded again; the rest is added.

    Returns:
      float32 array of shape [n, dim], in the order of `sentences`.

    Raises:
      DataError: `sentences` is a lone str, or an element is not a str.
      ConfigError: `sentence_embedding_type`, `low_dim` or `batch_size` is not allowed.
      EncoderError: `max_seq_length` does not suit the model, or an embedding is not finite.
    """
    sentences = check_sentences(sentences)
    pooling, dim = self.pooling(sentence_embedding_type), self.dim(sentence_embedding_type, low_dim)
    self.bert.check_max_seq_length(max_seq_length)
    if batch_size < 1:
      raise ConfigError(f"batch_size={batch_size}: expected 1 or more.")
    if cache is not None and not isinstance(cache, EmbeddingCache):
      cache = EmbeddingCache(cache)
    positions = {}
    rows = np.array([positions.setdefault(sentence, len(positions)) for sentence in sentences], np.int64)
    unique, key = list(positions), None
    embeddings, found = np.empty([len(unique), dim], np.float32), np.zeros(len(unique), bool)
    if cache is not None and unique:
      key = cache.key(self._cache_settings(pooling, max_seq_length, low_dim))
      embeddings, found = cache.load(key, unique, dim)
    missing = np.flatnonzero(~found)
    if missing.size:
      with Progress(len(unique), show_progress is not False, done=int(found.sum())) as progress:
        for start in range(0, len(missing), CHUNK_SENTENCES):
          chosen = missing[start : start + CHUNK_SENTENCES]
          chunk = [unique[i] for i in chosen]
          values = self._embed(self.tokenizer(chunk, max_seq_length), pooling, low_dim, batch_size, progress)
          self._check_finite(values, chosen, rows)
          embeddings[chosen] = values
          if key is not None:
            cache.save(key, chunk, values)
    return embeddings if len(unique) == len(sentences) else embeddings[rows]

  def fingerprint(self, sentences, sentence_embedding_type, max_seq_length=64, low_dim=None):
    """Hexadecimal sha256 of everything that decides what `encode` gives for the same arguments."""
    settings = self._cache_settings(self.pooling(sentence_embedding_type), max_seq_length, low_dim)
    return EmbeddingCache.key(settings, sentences)

  def identity(
    self, sentence_embedding_type: str, max_seq_length: int = 64, low_dim: int | None = None
  ) -> EncoderIdentity:
    """Returns the identity of the embeddings that `encode` gives for the same arguments."""
    pooling = self.pooling(sentence_embedding_type)
    return EncoderIdentity(
      name=self.name,
      weights_sha256=self.weights_checksum,
      tokenizer_sha256=self.tokenizer_checksum,
      architecture=self.bert.architecture,
      sentence_embedding_type=pooling.name,
      pooling=(pooling.kind, *pooling.blocks),
      max_seq_length=int(max_seq_length),
      low_dim=low_dim,
      precision=self.precision,
    )

  def _check_finite(self, embeddings, chosen, rows):
    """Raises EncoderError for embeddings [n, dim] of the distinct sentences `chosen` [n], `rows` being all of them."""
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
      first = int(np.flatnonzero(rows == chosen[~finite][0])[0])
      raise EncoderError(
        f"sentence {first} (counted from 0): its embedding by '{self.name}' is not finite, expected "
        f"numbers ({(~finite).sum()} sentences have this): the model's weights are damaged or overflow."
      )

  def _embed(self, ids, pooling, low_dim, batch_size, progress):
    """Embeds token ids, the longest first (so that too large a batch fails at once): float32 [n, dim]."""
    embeddings = np.empty([len(ids), self.dim(pooling, low_dim)], np.float32)
    order = np.argsort([-len(row) for row in ids], kind="stable")
    step = self._function(pooling, low_dim)
    on_cpu = not tf.config.list_logical_devices("GPU")
    start = 0
    while start < len(ids):
      count = min(batch_size, max(1, _CPU_TOKENS // len(ids[order[start]]))) if on_cpu else batch_size
      chosen = order[start : start + count]
      start += count
      embeddings[chosen] = step(*pad_batch([ids[i] for i in chosen], self.tokenizer.pad_id)).numpy()
      progress.update(len(chosen))
    return embeddings

  def _function(self, pooling, low_dim):
    """`embed_batch` as a graph, traced once for all shapes; what the pooling does not read is pruned."""
    if (pooling, low_dim) not in self._functions:
      spec = tf.TensorSpec([None, None], tf.int32)

      @tf.function(input_signature=[spec, spec], autograph=False)
      def embed(ids, mask):
        return self.embed_batch(ids, mask, pooling, low_dim=low_dim)

      self._functions[pooling, low_dim] = embed
    return self._functions[pooling, low_dim]

  def _cache_settings(self, pooling, max_seq_length, low_dim):
    """Returns everything but the text that decides embeddings, down to their rounding."""
    settings = self.identity(pooling, max_seq_length, low_dim).deciding()
    # On a GPU float32 products may be rounded to TF32, which other machines do not do.
    if tf.config.list_logical_devices("GPU") and tf.config.experimental.tensor_float_32_execution_enabled():
      settings["precision"] = "tf32" if self.precision == "float32" else self.precision
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES}
    # Without the suffix, as in the keys of existing caches.
    return {**{name.removesuffix("_sha256"): value for name, value in settings.items()}, "versions": versions}
