"""A BERT or a model of its kin, or its word rows alone, with fixed weights: loaded from one of the kinds of sources."""

import hashlib
import operator
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder import architectures, google_folder, hugging_face, static, tf1_names
from bert_flow_tf.encoder import precision as precision_lib
from bert_flow_tf.encoder.architectures import bare_name, main_layer
from bert_flow_tf.encoder.declared import Declared, read_declared
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.encoder.source import Source, find
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.experiment import STATIC


class BertEncoder:
  """Encoder with fixed weights: `model` is a TFBertModel, TFRobertaModel, ... of transformers, or `static.WordRows`."""

  def __init__(
    self,
    model: Any,
    source: Source,
    folder: pathlib.Path,
    has_pooler: bool,
    precision: str,
    declared: Declared,
    frozen: bool = True,
  ) -> None:
    """`frozen`: whether the weights never change, so that they are cast to the precision once."""
    self.model = model
    self.config = model.config
    self.name = source.name
    self.folder = folder
    self.has_pooler = has_pooler
    self.declared = declared
    self.revision = source.revision
    self.temporary: Any = None  # the folder, if it is deleted with this object
    # Devices with a copy of the weights, which embed together: those of the strategy in whose scope they were made.
    self.strategy, self.replicas = getattr(model.weights[0], "distribute_strategy", None), 1
    if self.strategy is not None and len(self.strategy.extended.worker_devices) == self.strategy.num_replicas_in_sync:
      self.replicas = self.strategy.num_replicas_in_sync
    self.row = architectures.architecture_of(model.config)
    self._first_position = 0
    if not self.is_static:
      self._first_position = self.row.first_position(model.config)
    self.compute_in(precision, frozen)

  def compute_in(self, precision: str, frozen: bool) -> None:
    """Sets the precision of the dense layers; the weights stay float32."""
    self.precision = precision
    self._dense = {}
    if not self.is_static:
      self._dense = precision_lib.dense_calls(self.model, precision, frozen)

  def __call__(
    self, ids: tf.Tensor, mask: tf.Tensor, dropout_seed: tf.Tensor | None = None, training: bool = False
  ) -> tuple[tuple[tf.Tensor, ...], tf.Tensor | None]:
    """Returns the hidden states and the pooled output of ids and mask, int32 [batch, seq_len]; () and None if static.

    There are num_hidden_layers + 1 states, float32 [batch, seq_len, hidden], 0 is the embedding layer; the pooled
    output is float32 [batch, hidden]. `dropout_seed`, int32 [2], decides the dropout masks; None for no dropout, or
    with `training` Keras' own.
    """
    if self.is_static:
      return (), None
    replaced = dict(self._dense)
    if dropout_seed is not None:
      training = True
      replaced |= precision_lib.dropout_calls(self.model, dropout_seed)
    # Segment ids are 0, as in the original (docs/original.md, "Encoder and pooling"), and transformers' default.
    positions = {}
    if self._first_position:
      # As in PyTorch; transformers' classes for TensorFlow would assume 1 as the padding token.
      pad_id = self._first_position - 1
      is_token = tf.cast(ids != pad_id, tf.int32)
      positions["position_ids"] = tf.cumsum(is_token, axis=1) * is_token + pad_id
    with precision_lib.Replaced(replaced):
      output = self.model(
        input_ids=ids,
        attention_mask=mask,
        **positions,
        output_hidden_states=True,
        return_dict=True,
        training=training,
      )
    return output.hidden_states, output.get("pooler_output")

  @property
  def is_static(self) -> bool:
    """True if it has word rows and no transformer."""
    return isinstance(self.model, static.WordRows)

  @property
  def max_tokens(self) -> int:
    """Number of tokens whose positions have an embedding."""
    return int(self.config.max_position_embeddings) - self._first_position

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the number of tokens, the declared one for None; EncoderError if a position has no embedding."""
    # A position without an embedding would read beyond the table.
    limit = self.max_tokens
    if max_seq_length is None:
      max_seq_length = min(self.declared.max_seq_length, limit)
    if not is_integer(max_seq_length, 3) or max_seq_length > limit:
      expected = f"an integer from 3 (a token between [CLS] and [SEP]) to {limit}, the positions of '{self.name}'"
      raise EncoderError(f"max_seq_length={max_seq_length}: expected {expected}", argument="max_seq_length")
    return int(max_seq_length)

  @property
  def word_size(self) -> int:
    """Width of the word embeddings: that of the hidden states, except in ELECTRA and ALBERT."""
    return int(self.model.get_input_embeddings().weight.shape[1])

  def word_rows(self, ids: tf.Tensor, widened: bool = False) -> tf.Tensor:
    """Returns the word embeddings of token ids, each divided by its length, float32 [batch, seq_len, word_size].

    `widened` ones are as wide as the hidden states, by the model's own projection without its bias.
    """
    rows = tf.gather(self.model.get_input_embeddings().weight, ids)
    if widened and self.word_size != self.config.hidden_size:
      rows = tf.matmul(rows, operator.attrgetter(self.row.projection)(main_layer(self.model)).kernel)
    return tf.math.l2_normalize(rows, axis=-1)

  def word_embeddings(self) -> np.ndarray:
    """Returns the word embeddings, float32 [vocab, hidden], before position and normalization."""
    return self.model.get_input_embeddings().weight.numpy()

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the names, shapes and bytes of all variables, sorted by name."""
    # Sorted by name, so that the order in which layers were built does not matter.
    digest = hashlib.sha256()
    for weight in sorted(self.model.weights, key=bare_name):
      value = np.ascontiguousarray(weight.numpy())
      digest.update(f"{bare_name(weight)} {value.dtype} {value.shape} ".encode())
      digest.update(value.data)
    return digest.hexdigest()

  def tf1_variables(self) -> dict[str, np.ndarray]:
    """Returns {name in Google's checkpoints: float32 array} of every weight."""
    self.check_has_transformer("be saved or converted as a BERT")
    if not self.is_bert:
      raise EncoderError(
        f"model={self.name}: a checkpoint of TensorFlow 1 can hold a BERT alone, and this is a {self.row.name}", "model"
      )
    return {tf1_names.of_keras(bare_name(weight)): weight.numpy() for weight in self.model.weights}

  def check_has_transformer(self, purpose: str) -> None:
    """Raises EncoderError for a static encoder; `purpose`: what it cannot do, "be trained"."""
    if self.is_static:
      full = self.name.removeprefix(STATIC)
      raise EncoderError(f"model={self.name}: word rows without a transformer cannot {purpose}; use {full}", "model")

  @property
  def is_bert(self) -> bool:
    """True if it is a BERT, which checkpoints of TensorFlow 1 can hold."""
    return self.config.model_type == architectures.BERT and not self.is_static

  @property
  def architecture(self) -> dict[str, Any]:
    """Settings that change the output and no weight, for cache keys."""
    if self.is_static:
      return {}
    values = self.config.to_dict()
    settings = {}
    for name in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
      key = self.row.key(name)
      if key:
        settings[name] = values[key]
    if not self.is_bert:
      settings |= {"model_type": self.config.model_type, "first_position": self._first_position}
    if not self.row.blocks:  # as often as one likes the same weights
      settings["num_hidden_layers"] = int(self.config.num_hidden_layers)
    return settings


