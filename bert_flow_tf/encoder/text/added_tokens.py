"""Tokens that were added to a vocabulary: transformers writes their names and ids into files of their own."""

import pathlib
from collections.abc import Mapping
from typing import Any

import tokenizers

from bert_flow_tf.encoder.checkpoints.files import TOKENIZER_CONFIG, EncoderFiles
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

# Tokens that are no piece of a vocabulary: in tokenizer_config.json, before transformers 4.34 in a file of their own.
KEY, FILE = "added_tokens_decoder", "added_tokens.json"
_SETTINGS = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True}


def read_added_tokens(files: EncoderFiles) -> dict[str, Json]:
  """Returns {id: {"content": token, ...}} of the tokens that a folder's files add to its vocabulary."""
  added = {str(number): {"content": token} for token, number in files.json(FILE).items()}
  decoder = files.json(TOKENIZER_CONFIG).get(KEY) or {}
  if not isinstance(decoder, dict):
    raise EncoderError(f"{files.path(TOKENIZER_CONFIG)}: {KEY} is {str(decoder)[:40]}, expected tokens by their ids")
  for number, token in decoder.items():
    added[number] = {"content": token} if isinstance(token, str) else token
  return added


def add_tokens(
  backend: tokenizers.Tokenizer,
  added: Mapping[str, Mapping[str, Any]],
  specials: Mapping[str, str],
  vocab_file: pathlib.Path,
) -> dict[str, Json]:
  """Adds tokens {id: {"content": token, ...}} but for the special ones of a vocabulary; returns the added ones."""
  result = {}
  try:
    for number, token in sorted(added.items(), key=lambda item: int(item[0])):
      content, in_vocabulary = token["content"], backend.token_to_id(token["content"]) == int(number)
      if content not in specials.values() and not (in_vocabulary and token.get("special")):
        settings = {name: bool(token.get(name, default)) for name, default in _SETTINGS.items()}
        # Not as special tokens, which are not found in text: there, "[MASK]" and similar strings are ordinary text.
        backend.add_tokens([tokenizers.AddedToken(content, special=False, **settings)])
        result[number] = {"content": content, **settings}
        if backend.token_to_id(content) != int(number):
          raise ValueError(f"{content!r} has the id {number}, expected {backend.token_to_id(content)}, the next one")
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    message = f"{vocab_file.parent}: {KEY} or {FILE} cannot be used ({error}); save the tokenizer again"
    raise EncoderError(message) from error
  return result
