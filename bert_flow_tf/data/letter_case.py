"""Guesses of do_lower_case, for models whose tokenizer_config.json does not have it."""

import os
import pathlib
import re

from absl import logging

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
