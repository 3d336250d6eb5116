"""Settings of a BERT tokenizer: tokenizer_config.json of its folder, and what holds without it."""

import os
import pathlib
from typing import Any

from bert_flow_tf.data.letter_case import guess_lower_case
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
