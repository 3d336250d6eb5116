"""Models of a tokenizer.json as TensorFlow graphs: byte-level BPE and unigram, with the ids of `tokenizers`.

TF Text's SentencePiece adds scores in float32 and merges pairs by their pieces alone, which gives other ids.
"""

import numpy as np
import tensorflow as tf

from bert_flow_tf.io.files import Json

# Bits of a code point.
BITS = 21


class BytePairs:
  """Byte pair encoding of words by a list of merges, each of which has a rank."""

  def __init__(self, model: Json) -> None:
    vocab = model["vocab"]
    # Characters to read per token: pieces follow from the text on their left and a few characters on their right.
    self.characters_per_token = max(128, 2 * max(map(len, vocab)))
    self._size = max(vocab.values(), default=0) + 1
    unknown = vocab.get(model["unk_token"], -1)
    self._id_of_byte = tf.constant([vocab.get(character, unknown) for character in _byte_characters()])
    merges = {}
    for rank, merge in enumerate(model["merges"]):
      left, right = merge.split(" ") if isinstance(merge, str) else merge
      merges[vocab[left] * self._size + vocab[right]] = (rank, vocab[left + right])
    keys = sorted(merges) or [-1]
    ranks = np.array([merges.get(key, (0, 0))[0] for key in keys], np.int64)
    merged = np.array([merges.get(key, (0, 0))[1] for key in keys], np.int32)
    # Equal pairs of a word are merged at once, unless the new piece has a pair of a lower rank, which comes first.
    lowest = np.full(self._size, len(merges))
    pairs = np.array(keys)
    np.minimum.at(lowest, pairs // self._size, ranks)
    np.minimum.at(lowest, pairs % self._size, ranks)
    self._keys, self._ranks, self._merged = tf.constant(pairs, tf.int64), tf.constant(ranks), tf.constant(merged)
    self._at_once = tf.constant(lowest[merged] > ranks)

  def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
    """Words string [n] -> ids int32 [n, (pieces)]."""
    rows = tf.repeat(tf.range(tf.size(words)), tf.strings.length(words))
    ids = tf.gather(self._id_of_byte, tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32))
    known = ids >= 0
    ids, rows = ids[known], rows[known]
    n = tf.size(words)
    ids, rows, _ = tf.while_loop(
      lambda ids, rows, more: more,
      lambda ids, rows, more: self._merge(ids, rows, n),
      [ids, rows, tf.constant(True)],
      shape_invariants=[tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])],
    )
    return tf.RaggedTensor.from_value_rowids(ids, rows, n, validate=False)

  def _merge(self, ids, rows, n):
    """Returns ids and rows after the merges of the lowest rank in each row, and whether any pair was merged."""
    left = tf.cast(ids, tf.int64)
    index, found = find_in_sorted(self._keys, left[:-1] * self._size + left[1:])
    found &= rows[:-1] == rows[1:]
    row = rows[:-1]
    rank = tf.where(found, tf.gather(self._ranks, index), self._ranks.dtype.max)
    lowest = found & (rank == tf.gather(tf.math.unsorted_segment_min(rank, row, n), row))
    place = tf.range(tf.size(row))
    first = tf.math.unsorted_segment_min(tf.where(lowest, place, place.dtype.max), row, n)
    lowest &= tf.gather(self._at_once, index) | (place == tf.gather(first, row))
    # Pairs overlap in "aaaa": merge every second pair.
    starts = lowest & ~tf.concat([[False], lowest[:-1]], 0)[: tf.size(row)]
    start = tf.gather(tf.concat([[0], place[starts]], 0), tf.cumsum(tf.cast(starts, tf.int32)))
    lowest &= (place - start) % 2 == 0
    kept = tf.concat([[True], ~lowest], 0)[: tf.size(ids)]
    merged = tf.where(lowest, tf.gather(self._merged, index), ids[:-1])
    ids = tf.concat([merged, ids[-1:]], 0)
    return ids[kept], rows[kept], tf.reduce_any(lowest)


