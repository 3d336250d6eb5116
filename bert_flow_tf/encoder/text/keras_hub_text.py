"""Texts to which KerasHub's tokenizer gives other tokens than the tokenizer of its vocabulary here.

KerasHub's WordPiece cuts a text into words first, at ASCII spaces, control and format characters, punctuation and
ideographs; then it folds the case of each word with its compatibility forms (NFKC_Casefold). BERT's own order is the
other one, and it drops control characters. Its byte-level BPE finds special tokens in a text.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import tokenizers

from bert_flow_tf.io.files import Json

# Longer words are unknown.
_MAX_BYTES = 100
# Text that every WordPiece cuts alike; and a word that may be too long.
_PLAIN = re.compile(r"[\t\n\r -~]*")
_LONG = re.compile(rf"\S{{{_MAX_BYTES // 4 + 1},}}")
# Between two words; a control character, which no word has.
_END = "\x00"
_SPACES = " \t\n\r\f"
_IDEOGRAPHS = re.compile(
  "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)
# Characters that case folding drops: Unicode's Default_Ignorable_Code_Point.
_IGNORED = re.compile(
  "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
  "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def differing(settings: Json, tokenizer: Any, texts: Sequence[str]) -> list[str]:
  """Returns the texts to which KerasHub gives other tokens.

  Args:
    settings: class and settings of KerasHub's tokenizer, as its tokenizer.json has them.
    tokenizer: the `SentenceTokenizer` of its vocabulary.
    texts: texts without unpaired surrogates.
  """
  specials = _found_specials(settings, tokenizer)
  is_word_piece = type(tokenizer.backend.model) is tokenizers.models.WordPiece
  words = _Words(settings, tokenizer.backend)
  found = []
  for text in texts:
    has_special = any(token in text for token in specials)
    if has_special or (is_word_piece and words.differ(text)):
      found.append(text)
  return found


def _found_specials(settings, tokenizer):
  """Returns the tokens that KerasHub finds in a text, where they are text here."""
  if settings.get("special_tokens_in_strings"):
    return [*tokenizer.specials.values(), *(settings.get("special_tokens") or ())]
  if type(tokenizer.backend.model) is not tokenizers.models.BPE:
    return ()
  return settings.get("unsplittable_tokens") or list(tokenizer.specials.values())


class _Words:
  """Words of KerasHub's WordPiece, compared with the words of a backend."""

  def __init__(self, settings: Json, backend: tokenizers.Tokenizer) -> None:
    self._lower, self._strip = settings.get("lowercase", False), settings.get("strip_accents", False)
    self._ideographs = settings.get("split_on_cjk", True)
    self._backend = backend
    self._is_plain = functools.cache(self._has_same_words)

  def differ(self, text: str) -> bool:
    """Returns whether KerasHub gives a text other tokens."""
    if _PLAIN.fullmatch(text):
      return False
    if unicodedata.is_normalized("NFKC", text) and not _LONG.search(text) and all(map(self._is_plain, set(text))):
      return False
    model, unknown = self._backend.model, self._backend.model.unk_token
    theirs = []
    for word in self._theirs(text):
      if len(word.encode()) > _MAX_BYTES:
        theirs.append(unknown)
      else:
        theirs += [token.value for token in model.tokenize(word)]
    return theirs != self._backend.encode(text, add_special_tokens=False).tokens

  def _has_same_words(self, character: str) -> bool:
    """Returns whether both have the same words where a character stands alone, or within a word."""
    if unicodedata.combining(character):
      return False
    text = f"{character} a{character}a"
    normal = self._backend.normalizer.normalize_str(text)
    return list(self._theirs(text)) == [word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal)]

  def _theirs(self, text: str) -> Iterator[str]:
    """Yields the words of KerasHub."""
    if self._strip:
      text = "".join(letter for letter in unicodedata.normalize("NFD", text) if unicodedata.category(letter) != "Mn")
    separated = []
    for letter in text:
      category = unicodedata.category(letter)
      if letter in _SPACES or category in ("Cc", "Cf"):
        separated.append(_END)
      elif (
        category[0] == "P"
        or (letter < "\x80" and not letter.isalnum())
        or (self._ideographs and _IDEOGRAPHS.match(letter))
      ):
        separated += [_END, letter, _END]
      else:
        separated.append(letter)
    for word in "".join(separated).split(_END):
      if self._lower:
        word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
        word = _IGNORED.sub("", word)
      if word:
        yield word
