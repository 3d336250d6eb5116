"""Code blocks of the pages: their commands and code, the outputs that the pages show, and comparison of the two."""

import dataclasses
import re
import shlex

import pytest

from tests.testing import REPO

_BLOCK = re.compile(r"^#+ [^\n]*$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
# A number with a point or an exponent, or a 0 that another processor may print as 6e-8.
_NUMBER = re.compile(r"[+-]?\b(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|0)(?![\w.])")


@dataclasses.dataclass
class Block:
  """A code block, and the output that the page shows below it; the language "" is text that is no output."""

  language: str
  text: str
  output: str | None = None


def read_blocks(page: str) -> list[Block]:
  """Returns the blocks of a page.

  A block without a language is the output of the block before it in its section, or commands behind "$ " that are
  followed by their outputs. A comment "# prints ..." in Python is an output too.
  """
  blocks, before = [], None
  for match in _BLOCK.finditer((REPO / page).read_text(encoding="utf-8")):
    language, text = match["language"], match["text"]
    if language == "" and before is not None and before.output is None:
      before.output = text
    elif language == "" and text.startswith("$ "):
      for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, output = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()
        blocks.append(Block("bash", command, output))
    elif language is not None:
      blocks.append(Block(language, text, "\n".join(re.findall("# prints (.*)", text)) or None))
    before = blocks[-1] if language in ("bash", "python") else None
  return blocks


def commands(block: Block) -> list[str]:
  """Returns the commands of a bash block, lines joined where they continue and split at &&; of others, their text."""
  if block.language != "bash":
    return [block.text]
  lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
  return [command for line in lines if shlex.split(line, comments=True) for command in line.split(" && ")]


def check_output(actual: str, shown: str) -> None:
  """Asserts that an output has the lines that a page shows.

  Text is equal but for blanks and the length of rules; "..." stands for any text. Processors round differently, and a
  flow's fit makes more of it: with other instruction sets, up to 0.03 in cosines and bits per dimension, and 0.2 in
  scores times 100. So numbers with a point agree to 1 % or 0.05, larger than 1 to 0.5; rounding errors as "2e-07" to
  1e-4. Pages do not show latents of a fitted flow: a ReLU that rounding turns on or off moves them by up to 1.
  Seconds are not compared.
  """
  match = re.search("^" + _pattern(shown), actual, re.MULTILINE)
  assert match, f"expected\n{shown}\ngot\n{actual}"
  numbers = [number for line in shown.splitlines() if not _is_seconds(line) for number in _NUMBER.findall(line)]
  expected = [pytest.approx(float(number), rel=0.01, abs=_tolerance(number)) for number in numbers]
  assert [float(number) for number in match.groups()] == expected, f"expected\n{shown}\ngot\n{actual}"


def _tolerance(number):
  if "e" in number:
    return 1e-4
  return 0.5 if abs(float(number)) > 1 else 0.05


def _is_seconds(line):
  return line.startswith("seconds:")


def _pattern(shown):
  """Returns the regular expression of a shown output, with a group for each number that is compared."""
  parts = []
  for line in shown.splitlines():
    number = f"{_NUMBER.pattern}" if _is_seconds(line) else f"({_NUMBER.pattern})"
    for part in re.split(rf"({_NUMBER.pattern}|\.\.\.|-{{2,}}|\s+)", line):
      if part == "..." or not part.strip():
        parts.append(r"[\s\S]*?" * (part == "..."))
      elif _NUMBER.fullmatch(part):
        parts.append(number)
      else:
        parts.append("-+" if part.startswith("--") else re.escape(part))
  return r"\s*".join(part for part in parts if part)
