"""String match of sentences: characters of their word pieces, without any weight of an encoder."""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from bert_flow_tf.encoder.text.frequency import SPECIAL
from bert_flow_tf.encoder.text.token_weights import TokenWeights, is_punctuation
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer

# Numbers of characters of the n-grams. Mean of the seven sets, `mini`'s pieces: 70.2 with these, 70.0 with 3 alone,
# 70.1 with 6 as well, 68.8 without n-grams.
NGRAMS = (3, 4, 5)
_ALPHA = 0.75  # of token_weights=idf
_START = "<"
_NO_CHARACTER = "\ufffd"
# Number of signs that a random number gives.
_SIGNS = 64


class CharacterTable:
  """Rows of word pieces whose weighted sum c, divided by its length, is the characters of a sentence.

      w(v) = piece v, after "<" if it starts a word;  g(v) = {w(v), and its substrings of 3, 4 and 5 characters}
      C_v  = sum over g in g(v) of idf_g r_g,  divided by its length;  idf_g = ln((N + 1) / (df_g + 1))^0.75
      c    = sum over the pieces v of a sentence of a_v C_v;  a_v = ln((N + 1) / (df_v + 1))^0.75

  `weights` give df_v, the number of the N sentences with v, which is 0 for a piece with a digit; df_g is the sum of the
  df_v of the pieces with g, at most N. The r_g are unit vectors (exact, sparse), or vectors of random signs (dense),
  whose products differ by about 1 / sqrt(dim). Special tokens and punctuation have rows of zeros; years, which have no
  weight in an embedding, count. `sizes`: numbers of characters of the n-grams; () gives tf-idf of word pieces.
  """

  def __init__(self, tokenizer: SentenceTokenizer, weights: TokenWeights, sizes: Sequence[int] = NGRAMS) -> None:
    self._tokenizer, self._weights = tokenizer, weights
    texts, total = written(tokenizer), weights.total
    frequencies = np.zeros(len(texts))
    known = np.asarray(weights.frequencies)[: len(texts)]
    frequencies[: len(known)] = known
    content = f"{tokenizer.checksum} {total} ".encode() + frequencies.tobytes()
    self.checksum = hashlib.sha256(content).hexdigest()
    numbers: dict[str, int] = {}  # of the n-grams
    columns, ends = [], [0]
    for text in texts:
      for ngram in _ngrams(text, sizes):
        columns.append(numbers.setdefault(ngram, len(numbers)))
      ends.append(len(columns))
    shape = len(ends) - 1, len(numbers)
    has = scipy.sparse.csr_array((np.ones(len(columns)), columns, ends), shape)
    weights_of_ngrams = _idf(np.minimum(frequencies @ has, total), total)
    self._rows = scipy.sparse.diags_array(_idf(frequencies, total)) @ _unit(has.multiply(weights_of_ngrams).tocsr())
    self.variable, self.rows = functools.cache(self._variable), functools.cache(self.dense)

  @functools.cached_property
  def whole_pieces(self) -> "CharacterTable":
    """The table without n-grams: tf-idf of word pieces."""
    return CharacterTable(self._tokenizer, self._weights, ())

  def exact(self, ids: Sequence[np.ndarray]) -> scipy.sparse.csr_array:
    """Returns c of n int32 arrays [seq_len] of ids, divided by its length, or 0: sparse float64 [n, n-grams]."""
    return _unit(self._counts(ids) @ self._rows)

  def cosines(self, ids_a: Sequence[np.ndarray], ids_b: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the cosine of the exact c of each pair, float64 [n]; 0 if either c is 0."""
    return self.exact(ids_a).multiply(self.exact(ids_b)).sum(axis=1)

  def _variable(self, dim):
    """Returns `dense` as a variable that no training changes."""
    import tensorflow as tf

    with tf.init_scope():  # it belongs to no graph that reads it
      return tf.Variable(self.dense(dim), trainable=False, name="characters")

  def dense(self, dim: int) -> np.ndarray:
    """Returns the rows a_v C_v with random signs as r_g, float32 [vocab_size, dim]; the same on every machine."""
    table = np.empty([self._rows.shape[0], dim], np.float32)
    generator = np.random.PCG64(0)
    for start in range(0, dim, _SIGNS):
      bits = generator.random_raw(self._rows.shape[1]).astype("<u8").view(np.uint8)
      signs = np.unpackbits(bits.reshape(-1, 8), axis=1)[:, : dim - start] * 2.0 - 1.0
      table[:, start : start + _SIGNS] = self._rows @ signs
    return table / np.float32(np.sqrt(dim))

  def _counts(self, ids):
    """Returns how often each piece occurs in arrays of ids, sparse float64 [n, vocab_size]."""
    ends = np.cumsum([0, *map(len, ids)])
    pieces = np.concatenate([np.zeros(0, np.int32), *ids])
    return scipy.sparse.csr_array((np.ones(len(pieces)), pieces, ends), (len(ids), self._rows.shape[0]))


def written(tokenizer: SentenceTokenizer) -> list[str]:
  """Returns each word piece without its mark, after "<" if it starts a word; "" for special ones and punctuation."""
  texts = []
  for piece, word in zip(tokenizer.vocab, tokenizer.words, strict=True):
    text = word.removeprefix("##")
    if SPECIAL.fullmatch(piece) or piece in tokenizer.specials.values() or is_punctuation(text):
      text = ""
    elif _NO_CHARACTER in text:  # a part of a character, by its bytes
      text = piece
    elif text == word:
      text = _START + text
    texts.append(text)
  return texts


def _idf(frequencies, total):
  return np.log((total + 1) / (frequencies + 1)) ** _ALPHA


def _ngrams(text, sizes):
  """Returns the distinct n-grams of a text, and the text itself, in a fixed order; none of ""."""
  ngrams = [text] if text else []
  for size in sizes:
    ngrams += [text[start : start + size] for start in range(len(text) - size + 1)]
  return dict.fromkeys(ngrams)


def _unit(rows):
  """Returns sparse rows [n, m], each divided by its length; rows of zeros stay."""
  lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
  scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
  return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ rows)
