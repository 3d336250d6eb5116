"""The parts of texts that an encoder does not read: unknown to its vocabulary, cut off, or without weight."""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer, repair_surrogates, text_chunks

# Of Unicode's punctuation, these say something, as in C#, 5 % and AT&T; and a minus does.
_SPEAKING_MARKS = "#%&@*/\\\u2030"
_MINUS = re.compile(r"(?<!\S)[-\u2013](?=\d)")


def knows(tokenizer: SentenceTokenizer, texts: Sequence[str], max_seq_length: int) -> np.ndarray:
  """Returns whether a vocabulary knows a piece of each text, bool [n]; all True if it knows every letter."""
  unknown = tokenizer.unknown_id
  if unknown is None:
    return np.ones(len(texts), bool)
  # The mark of a word's start alone is no piece of it.
  nothing = {unknown, tokenizer.ids.get("\u2581", unknown), *tokenizer.special_ids}
  ids = tokenizer.with_prompt("")(texts, max_seq_length, warn=False)
  return np.array([not nothing.issuperset(row.tolist()) for row in ids], bool)


def unread(
  tokenizer: SentenceTokenizer, texts: Sequence[str], max_seq_length: int, weights: np.ndarray | None
) -> list[str]:
  """Returns the parts of texts that change no embedding; see `TextEncoder.unread`.

  `weights` [vocab]: pieces of weight 0 are not read, unless all pieces of a text have it; None for equal weights.
  """
  rests = [""] * len(texts)
  if not rests:
    return rests
  written = [tokenizer.prompt + repair_surrogates(text) for text in texts]
  # model2vec cuts a text at a number of characters first.
  limit = None
  if tokenizer.characters_per_token is not None:
    limit = tokenizer.characters_per_token * (max_seq_length - 2)
  is_suspect = _is_suspect(tokenizer, texts, max_seq_length, weights)
  if limit is not None:
    is_suspect |= np.array([len(text) > limit for text in written])
  rows = iter(np.flatnonzero(is_suspect).tolist())
  for chunk in text_chunks([written[row] for row in np.flatnonzero(is_suspect)]):
    pieces = tokenizer.reader.ids_and_places([text[:limit] for text in chunk])
    for text, (ids, places) in zip(chunk, pieces, strict=True):
      parts = _parts(tokenizer, text[:limit], np.array(ids, np.int64), places, max_seq_length - 2, weights)
      if limit is not None:
        parts.append(text[limit:])
      rests[next(rows)] = " ".join(" ".join(parts).split())
  return rests


def _is_suspect(
  tokenizer: SentenceTokenizer, texts: Sequence[str], max_seq_length: int, weights: np.ndarray | None
) -> np.ndarray:
  """Returns which texts may have unread parts, by their ids alone, which cost little, bool [n]."""
  is_unread = np.zeros(tokenizer.vocab_size, bool)
  if weights is not None:
    for row in np.flatnonzero(weights == 0).tolist():
      is_unread[row] = not is_silent(tokenizer.words[row].removeprefix("##"))
  if tokenizer.unknown_id is not None:
    is_unread[tokenizer.unknown_id] = True
  is_unread[[row for row in tokenizer.special_ids if row is not None]] = False
  ids = tokenizer(texts, max_seq_length, warn=False)
  lengths = np.fromiter(map(len, ids), np.int64, len(ids))
  starts = np.cumsum(lengths) - lengths
  is_suspect = np.logical_or.reduceat(is_unread[np.concatenate(ids)], starts) | (lengths == max_seq_length)
  if weights is not None:
    is_suspect |= np.array([_MINUS.search(text) is not None for text in texts])
  if _drops_letters(tokenizer):
    is_suspect |= np.array([not text.isascii() for text in texts])
  return is_suspect


def _drops_letters(tokenizer):
  """Returns whether unknown letters have no token at all."""
  return tokenizer.unknown_id is None and not tokenizer.spaced


def _parts(
  tokenizer: SentenceTokenizer,
  text: str,
  ids: np.ndarray,
  places: Sequence[tuple[int, int]],
  max_pieces: int,
  weights: np.ndarray | None,
) -> list[str]:
  """Returns the unread parts of a text with its prompt, by the ids and places of its pieces."""
  first = len(tokenizer.prompt)
  read = ids[:max_pieces]
  is_unread = np.zeros(len(read), bool)
  if weights is not None and weights[read].any():
    is_unread = weights[read] == 0
  if tokenizer.unknown_id is not None:
    is_unread |= read == tokenizer.unknown_id
  spans = [places[number] for number in np.flatnonzero(is_unread).tolist()]
  if _drops_letters(tokenizer):
    ends = [0, *(end for _, end in places)]
    spans += zip(ends, [*(start for start, _ in places), len(text)], strict=True)
  if len(ids) > max_pieces:
    spans.append((places[max_pieces][0], len(text)))
  parts = []
  for start, end in spans:
    part = text[max(start, first) : end].strip()
    if not is_silent(part) or (part and _MINUS.match(text, start)):
      parts.append(part)
  return parts


def is_silent(part: str) -> bool:
  """Returns whether a part of a text is punctuation that says nothing."""
  return all(unicodedata.category(letter)[0] == "P" and letter not in _SPEAKING_MARKS for letter in part)
