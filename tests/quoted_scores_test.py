"""Scores that a page quotes from docs/results.md have its value and rounding."""

import re

import pytest

from tests.testing import REPO

PLAIN, FLOW = "avg-first-last", "avg-first-last, flow (target)"
SN, WHITENING = "avg-first-last, sn (target)", "avg-first-last, whitening (target)"
RECIPE, STATIC = "recipe: mix, idf, soft-whitening (target)", "static: word-rows, idf, soft-whitening (target)"
SIX_LAYERS = "minilm-l6-mlm"
STSB, SICK = "STS-B", "SICK-R"
SETS = (SICK, "STS-12", "STS-13", "STS-14", "STS-15", "STS-16")
# (page, beginning of a line, encoder, (row, column) of each score in that line)
QUOTES = [
  ("docs/calibrations.md", "| `mini` |", "mini", [(row, STSB) for row in (PLAIN, SN, FLOW, WHITENING)]),
  ("docs/calibrations.md", "| MiniLM-MLM | 50", SIX_LAYERS, [(row, STSB) for row in (PLAIN, SN, FLOW, WHITENING)]),
  ("docs/fine_tuning.md", "| as it is |", "mini", [(PLAIN, STSB), (FLOW, STSB), (PLAIN, SICK), (FLOW, SICK)]),
  ("docs/reproduction.md", "| this port, seeds 0 to 2 |", SIX_LAYERS, [(FLOW, column) for column in SETS]),
  ("docs/static.md", "| `static:mini` | 6", "mini", [(STATIC, STSB), (STATIC, "STS-15")]),
  ("docs/static.md", "| `mini`, `mix` and", "mini", [(RECIPE, STSB), (RECIPE, "STS-15")]),
  ("docs/static.md", "| `static:` MiniLM-MLM | 7", SIX_LAYERS, [(STATIC, STSB), (STATIC, "STS-15")]),
  ("docs/static.md", "| MiniLM-MLM, `mix`", SIX_LAYERS, [(RECIPE, STSB), (RECIPE, "STS-15")]),
]


def read_results():
  """Returns {(encoder, row, column): score} of the tables Beyond and 2, in that order of precedence."""
  text = (REPO / "docs/results.md").read_text(encoding="utf-8")
  scores = {}
  for heading in ("## Beyond:", "## Table 2:"):
    lines = re.search(rf"^{heading}.*?(?=^## )", text, re.DOTALL | re.MULTILINE)[0].splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    encoder = ""
    for row, *cells in table[2:]:
      if row.startswith("*"):
        encoder = row.strip("*")
      for column, cell in zip(table[0][1:], cells, strict=True):
        scores.setdefault((encoder, row, column), cell.replace("*", "").partition(" ")[0])
  return scores


@pytest.mark.parametrize(("page", "beginning", "encoder", "quoted"), QUOTES)
def test_quoted_scores_are_those_of_the_results(page, beginning, encoder, quoted):
  (line,) = [line for line in (REPO / page).read_text(encoding="utf-8").splitlines() if line.startswith(beginning)]
  results = read_results()
  expected = [results[encoder, row, column] for row, column in quoted]
  assert re.findall(r"(?<![\d(])\d\d\.\d\d(?!\d)", line) == expected
