"""An encoder as a Keras layer, frozen or trained."""

import contextlib
import dataclasses
import importlib.util
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.loading import load_encoder
from bert_flow_tf.encoder.settings import TENSORFLOW
from bert_flow_tf.encoder.text.token_weights import UNIFORM, TokenWeights
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.encoder.text_encoder import TokenEncoder
from bert_flow_tf.encoder.transformer.weight_names import path_of_variable
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.flow.keras import (
  Layer,
  as_output_shape,
  is_symbolic,
  name_in_file,
  name_scope,
  registered,
  weights_on,
)
from bert_flow_tf.io.checks import check_dense

# Differences that an error names.
_SHOWN = 3


@registered
class EncoderLayer(Layer):
  """Keras layer from sentences or their ids to embeddings u, float32 [batch, dim], by `SentenceEncoder.as_layer`.

  Its input is a string tensor [batch] (in eager calls also a list of str), ids int32 [batch, seq_len], or ids and mask
  as a tuple, a list of two tensors, or the dict of transformers' tokenizers. `training=True` means BERT's dropout if
  the layer is trainable. Without TensorFlow Text, or a graph form of the tokenizer, sentences are tokenized in Python,
  which no SavedModel contains: give it ids.

  A .keras or .h5 file of a model around it has its weights, the weights of tokens (`token_weights`), and the name of
  the encoder, which is loaded again; Keras finds the class if it was imported. Of the encoder that is found, all that
  decides an embedding and is not in the file is compared with the saved encoder's: vocabulary and tokenizer, blocks of
  the pooling, and settings of config.json. A `frequency_corpus` is not read again.
  """

  def __init__(
    self,
    encoder: TokenEncoder,
    pooling: pooling_lib.Pooling,
    max_seq_length: int,
    trainable: bool,
    name: str | None = None,
  ):
    # The encoder computes in its `precision`, not in the precision of a Keras policy.
    super().__init__(dtype="float32", name=name)
    self.dim = encoder.dim(pooling)
    self.supports_jit = False  # sentences are no numbers, and every length of a batch would be compiled
    self._max_seq_length, self._pooling = max_seq_length, pooling
    # The model itself is no sublayer: to freeze this layer would freeze the user's model, too.
    self._encoder = encoder
    used = {path_of_variable(variable): variable for variable in encoder.trained_weights(pooling)}
    with name_scope(self.name):
      self._used = weights_on(used, trainable)
    self._graph_tokenizer: Any = None
    if importlib.util.find_spec("tensorflow_text"):
      # 700 lines that an encoder without a graph of its tokenizer does not need.
      from bert_flow_tf.encoder.graph.normalizers import NoGraphForm
      from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

      with contextlib.suppress(NoGraphForm):
        self._graph_tokenizer = GraphTokenizer(encoder.tokenizer, max_seq_length)
    # TensorFlow's checkpoints find the variables here. Variables that do not change the embedding are saved in a graph,
    # but they are not weights of the layer.
    self._model = tf.__internal__.tracking.AutoTrackable()
    self._model.weights = encoder.variables
    self.trainable = trainable  # the weights', too, which Keras 3 changes only together with the layer's
    self.built = True

  def __reduce__(self) -> tuple:
    """Pickles and copies the layer together with its encoder: the copy computes on the weights of the new encoder."""
    return type(self), (self._encoder, self._pooling, self._max_seq_length, self.trainable, self.name)

  def get_config(self) -> dict[str, Any]:
    """Returns the layer's arguments, and the encoder's identity; an own model's is a NotImplementedError."""
    if self._encoder.is_user_model:
      raise NotImplementedError(
        f"'{self.name}': a .keras or .h5 file names the encoder, and a model object of your own has no name to load it "
        "by; save the weights (save_weights), or a SavedModel (tf.saved_model.save)"
      )
    name_in_file(self)
    identity = self._encoder.identity(self._pooling, self._max_seq_length)
    config = {"name": self.name, "trainable": self.trainable, "encoder": identity.to_dict()}
    if self._encoder.token_weights is not None:
      config["token_weights"] = self._encoder.token_weights.to_text()
    return config

  @classmethod
  def from_config(cls, config: dict[str, Any]) -> "EncoderLayer":
    """Returns the layer of `get_config`, on an encoder that is loaded; Keras then sets the saved weights.

    Raises:
      EncoderError: the encoder cannot be loaded, or differs from the saved one in more than its weights.
    """
    identity = EncoderIdentity.from_dict(config["encoder"], "saved layer")
    loading = dataclasses.replace(identity.loading_settings(), engine=TENSORFLOW)
    settings, table = loading, config.get("token_weights")
    if table is not None:
      settings = dataclasses.replace(settings, token_weights=UNIFORM, frequency_corpus=None, number_weight=None)
    try:
      encoder: Any = load_encoder(settings)
    except (ConfigError, EncoderError) as error:
      raise EncoderError(f"saved layer: its encoder '{identity.name}' cannot be loaded: {error}") from error
    if table is not None:
      encoder.settings = loading
      encoder.token_weights = TokenWeights.from_text(table, encoder.settings)
    pooling = encoder.pooling(identity.sentence_embedding_type)
    _check_same(identity, encoder.identity(pooling, identity.max_seq_length))
    return cls(encoder, pooling, identity.max_seq_length, config["trainable"], config["name"])

  def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the layer as Keras does, on tensors."""
    return super().__call__(_as_tensors(inputs), *args, **kwargs)

  def compute_output_shape(self, input_shape: Any) -> Any:
    """Returns (batch, dim), of the shape of any of the inputs."""
    shape = input_shape
    while not _is_shape(shape):
      parts = shape.values() if isinstance(shape, Mapping) else shape
      shape = next(iter(parts))
    return as_output_shape([shape[0], self.dim])

  @tf.autograph.experimental.do_not_convert  # no condition is a tensor, and the conversion costs seconds
  def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
    """Returns the embeddings; gradients flow into BERT if the layer is trainable."""
    ids, mask = self._tokens(inputs)
    if not self.trainable:
      return self._encoder.embed_batch(ids, mask, self._pooling)
    seed = None
    if training:
      seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    return self._encoder.pooled_batch(ids, mask, self._pooling, seed)

  def _tokens(self, inputs):
    """Returns ids and mask, int32 [batch, seq_len], of any of the inputs."""
    pad_id = self._encoder.tokenizer.pad_id
    mask = None
    if isinstance(inputs, Mapping):
      inputs, mask = inputs["input_ids"], inputs.get("attention_mask")
    elif isinstance(inputs, list | tuple):
      inputs, mask = inputs
    if inputs.dtype != tf.string:
      ids = tf.cast(inputs, tf.int32)
      if ids.shape.rank not in (None, 2):
        raise DataError(f"inputs: ids of shape {ids.shape}; expected [batch, seq_len]")
      if mask is None:
        mask = ids != pad_id
      # A position without an embedding would be read beyond the table.
      limit = self._encoder.max_tokens
      message = f"inputs: rows of ids are longer than the {limit} positions of '{self._encoder.name}'; cut them off"
      if ids.shape[-1] is not None and ids.shape[-1] > limit:
        raise DataError(message)
      with tf.control_dependencies([tf.debugging.assert_less_equal(tf.shape(ids)[-1], limit, message)]):
        ids = tf.identity(ids)  # read after the check, in a graph too
      return ids, tf.cast(mask, tf.int32)

    inputs = tf.reshape(inputs, [-1])
    if self._graph_tokenizer is not None:
      ids, lengths = self._graph_tokenizer(inputs)
      return ids, tf.sequence_mask(lengths, tf.shape(ids)[1], tf.int32)

    def tokenize(texts):
      return pad_batch(self._encoder.tokenizer(texts, self._max_seq_length), pad_id)

    ids, mask = tf.numpy_function(tokenize, [inputs], [tf.int32, tf.int32])
    ids.set_shape([None, None])
    mask.set_shape([None, None])
    return ids, mask


def _check_same(saved, found):
  """Raises an EncoderError if the encoder of a saved layer differs from the saved one in more than its weights."""
  different = saved.differences(dataclasses.replace(found, weights_sha256=saved.weights_sha256))
  if not different:
    return
  mend = "restore its folder, or make the layer again with as_layer"
  corpus = saved.settings.frequency_corpus
  if corpus is not None and [line.partition(" ")[0] for line in different] == ["token_weights_sha256"]:
    mend = f"frequency_corpus={corpus} has changed since, restore it, or make the layer again with as_layer"
  raise EncoderError(
    f"saved layer: its encoder '{saved.name}' is not the saved one: {'; '.join(different[:_SHOWN])}; {mend}"
  )


def _as_tensors(inputs):
  """Returns the inputs of a call as a tensor, a list of two, or a dict of ids and mask; symbolic ones as they are."""
  if isinstance(inputs, Mapping):
    if "input_ids" not in inputs:
      raise DataError(f"inputs: a dict of {', '.join(map(str, inputs))[:80]}; expected input_ids and attention_mask")
    return {name: _as_tensor(inputs[name]) for name in ("input_ids", "attention_mask") if name in inputs}
  if isinstance(inputs, tuple) or _is_ids_and_mask(inputs):
    return list(map(_as_tensor, inputs))
  return _as_tensor(inputs)


def _as_tensor(values):
  if is_symbolic(values):
    return values
  check_dense(values, "inputs")
  return tf.convert_to_tensor(values)


def _is_ids_and_mask(inputs):
  """Returns whether a list is two tensors [batch, seq_len], as Keras' layers take several inputs."""
  if not isinstance(inputs, list) or len(inputs) != 2:
    return False
  return all((tf.is_tensor(part) or is_symbolic(part)) and len(part.shape) == 2 for part in inputs)


def _is_shape(value):
  """Returns whether a value is a shape, and no collection of some."""
  if isinstance(value, tf.TensorShape):
    return True
  return isinstance(value, list | tuple) and all(size is None or isinstance(size, int) for size in value)
