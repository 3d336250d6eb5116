"""Replacement of characters and short graphemes in a TensorFlow graph, as by the normalizers of `tokenizers`."""

import base64
import functools
import struct
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from tokenizers import normalizers

from bert_flow_tf.encoder.graph.models import BITS, find_in_sorted

# `tokenizers` looks up graphemes of fewer bytes in UTF-8, which have at most three characters.
_BYTES = 6
_ACUTE = "\u0301"
_NUMBER_SIGN = "\u0600"  # joined to the character that follows it


class Replacements:
  """Replaces characters by texts; or graphemes that begin with a key, of which the shortest counts."""

  def __init__(self, replaced: dict[str, str], graphemes: bool = False) -> None:
    keyed = {_key(key): value for key, value in replaced.items() if len(key) == 1 or len(key.encode()) < _BYTES}
    keys = sorted(keyed) or [-1]
    values = [keyed.get(key, "") for key in keys]
    self._keys = tf.constant(keys, tf.int64)
    self._lengths = tf.constant(list(map(len, values)))
    self._starts = tf.cumsum(self._lengths, exclusive=True)
    self._codes = tf.constant([ord(character) for value in values for character in value], tf.int32)
    self._graphemes = graphemes

  def __call__(self, texts: tf.Tensor) -> tf.Tensor:
    """UTF-8 texts string [n] -> string [n]."""
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    size = tf.size(codes)
    index, found = find_in_sorted(self._keys, tf.cast(codes, tf.int64))
    dropped = tf.zeros([size], tf.bool)
    if self._graphemes:
      index, found, dropped = self._of_graphemes(codes, decoded.value_rowids(), index, found)
    starts = tf.where(found, tf.gather(self._starts, index), tf.range(size) + tf.size(self._codes))
    lengths = tf.where(found, tf.gather(self._lengths, index), 1)
    lengths = tf.where(dropped, 0, lengths)
    places = tf.ragged.range(starts, starts + lengths).flat_values
    result = tf.gather(tf.concat([self._codes, codes], 0), places)
    splits = tf.gather(tf.concat([[0], tf.cumsum(lengths)], 0), decoded.row_splits)
    result = tf.RaggedTensor.from_row_splits(result, tf.cast(splits, tf.int64), validate=False)
    return tf.strings.unicode_encode(result, "UTF-8")

  def _of_graphemes(self, codes, rows, index, found):
    """Returns index and found, with whole short graphemes at their first characters; and the characters to drop."""
    size = tf.size(codes)
    first = _begins_grapheme(codes, rows)
    grapheme = tf.cumsum(tf.cast(first, tf.int32)) - 1
    sizes = tf.math.bincount(grapheme)
    ends = tf.cumsum(sizes)
    widths = 1 + tf.searchsorted([0x80, 0x800, 0x10000], codes, side="right")
    short = tf.math.segment_sum(widths, grapheme) < _BYTES
    first &= tf.gather(short & (sizes > 1), grapheme)
    key = tf.cast(codes, tf.int64)
    for shift in (1, 2):
      following = tf.concat([tf.cast(codes, tf.int64)[shift:], tf.zeros([shift], tf.int64)], 0)[:size]
      key = key * 2**BITS + following
      index_of_key, found_key = find_in_sorted(self._keys, key)
      found_key &= first & ~found & (tf.range(size) + shift < tf.gather(ends, grapheme))
      index = tf.where(found_key, index_of_key, index)
      found |= found_key
    is_replaced = tf.math.segment_max(tf.cast(first & found, tf.int32), grapheme) > 0
    return index, found, tf.gather(is_replaced & short & (sizes > 1), grapheme) & ~first


def all_characters() -> list[str]:
  """Returns all characters but surrogates, which UTF-8 does not have."""
  return [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def _begins_grapheme(codes, rows):
  """Returns whether each code point begins a grapheme, as far as short ones are concerned."""
  extending, control, prepended = map(tf.constant, _grapheme_classes())
  before = tf.concat([[0], codes[:-1]], 0)[: tf.size(codes)]
  joined = find_in_sorted(extending, codes)[1] & ~find_in_sorted(control, before)[1]
  joined |= find_in_sorted(prepended, before)[1] & ~find_in_sorted(control, codes)[1]
  joined |= (before == ord("\r")) & (codes == ord("\n"))
  return ~joined | tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(codes)]


@functools.cache
def _grapheme_classes() -> list[np.ndarray]:
  """Returns sorted code points: extending the grapheme before, control characters, joined with the next character."""
  # The classes show in the replacements that `tokenizers` makes by a map of a single character.
  letter = normalizers.Precompiled(_charsmap("a")).normalize_str
  sign = normalizers.Precompiled(_charsmap(_NUMBER_SIGN)).normalize_str
  characters = all_characters()
  extending = [ord(character) for character in characters if letter("a" + character) == "X"]
  narrow = characters[: characters.index("\U00010000")]
  control = [ord(character) for character in narrow if sign(_NUMBER_SIGN + character) != "X"]
  prepended = [ord(character) for character in characters if letter(character + "a" + _ACUTE)[-1] == _ACUTE]
  return [np.array(codes, np.int32) for codes in (extending, control, prepended)]


def _key(characters: str) -> int:
  """Returns a number for up to three characters."""
  key = 0
  for character in characters:
    key = (key << BITS) + ord(character)
  return key


def charsmap_of(charsmap: str) -> dict[str, str]:
  """Returns {characters: replacement} of a base64 map of SentencePiece: size and units of a Darts trie, and texts."""
  content = base64.b64decode(charsmap)
  (size,) = struct.unpack_from("<I", content)
  units = np.frombuffer(content, "<u4", size // 4, offset=4).astype(np.int64)
  texts = content[4 + size :]
  return {key.decode(): texts[at : texts.index(b"\0", at)].decode() for key, at in _leaves(units)}


def _leaves(units: np.ndarray) -> Iterator[tuple[bytes, int]]:
  """Yields the keys of a Darts trie and their values."""
  labels = np.arange(1, 256)
  stack = [(b"", _offset(units[0]))]
  while stack:
    key, node = stack.pop()
    places = node ^ labels
    inside = places < len(units)
    for label in labels[inside][(units[places[inside]] & (1 << 31 | 0xFF)) == labels[inside]].tolist():
      unit = int(units[node ^ label])
      child = node ^ label ^ _offset(unit)
      longer = key + bytes([label])
      if unit >> 8 & 1:
        yield longer, int(units[child]) & (1 << 31) - 1
      stack.append((longer, child))


def _offset(unit: int) -> int:
  return int(unit) >> 10 << ((int(unit) & 1 << 9) >> 6)


def _charsmap(key: str) -> bytes:
  """Returns a map of SentencePiece, not in base64, that replaces the key by X."""
  units = [0] * 1024
  units[0] = 256 << 10
  labels = key.encode()
  for depth, label in enumerate(labels, 1):
    node, child = 256 * depth ^ label, 256 * (depth + 1)
    units[node] = label | (node ^ child) << 10
  units[node] |= 1 << 8
  return struct.pack("<1025I", 4 * len(units), *units) + b"X\0"
