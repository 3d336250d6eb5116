"""SentenceEncoder, the encoder that a user loads: a transformer, or its word rows alone."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.util
import math
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from absl import logging

from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.engines.openvino_engine import BatchModel, OpenVinoEngine, States, computes_in
from bert_flow_tf.encoder.identity import FitSettings
from bert_flow_tf.encoder.kinds import split_name
from bert_flow_tf.encoder.loading import load_encoder, read_encoder
from bert_flow_tf.encoder.other.token_vectors import WordRows
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import (
  NO_GRADIENTS,
  OPENVINO,
  STATIC_MAX_SEQ_LENGTH,
  TENSORFLOW,
  EncoderSettings,
  check_graph_engine,
  reject_openvino,
)
from bert_flow_tf.encoder.text.token_weights import TokenWeights
from bert_flow_tf.encoder.text.unread import knows, unread
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer, pad_batch
from bert_flow_tf.encoder.text_encoder import TextEncoder, sentences_of_step
from bert_flow_tf.encoder.transformer.architectures import BERT, bare_name
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.number_formats import INT8, reject_int8
from bert_flow_tf.encoder.transformer.weights import StoredWeights
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.forks import check_not_forked
from bert_flow_tf.io.lazy import imported_tensorflow, load_tensorflow
from bert_flow_tf.progress import Progress

if TYPE_CHECKING:  # imported where they are used: OpenVINO needs no TensorFlow, few encoders TensorFlow Text or Keras
  import tensorflow as tf

  from bert_flow_tf.encoder.encoder_graph import EncoderGraph
  from bert_flow_tf.encoder.layer import EncoderLayer
  from bert_flow_tf.encoder.transformer.transformer import Transformer

# Largest number of tokens of a sentence that is computed by a graph of its own, which holds the kernels once more.
_FEW_TOKENS = 128


@dataclasses.dataclass
class _Weights:
  """State of the weights of an encoder and of its copies with other prompts.

  Attributes:
    model: the model, or weights of which a `Transformer` is made when something needs it.
    frozen: whether the weights never change.
    checksum: of the weights as they were loaded, as far as it is known.
    engine: the engine in place of TensorFlow; None for TensorFlow.
  """

  model: Transformer | WordRows | StoredWeights
  frozen: bool
  checksum: str | None = None
  engine: OpenVinoEngine | None = None

  def __getstate__(self) -> Json:
    """Returns the state without the engine, which a copy makes again."""
    return vars(self) | {"engine": None}


class SentenceEncoder(TextEncoder):
  """BERT, or another transformer, that turns sentences into embeddings u, the flow's input.

      encoder = SentenceEncoder.from_pretrained("mini")
      embeddings = encoder.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      encoder = SentenceEncoder(model, tokenizer)  # your TFBertModel, which is not changed
      layer = encoder.as_layer(trainable=True)  # a Keras layer from sentences to embeddings

  Args:
    bert: transformers' TFBertModel, TFRobertaModel, ..., whose variables the encoder computes on; or a `LoadedModel`.
    tokenizer: transformers' BertTokenizer or a fast tokenizer, its folder, or a `SentenceTokenizer`.
    token_weights: weights of tokens in the mean; None for equal ones.
    settings: `EncoderSettings`, of which a TFBertModel takes the precision.

  Attributes (besides `TextEncoder`'s):
    tokenizer: the `SentenceTokenizer`.
    folder: folder of the tokenizer's files.
    config: the `EncoderConfig`.
    is_static: whether it has vectors of tokens and no transformer.

  Raises:
    EncoderError: `bert` is no TFBertModel, or has adapters or layers that the user added.
  """

  has_tokens = True

  def __init__(
    self,
    bert: Any,
    tokenizer: Any,
    token_weights: TokenWeights | None = None,
    settings: EncoderSettings | None = None,
  ) -> None:
    self.settings = settings or EncoderSettings()
    if not isinstance(bert, LoadedModel):
      from bert_flow_tf.encoder.user_model import convert_user_model

      reject_openvino(self.settings.engine, "a model object of your own is computed by TensorFlow")
      bert, tokenizer = convert_user_model(bert, tokenizer)
    model = bert.model
    if isinstance(model, StoredWeights) and self.settings.engine == TENSORFLOW:
      model = model.transformer
    self._loaded = dataclasses.replace(bert, model=None)
    self.name, self.revision, self.declared = bert.name, bert.revision, bert.declared
    self.folder = bert.files.folder
    self.tokenizer: SentenceTokenizer = tokenizer
    if self.settings.prompt is not None:
      self.tokenizer = tokenizer.with_prompt(self.settings.prompt)
    self.truncate_dim = self.declared.truncate_dim
    if self.settings.truncate_dim is not None:
      self.truncate_dim = self.settings.truncate_dim or None
    self.token_weights = token_weights
    self.config: EncoderConfig = model.config
    self.hidden_size, self.num_hidden_layers = self.config.hidden_size, self.config.num_hidden_layers
    self.word_size = self.config.word_size
    self.has_pooler, self.is_static = model.has_pooler, isinstance(model, WordRows)
    self.is_bert = self.config.model_type == BERT and not self.is_static
    self._weights = _Weights(model, frozen=not bert.is_user_model, checksum=bert.weights_checksum)
    self.compute_in(self.settings.precision, frozen=not bert.is_user_model)

  @classmethod
  def from_pretrained(cls, name: str | os.PathLike, **arguments: Any) -> TextEncoder:
    """Loads an encoder. Within a strategy's scope it gets a copy on each device, and they embed together.

    Args:
      name: `mini` (packaged), base, large, large-wwm, base-cased, large-cased, large-wwm-cased, a local
        Hugging Face folder, Google's TensorFlow 1 folder, or a hub id `org/name`; or "static:" and one of these, for
        its word rows without the transformer, or the folder of a static model, as of model2vec; or "saved_model:" and
        the folder of a SavedModel from text to vectors; or "glove:" and a file of word vectors.
      **arguments: the settings of `EncoderSettings` that decide how it is loaded, with the defaults and the meaning of
        the runners' flags: cache_dir and revision (of the hub), precision, engine, hidden_act,
        max_input_chars_per_word, token_weights, frequency_corpus and number_weight; bert_config_file and vocab_file of
        a TensorFlow 1 checkpoint, if they are in another folder; saved_model_output.

    Raises:
      ConfigError: an argument is not allowed, or frequency_corpus cannot be read.
      EncoderError: it does not exist, is damaged or is not a BERT.
    """
    return load_encoder(EncoderSettings.of(name, **arguments))

  @classmethod
  def load(cls, settings: EncoderSettings, fit: FitSettings | None = None, do_lower_case: bool | None = None) -> Self:
    """Loads a transformer, or word rows, of settings; see `read_encoder`.

    Raises:
      ConfigError, EncoderError: see `from_pretrained`; EncoderError also for an encoder of another kind.
    """
    return cls(*read_encoder(settings, fit, do_lower_case))

  @property
  def bert(self) -> Any:
    """The `Transformer`, from ids to hidden states, in float32 with another engine; a static encoder's `WordRows`."""
    model = self._weights.model
    if isinstance(model, StoredWeights):
      return model.transformer
    return model

  @property
  def engine(self) -> str:  # type: ignore[override]
    """The engine that computes hidden states; TensorFlow from the time on when the weights may change."""
    if isinstance(self._weights.model, StoredWeights):
      return OPENVINO
    return TENSORFLOW

  @property
  def loaded(self) -> LoadedModel:
    """The `LoadedModel`, with the files that it came from."""
    return dataclasses.replace(self._loaded, model=self._weights.model)

  @property
  def prompt(self) -> str:  # type: ignore[override]
    """Text that is put before each sentence."""
    return self.tokenizer.prompt

  def with_prompt(self, prompt: str) -> Self:
    """Returns an encoder on the same weights that puts another text before each sentence; "" for none."""
    if prompt == self.prompt:
      return self
    self.declared.check_prompt(prompt)
    encoder = object.__new__(type(self))
    vars(encoder).update(vars(self), tokenizer=self.tokenizer.with_prompt(prompt))
    return encoder

  def __getstate__(self) -> Json:
    """Returns the state without graphs, engines and devices; a copy in another process makes its own again."""
    state = dict(vars(self))
    for name in ("_functions", "_strategy", "_replicas", "characters"):
      state.pop(name, None)
    return state

  def __setstate__(self, state: dict[str, Any]) -> None:
    vars(self).update(state)
    self.compute_in(self.precision, self._weights.frozen)

  def compute_in(self, precision: str, frozen: bool) -> None:
    """Sets the precision of the dense layers; `frozen`: whether the weights never change."""
    check_not_forked(EncoderError)
    if not frozen:
      fixed = "the weights are fixed, so it cannot be trained, nor be a Keras layer, nor be made of a model object"
      reject_int8(precision, fixed)
      self._check_graph()
    if self._weights.frozen and not frozen:
      self._weights.checksum = self.weights_checksum  # before a training
      self._weights.model, self._weights.engine = self.bert, None
    self.precision, self._weights.frozen = precision, frozen
    self._functions: dict[tuple[Pooling, bool], Callable] = vars(self).get("_functions", {})
    self._functions.clear()  # of copies with other prompts, too
    self._strategy, self._replicas = None, 1
    if self.engine == OPENVINO:
      self.openvino_engine()  # here, and not at the first use, which several threads can have at once
      return
    if self.is_static:
      return
    self.bert.compute_in(precision, frozen)
    # Devices with a copy of the weights, which embed together: of the strategy in whose scope the weights were created.
    self._strategy = getattr(self.bert.weights[0], "distribute_strategy", None)
    if self._strategy is not None:
      count = self._strategy.num_replicas_in_sync
      if len(self._strategy.extended.worker_devices) == count:
        self._replicas = count

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the names, shapes and bytes of all variables, sorted by name."""
    if not self._weights.frozen:
      return self._weights.model.checksum()
    if self._weights.checksum is None:
      self._weights.checksum = self._weights.model.checksum()
    return self._weights.checksum

  @property
  def has_loaded_weights(self) -> bool:  # type: ignore[override]
    """False if its weights were trained since they were loaded; a user's model has no other weights."""
    return self._weights.frozen or self.is_user_model or self.weights_checksum == self._weights.checksum

  def is_saved_in(self, folder: pathlib.Path) -> None:
    """Takes a folder, in which `save_encoder` wrote its weights, as the place that it is loaded from."""
    self.name, self.folder, self._weights.checksum = str(folder), folder, self.weights_checksum

  @property
  def deciding_settings(self) -> Json:
    """Settings of config.json that change embeddings and no weight."""
    return self._weights.model.deciding_settings

  @property
  def is_user_model(self) -> bool:
    """Returns whether it shares its variables with a model object of the user's."""
    return self._loaded.is_user_model

  @property
  def variables(self) -> list[tf.Variable]:
    """All weights, float32 variables."""
    return self.bert.weights

  @property
  def weights(self) -> Sequence[tf.Variable]:
    """The variables on which embeddings are computed, in int8 its kernels."""
    return self.bert.computed_weights

  def _cache_settings(self, pooling, max_seq_length):
    settings = super()._cache_settings(pooling, max_seq_length)
    if self.precision == INT8 and self.engine == TENSORFLOW:  # the CPU decides it
      from bert_flow_tf.encoder.transformer.int8 import largest_of_kernels

      settings["largest_of_kernels"] = largest_of_kernels()
    if self.engine == OPENVINO and not computes_in(self.precision):
      settings["computes_in"] = "float32"
    return settings

  def count_params(self) -> int:
    """Returns the number of weights."""
    model = self._weights.model
    if isinstance(model, StoredWeights | WordRows):
      return sum(map(math.prod, model.shapes.values()))
    return sum(weight.shape.num_elements() for weight in model.weights)

  def tf1_variables(self) -> dict[str, np.ndarray]:
    """Returns {name in Google's checkpoints: float32 array} of every weight."""
    from bert_flow_tf.encoder.checkpoints import tf1_names

    self.check_has_transformer("be saved or converted as a BERT")
    if not self.is_bert:
      kind = self.config.architecture.name
      raise EncoderError(
        f"model={self.name}: a checkpoint of TensorFlow 1 can hold a BERT alone, and this is a {kind}", "model"
      )
    return {tf1_names.of_keras(bare_name(weight)): weight.numpy() for weight in self.bert.weights}

  def check_has_transformer(self, purpose: str) -> None:
    """Raises EncoderError for a static encoder; `purpose`: what it cannot do, "be trained"."""
    if self.is_static:
      full = "a BERT, as mini"
      if self.bert.is_part:
        _, full = split_name(self.name)
      raise EncoderError(f"model={self.name}: word rows without a transformer cannot {purpose}; use {full}", "model")

  def trained_weights(self, pooling: Pooling) -> list[tf.Variable]:
    """Returns the weights that an embedding depends on, float32 variables, which may change from now on."""
    self._check_trains()
    if self._weights.frozen:
      self.compute_in(self.precision, frozen=False)
    if pooling.kind == "words":
      return [self.bert.word_embeddings]
    return self.bert.trained_weights(pooling.blocks, pooling.kind == "cls")

  @property
  def max_tokens(self) -> int:
    """Largest number of tokens of a text: of positions that have an embedding."""
    if self.is_static:
      return STATIC_MAX_SEQ_LENGTH
    return int(self.config.max_position_embeddings) - self.config.first_position

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the number of tokens, the declared one for None; EncoderError if a position has no embedding."""
    # A position without an embedding would read beyond the table.
    limit = self.max_tokens
    if max_seq_length is None:
      max_seq_length = min(self.declared.max_seq_length, limit)
    if not is_integer(max_seq_length, 3) or max_seq_length > limit:
      expected = f"an integer from 3 (a token between [CLS] and [SEP]) to {limit}, the positions of '{self.name}'"
      raise EncoderError(f"max_seq_length={max_seq_length!r}: expected {expected}", argument="max_seq_length")
    return int(max_seq_length)

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling of a `sentence_embedding_type` for this model; a Pooling is returned as it is.

    None is the one that the encoder's files declare, or avg-first-last; word-rows if the encoder is static.
    """
    if isinstance(sentence_embedding_type, Pooling):
      return sentence_embedding_type
    argument, name = "sentence_embedding_type", sentence_embedding_type
    if name is None:
      name = self.declared.pooling()
    if self.is_static and name != pooling_lib.WORD_ROWS:
      problem = f"'{self.name}' has no transformer whose output it could pool; expected {pooling_lib.WORD_ROWS}"
      raise ConfigError(f"{argument}={name}: {problem}", argument)
    pooling = pooling_lib.parse_pooling(name, self.num_hidden_layers)
    if pooling.kind == "cls" and not self.has_pooler:
      problem = f"'{self.name}' has no weights for the pooled output; use an average, as avg-first-last"
      raise EncoderError(f"{argument}=cls: {problem}", argument)
    return pooling

  def as_layer(
    self,
    trainable: bool = False,
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    **kwargs: Any,
  ) -> EncoderLayer:
    """Returns a Keras layer from sentences or their ids to embeddings, on the weights of this encoder.

    The layer is a layer of the process's Keras, `tf.keras`.

    Args:
      trainable: whether it has the weights as `trainable_variables`, as far as the embedding depends on them, and
        `training=True` means dropout. The encoder returns the embeddings of the weights as they are at each time.
      sentence_embedding_type: see `pooling`.
      max_seq_length: see `encode`; ids are taken as they are.
      **kwargs: of a Keras layer, as `name`.

    Raises:
      ConfigError, EncoderError: an argument is not allowed, or a static encoder is to be trained.
    """
    load_tensorflow()
    from bert_flow_tf.encoder.layer import EncoderLayer

    max_seq_length = self.check_max_seq_length(max_seq_length)
    if trainable:
      self.check_has_transformer("be trained")
      self._check_trains()
    # Copies of the weights in half precision would not be trained, and any Keras layer may be; graphs hold them, too.
    self.compute_in(self.precision, frozen=False)
    return EncoderLayer(self, self.pooling(sentence_embedding_type), max_seq_length, trainable, **kwargs)

  def text_graph(self, pooling: Pooling | None, max_seq_length: int) -> EncoderGraph:
    """See the base class."""
    load_tensorflow()
    from bert_flow_tf.encoder.encoder_graph import EncoderGraph

    self._check_graph()
    encoder = self
    if self.engine != TENSORFLOW:  # which goes on with its engine
      encoder = copy.copy(self)
      encoder._weights = dataclasses.replace(self._weights, model=self.bert, engine=None)
    return EncoderGraph(encoder, pooling, max_seq_length)

  def _check_graph(self):
    """Raises ConfigError if a graph of TensorFlow would give other embeddings than the engine."""
    check_graph_engine(self.engine, self.precision)

  def _check_trains(self):
    """Raises ConfigError if the engine cannot train."""
    reject_openvino(self.engine, NO_GRADIENTS)

  def embed_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor | None,
    pooling: str | Pooling,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns embeddings, float32 [batch, dim], of ids and mask, int32 [batch, seq_len]; also inside a tf.function.

    No gradient flows into the encoder. `dropout_seed`, int32 [2], is for BERT's dropout, which the published code uses
    while it fits the flow (flag `encoder_dropout`); None for no dropout.
    """
    import tensorflow as tf

    return tf.stop_gradient(self.pooled_batch(ids, mask, pooling, dropout_seed))

  def pooled_batch(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor | None,
    pooling: str | Pooling,
    dropout_seed: tf.Tensor | None = None,
    packed: bool = True,
  ) -> tf.Tensor:
    """Returns the embeddings of `embed_batch`; gradients flow into BERT.

    `packed`: whether padding is left out of everything but attention, which changes results by float rounding only.
    Without a mask it is one sentence, by an encoder that is not trained.
    """
    import tensorflow as tf

    self._check_graph()
    pooling = self.pooling(pooling)
    hidden_states: Any = ()
    pooled_output = None
    if not self.is_static:
      hidden_states, pooled_output = self.bert(ids, mask, dropout_seed, packed, _reads_first_token(pooling))
    if mask is None:
      mask = tf.ones_like(ids)
    embeddings = self._pool(tf.convert_to_tensor(ids), mask, pooling, hidden_states, pooled_output, self.bert)
    if self.is_static:
      embeddings = self.bert.finish(embeddings)
    return embeddings[:, : self.truncate_dim]

  def _pool(self, ids, mask, pooling, hidden_states, pooled_output, words):
    """Returns the pooled states of ids and mask [batch, seq_len], tensors or arrays; `words` has the word rows."""
    weights, word_rows = mask, None
    if self.token_weights is not None:
      weights = self.token_weights.of(ids, mask)
    if pooling.reads_words:
      word_rows = words.word_rows(ids, widened=pooling.kind == "mix")
    return pooling.pool(hidden_states, weights, pooled_output, word_rows)

  def knows(self, texts: Sequence[str], max_seq_length: int | None = None) -> np.ndarray:
    """See the base class."""
    return knows(self.tokenizer, texts, self.check_max_seq_length(max_seq_length))

  def unread(
    self,
    texts: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    reads_all_pieces: bool = False,
  ) -> list[str]:
    """See the base class."""
    weights = None
    # Hidden states depend on all pieces, whatever the weights of their mean.
    if self.pooling(sentence_embedding_type).kind == "words" and not reads_all_pieces:
      weights = np.ones(self.tokenizer.vocab_size, np.float32)
      if self.token_weights is not None:
        weights = self.token_weights.table
      if self.is_static:  # some models have tokens whose vectors are zeros
        weights = weights * self.bert.rows.any(axis=1)[: len(weights)]
    return unread(self.tokenizer, texts, self.check_max_seq_length(max_seq_length), weights)

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress):
    """Returns embeddings of n texts, float32 [n, dim]."""
    ids = self.tokenizer(texts, max_seq_length)
    if self.token_weights is not None:
      self.token_weights.warn_of_text(ids)
    return self.embed_ids(ids, pooling, batch_size, progress)

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
    if self.is_static:
      table = None
      if self.token_weights is not None:
        table = self.token_weights.table
      progress.update(len(ids))
      return self.bert.embed(ids, table)[:, : self.truncate_dim]
    check_not_forked(EncoderError)
    embed, has_gpu = self._embed_by_openvino, False
    if self.engine == TENSORFLOW:
      import tensorflow as tf

      embed, has_gpu = self._embed_by_tensorflow, bool(tf.config.list_logical_devices("GPU"))
      if not has_gpu:
        _suggest_openvino(self._weights.frozen and self.precision == "float32")
    # The longest come first, so that a batch that is too large fails at once.
    embeddings = np.empty([len(ids), self.dim(pooling)], np.float32)
    order = np.argsort([-len(row) for row in ids], kind="stable")
    start = 0
    while start < len(ids):
      # A batch for each device; the last of all batches may go to several.
      parts = []
      while len(parts) < self._replicas and start < len(ids):
        count = sentences_of_step(len(ids[order[start]]), batch_size, has_gpu)
        parts.append(order[start : start + count])
        start += count
      batches = [[ids[i] for i in part] for part in parts]
      for part, values in zip(parts, embed(batches, pooling), strict=True):
        embeddings[part] = values
        progress.update(len(part))
    return embeddings

  def _embed_by_openvino(self, batches, pooling):
    """Yields the embeddings of batches of int32 arrays [seq_len], float32 [batch, dim]."""
    engine = self.openvino_engine()
    for batch in batches:
      states = States({}, None)
      if pooling.kind != "words":
        states = engine(batch, **_wanted(pooling))
      ids, mask = pad_batch(batch, self.tokenizer.pad_id)
      yield self.pool_states(ids, mask, pooling, states)

  def openvino_engine(self) -> OpenVinoEngine:
    """Returns OpenVINO's engine of the weights: the one that embeds, or one of the variables as they are now."""
    weights = self._weights
    if self.engine != OPENVINO:
      from bert_flow_tf.encoder.transformer.transformer import path_of_variable

      variables = {path_of_variable(variable): variable for variable in self.bert.weights}
      return OpenVinoEngine(self.config, lambda path: variables[path].numpy(), self.has_pooler, self.precision)
    if weights.engine is None:
      model: Any = weights.model
      tensorflow, threads = imported_tensorflow(), None
      if tensorflow is not None:
        threads = tensorflow.config.threading.get_intra_op_parallelism_threads() or None
      weights.engine = OpenVinoEngine(model.config, model.read, model.has_pooler, self.precision, threads)
    return weights.engine

  def batch_model(self, pooling: Pooling, max_seq_length: int) -> BatchModel | None:
    """Returns OpenVINO's model of the states that a pooling reads, of texts up to a length; None if it reads none."""
    if self.is_static or pooling.kind == "words":
      return None
    return self.openvino_engine().model_of_batches(**_wanted(pooling), longest=max_seq_length)

  def pool_states(self, ids: Any, mask: Any, pooling: Pooling, states: States) -> Any:
    """Returns the embeddings [n, dim] of ids and mask, int32 [n, seq_len], and their states: arrays, or tensors."""
    words: Any = self._weights.model
    embeddings = self._pool(ids, mask, pooling, states.hidden_states, states.pooled_output, words)
    if self.is_static:
      embeddings = words.finish(embeddings)
    return embeddings[:, : self.truncate_dim]

  def _embed_by_tensorflow(self, batches, pooling):
    """Yields the embeddings of batches of int32 arrays [seq_len], one for each device or less, float32 [batch, dim]."""
    import tensorflow as tf

    padded = [pad_batch(batch, self.tokenizer.pad_id) for batch in batches]
    ids, _ = padded[0]
    if self._weights.frozen and self._strategy is None and len(ids) == 1 and ids.shape[1] <= _FEW_TOKENS:
      yield self._function(pooling, of_one_sentence=True)(tf.constant(ids)).numpy()
      return
    padded += padded[-1:] * (self._replicas - len(padded))
    for _, values in zip(batches, self._function(pooling)(padded), strict=False):
      yield values.numpy()

  def _function(self, pooling, of_one_sentence=False):
    """Returns `embed_batch` of a batch for each device as a graph; or of the ids of one sentence, int32 [1, seq_len].

    It is traced once for all shapes, without the blocks that the pooling ignores.
    """
    import tensorflow as tf

    key = pooling, of_one_sentence
    if key not in self._functions:
      spec, strategy = tf.TensorSpec([None, None], tf.int32), self._strategy
      embed_on_replica = functools.partial(self.embed_batch, pooling=pooling)

      @tf.function(input_signature=[[(spec, spec)] * self._replicas], autograph=False)
      def embed(batches):
        if len(batches) == 1:
          return [embed_on_replica(*batches[0])]
        dealt = strategy.experimental_distribute_values_from_function(lambda to: batches[to.replica_id_in_sync_group])
        return strategy.experimental_local_results(strategy.run(embed_on_replica, args=dealt))

      @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32)], autograph=False)
      def embed_one(ids):
        return embed_on_replica(ids, None)

      # The concrete function is kept: TensorFlow would warn of `embed` if a process traces many, one per encoder.
      function = embed_one if of_one_sentence else embed
      self._functions[key] = function.get_concrete_function()
    return self._functions[key]


def _wanted(pooling):
  """Returns the arguments of an engine for the states that a pooling reads."""
  return {"blocks": pooling.blocks, "pooled": pooling.kind == "cls", "first_token": _reads_first_token(pooling)}


def _reads_first_token(pooling):
  """Returns whether a pooling reads the state of the first token alone."""
  return pooling.kind in ("cls", "token")


@functools.cache
def _suggest_openvino(has_faster_engine):
  """Logs, once in a process, that OpenVINO is installed and may embed faster."""
  if has_faster_engine and importlib.util.find_spec("openvino"):
    logging.info("OpenVINO is installed: engine=openvino gives the same embeddings, and was faster where measured")
