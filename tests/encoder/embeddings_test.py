"""encoder/embeddings.py: the sentences of pairs, embedded once."""

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.embeddings import Embeddings, find_embeddings


class Numbered:
  """Encoder whose embedding of "i" is row i of a matrix."""

  def __init__(self, rows):
    self.rows = rows

  def encode(self, sentences, **unused):
    return self.rows[[int(sentence) for sentence in sentences]]


def test_embeddings_of_pairs():
  rows = np.arange(8.0).reshape(4, 2)
  first, other = SentencePairs.without_gold(["2", "0"], ["2", "3"]), SentencePairs.without_gold(["1"], ["0"])
  embeddings = Embeddings(Numbered(rows), [first])
  np.testing.assert_array_equal(embeddings.values, rows[[2, 0, 3]])  # each distinct sentence once
  np.testing.assert_array_equal(embeddings.of(["3", "2", "3"]), rows[[3, 2, 3]])
  assert embeddings.have(first) and not embeddings.have(other)
  assert find_embeddings(first, [Embeddings(Numbered(rows), [other]), embeddings]) is embeddings
  assert find_embeddings(other, [embeddings]) is None
  calibrated = embeddings.calibrated_by(lambda found, sentences: np.c_[found, list(map(float, sentences))])
  np.testing.assert_array_equal(calibrated(["3", "2"]), [[6, 7, 3], [4, 5, 2]])
