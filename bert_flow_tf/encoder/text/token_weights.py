"""Weights of tokens in the mean that makes an embedding, by `token_weights`."""

import functools
import hashlib
import os
import re
import unicodedata

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.text.frequency import count_frequencies, packaged_frequencies
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, DataError

UNIFORM = "uniform"
ALLOWED = "uniform, idf (= idf-0.75) or idf-ALPHA with 0 < ALPHA < 10"
_ALPHA = 0.75
_IDF = re.compile(r"idf(?:-([0-9](?:\.[0-9]{1,4})?))?", re.ASCII)
# Pieces of years, and the rest of numbers in several pieces. With the weight of a rare word, they put all sentences
# with years into a cone; with none, "Order 4711" is "Order 4712".
_OF_YEARS = re.compile(r"##[0-9]+|1[5-9]|20|1[0-9]{3}|20[0-9]{2}")
# Their weight, as a share of a rare word's: the smallest of 0, .05, .1, .15, .2, .25, .3, .5 and 1 with which another
# year in a text of 500 words changes the cosine by more than 1e-6. `static:mini`, soft-whitening: mean cosine of
# sentences with a year .04 with 0, .08 with .1, .14 with .25, .33 with 1; STS-B dev 77.22, 77.22, 77.20, 77.25.
NUMBER_WEIGHT = 0.1


class TokenWeights:
  """Weight of each word piece, float32 [vocab_size]: ln((N + 1) / (df + 1))^ALPHA if df of N sentences have it.

  Rare words decide what a sentence says; as in Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence
  Embeddings", up to the form. `frequency_corpus` is the file whose sentences were counted, None for the packaged table.
  `frequencies` are the df, float64 [vocab_size], and `total` is N. `number_weight`: see `EncoderSettings`.
  """

  def __init__(
    self,
    name: str,
    table: np.ndarray,
    frequency_corpus: str | None = None,
    frequencies: np.ndarray | None = None,
    total: int = 0,
    number_weight: float = 0.0,
  ) -> None:
    self.name, self.frequencies, self.total, self.number_weight = name, frequencies, total, number_weight
    self.table = np.asarray(table, np.float32)
    self.frequency_corpus = frequency_corpus

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the table, in hexadecimal."""
    return hashlib.sha256(self.table.tobytes()).hexdigest()

  def of(self, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the weights of ids and mask, int32 [batch, seq_len], as float32; 0 for padding."""
    # A sentence whose pieces all have weight 0 gets equal weights.
    mask = tf.cast(mask, tf.float32)
    weights = tf.gather(tf.constant(self.table), ids) * mask
    return tf.where(tf.reduce_any(weights > 0, axis=1, keepdims=True), weights, mask)


def parse_token_weights(name: str) -> float:
  """Returns the ALPHA of a `token_weights`, 0 for uniform."""
  match = _IDF.fullmatch(name)
  alpha = 0.0
  if match:
    alpha = float(match[1] or _ALPHA)
  if not alpha and name != UNIFORM:
    raise ConfigError(f"token_weights={name}: expected {ALLOWED}", argument="token_weights")
  return alpha


def make_token_weights(
  name: str,
  tokenizer: SentenceTokenizer,
  frequency_corpus: str | os.PathLike | None = None,
  number_weight: float | None = None,
) -> TokenWeights | None:
  """Returns the weights of a `token_weights`, by a file of sentences or the packaged table; None for uniform."""
  alpha = parse_token_weights(name)
  if not alpha:
    for argument, value in (("frequency_corpus", frequency_corpus), ("number_weight", number_weight or None)):
      if value is not None:
        raise ConfigError(f"{argument}: only token_weights=idf uses it; give token_weights=idf", argument)
    return None
  if number_weight is None:
    number_weight = NUMBER_WEIGHT
  tokenizer = tokenizer.with_prompt("")  # no sentence has it
  if frequency_corpus is None:
    frequencies, total = packaged_frequencies(tokenizer)
  else:
    frequency_corpus = os.path.expanduser(os.fspath(frequency_corpus))
    try:
      frequencies, total = count_frequencies(frequency_corpus, tokenizer)
    except DataError as error:
      raise ConfigError(f"frequency_corpus={error}", argument="frequency_corpus") from error
  # [CLS], [SEP] and punctuation say nothing; how common a number is says nothing about how much it means.
  silent = [row for row in tokenizer.special_ids if row is not None]
  of_years = []
  for row, piece in enumerate(tokenizer.words):
    text = piece.removeprefix("##")
    if any(map(str.isdigit, text)):
      frequencies[row] = 0
    if is_punctuation(text):
      silent.append(row)
    elif _OF_YEARS.fullmatch(piece):
      of_years.append(row)
  table = np.log((total + 1) / (frequencies + 1)) ** alpha
  table[of_years] *= number_weight
  table[silent] = 0
  return TokenWeights(f"idf-{alpha:g}", table, frequency_corpus, frequencies, total, number_weight)


def is_punctuation(piece):
  """Returns whether all characters of a word piece are punctuation, as BERT's tokenizer defines it."""
  return all(
    unicodedata.category(character).startswith("P") or (character.isascii() and not character.isalnum())
    for character in piece
  )
