"""Word pieces for a BERT that is trained from scratch: built from a text, or chosen from an existing vocabulary."""

import collections
import pathlib

import tokenizers

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import Progress

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CONTINUATION = "##"
# Of a longer word BERT makes [UNK] (Wu et al. 2016; the published tokenizer's limit).
_LONGEST_WORD = 100


def build_vocabulary(sentences, size, do_lower_case=True):
  """Learns word pieces from a text, by the merges of byte-pair encoding, as the library `tokenizers` does.

  Args:
    sentences: iterable of str.
    size: the most pieces, the specials included.
    do_lower_case: whether text is lower-cased and stripped of accents first.

  Returns:
    list of at most `size` str, `SPECIALS` first.

  Raises:
    ConfigError: size is below what the text's single characters need.
  """
  tokenizer = _wordpiece({}, do_lower_case)
  sentences = list(sentences)
  inner = sorted({character for word in _words(tokenizer, sentences) for character in word[1:]})
  trainer = tokenizers.trainers.WordPieceTrainer(
    vocab_size=size,
    # Left to itself, the trainer numbers the pieces of one character in an order that differs from run to run, and by
    # these numbers it chooses between merges of equal count.
    special_tokens=[*SPECIALS, *(f"{_CONTINUATION}{character}" for character in inner)],
    continuing_subword_prefix=_CONTINUATION,
    show_progress=False,
  )
  tokenizer.train_from_iterator(sentences, trainer)
  ids = tokenizer.get_vocab()
  pieces = sorted(ids, key=ids.get)
  if len(pieces) > size:
    raise ConfigError(f"--vocab_size={size}: the text has {len(pieces)} single characters alone; expected more")
  return pieces


def choose_vocabulary(path, sentences, size, do_lower_case=True):
  """Keeps of an existing vocabulary what a text needs most.

  That is the specials, the pieces of one character that occur, so that no word becomes [UNK] for want of the pieces
  that are left out, and then the most frequent of the others. They keep their order.

  Args:
    path: vocab.txt, a piece a line.
    sentences: iterable of str.
    size: the most pieces.
    do_lower_case: as that vocabulary was made.

  Returns:
    list of at most `size` str.

  Raises:
    DataError: the file cannot be read, or is no BERT's vocabulary.
    ConfigError: size is below what the specials and characters need.
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
      f"--vocab_size={size}: {path} has {len(needed)} specials and characters of the text; expected more"
    )
  others = sorted((piece for piece in counts if piece not in needed), key=lambda piece: -counts[piece])
  kept = needed | set(others[: size - len(needed)])
  return [piece for piece in pieces if piece in kept]


def read_vocabulary(path):
  """The pieces of a vocab.txt.

  Raises:
    DataError: it cannot be read, lacks a special piece or has one twice.
  """
  try:
    pieces = pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(f"--vocab_file={path} cannot be read ({error}); expected a word piece a line") from error
  missing = [piece for piece in SPECIALS if piece not in pieces]
  if missing:
    raise DataError(f"--vocab_file={path} has no {', '.join(missing)} among {len(pieces)} lines; expected BERT's")
  if len(set(pieces)) < len(pieces):
    twice = next(piece for piece, count in collections.Counter(pieces).items() if count > 1)
    raise DataError(f"--vocab_file={path} has {twice!r} twice; expected each piece once")
  return pieces


def _wordpiece(vocabulary, do_lower_case):
  model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD)
  tokenizer = tokenizers.Tokenizer(model)
  tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=do_lower_case)
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
  return tokenizer


def _words(tokenizer, sentences):
  """The distinct words of sentences, as the tokenizer splits them."""
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
