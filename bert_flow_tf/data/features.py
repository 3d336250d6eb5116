"""From sentences to BERT's token ids."""

import functools
import hashlib
import json
import pathlib
import re

import numpy as np
import transformers

from bert_flow_tf.data.letter_case import guess_lower_case
from bert_flow_tf.data.sentences import check_sentences
from bert_flow_tf.errors import EncoderError

_SURROGATE = re.compile("[\ud800-\udfff]")
# Settings of tokenizer_config.json that are read, null or one of these.
_SETTINGS = {"do_lower_case": bool, "strip_accents": bool, "tokenize_chinese_chars": bool}
_SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}
# Bounds of the text that is tokenized at once: the tokenizer's own records of a million characters take about 100 MB.
_CHUNK_SENTENCES = 1024
_CHUNK_CHARACTERS = 1_000_000


class SentenceTokenizer:
  """BERT's WordPiece tokenizer for single sentences: [CLS] tokens [SEP].

  It is made of vocab.txt and tokenizer_config.json alone: a tokenizer.json may bring truncation and padding
  of its own. Literal "[MASK]", "[SEP]" and the like in a sentence are spelled out ("[", "mask", "]"), as in
  the original's tokenization.py. Lone surrogates, which no encoding can hold, become U+FFFD, which BERT's
  clean-up drops like control characters and NUL; a pair of surrogates becomes the character that it encodes.

  Attributes:
    do_lower_case: whether text is lower-cased (and, unless the model says otherwise, stripped of accents).
    pad_id: id of [PAD].
    vocab_size: number of word pieces.
  """

  def __init__(self, vocab_file, do_lower_case=True, strip_accents=None, tokenize_chinese_chars=True, **specials):
    """Reads a vocabulary; `specials` may rename the special tokens (`cls_token="<s>"`).

    Raises:
      EncoderError: vocab.txt cannot be read, or lacks a special token.
    """
    specials = {**_SPECIALS, **specials}
    try:
      pieces = pathlib.Path(vocab_file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
      raise EncoderError(f"{vocab_file}: cannot be read ({error}), expected one word piece a line.") from error
    missing = [token for token in specials.values() if token not in pieces]
    if missing:
      raise EncoderError(
        f"{vocab_file}: found no {', '.join(missing)} among {len(pieces)} lines, expected a BERT vocabulary: "
        "use the vocab.txt that the model was trained with."
      )
    self.do_lower_case = bool(do_lower_case)
    self._settings = [self.do_lower_case, strip_accents, tokenize_chinese_chars, sorted(specials.items())]
    self._tokenizer = transformers.BertTokenizerFast(
      vocab_file=str(vocab_file),
      do_lower_case=self.do_lower_case,
      strip_accents=strip_accents,
      tokenize_chinese_chars=tokenize_chinese_chars,
      split_special_tokens=True,
      **specials,
    )
    self.pad_id = self._tokenizer.pad_token_id
    self.vocab_size = len(self._tokenizer)

  @classmethod
  def from_pretrained(cls, folder, name=None):
    """Reads the tokenizer of a Hugging Face folder.

    Without tokenizer_config.json, or its `do_lower_case`, text is lower-cased unless the name says "cased" or, in
    Google's folders, the vocabulary does (`letter_case`); the log says so.

    Args:
      folder: folder with vocab.txt and perhaps tokenizer_config.json.
      name: the model's name, where the folder's does not tell (a hub snapshot); the folder's if None.

    Raises:
      EncoderError: a file is missing or damaged, or asks for a tokenizer that is not BERT's.
    """
    folder = pathlib.Path(folder)
    config = _read_config(folder / "tokenizer_config.json")
    settings = {key: config[key] for key in _SETTINGS if key in config and key != "do_lower_case"}
    for key in _SPECIALS:
      token = config.get(key)
      if token:
        settings[key] = token.get("content") if isinstance(token, dict) else token
    lower = config.get("do_lower_case")
    if lower is None:
      lower = guess_lower_case(folder, name)
    return cls(folder / "vocab.txt", lower, **settings)

  def __call__(self, sentences, max_seq_length=64):
    """Tokenizes sentences, each on its own.

    Args:
      sentences: sequence of str.
      max_seq_length: int, the most tokens of a sentence, [CLS] and [SEP] included; the rest is cut off.

    Returns:
      List of int32 arrays of shape [seq_len], 2 <= seq_len <= max_seq_length.

    Raises:
      DataError: an element is not a str.
    """
    sentences = [harmless(sentence) for sentence in check_sentences(sentences)]
    ids = []
    for chunk in _chunks(sentences):
      encoded = self._tokenizer(
        chunk,
        truncation=True,
        max_length=int(max_seq_length),
        return_attention_mask=False,
        return_token_type_ids=False,
      )
      ids += [np.asarray(row, np.int32) for row in encoded["input_ids"]]
    return ids

  @functools.cached_property
  def vocab(self):
    """The word pieces, in the order of their ids; "" for a line of vocab.txt that another one repeats."""
    pieces = {row: piece for piece, row in self._tokenizer.get_vocab().items()}
    return [pieces.get(row, "") for row in range(max(pieces) + 1)]

  @functools.cached_property
  def checksum(self):
    """Hexadecimal sha256 over the vocabulary and the settings, for cache keys."""
    vocabulary = sorted(self._tokenizer.get_vocab().items(), key=lambda item: item[1])
    return hashlib.sha256(json.dumps([vocabulary, self._settings]).encode()).hexdigest()


def harmless(sentence):
  """Joins surrogate pairs and replaces lone surrogates by U+FFFD; other text comes back as it is."""
  if sentence.isascii() or not _SURROGATE.search(sentence):
    return sentence
  return sentence.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pad_batch(ids, pad_id=0):
  """Pads token ids to the longest of a batch.

  Args:
    ids: non-empty list of int32 arrays of shape [seq_len], of different lengths.
    pad_id: int, the padding.

  Returns:
    ids and mask (1 for tokens, 0 for padding), int32 arrays of shape [batch, seq_len].
  """
  lengths = np.array([len(row) for row in ids])
  mask = (np.arange(lengths.max()) < lengths[:, np.newaxis]).astype(np.int32)
  padded = np.full(mask.shape, pad_id, np.int32)
  padded[mask == 1] = np.concatenate(ids)
  return padded, mask


def _chunks(sentences):
  """Yields lists of consecutive sentences of bounded number and total length."""
  chunk, characters = [], 0
  for sentence in sentences:
    chunk.append(sentence)
    characters += len(sentence)
    if len(chunk) == _CHUNK_SENTENCES or characters >= _CHUNK_CHARACTERS:
      yield chunk
      chunk, characters = [], 0
  if chunk:
    yield chunk


def _read_config(path):
  """Returns the content of a tokenizer_config.json; empty if the file is missing."""
  if not path.exists():
    return {}
  try:
    config = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError, RecursionError) as error:
    raise EncoderError(f"{path}: not readable as JSON ({error}): download or save it again.") from error
  kind = config.get("tokenizer_class", "BertTokenizer") if isinstance(config, dict) else None
  if kind not in ("BertTokenizer", "BertTokenizerFast", None) or not isinstance(config, dict):
    raise EncoderError(f"{path}: found tokenizer_class {kind!r}, expected BertTokenizer: use a model that has it.")
  for key, expected in _SETTINGS.items():
    if not isinstance(config.get(key), expected | None):
      raise EncoderError(f"{path}: found {key} = {config[key]!r}, expected true or false: correct it.")
  for key in _SPECIALS:
    token = config.get(key)
    if not isinstance(token.get("content") if isinstance(token, dict) else token, str | None):
      raise EncoderError(f"{path}: found {key} = {token!r}, expected a word piece: correct it.")
  return config