class Unigram:
  """The most probable pieces of words: a search for the best path, in float64 as in `tokenizers`."""

  # Read per token: the first pieces of a run, as "aaa...", follow from its length.
  characters_per_token = 1024

  def __init__(self, model: Json, byte_ids: list[int] | None = None) -> None:
    """Takes the model of a tokenizer.json, and the ids of bytes that stand for an unknown character, if they do."""
    self._byte_ids = None if byte_ids is None else tf.constant(byte_ids, tf.int32)
    scores = np.array([score for _, score in model["vocab"]], np.float64)
    self._unknown = model["unk_id"]
    pieces = {piece: index for index, (piece, _) in enumerate(model["vocab"]) if piece}
    self._longest = max(map(len, pieces), default=1)
    # A trie's node is the number of its prefix, shorter prefixes first: so keys (parent, last character) are sorted.
    nodes = {"": 0}
    for length in range(1, self._longest + 1):
      prefixes = {piece[:length] for piece in pieces if len(piece) >= length}
      for prefix in sorted(prefixes):
        nodes[prefix] = len(nodes)
    keys = [(nodes[prefix[:-1]] << BITS) + ord(prefix[-1]) for prefix in nodes if prefix]
    self._keys = tf.constant(keys or [-1], tf.int64)
    # 1 + the id of the piece, 0 for none; the last number for a character that is not a piece.
    self._piece = tf.constant([1 + pieces.get(prefix, -1) for prefix in nodes])
    self._other = len(scores) + 1
    self._scores = tf.constant([-np.inf, *scores, scores.min() - 10.0], tf.float64)

  def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
    """Words string [n], none empty -> ids int32 [n, (pieces)]."""
    characters = tf.strings.unicode_decode(words, "UTF-8")
    order = tf.argsort(characters.row_lengths(), direction="DESCENDING", stable=True)
    characters = tf.gather(characters, order)
    rows = tf.cast(characters.value_rowids(), tf.int32)
    position = tf.range(tf.size(rows)) - tf.gather(tf.cast(characters.row_starts(), tf.int32), rows)
    found = self._pieces_at(tf.cast(characters.flat_values, tf.int64), rows)
    by_position = tf.argsort(position, stable=True)
    steps = self._best(tf.gather(found, by_position, axis=1), position, tf.size(words))
    steps = tf.gather(steps, tf.math.invert_permutation(by_position))
    ids = tf.gather_nd(found, tf.stack([steps, tf.range(tf.size(steps))], 1)) - 1
    ids = tf.where(ids == self._other - 1, self._unknown, ids)
    on_path = _on_path(self._longest - steps, position, rows)
    ids, rows = ids[on_path], rows[on_path]
    unknown = ids == self._unknown
    if self._byte_ids is not None:
      # An unknown piece is a single character.
      texts = tf.strings.unicode_encode(characters.flat_values[on_path][unknown][:, tf.newaxis], "UTF-8")
      ids, rows = self._with_bytes(ids, rows, unknown, texts)
      unknown = tf.zeros_like(ids, tf.bool)
    follows = unknown[1:] & unknown[:-1] & (rows[1:] == rows[:-1])
    kept = tf.concat([[True], ~follows], 0)[: tf.size(ids)]
    pieces = tf.RaggedTensor.from_value_rowids(ids[kept], rows[kept], tf.size(words), validate=False)
    return tf.gather(pieces, tf.math.invert_permutation(order))

  def _with_bytes(self, ids, rows, unknown, texts):
    """Returns ids and rows with the bytes of `texts` in place of the unknown pieces."""
    counts = tf.tensor_scatter_nd_update(tf.ones_like(ids), tf.where(unknown), tf.strings.length(texts))
    numbers = tf.gather(self._byte_ids, tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32))
    is_byte = tf.repeat(unknown, counts)
    ids = tf.tensor_scatter_nd_update(tf.repeat(ids, counts), tf.where(is_byte), numbers)
    return ids, tf.repeat(rows, counts)

  def _pieces_at(self, characters, rows):
    """Returns pieces that end at each character, the longest first, 0 for none: int32 [longest, characters]."""
    size = tf.size(rows)

    def extend_by_one(length, starts, nodes, columns):
      ends = starts + length
      inside = (ends < size) & (tf.gather(rows, tf.minimum(ends, size - 1)) == tf.gather(rows, starts))
      starts, nodes, ends = starts[inside], nodes[inside], ends[inside]
      index, found = find_in_sorted(self._keys, nodes * 2**BITS + tf.gather(characters, ends))
      starts, nodes, ends = starts[found], tf.cast(index[found], tf.int64) + 1, ends[found]
      column = tf.scatter_nd(ends[:, tf.newaxis], tf.gather(self._piece, nodes), [size])
      return length + 1, starts, nodes, columns.write(self._longest - 1 - length, column)

    columns = tf.TensorArray(tf.int32, self._longest, element_shape=[None])
    shapes = [tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape(None)]
    start = [0, tf.range(size), tf.zeros([size], tf.int64), columns]
    loop_state = tf.while_loop(lambda length, *_: length < self._longest, extend_by_one, start, shapes)
    found = loop_state[-1].stack()
    single = tf.where(found[-1:] == 0, self._other, found[-1:])
    return tf.concat([found[:-1], single], 0)

  def _best(self, found, position, n):
    """Returns the row of `found` with the last piece of the best path to each character, in the order of positions."""
    # Words are sorted by length: the first words have a character at a position, the others have none.
    counts = tf.math.bincount(position)
    offsets = tf.cumsum(counts, exclusive=True)

    def advance(i, window, best):
      count, offset = counts[i], offsets[i]
      window = window[:, :count]
      scores = window + tf.gather(self._scores, found[:, offset : offset + count])
      window = tf.concat([window[1:], tf.reduce_max(scores, 0, keepdims=True)], 0)
      return i + 1, window, best.write(i, tf.argmax(scores, 0, tf.int32))

    best = tf.TensorArray(tf.int32, tf.size(counts), infer_shape=False, element_shape=[None])
    outside = tf.fill([self._longest - 1, n], tf.constant(-np.inf, tf.float64))
    window = tf.concat([outside, tf.zeros([1, n], tf.float64)], 0)
    shapes = [tf.TensorShape([]), tf.TensorShape([self._longest, None]), tf.TensorShape(None)]
    loop_state = tf.while_loop(lambda i, *_: i < tf.size(counts), advance, [0, window, best], shapes)
    return loop_state[-1].concat()


