"""Whether a model wants its text lower-cased, where no tokenizer_config.json says so."""

import pathlib
import re

from absl import logging

# What stands in brackets is a special token, "[CLS]" or "[unused1]", in every vocabulary.
_CAPITAL = re.compile(r"(?!\[.*\]$).*[A-Z]")


def guess_lower_case(folder, name=None):
  """True where text is to be lower-cased; the log says what that was told from.

  Of Google's folders (bert_config.json, no config.json): `lower_case_of_google`. Of a Hugging Face folder, unless its
  name says "cased".

  Args:
    folder: with vocab.txt.
    name: the model's name, where a Hugging Face folder's does not tell (a hub snapshot); the folder's if None.
  """
  folder = pathlib.Path(folder)
  if (folder / "bert_config.json").is_file() and not (folder / "config.json").is_file():
    return lower_case_of_google(folder / "vocab.txt")
  name = str(name or folder.resolve().name).lower()
  lower = "cased" not in name.replace("uncased", "")
  _say(folder, lower, f"by the name '{name}'")
  return lower


def lower_case_of_google(vocab_file):
  """The same for a vocabulary of Google's, told from the name of its folder, else from its pieces.

  Google's folders say "cased" or "uncased" in their names (cased_L-12_H-768_A-12). One that says neither is told by
  capital letters: a vocabulary of lower-cased text holds none outside brackets.

  Args:
    vocab_file: path of the vocab.txt.
  """
  vocab_file = pathlib.Path(vocab_file)
  name = vocab_file.resolve().parent.name.lower()
  lines = vocab_file.read_text(encoding="utf-8", errors="replace").split("\n")
  capitals = sum(1 for piece in lines if _CAPITAL.match(piece))
  pieces = f"{vocab_file.name} has {capitals or 'no'} word pieces with capital letters"
  if "cased" not in name:
    _say(vocab_file.parent, not capitals, f"as {pieces}")
    return not capitals
  lower = "uncased" in name
  _say(vocab_file.parent, lower, f"by the name '{name}'" + (f" (though {pieces})" if lower == bool(capitals) else ""))
  return lower


def _say(folder, lower, why):
  case = "lower-cased" if lower else "left as it is"
  logging.info("%s: no do_lower_case in tokenizer_config.json, so %s text is %s", folder, why, case)