def load_bert(settings: EncoderSettings) -> BertEncoder:
  """Returns the BERT, or the word rows, that settings name; no weight stays random."""
  hugging_face.check_transformers()
  source = find(settings)
  _check_settings(settings, source)
  changes = {}
  if settings.hidden_act is not None:
    changes["hidden_act"] = settings.hidden_act
  load = _load_hugging_face
  if source.checkpoint is not None:
    load = _load_google
  model, has_pooler, folder, declared = load(source, settings, changes)
  if source.static:
    length = STATIC_MAX_SEQ_LENGTH
    if declared.source:
      length = declared.max_seq_length
    lower_case_by = declared.lower_case_by
    declared = Declared(WORD_ROWS, length, lower_case_by=lower_case_by, token_weights=static.TOKEN_WEIGHTS)
    return BertEncoder(model, source, folder, has_pooler, settings.precision, declared)
  if not has_pooler:
    # Its weights are random and must not be read or change the checksum. MPNet calls it in any case.
    main_layer(model).pooler = lambda *args, **kwargs: None
  model.trainable = False
  return BertEncoder(model, source, folder, has_pooler, settings.precision, declared)


def _load_hugging_face(source, settings, changes):
  """Returns the model, whether it has a pooled output, the folder of its files, and what they declare."""
  declared, folder = read_declared(source.folder)
  model, has_pooler = hugging_face.load(folder, changes, source.static)
  return model, has_pooler, folder, declared


def _load_google(source, settings, changes):
  """Returns the same for a TensorFlow 1 checkpoint, whose configuration and vocabulary may be in other folders."""
  config_path = google_folder.config_file(source.folder)
  if settings.bert_config_file:
    config_path = _given_file("bert_config_file", settings.bert_config_file)
  vocab_file = source.folder / "vocab.txt"
  if settings.vocab_file is not None:
    vocab_file = _given_file("vocab_file", settings.vocab_file)
  model, has_pooler = google_folder.load(config_path, vocab_file, source.checkpoint, changes, source.static)
  return model, has_pooler, vocab_file.parent, Declared()


def _given_file(argument, value):
  """Returns the path of a file that the user named."""
  path = pathlib.Path(os.path.expanduser(value))
  if not path.is_file():
    raise ConfigError(f"{argument}={value}: no such file", argument)
  return path


def _check_settings(settings, source):
  """Raises ConfigError for a setting that such files have no use for."""
  useless = {"saved_model_output": "is no SavedModel"}
  if source.static:
    useless |= dict.fromkeys(("precision", "hidden_act"), "has no transformer that could use it")
  if source.checkpoint is None:
    reason = "is no TensorFlow 1 checkpoint that it could belong to"
    useless |= dict.fromkeys(("bert_config_file", "vocab_file"), reason)
  settings.check_useful(useless)
