"""An encoder as a Keras layer, frozen or trained."""

import contextlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.errors import DataError

# The class of encoders, in the notation of Keras' files.
_ENCODER_CLASS = {
  "module": "bert_flow_tf.encoder.sentence_encoder",
  "class_name": "SentenceEncoder",
  "registered_name": "bert_flow_tf>SentenceEncoder",
}


@tf_keras.saving.register_keras_serializable("bert_flow_tf")
class EncoderLayer(tf_keras.layers.Layer):
  """Keras layer from sentences or their ids to embeddings u, float32 [batch, dim], by `SentenceEncoder.as_layer`.

  Its input is a string tensor [batch] (in eager calls also a list of str), ids int32 [batch, seq_len], or ids and mask
  as a tuple, a list of two tensors, or the dict of transformers' tokenizers. `training=True` means BERT's dropout if
  the layer is trainable. Without TensorFlow Text, or a graph form of the tokenizer, sentences are tokenized in Python,
  which no SavedModel contains: give it ids.

  A .keras or .h5 file of a model around it has its weights, and names the encoder, which is loaded again.
  """

  def __init__(self, encoder: Any, pooling: pooling_lib.Pooling, max_seq_length: int, trainable: bool, **kwargs: Any):
    super().__init__(trainable=trainable, **kwargs)
    self.dim = encoder.dim(pooling)
    self._max_seq_length, self._pooling = max_seq_length, pooling
    # The model itself is no sublayer: to freeze this layer would freeze the user's model, too.
    self._encoder = encoder
    self._used = encoder.trained_weights(pooling)
    self._graph_tokenizer: Any = None
    if importlib.util.find_spec("tensorflow_text"):
      # 700 lines that an encoder without a graph of its tokenizer does not need.
      from bert_flow_tf.encoder.graph.normalizers import NoGraphForm
      from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

      with contextlib.suppress(NoGraphForm):
        self._graph_tokenizer = GraphTokenizer(encoder.tokenizer, max_seq_length)
    # What the embedding does not depend on is a part of a saved graph, but not of the weights.
    self._model = tf.__internal__.tracking.AutoTrackable()
    self._model.weights = encoder.bert.weights

  def get_config(self) -> dict[str, Any]:
    """Returns the layer's arguments, and the encoder's identity; an own model's is a NotImplementedError."""
    if self._encoder.loaded.is_user_model:
      raise NotImplementedError(
        f"'{self.name}': a .keras or .h5 file names the encoder, and a model object of your own has no name to load it "
        "by; save the weights (save_weights), or a SavedModel (model.save of a folder)"
      )
    identity = self._encoder.identity(self._pooling, self._max_seq_length)
    return {**super().get_config(), "encoder": identity.to_dict()}

  @classmethod
  def from_config(cls, config: dict[str, Any]) -> "EncoderLayer":
    """Returns the layer of `get_config`, on an encoder that is loaded; Keras then sets the saved weights."""
    arguments = dict(config)
    identity = arguments.pop("encoder")
    encoder_class = tf_keras.saving.get_registered_object(_ENCODER_CLASS["registered_name"])
    if encoder_class is not None:  # Keras' loader of .h5 files knows no modules
      encoder = encoder_class.from_config(identity)
    else:
      encoder = tf_keras.saving.deserialize_keras_object({**_ENCODER_CLASS, "config": identity})
    for name in ("sentence_embedding_type", "max_seq_length"):
      arguments[name] = identity[name]
    return encoder.as_layer(**arguments)

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
      if "input_ids" not in inputs:
        raise DataError(f"inputs: a dict of {', '.join(map(str, inputs))[:80]}; expected input_ids and attention_mask")
      inputs, mask = inputs["input_ids"], inputs.get("attention_mask")
    elif isinstance(inputs, tuple) or _is_ids_and_mask(inputs):
      inputs, mask = inputs
    inputs = tf.convert_to_tensor(inputs)
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
      tf.debugging.assert_less_equal(tf.shape(ids)[-1], limit, message)
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


def _is_ids_and_mask(inputs):
  """Returns whether a list is two tensors [batch, seq_len], as Keras' layers take several inputs."""
  if not isinstance(inputs, list) or len(inputs) != 2:
    return False
  return all(tf.is_tensor(part) and part.shape.rank == 2 for part in inputs)
