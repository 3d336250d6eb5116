"""Shared data of the calibrations' tests: embeddings shaped like BERT's, and every method by name."""

import numpy as np

from bert_flow_tf.calibration.step import Features

# Every method, with and without k; with K of NATSV still to be chosen only where nothing is transformed.
NAMES = (
  "none",
  "mean",
  "sn",
  "natsv-1",
  "natsv-3",
  "sn+natsv-2",
  "whitening",
  "whitening-4",
  "soft-whitening",
  "soft-whitening-0.3",
  "tempered-whitening",
  "tempered-whitening-0.3",
)
D = 8


def cone(rows, dim, seed=0):
  """Embeddings [rows, dim], float32: a common mean, a decaying spectrum, a heavy dimension."""
  rng = np.random.default_rng(seed)
  u = rng.standard_normal([rows, dim]) * np.geomspace(1.0, 0.05, dim) @ np.linalg.qr(rng.standard_normal([dim, dim]))[0]
  u += 2 * rng.standard_normal(dim)
  u[:, 0] *= 10.0
  return u.astype(np.float32)


def in_graph(step, lite=False):
  """Returns a step as a function of embeddings in a graph of TensorFlow."""
  import tensorflow as tf

  return tf.function(lambda u: step(Features(u, lite=lite)), autograph=False)


def close(actual, expected, tolerance=2e-6):
  """Asserts equality up to a tolerance relative to the largest value."""
  np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def cosines(rows):
  """Returns the cosine of every row with every row, float64 [n, n]."""
  rows = np.asarray(rows, np.float64)
  rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
  return rows @ rows.T