def _on_path(lengths, position, rows):
  """Returns whether a piece of its word's path ends at each character, by the lengths of the last pieces."""
  size = tf.size(rows)
  place = tf.range(size)
  last = tf.concat([rows[1:] != rows[:-1], [True]], 0)[:size]
  before = tf.where(position >= lengths, place - lengths, place)

  def double_step(width, marked, before):
    marked = tf.tensor_scatter_nd_max(marked, before[:, tf.newaxis], marked)
    return width * 2, marked, tf.gather(before, before)

  longest = tf.reduce_max(tf.concat([position, [0]], 0)) + 1
  start = [tf.constant(1), tf.cast(last, tf.int32), before]
  return tf.while_loop(lambda width, *_: width < longest, double_step, start)[1] > 0


def find_in_sorted(keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the places int32 of values among sorted keys, both int64, and whether they are among them."""
  index = tf.minimum(tf.searchsorted(keys, values), tf.size(keys) - 1)
  return index, tf.gather(keys, index) == values


def _byte_characters() -> list[str]:
  """Returns the characters that stand for the 256 bytes in a byte-level vocabulary."""
  printable = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
  others = (code for code in range(256) if code not in printable)
  shown = {code: chr(256 + i) for i, code in enumerate(others)}
  return [shown.get(code, chr(code)) for code in range(256)]
