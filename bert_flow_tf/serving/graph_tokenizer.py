"""BERT's tokenizer as TensorFlow ops: text in, token ids out, the same ids as `SentenceTokenizer` gives.

Core ops, and two of TF Text that stock servers link: NormalizeUTF8 (NFD) and FastWordpiece. FastWordpiece's own
normaliser and word splitter are off: they fold compatibility characters and split at control characters, which
BertTokenizerFast does not. What may still differ are characters that Unicode decomposed or gave a lower case after the
versions that `tokenizers` and a server's ICU have.
"""

import tensorflow as tf

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.serving import unicode_classes as classes

# BERT's WordPiece gives up on words of more characters.
_MAX_CHARACTERS = 100
# FastWordpiece counts bytes, of which UTF-8 needs up to four a character.
_MAX_BYTES = 4 * _MAX_CHARACTERS
_SUFFIX = "##"
_PRIVATE = 0xF0000


class GraphTokenizer:
  """Tokenizes sentences inside a graph: [CLS] tokens [SEP], right-padded to the longest of the batch.

  Differs from `SentenceTokenizer` in nothing that a `str` can hold, new characters of the module's docstring apart.
  Bytes that are not UTF-8 are dropped.

  Args:
    tokenizer: the `SentenceTokenizer` to follow.
    max_seq_length: int, the most tokens of a sentence, [CLS] and [SEP] included.

  Raises:
    EncoderError: its vocabulary is not one that TF Text can search, or TF Text is not installed.
  """

  def __init__(self, tokenizer, max_seq_length=64):
    text = _tensorflow_text()
    lower, strip, chinese, specials = tokenizer._settings
    vocabulary = _searchable(vocabulary_of(tokenizer))
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    specials = {name: ids[token] for name, token in dict(specials).items()}
    self.max_seq_length = int(max_seq_length)
    self.cls_id, self.sep_id, self.pad_id = (specials[f"{name}_token"] for name in ("cls", "sep", "pad"))
    self._lower = lower
    self._strip = lower if strip is None else strip
    self._ideographs = chinese
    self._decompose = lambda texts: text.normalize_utf8(texts, "NFD")
    self._unknown = _absent_character(vocabulary)
    try:
      self._wordpiece = text.FastWordpieceTokenizer(
        vocabulary,
        suffix_indicator=_SUFFIX,
        max_bytes_per_word=_MAX_BYTES,
        token_out_type=tf.int32,
        unknown_token=vocabulary[specials["unk_token"]],
        no_pretokenization=True,
      )
    except Exception as error:  # pybind turns the builder's status into RuntimeError or ValueError
      raise EncoderError(f"vocab.txt cannot be searched by TF Text's FastWordpiece ({error})") from error

  def __call__(self, texts):
    """Tokenizes.

    Args:
      texts: string Tensor of shape [n], UTF-8; n may be 0.

    Returns:
      ids: int32 Tensor of shape [n, seq_len], 2 <= seq_len <= max_seq_length.
      lengths: int32 Tensor of shape [n], tokens of each sentence, [CLS] and [SEP] included.
    """
    most = self.max_seq_length - 2
    # A word gives a token at least, so later words are cut off anyway; this bounds the work for long texts.
    words = tf.strings.split(self.words(texts))[:, :most]
    flat = words.flat_values
    long = tf.strings.length(flat, unit="UTF8_CHAR") > _MAX_CHARACTERS
    words = words.with_flat_values(tf.where(long, self._unknown, flat))
    pieces = self._wordpiece.tokenize(words).merge_dims(1, 2)
    lengths = tf.cast(tf.minimum(pieces.row_lengths(), most), tf.int32) + 2
    ids = tf.pad(pieces.to_tensor(self.pad_id)[:, :most], [[0, 0], [1, 1]], constant_values=self.pad_id)
    position = tf.range(tf.shape(ids)[1])
    ids = tf.where(position == lengths[:, tf.newaxis] - 1, self.sep_id, ids)
    ids = tf.where(position >= lengths[:, tf.newaxis], self.pad_id, ids)
    return tf.where(position == 0, self.cls_id, ids), lengths

  def words(self, texts):
    """Normalised texts, their words separated by spaces: string Tensor [n] -> string Tensor [n].

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
      # ICU lower-cases a word's last sigma otherwise, and I by the server's locale; the tokenizer does neither.
      texts = tf.strings.regex_replace(tf.strings.lower(texts), "\u03a3", "\u03c3")
      texts = tf.strings.lower(texts, encoding="utf-8")
    return _replace(texts, classes.PUNCTUATION, r" \0 ")


def _replace(texts, ranges, by):
  return tf.strings.regex_replace(texts, classes.pattern(ranges), by)


def vocabulary_of(tokenizer):
  """The word pieces of a `SentenceTokenizer` by id; None where a repeated line left an id without one."""
  ids = tokenizer._tokenizer.get_vocab()
  pieces = [None] * (max(ids.values()) + 1)
  for piece, number in ids.items():
    pieces[number] = piece
  return pieces


def _searchable(vocabulary):
  """The pieces, with other ones in place of those that no text can give: empty, missing or repeated lines."""
  seen, pieces = set(), []
  for i, piece in enumerate(vocabulary):
    if not piece or piece in seen:
      piece = f"{chr(_PRIVATE)}{i}"  # private characters are dropped before words are searched
    seen.add(piece)
    pieces.append(piece)
  return pieces


def _absent_character(vocabulary):
  """A private character with which no piece begins: a word of it is unknown."""
  begun = {piece[0] for piece in vocabulary}
  return next(chr(code) for code in range(_PRIVATE, 0x110000) if chr(code) not in begun)


def _tensorflow_text():
  try:
    import tensorflow_text
  except ImportError as error:
    raise EncoderError(
      f"TF Text cannot be imported ({error}): install it with pip install 'bert-flow-tf[serving]'"
    ) from error
  return tensorflow_text
