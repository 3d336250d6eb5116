"""Word pieces of many texts at once, between [CLS] and [SEP]."""

import array
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.encoder.text.sentence_piece import PieceReader

# Total length of the remembered words, of which about 100,000 take 20 MB.
_CHARACTERS = 1_000_000
# Between the words of two texts; a text's own line breaks are spaces to BERT.
_END = "\n"
_SEP, _CLS = -1, -2  # in the place of the ids
# Every punctuation mark is a word; with the most frequent marks apart, fewer words are distinct.
_MARKS = ".,'\"-"


class Pieces:
  """Pieces of texts between the first and the last token; see `WordPieces`."""

  def __init__(self, reader: PieceReader, cls_id: int, sep_id: int) -> None:
    self._reader, self._cls_id, self._sep_id = reader, cls_id, sep_id

  def __call__(self, texts: Sequence[str], max_pieces: int) -> tuple[list[np.ndarray], int]:
    """Returns int32 arrays [seq_len] of at most `max_pieces` pieces and the two tokens; and how many are cut off."""
    rows, cut = [], 0
    for ids in self._reader.ids(texts):
      cut += max(len(ids) - max_pieces, 0)
      rows.append(np.array([self._cls_id, *ids[:max_pieces], self._sep_id], np.int32))
    return rows, cut


class WordPieces:
  """Word pieces of texts, between [CLS] and [SEP], by a BERT tokenizer that neither truncates nor pads.

  BERT's normalizer and its splitter treat the text on each side of a space or an ASCII punctuation mark separately. So
  the word pieces of a text are the pieces of its parts, one after the other, and natural text repeats its parts: to
  find them in a dict takes a tenth of the time of cutting them.
  """

  def __init__(self, reader: PieceReader, cls_id: int, sep_id: int) -> None:
    self._reader, self._cls_id, self._sep_id = reader, cls_id, sep_id
    # {word: its ids}, as bytes of int32: joined in half the time of lists.
    self._known: dict[str, bytes] = {}
    self._size = 0

  def __call__(self, texts: Sequence[str], max_pieces: int) -> tuple[list[np.ndarray], int]:
    """Returns ids int32 [seq_len] of [CLS], at most `max_pieces` pieces and [SEP] per text; and how many are cut."""
    # Several threads may call it.
    joined = f" {_END} ".join([text.replace(_END, " ") for text in texts])
    for mark in _MARKS:
      joined = joined.replace(mark, f" {mark} ")
    words = joined.split(" ")
    words.append(_END)
    ids = np.frombuffer(b"".join(map(self._ids_of(words).__getitem__, words)), np.int32)
    # The last [CLS] begins no text.
    ids = np.concatenate([[np.int32(_CLS)], ids[:-1]])
    ends = np.flatnonzero(ids == _SEP) + 1
    lengths = np.diff(ends, prepend=0)
    pieces = len(ids)
    if lengths.max() > max_pieces + 2:
      # Keep the first positions of each text, and its end.
      position = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
      ids = ids[(position <= max_pieces) | (ids == _SEP)]
      lengths = np.minimum(lengths, max_pieces + 2)
      ends = np.cumsum(lengths)
    starts = ends - lengths
    ids[starts], ids[ends - 1] = self._cls_id, self._sep_id
    return [ids[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)], pieces - len(ids)

  def _ids_of(self, words):
    """Returns {word: ids of its word pieces}, with the words and possibly others."""
    known = self._known
    if not known or self._size > _CHARACTERS:
      # A new dict, because another thread may still read the old dict.
      self._known = known = {_END: _bytes([_SEP, _CLS])}
      self._size = 0
    missing = list(set(words).difference(known))
    known.update(zip(missing, map(_bytes, self._reader.ids(missing)), strict=True))
    self._size += sum(map(len, missing))
    return known


def _bytes(ids):
  """Returns ids as bytes of int32."""
  return array.array("i", ids).tobytes()
