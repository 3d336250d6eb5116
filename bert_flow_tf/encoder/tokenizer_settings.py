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
_TOKENIZERS = ("BertTokenizer", "BertTokenizerFast", None)
# Pieces in brackets are special tokens, "[CLS]" or "[unused1]", in capitals in every vocabulary.
_CAPITAL = re.compile(r"(?!\[.*\]$).*[A-Z]")


def read_settings(folder: str | os.PathLike, name: str | None, chosen: dict[str, Any]) -> dict[str, Any]:
  """Returns the arguments of `SentenceTokenizer` besides the vocabulary.

  A value of `chosen` that is not None replaces that of tokenizer_config.json. Without either, `guess_lower_case`
  decides, and max_input_chars_per_word is 100 in folders with a config.json, as in transformers, and 200 in others, as
  in Google's code.
  """
  folder = pathlib.Path(folder)
  config = _read_config(folder / "tokenizer_config.json")
  settings = {}
  for key in _SETTINGS:
    value = chosen.get(key)
    if value is None:
      value = config.get(key)
    if value is not None:
      settings[key] = value
  for key in SPECIALS:
    token = _special(config.get(key))
    if token:
      settings[key] = token
  if "do_lower_case" not in settings:
    settings["do_lower_case"] = guess_lower_case(folder, name)
  if "max_input_chars_per_word" not in settings and not (folder / "config.json").is_file():
    settings["max_input_chars_per_word"] = MAX_OF_GOOGLE
  return settings


def _read_config(path: pathlib.Path) -> dict:
  """Returns the checked content of a tokenizer_config.json; empty if the file is missing."""
  if not path.exists():
    return {}
  try:
    config = read_json(path)
  except (OSError, ValueError) as error:
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
  if not isinstance(config, dict):
    raise EncoderError(f"{path}: expected a JSON object; download or save it again")
  if config.get("tokenizer_class") not in _TOKENIZERS:
    raise EncoderError(f"{path}: tokenizer_class is {config['tokenizer_class']!r}; only BertTokenizer is supported")
  for key, kind in _SETTINGS.items():
    value = config.get(key)
    if kind is bool and not isinstance(value, bool | None):
      raise EncoderError(f"{path}: {key} is {value!r}, expected true or false")
    if kind is int and value is not None and not is_integer(value, 1):
      raise EncoderError(f"{path}: {key} is {value!r}, expected a positive integer")
  for key in SPECIALS:
    if not isinstance(_special(config.get(key)), str | None):
      raise EncoderError(f"{path}: {key} is {config[key]!r}, expected a word piece")
  return config


def _special(token):
  """Returns the text of a special token, which may be a dict."""
  if isinstance(token, dict):
    return token.get("content")
  return token


def guess_lower_case(folder: pathlib.Path, name: str | None = None) -> bool:
  """Returns whether text must be lower-cased, and logs the reason.

  A folder of Google (bert_config.json, no config.json) is judged by `lower_case_of_google`. A Hugging Face folder is
  lower-cased unless its name, or the model's `name`, contains "cased" without "un".
  """
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
  reason = f"by the name '{name}'"
  if lower == bool(capitals):
    reason += f" (though {pieces})"
  _log(vocab_file.parent, lower, reason)
  return lower


def _log(folder: pathlib.Path, lower: bool, reason: str) -> None:
  logging.info("%s: no do_lower_case in tokenizer_config.json; do_lower_case=%s, %s", folder, lower, reason)
