"""Embedding of text inside a TensorFlow graph, with gradients."""

import tensorflow as tf

from bert_flow_tf.encoder.graph.normalizers import NoGraphForm
from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.text_encoder import TokenEncoder


class EncoderGraph:
  """Tokenizer, BERT and pooling in a graph; without dropout, and with gradients to BERT's weights.

  A batch may have 0 rows. Only the first `lengths` tokens of a row are read, so further padding changes nothing.
  Without a pooling embeddings have 0 dimensions. `without_text` is the reason if the graph takes ids alone.
  """

  takes_ids = True

  def __init__(self, encoder: TokenEncoder, pooling: Pooling | None, max_seq_length: int):
    self._encoder, self._pooling, self.max_seq_length = encoder, pooling, max_seq_length
    self.without_text: str | None = None
    try:
      with tf.init_scope():  # its tables belong to no function that uses them
        self.tokenizer = GraphTokenizer(encoder.tokenizer, max_seq_length)
    except NoGraphForm as error:
      self.without_text = str(error)

  @property
  def variables(self) -> list[tf.Variable]:
    """The weights of the encoder, if they are used."""
    if self._pooling is None:
      return []
    return list(self._encoder.weights)

  def trainable_variables(self) -> list[tf.Variable]:
    """Returns the weights that get gradients; none of an encoder without blocks."""
    if not self._encoder.num_hidden_layers or self._pooling is None:
      return []
    return self._encoder.trained_weights(self._pooling)

  def features(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """See `TextGraph`."""
    ids, lengths = self.tokenizer(text)
    return self.of_ids(ids, lengths), ids, lengths

  def track(self, module: tf.Module) -> None:
    """Does nothing: its variables are all that it needs."""

  def of_ids(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """ids int32 [n, seq_len] and numbers of tokens int32 [n] -> embeddings float32 [n, dim]."""
    width = tf.minimum(tf.shape(ids)[1], self._encoder.max_tokens)
    lengths = tf.clip_by_value(lengths, 0, width)
    # Attention fails without tokens: a batch without any gets a column of padding.
    width = tf.maximum(tf.reduce_max(tf.concat([lengths, [1]], axis=0)), 1)
    ids = tf.pad(ids[:, :width], [[0, 0], [0, tf.maximum(width - tf.shape(ids)[1], 0)]])
    return self._embed(ids, tf.sequence_mask(lengths, width, tf.int32), packed=True)

  def of_fixed_width(self, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns embeddings of ids and mask int32 [n, seq_len], not empty, by operations of TensorFlow Lite alone."""
    return self._embed(ids, mask, packed=False)

  def _embed(self, ids, mask, packed):
    """Returns embeddings of ids and mask, int32 [n, seq_len]."""
    if self._pooling is None:
      return tf.zeros([tf.shape(ids)[0], 0])
    # Attention fails without rows, too: a row of padding is added, and cut off below.
    n = tf.shape(ids)[0]
    extra_row = [[0, tf.cast(n < 1, tf.int32)], [0, 0]]
    width = ids.shape[1]
    ids, mask = tf.pad(ids, extra_row), tf.pad(mask, extra_row)
    ids = tf.where(mask > 0, ids, self._encoder.tokenizer.pad_id)
    ids.set_shape([None, width])
    return self._encoder.pooled_batch(ids, mask, self._pooling, packed=packed)[:n]
