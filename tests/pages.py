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
  """A code block.

  Attributes:
    language: "bash" or "python"; "" for text that is no output.
    text: its lines.
    output: the output that the page shows below it, None without one.
  """

  language: str
  text: str
  output: str | None = None


def read_blocks(page: str) -> list[Block]:
  """Returns the bash and Python blocks of a page, and blocks without a language.

  A block without a language is the output of the block before it in its section.
  """
  blocks, before = [], None
  for match in _BLOCK.finditer((REPO / page).read_text(encoding="utf-8")):
    language, text = match["language"], match["text"]
    if language == "" and before is not None and before.output is None:
      before.output = text
    elif language in ("", "bash", "python"):
      blocks.append(Block(language, text))
    before = blocks[-1] if language in ("bash", "python") else None
  return blocks


def commands(block: Block) -> list[str]:
  """Returns the commands of a bash block: its lines, joined where they continue, and split at &&."""
  lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
  return [command for line in lines if shlex.split(line, comments=True) for command in line.split(" && ")]


def check_output(actual: str, shown: str) -> None:
  """Asserts that an output is the one that a page shows.

  Text is equal but for blanks; a line "..." stands for any lines. Numbers with a point agree to 1 % and 0.03, as
  processors round differently; in an output of a fitted flow, whose rounding errors grow in hundreds of steps, to 1,
  as scores are times 100. Seconds are not compared.
  """
  words = re.findall(r"\w+", shown)
  tolerance = {"rel": 0.01, "abs": 1.0 if "flow" in words else 0.03}
  lines, any_lines = iter(actual.splitlines()), False
  for line in shown.splitlines():
    if line == "...":
      any_lines = True
      continue
    found = next(lines, None)
    while any_lines and found is not None and _text(found) != _text(line):
      found = next(lines, None)
    assert found is not None and _text(found) == _text(line), f"expected {line!r} in\n{actual}"
    if not line.startswith("seconds:"):
      assert _numbers(found) == pytest.approx(_numbers(line), **tolerance), f"expected {line!r}, got {found!r}"
    any_lines = False


def _text(line):
  """Returns the line's words, with # for each number; a rule of any length is the same."""
  return re.sub(r"-{2,}", "--", _NUMBER.sub("#", line)).split()


def _numbers(line):
  return [float(number) for number in _NUMBER.findall(line)]
