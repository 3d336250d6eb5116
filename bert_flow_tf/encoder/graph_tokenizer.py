"""BERT's tokenizer as a TensorFlow graph, with the same ids as `SentenceTokenizer`.

It consists of core operations and two of TF Text that stock servers have: NormalizeUTF8 (NFD) and FastWordpiece.
FastWordpiece's own normalizer and word splitter are off: they fold compatibility characters and split at control
characters, which BertTokenizerFast does not. Ids may differ for characters whose decomposition or lower case is newer
than the Unicode version of `tokenizers` or of the server's ICU.
"""

import tensorflow as tf

from bert_flow_tf.encoder import unicode_classes as classes
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, EncoderError, install_command

# FastWordpiece counts bytes; a character has at most so many in UTF-8.
_BYTES = 4
_SUFFIX = "##"
_PRIVATE = 0xF0000
# Of a text, so many bytes for each token of max_seq_length are read, or those of the longest word if they are more:
# more than normal text ever needs.
_BYTES_PER_TOKEN = 1024


class GraphTokenizer:
  """Tokenizer inside a graph: [CLS] tokens [SEP], padded on the right to the longest sentence of the batch.

  Bytes that are not UTF-8 are dropped. Of a text only the first 1,024 bytes for each token are read, which bounds the
  memory of hostile texts.
  """

  def __init__(self, tokenizer: SentenceTokenizer, max_seq_length: int = 64):
    try:
      import tensorflow_text as text  # an optional package
    except ImportError as error:
      message = f"text in a graph needs tensorflow-text ({error}): {install_command('serving')}"
      raise ConfigError(message, "tensorflow_text") from error

    settings = tokenizer.settings
    vocabulary = _searchable(vocabulary_of(tokenizer))
    self.max_seq_length = int(max_seq_length)
    self._max_characters = settings["max_input_chars_per_word"]
    specials = tokenizer.specials
    self.cls_id = vocabulary.index(specials["cls_token"])
    self.sep_id = vocabulary.index(specials["sep_token"])
    self.pad_id = vocabulary.index(specials["pad_token"])
    self._lower = settings["do_lower_case"]
    self._strip = settings["strip_accents"]
    if self._strip is None:
      self._strip = self._lower
    self._ideographs = settings["tokenize_chinese_chars"]
    self._decompose = lambda texts: text.normalize_utf8(texts, "NFD")
    self._unknown = _absent_character(vocabulary)
    try:
      self._wordpiece = text.FastWordpieceTokenizer(
        vocabulary,
        suffix_indicator=_SUFFIX,
        max_bytes_per_word=_BYTES * self._max_characters,
        token_out_type=tf.int32,
        unknown_token=specials["unk_token"],
        no_pretokenization=True,
      )
    except Exception as error:  # pybind turns the builder's status into RuntimeError or ValueError
      raise EncoderError(f"TF Text's FastWordpiece cannot search vocab.txt ({error})") from error

  def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """UTF-8 texts string [n] -> ids int32 [n, seq_len] and numbers of tokens int32 [n], [CLS] and [SEP] included."""
    most = self.max_seq_length - 2
    bytes_per_token = max(_BYTES_PER_TOKEN, _BYTES * self._max_characters)
    texts = tf.strings.substr(texts, 0, bytes_per_token * self.max_seq_length)
    # Every word has at least one token, so later words cannot fit. This bounds the work for long texts.
    words = tf.strings.split(self.words(texts))[:, :most]
    flat = words.flat_values
    long = tf.strings.length(flat, unit="UTF8_CHAR") > self._max_characters
    words = words.with_flat_values(tf.where(long, self._unknown, flat))
    pieces = self._wordpiece.tokenize(words).merge_dims(1, 2)
    lengths = tf.cast(tf.minimum(pieces.row_lengths(), most), tf.int32) + 2
    ids = tf.pad(pieces.to_tensor(self.pad_id)[:, :most], [[0, 0], [1, 1]], constant_values=self.pad_id)
    position = tf.range(tf.shape(ids)[1])
    ids = tf.where(position == lengths[:, tf.newaxis] - 1, self.sep_id, ids)
    ids = tf.where(position >= lengths[:, tf.newaxis], self.pad_id, ids)
    return tf.where(position == 0, self.cls_id, ids), lengths

  def words(self, texts: tf.Tensor) -> tf.Tensor:
    """Normalizes texts and separates their words by spaces: string [n] -> string [n].

    The steps and their order are those of BertNormalizer and BertPreTokenizer.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    texts = _replace(texts, classes.DROPPED, "")
    texts = _replace(texts, classes.SPACE, " ")
    if self._ideographs:
      texts = _replace(texts, classes.IDEOGRAPHS, r" \0 ")
    if self._strip:
      texts = _replace(self._decompose(texts), classes.MARKS, "")
    if self._lower:
      # ICU has a different lower case for the last sigma of a word, and for I in some locales; the tokenizer has not.
      texts = tf.strings.regex_replace(tf.strings.lower(texts), "\u03a3", "\u03c3")
      texts = tf.strings.lower(texts, encoding="utf-8")
    return _replace(texts, classes.PUNCTUATION, r" \0 ")


def _replace(texts, ranges, replacement):
  return tf.strings.regex_replace(texts, classes.pattern(ranges), replacement)


def vocabulary_of(tokenizer: SentenceTokenizer) -> list[str | None]:
  """Returns the word pieces in the order of their ids; None for an id whose line in vocab.txt is repeated later."""
  ids = tokenizer.ids
  pieces: list[str | None] = [None] * (max(ids.values()) + 1)
  for piece, number in ids.items():
    pieces[number] = piece
  return pieces


def _searchable(vocabulary: list[str | None]) -> list[str]:
  """Returns the pieces, with unique placeholders for empty, missing and repeated lines, which no text can match."""
  seen, pieces = set(), []
  for i, piece in enumerate(vocabulary):
    if not piece or piece in seen:
      piece = f"{chr(_PRIVATE)}{i}"  # private characters are removed from text before the search
    seen.add(piece)
    pieces.append(piece)
  return pieces


def _absent_character(vocabulary: list[str]) -> str:
  """Returns a private character that no piece begins with, so that it becomes [UNK]."""
  first_characters = {piece[0] for piece in vocabulary}
  return next(chr(code) for code in range(_PRIVATE, 0x110000) if chr(code) not in first_characters)
