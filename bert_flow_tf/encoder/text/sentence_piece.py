"""Text in unigram vocabularies as SentencePiece reads it, by `tokenizers`.

`tokenizers` finds every piece of a vocabulary in text. SentencePiece finds neither control symbols (<s>, <pad>) nor the
unknown piece nor pieces of bytes: they get their ids from programs. It reads a character that is no piece as its bytes,
if the vocabulary has these.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import tokenizers
from tokenizers import models

from bert_flow_tf.io.files import Json

# Keys of tokenizer_config.json, named after options of SentencePiece's trainer, for what a tokenizer.json does not say.
CONTROL, USER_DEFINED, BYTE_FALLBACK = "control_symbols", "user_defined_symbols", "byte_fallback"
# Key of tokenizer_config.json beside a tokenizer.json whose scores are read with all their digits.
EXACT_SCORES = "exact_scores"
# Types of pieces in a file of SentencePiece; an unused piece is never found.
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6
_BYTES = [f"<0x{value:02X}>" for value in range(256)]
# At the end of a piece that no text has: the last code point, which is no character.
_NEVER = "\U0010ffff"
_SPACES = frozenset(" \u2581")
_SETTINGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def symbols_of(proto: Any, vocabulary: Iterable[str]) -> Json:
  """Returns what a file of SentencePiece says of pieces of a vocabulary, by keys of tokenizer_config.json."""
  types = {piece.piece: piece.type for piece in proto.pieces}
  never = (_UNKNOWN, _CONTROL, _UNUSED)
  symbols: Json = {
    CONTROL: [piece for piece in vocabulary if types.get(piece, _CONTROL) in never],
    USER_DEFINED: [piece for piece in vocabulary if types.get(piece) == _USER_DEFINED],
    BYTE_FALLBACK: _BYTE in types.values(),
  }
  return {key: value for key, value in symbols.items() if value}


def exact_backend(definition: str) -> tokenizers.Tokenizer:
  """Returns the tokenizer of a tokenizer.json, with all digits of a unigram vocabulary's scores.

  `tokenizers` rounds the last digit of some when it reads a tokenizer.json, or a pickle of a tokenizer.
  """
  backend, model = tokenizers.Tokenizer.from_str(definition), json.loads(definition)["model"]
  if model["type"] == "Unigram":
    pieces = [(piece, score) for piece, score in model["vocab"]]
    backend.model = models.Unigram(pieces, model["unk_id"], byte_fallback=bool(model.get("byte_fallback")))
  return backend


class PieceReader(NamedTuple):
  """Tokenizer of text.

  Attributes:
    backend: `tokenizers.Tokenizer` with the ids of the tokenizer of the folder.
    byte_ids: ids of the 256 bytes, which stand for a character that is no piece; None if such a character is unknown.
    unknown_id: id of the unknown piece.
  """

  backend: tokenizers.Tokenizer
  byte_ids: list[int] | None = None
  unknown_id: int | None = None

  def ids(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of the pieces of each text."""
    if self.byte_ids is None:
      return [encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]
    return [ids for ids, _ in self.ids_and_places(texts)]

  def definition(self) -> tuple[Json, set[str]]:
    """Returns the tokenizer.json of the backend, which reads bytes itself, and the pieces in it that no text has."""
    definition = json.loads(self.backend.to_str())
    model, never = definition["model"], set()
    if model["type"] == "Unigram":
      never = {piece for piece, _ in model["vocab"] if piece.endswith(_NEVER)}
    if self.byte_ids is not None:
      for row, piece in zip(self.byte_ids, _BYTES, strict=True):
        never.remove(model["vocab"][row][0])
        model["vocab"][row][0] = piece
      model["byte_fallback"] = True
    return definition, never

  def ids_and_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Returns the ids of the pieces of each text, and where they begin and end in it."""
    rows = []
    for encoding in self.backend.encode_batch(list(texts), add_special_tokens=False):
      ids, places = encoding.ids, encoding.offsets
      if self.byte_ids is not None and self.unknown_id in ids:
        pieces = list(zip(ids, encoding.tokens, places, strict=True))
        ids, places = [], []
        for number, text, place in pieces:
          numbers = [number]
          if number == self.unknown_id:  # whose token is its text
            numbers = [self.byte_ids[value] for value in text.encode()]
          ids += numbers
          places += [place] * len(numbers)
      rows.append((ids, places))
    return rows


def unigram_reader(
  backend: tokenizers.Tokenizer, definition: Json, specials: Collection[str], symbols: Json
) -> PieceReader:
  """Returns the reader of text of a tokenizer with a unigram vocabulary, which has special tokens for programs.

  Args:
    backend: the tokenizer.
    definition: its tokenizer.json.
    specials: special tokens, besides those that `definition` declares.
    symbols: those of `symbols_of`; empty for a tokenizer.json of others.
  """
  model, added = definition["model"], definition["added_tokens"]
  ids = {piece: row for row, (piece, _) in enumerate(model["vocab"])}
  has_bytes = bool(symbols.get(BYTE_FALLBACK) or model.get("byte_fallback")) and ids.keys() >= set(_BYTES)
  never = {*specials, *symbols.get(CONTROL, ())}
  never |= {token["content"] for token in added if token["special"]}
  if model["unk_id"] is not None:
    never.add(model["vocab"][model["unk_id"]][0])
  if has_bytes:
    never |= set(_BYTES)
  # User-defined symbols are pieces like others, with a score that no other pieces reach, and begin no word.
  whole = {symbol for symbol in symbols.get(USER_DEFINED, ()) if _is_kept(symbol, backend.normalizer)}
  scores = [score for piece, score in model["vocab"] if piece not in never | whole]
  highest, lowest = max(scores, default=0.0), min((score for _, score in model["vocab"]), default=0.0)
  pieces = []
  for piece, score in model["vocab"]:
    if piece in whole:
      # SentencePiece's; but `tokenizers` takes the score of what is unknown from the lowest one.
      score = max(len(piece.encode()) * highest - 0.1, lowest)
    pieces.append((f"{piece}{_NEVER}" if piece in never else piece, score))
  is_native = bool(model.get("byte_fallback")) and not has_bytes
  reader = tokenizers.Tokenizer(models.Unigram(pieces, model["unk_id"], byte_fallback=is_native))
  if backend.normalizer is not None:
    reader.normalizer = backend.normalizer
  if backend.pre_tokenizer is not None:
    reader.pre_tokenizer = backend.pre_tokenizer
  for token in added:
    if token["content"] not in ids or token["content"] not in never | whole:
      settings = {name: token[name] for name in _SETTINGS}
      reader.add_tokens([tokenizers.AddedToken(token["content"], **settings)])
  byte_ids = None
  if has_bytes:
    byte_ids = [ids[piece] for piece in _BYTES]
  return PieceReader(reader, byte_ids, model["unk_id"])


def _is_kept(symbol: str, normalizer: Any) -> bool:
  """Returns whether a symbol is one word after the normalizer, too; else it stays a token that is found before."""
  if _SPACES.intersection(symbol):
    return False
  return normalizer is None or normalizer.normalize_str(symbol) == symbol
