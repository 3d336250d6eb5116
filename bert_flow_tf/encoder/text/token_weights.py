"""Weights of tokens in the mean that makes an embedding, by `token_weights`."""

import base64
import functools
import hashlib
import os
import re
import unicodedata
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.encoder.text.frequency import count_frequencies, packaged_frequencies
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.io import storage

if TYPE_CHECKING:
  from bert_flow_tf.encoder.pooling import Array

UNIFORM, IDF = "uniform", "idf"
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
# A text is not the English of the packaged table if the table lacks this share of its word pieces. With a vocabulary of
# the text's language: French .27 to .30, Dutch .38, German .43, Turkish .6, Russian .99; English sentences of all data
# sets at most .02; with bert-base-uncased's, names of products .19, people and their addresses .21.
_ABSENT_SHARE = 0.25
# Judged are as many word pieces or more. Shorter texts are titles, names of companies (.27) and of people (.34).
_MIN_PIECES, _MIN_PIECES_PER_TEXT = 30, 4
_MAX_JUDGED_TEXTS = 1024


class TokenWeights:
  """Weight of each word piece, float32 [vocab_size]: ln((N + 1) / (df + 1))^ALPHA if df of N sentences have it.

  Rare words decide what a sentence says; as in Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence
  Embeddings", up to the form. `frequency_corpus` is the file whose sentences were counted, None for the packaged table.
  `frequencies` are the df, float64 [vocab_size], and `total` is N. `number_weight`: see `EncoderSettings`. `words`,
  bool [vocab_size], are the pieces by which `warn_of_text` judges; None for none.
  """

  def __init__(
    self,
    name: str,
    table: np.ndarray,
    frequency_corpus: str | None = None,
    frequencies: np.ndarray | None = None,
    total: int = 0,
    number_weight: float = 0.0,
    words: np.ndarray | None = None,
  ) -> None:
    self.name, self.frequencies, self.total, self.number_weight = name, frequencies, total, number_weight
    self.table = np.asarray(table, np.float32)
    self.frequency_corpus = frequency_corpus
    self._words = words
    self._judged = np.zeros(3, np.int64)  # texts, their words, and the words that the table lacks

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the table, in hexadecimal."""
    return hashlib.sha256(self.table.tobytes()).hexdigest()

  def to_text(self) -> str:
    """Returns the table as text of a JSON file."""
    return base64.b64encode(zlib.compress(self.table.tobytes())).decode()

  @classmethod
  def from_text(cls, text: str, settings: EncoderSettings) -> "TokenWeights":
    """Returns the weights of `to_text`, which the settings of their encoder describe, without frequencies."""
    try:
      table = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.float32)
    except (ValueError, TypeError, zlib.error) as error:
      raise EncoderError(f"token_weights: the saved weights are damaged ({error})", "token_weights") from error
    name = settings.token_weights or UNIFORM
    return cls(name, table, settings.frequency_corpus, number_weight=settings.number_weight or 0.0)

  def of(self, ids: "Array", mask: "Array") -> "Array":
    """Returns the weights of ids and mask, int32 [batch, seq_len], as float32; 0 for padding."""
    # A sentence whose pieces all have weight 0 gets equal weights.
    tf = functions_for(ids)
    mask = tf.cast(mask, tf.float32)
    weights = tf.gather(tf.constant(self.table), ids) * mask
    return tf.where(tf.reduce_any(weights > 0, axis=1, keepdims=True), weights, mask)

  def warn_of_text(self, ids: Sequence[np.ndarray]) -> None:
    """Logs a warning, once, if texts, int32 arrays [seq_len], are not of the packaged table's language."""
    if self._words is None or self.frequencies is None or not len(ids):
      return
    sample = ids[:: 1 + len(ids) // _MAX_JUDGED_TEXTS]
    rows = np.concatenate(sample)
    rows = rows[self._words[rows]]
    self._judged += np.array([len(sample), len(rows), np.count_nonzero(self.frequencies[rows] == 0)])
    texts, pieces, absent = self._judged.tolist()
    if pieces < _MIN_PIECES:  # texts may come one by one
      return
    self._judged[:] = 0
    if absent >= _ABSENT_SHARE * pieces and pieces >= _MIN_PIECES_PER_TEXT * texts:
      self._words = None
      logging.warning(
        "token_weights=%s: the packaged table of English frequencies lacks %.0f%% of the word pieces of this text, so "
        "that its most frequent words weigh as much as rare ones; give frequency_corpus, a file of such text with a "
        "sentence per line, whose word pieces are counted",
        self.name,
        100 * absent / pieces,
      )


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
  of_years, of_digits = [], []
  for row, piece in enumerate(tokenizer.words):
    text = piece.removeprefix("##")
    if any(map(str.isdigit, text)):
      of_digits.append(row)
    if is_punctuation(text):
      silent.append(row)
    elif _OF_YEARS.fullmatch(piece):
      of_years.append(row)
  frequencies[of_digits] = 0
  table = np.log((total + 1) / (frequencies + 1)) ** alpha
  table[of_years] *= number_weight
  table[silent] = 0
  words = None
  if frequency_corpus is None:
    words = np.ones(len(table), bool)
    words[[*silent, *of_digits]] = False
    if tokenizer.unknown_id is not None:
      words[tokenizer.unknown_id] = False
  else:
    frequency_corpus = storage.absolute(frequency_corpus)  # for a process with another working folder
  return TokenWeights(f"idf-{alpha:g}", table, frequency_corpus, frequencies, total, number_weight, words)


def is_punctuation(piece):
  """Returns whether all characters of a word piece are punctuation, as BERT's tokenizer defines it."""
  return all(
    unicodedata.category(character).startswith("P") or (character.isascii() and not character.isalnum())
    for character in piece
  )
