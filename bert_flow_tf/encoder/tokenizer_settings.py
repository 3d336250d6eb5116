"""Settings of a BERT tokenizer: tokenizer_config.json of its folder, and what holds without it."""

import os
import pathlib
import re
from typing import Any

from absl import logging

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import read_json

# {setting of tokenizer_config.json: its type}; null is allowed too.
_SETTINGS = {
  "do_lower_case": bool,
  "strip_accents": bool,
  "tokenize_chinese_chars": bool,
  "max_input_chars_per_word": int,
}
# Longer words become [UNK]: in transformers, and in Google's tokenization.py.
MAX_INPUT_CHARS_PER_WORD, MAX_OF_GOOGLE = 100, 200
SPECIALS = {
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]",
}


def read_settings(
  folder: str | os.PathLike, name: str | None = None, max_input_chars_per_word: int | None = None
) -> dict[str, Any]:
  """Returns the arguments of `SentenceTokenizer` besides the vocabulary; see `SentenceTokenizer.from_pretrained`.

  Raises:
    EncoderError: tokenizer_config.json is damaged, or describes a tokenizer that is not BERT's.
  """
  folder = pathlib.Path(folder)
  config = _read_config(folder / "tokenizer_config.json")
  settings = {key: config[key] for key in _SETTINGS if key in config}
  for key in SPECIALS:
    token = config.get(key)
    if token:
      settings[key] = token.get("content") if isinstance(token, dict) else token
  if settings.get("do_lower_case") is None:
    settings["do_lower_case"] = guess_lower_case(folder, name)
  if max_input_chars_per_word is None:
    default = MAX_INPUT_CHARS_PER_WORD if (folder / "config.json").is_file() else MAX_OF_GOOGLE
    max_input_chars_per_word = config.get("max_input_chars_per_word") or default
  return {**settings, "max_input_chars_per_word": max_input_chars_per_word}


def _read_config(path: pathlib.Path) -> dict:
  """Returns the content of a tokenizer_config.json; empty if the file is missing."""
  if not path.exists():
    return {}
  try:
    config = read_json(path)
  except (OSError, ValueError) as error:
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
  kind = config.get("tokenizer_class", "BertTokenizer") if isinstance(config, dict) else None
  if kind not in ("BertTokenizer", "BertTokenizerFast", None) or not isinstance(config, dict):
    raise EncoderError(f"{path}: tokenizer_class is {kind!r}; only BertTokenizer is supported")
  for key, expected in _SETTINGS.items():
    value = config.get(key)
    is_wrong = expected is int and value is not None and not is_integer(value, 1)
    if not isinstance(value, expected | None) or is_wrong:
      kind = "true or false" if expected is bool else "a positive integer"
      raise EncoderError(f"{path}: {key} is {config[key]!r}, expected {kind}")
  for key in SPECIALS:
    token = config.get(key)
    if not isinstance(token.get("content") if isinstance(token, dict) else token, str | None):
      raise EncoderError(f"{path}: {key} is {token!r}, expected a word piece")
  return config


# Pieces in brackets are special tokens, "[CLS]" or "[unused1]", in capitals in every vocabulary.
_CAPITAL = re.compile(r"(?!\[.*\]$).*[A-Z]")


def guess_lower_case(folder: str | os.PathLike, name: str | None = None) -> bool:
  """Returns whether text must be lower-cased, and logs the reason.

  A folder of Google (bert_config.json, no config.json) is judged by `lower_case_of_google`. A Hugging Face folder is
  lower-cased unless its name contains "cased" without "un".

  Args:
    folder: folder with vocab.txt.
    name: the model's name, if it is not the folder's name, as in a snapshot of the hub.
  """
  folder = pathlib.Path(folder)
  if (folder / "bert_config.json").is_file() and not (folder / "config.json").is_file():
    return lower_case_of_google(folder / "vocab.txt")
  name = str(name or folder.resolve().name).lower()
  lower = "cased" not in name.replace("uncased", "")
  _log(folder, lower, f"by the name '{name}'")
  return lower


def lower_case_of_google(vocab_file: str | os.PathLike) -> bool:
  """Returns whether text must be lower-cased for a vocabulary of Google, and logs the reason.

  The names of Google's folders contain "cased" or "uncased" (cased_L-12_H-768_A-12). In a folder with another name,
  capital letters decide: the vocabulary of an uncased model has none outside brackets.

  Args:
    vocab_file: path of vocab.txt.
  """
  vocab_file = pathlib.Path(vocab_file)
  name = vocab_file.resolve().parent.name.lower()
  lines = vocab_file.read_text(encoding="utf-8", errors="replace").split("\n")
  capitals = sum(1 for piece in lines if _CAPITAL.match(piece))
  pieces = f"{vocab_file.name} has {capitals or 'no'} word pieces with capital letters"
  if "cased" not in name:
    _log(vocab_file.parent, not capitals, f"as {pieces}")
    return not capitals
  lower = "uncased" in name
  _log(vocab_file.parent, lower, f"by the name '{name}'" + (f" (though {pieces})" if lower == bool(capitals) else ""))
  return lower


def _log(folder: pathlib.Path, lower: bool, reason: str) -> None:
  logging.info("%s: no do_lower_case in tokenizer_config.json; do_lower_case=%s, %s", folder, lower, reason)
