"""Word pieces for a BERT that is trained from scratch: built from a text, or chosen from an existing vocabulary."""

import collections
import os
import pathlib
from collections.abc import Iterable, Sequence

import tokenizers

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import Progress

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CONTINUATION = "##"
# BERT replaces longer words by [UNK] (Wu et al. 2016; the published tokenizer's limit).
_LONGEST_WORD = 100


def build_vocabulary(sentences: Iterable[str], size: int, do_lower_case: bool = True) -> list[str]:
  """Learns word pieces from a text, by the merges of byte-pair encoding, as the library `tokenizers` does.

  Args:
    sentences: the text.
    size: largest number of pieces, the specials included.
    do_lower_case: whether text is lower-cased and stripped of accents first.

  Returns:
    At most `size` pieces, `SPECIALS` first.

  Raises:
    ConfigError: size is smaller than the number of the text's characters.
  """
  tokenizer = _wordpiece({}, do_lower_case)
  sentences = list(sentences)
  inner = sorted({character for word in _words(tokenizer, sentences) for character in word[1:]})
  trainer = tokenizers.trainers.WordPieceTrainer(
    vocab_size=size,
    # By default, the trainer numbers the pieces of one character in an order that differs from run to run, and it
    # chooses between merges of equal count by these numbers.
    special_tokens=[*SPECIALS, *(f"{_CONTINUATION}{character}" for character in inner)],
    continuing_subword_prefix=_CONTINUATION,
    show_progress=False,
  )
  tokenizer.train_from_iterator(sentences, trainer)
  ids = tokenizer.get_vocab()
  pieces = sorted(ids, key=ids.get)
  if len(pieces) > size:
    raise ConfigError(
      f"vocab_size={size}: expected at least {len(pieces)}, one for each character of the text", "vocab_size"
    )
  return pieces


def choose_vocabulary(
  path: str | os.PathLike, sentences: Iterable[str], size: int, do_lower_case: bool = True
) -> list[str]:
  """Returns the part of an existing vocabulary that a text needs most, in the vocabulary's order.

  It has the specials, the pieces of one character that occur, so that no word becomes [UNK] because other pieces are
  missing, and the most frequent of the others.

  Args:
    path: vocab.txt, one piece a line.
    sentences: the text.
    size: largest number of pieces.
    do_lower_case: as that vocabulary was made.

  Raises:
    DataError: the file cannot be read, or is not a vocabulary of BERT.
    ConfigError: size is smaller than the number of specials and characters.
  """
  pieces = read_vocabulary(path)
  if size >= len(pieces):
    return pieces
  tokenizer = _wordpiece({piece: row for row, piece in enumerate(pieces)}, do_lower_case)
  counts, characters = collections.Counter(), set()
  for chunk in _chunks(sentences):
    for encoding in tokenizer.encode_batch(chunk, add_special_tokens=False):
      counts.update(encoding.tokens)
  for piece in counts:
    bare = piece.removeprefix(_CONTINUATION)
    characters.update(bare if piece not in SPECIALS else "")
  needed = {piece for piece in pieces if piece in SPECIALS or piece.removeprefix(_CONTINUATION) in characters}
  if len(needed) > size:
    raise ConfigError(
      f"vocab_size={size}: expected at least {len(needed)}, the specials and characters of the text in {path}",
      "vocab_size",
    )
  others = sorted((piece for piece in counts if piece not in needed), key=lambda piece: -counts[piece])
  kept = needed | set(others[: size - len(needed)])
  return [piece for piece in pieces if piece in kept]


def read_vocabulary(path: str | os.PathLike) -> list[str]:
  """Reads the pieces of a vocab.txt.

  Raises:
    DataError: the file cannot be read, lacks a special piece or repeats a piece.
  """
  try:
    pieces = pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(
      f"vocab_file={path}: cannot be read ({error}); expected one word piece a line", "vocab_file"
    ) from error
  missing = [piece for piece in SPECIALS if piece not in pieces]
  if missing:
    raise DataError(f"vocab_file={path}: {', '.join(missing)} are missing; expected a vocabulary of BERT", "vocab_file")
  if len(set(pieces)) < len(pieces):
    repeated = next(piece for piece, count in collections.Counter(pieces).items() if count > 1)
    raise DataError(f"vocab_file={path}: {repeated!r} is repeated; expected each piece once", "vocab_file")
  return pieces


def _wordpiece(vocabulary, do_lower_case):
  model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD)
  tokenizer = tokenizers.Tokenizer(model)
  tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=do_lower_case)
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
  return tokenizer


def _words(tokenizer: tokenizers.Tokenizer, sentences: Sequence[str]) -> set[str]:
  """Returns the distinct words of sentences, as the tokenizer splits them."""
  words = set()
  with Progress(len(sentences), what="collecting words") as progress:
    for sentence in sentences:
      normal = tokenizer.normalizer.normalize_str(sentence)
      words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
      progress.update(1)
  return words


def _chunks(sentences, size=8192):
  chunk = []
  for sentence in sentences:
    chunk.append(sentence)
    if len(chunk) == size:
      yield chunk
      chunk = []
  yield chunk
