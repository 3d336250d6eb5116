"""Rows, a model, and the cosines of all pairs."""

import functools

import numpy as np

import bert_flow_tf
from bert_flow_tf.evaluation.metrics import cosine_similarity

CHUNKS = [(1, 1), (3, 7), (7, 3), (1024, 16384)]
MODEL = functools.cache(lambda: bert_flow_tf.SentenceModel.from_pretrained("static:mini"))
# float32 rounds each of the products and sums of a cosine by up to 2^-24.
ROUNDING = 1e-6


def embeddings(n, dim=5, seed=0):
  """Rows without equal cosines, except for copies of a row; the last row is zeros."""
  rows = np.random.default_rng(seed).normal(size=[n, dim]).astype(np.float32)
  rows[5::9] = rows[2] * 3
  rows[-1] = 0
  return rows


def repeated(n, dim=384, seed=0):
  """Rows of which most are equal to others, in random order, and the order of all by float64 for each of 12 queries.

  Some queries are rows. So many dimensions that equal rows have unequal cosines by float32.
  """
  rng = np.random.default_rng(seed)
  distinct = rng.normal(size=[8, dim]).astype(np.float32)
  number = rng.integers(8, size=n)
  queries = np.concatenate([distinct[:2], rng.normal(size=[10, dim])]).astype(np.float32)
  cosines = all_cosines(queries, distinct)[:, number]
  order = np.array([np.lexsort([np.arange(n), -of_query]) for of_query in cosines])
  return queries, distinct[number], order


def all_cosines(a, b):
  """All cosines [m, n], each pair by itself, as `SentenceModel.similarity` has them."""
  left, right = np.repeat(a, len(b), axis=0), np.tile(b, [len(a), 1])
  return np.nan_to_num(cosine_similarity(left, right)).reshape(len(a), len(b))


class Hasher:
  """Model that reads the first two letters of a text, and knows none that begins with "?"."""

  def encode(self, texts, batch_size=64, show_progress_bar=False):
    return np.array([np.random.default_rng(list(text[:2].encode())).normal(size=8) for text in texts])

  def unread(self, texts):
    return [text if text.startswith("?") else text[2:] for text in texts]

  def knows(self, texts):
    return np.array([not text.startswith("?") for text in texts], bool)
