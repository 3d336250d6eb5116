"""Files of SentencePiece, read without its package, whose message classes need one version of protobuf."""

import pathlib
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

# Kinds of fields of protobuf.
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
# Fields of a model, of a piece, and of the settings of training and normalizer.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _BYTE_FALLBACK, _UNKNOWN_ID, _UNKNOWN_PIECE = 3, 35, 40, 45
_CHARSMAP, _DUMMY_PREFIX, _EXTRA_SPACES = 2, 3, 4


class Piece(NamedTuple):
  """A piece, its score, and its type (1 normal, 3 control, 4 user-defined)."""

  piece: str
  score: float
  type: int


class TrainerSpec(NamedTuple):
  """Settings of the training: the model (1 unigram, 2 BPE), the unknown piece, whether bytes stand for it."""

  model_type: int
  unk_id: int
  unk_piece: str
  byte_fallback: bool


class NormalizerSpec(NamedTuple):
  """Settings of the normalizer: the map of characters, a space before each text, no spaces beside a space."""

  precompiled_charsmap: bytes
  add_dummy_prefix: bool
  remove_extra_whitespaces: bool


class SentencePieceModel(NamedTuple):
  """Content of a file, under the names of SentencePiece's own messages."""

  pieces: list[Piece]
  trainer_spec: TrainerSpec
  normalizer_spec: NormalizerSpec


def read_sentence_piece(path: pathlib.Path) -> SentencePieceModel:
  """Returns the content of a file of SentencePiece; ValueError if it is damaged."""
  pieces = []
  trainer: dict[int, Any] = {}
  normalizer: dict[int, Any] = {}
  for field, value in _fields(path.read_bytes()):
    if field == _PIECES:
      piece = dict(_fields(value))
      (score,) = struct.unpack("<f", piece.get(_SCORE, bytes(4)))
      pieces.append(Piece(piece[_PIECE].decode(), score, piece.get(_TYPE, 1)))
    elif field == _TRAINER:
      trainer |= dict(_fields(value))
    elif field == _NORMALIZER:
      normalizer |= dict(_fields(value))
  if not pieces:
    raise ValueError("no piece")
  training = TrainerSpec(
    trainer.get(_MODEL_TYPE, 1),
    trainer.get(_UNKNOWN_ID, 0),
    trainer.get(_UNKNOWN_PIECE, b"<unk>").decode(),
    bool(trainer.get(_BYTE_FALLBACK, False)),
  )
  rules = NormalizerSpec(
    normalizer.get(_CHARSMAP, b""),
    bool(normalizer.get(_DUMMY_PREFIX, True)),
    bool(normalizer.get(_EXTRA_SPACES, True)),
  )
  return SentencePieceModel(pieces, training, rules)


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
  """Yields number and value of the fields of a message: an int, or bytes."""
  at = 0
  while at < len(content):
    key, at = _number(content, at)
    kind = key & 7
    if kind == _NUMBER:
      value, at = _number(content, at)
      yield key >> 3, value
      continue
    if kind == _BYTES:
      size, at = _number(content, at)
    elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
      size = 4 if kind == _FOUR_BYTES else 8
    else:
      raise ValueError(f"a field of the kind {kind}")
    if at + size > len(content):
      raise ValueError("it ends within a field")
    yield key >> 3, content[at : at + size]
    at += size


def _number(content: bytes, at: int) -> tuple[int, int]:
  """Returns the number at a place, whose bytes have 7 bits each, and the place after it."""
  number = shift = 0
  while True:
    if at >= len(content):
      raise ValueError("it ends within a number")
    byte = content[at]
    at += 1
    number |= (byte & 127) << shift
    if byte < 128:
      return number, at
    shift += 7
