"""What a served model answers: text, ids or latents in, one row out for each row in."""

import functools

import tensorflow as tf


class ServedModel:
  """The tokenizer, encoder, pooling and calibration as functions of a fixed signature.

  Every input and output has the batch as dimension 0, which may be 0. Nothing reads beyond a sentence's own length:
  what a server pads a batch with does not count.

  Args:
    encoder: `SentenceEncoder`.
    tokenizer: `GraphTokenizer`.
    calibration: `CalibrationGraph`.
    pooling: `Pooling`.
    low_dim: groups of neighbouring dimensions, or None.
    normalize: whether embeddings get the length 1.
  """

  def __init__(self, encoder, tokenizer, calibration, pooling, low_dim=None, normalize=False):
    self._encoder, self._tokenizer, self._calibration = encoder, tokenizer, calibration
    self._pooling, self._low_dim, self._normalize = pooling, low_dim, normalize
    ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
    pooled = tf.TensorSpec([None, calibration.dim], tf.float32)
    # Traced once each, and called by every signature.
    self._pooled = tf.function(self._pool, [ids, lengths], autograph=False)
    self._calibrated = tf.function(self._calibrate, [pooled], autograph=False)

  def signatures(self):
    """{name: tf.function}, the output names those of the results' keys."""
    text = functools.partial(tf.TensorSpec, [None], tf.string)
    ids = tf.TensorSpec([None, None], tf.int32, "ids")
    found = {
      "serving_default": (self._embed, [text("text")]),
      "embed_pooled": (self._embed_pooled, [text("text")]),
      "embed_ids": (self._embed_ids, [ids, tf.TensorSpec([None], tf.int32, "lengths")]),
      "similarity": (self._similarity, [text("text_a"), text("text_b")]),
    }
    if self._calibration.is_flow:
      latent = tf.TensorSpec([None, self._calibration.output_dim], tf.float32, "latent")
      found |= {"log_prob": (self._log_prob, [text("text")]), "inverse": (self._inverse, [latent])}
    return {name: tf.function(call, specs, autograph=False) for name, (call, specs) in found.items()}

  def _embed(self, text):
    return {"embedding": self._calibrated(self._pooled(*self._tokenizer(text)))}

  def _embed_pooled(self, text):
    return {"pooled": self._pooled(*self._tokenizer(text))}

  def _embed_ids(self, ids, lengths):
    return {"embedding": self._calibrated(self._pooled(ids, lengths))}

  def _similarity(self, text_a, text_b):
    # Together, so that both sides of a pair are computed alike and the batch is twice as large.
    both = self._calibrated(self._pooled(*self._tokenizer(tf.concat([text_a, text_b], axis=0))))
    a, b = tf.split(tf.math.l2_normalize(both, axis=1), 2)
    return {"score": tf.reduce_sum(a * b, axis=1)}

  def _log_prob(self, text):
    bits, nats = self._calibration.log_prob(self._pooled(*self._tokenizer(text)))
    return {"bits_per_dim": bits, "nats": nats}

  def _inverse(self, latent):
    return {"pooled": self._calibration.inverse(latent)}

  def _pool(self, ids, lengths):
    """The encoder's embeddings: ids int32 [n, seq_len], lengths int32 [n] -> float32 [n, dim]."""
    count = tf.shape(ids)[0]
    longest = self._encoder.bert.config.max_position_embeddings
    width = tf.minimum(tf.shape(ids)[1], longest)
    lengths = tf.clip_by_value(lengths, 0, width)
    # Attention fails on a batch without rows or tokens: it gets one of padding more, taken away below.
    width = tf.maximum(tf.reduce_max(tf.concat([lengths, [1]], axis=0)), 1)
    ids = tf.pad(ids[:, :width], [[0, tf.cast(count < 1, tf.int32)], [0, tf.maximum(width - tf.shape(ids)[1], 0)]])
    mask = tf.sequence_mask(lengths, width, tf.int32)
    mask = tf.pad(mask, [[0, tf.cast(count < 1, tf.int32)], [0, 0]])
    ids = tf.where(mask > 0, ids, self._tokenizer.pad_id)
    return self._encoder.embed_batch(ids, mask, self._pooling, low_dim=self._low_dim)[:count]

  def _calibrate(self, pooled):
    embedding = self._calibration.transform(pooled)
    return tf.math.l2_normalize(embedding, axis=1) if self._normalize else embedding
