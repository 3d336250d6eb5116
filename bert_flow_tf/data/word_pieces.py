"""Word pieces of texts; each distinct word is cut once."""

import itertools
from collections.abc import Sequence

import tokenizers

# Limits of the remembered words: together about 20 MB.
_WORDS = 100_000
_CHARACTERS = 32


class WordPieces:
  """Word pieces of texts, without special tokens.

  BERT's normalizer and its splitter treat the text on each side of a space separately. So the word pieces of a text are
  those of its parts between spaces, one after the other, and natural text repeats its parts: to look them up takes a
  fifth of the time of cutting them.

  Args:
    tokenizer: a BERT tokenizer that neither truncates nor pads.
  """

  def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
    self._tokenizer = tokenizer
    self._known: dict[str, list[int]] = {}

  def __call__(self, texts: Sequence[str], most: int) -> list[list[int]]:
    """Returns the ids of the first `most` word pieces of each text. Several threads may call it."""
    parts = [text.split(" ") for text in texts]
    distinct = set(itertools.chain.from_iterable(parts))
    known = self._known
    pieces = {word: ids for word in distinct if (ids := known.get(word)) is not None}
    missing = [word for word in distinct if word not in pieces]
    encodings = self._tokenizer.encode_batch_fast(missing, add_special_tokens=False)
    new = {word: encoding.ids for word, encoding in zip(missing, encodings, strict=True)}
    pieces |= new
    if len(known) + len(new) > _WORDS:
      self._known = known = {}
    known.update((word, ids) for word, ids in new.items() if len(word) <= _CHARACTERS)
    find = pieces.__getitem__
    return [list(itertools.islice(itertools.chain.from_iterable(map(find, words)), most)) for words in parts]
