"""Scores in README, docs/ and the cards of encoders are those of docs/results.md, or printed by a command there."""

import re

import pytest

from bert_flow_tf.calibration.recipes import RECIPES, STRING_MATCH_SCORE
from tests.testing import REPO

PLAIN, FLOW = "avg-first-last", "avg-first-last, flow (target)"
SEARCH = "avg-first-last, tempered-whitening (target)"
WHITENING, CHARACTERS = "avg-first-last, whitening (target)", "characters"
RECIPE, STATIC = "recipe: mix, idf, soft-whitening (target)", "static: word-rows, idf, soft-whitening (target)"
CHOICE = "chosen on the other sets, without characters"
MINI, SIX_LAYERS, FINE_TUNED = "mini", "minilm-l6-mlm", "mini-snli-dev-encoder (fine-tuned on NLI)"
STSB, SICK = "STS-B", "SICK-R"
_MINI_CARD = "bert_flow_tf/encoder/pretrained/mini/README.md"
BOTH = [(MINI, STSB), (SIX_LAYERS, STSB)]
FITTED_ON = ("target", "all sets", "corpus")


def _trained(encoder, embedding):
  """Returns {column: cells} of an encoder that was trained for similarity: without a calibration, and with three."""
  rows = (embedding, *(f"{embedding}, {name} (target)" for name in ("flow", "whitening", "soft-whitening")))
  return {column: [(encoder, row, column) for row in rows] for column in (STSB, SICK)}


def _means(encoder, row):
  """Returns the cells of a row's means, fitted on the set, on all sets, and on other text."""
  return [(encoder, f"{row} ({text})", "mean") for text in FITTED_ON]


def _of_both(row):
  return [(encoder, row, column) for encoder, column in BOTH]


def _with_flow(encoder):
  return [(encoder, row, column) for column in (STSB, SICK) for row in (PLAIN, FLOW)]


def _published(encoder):
  """Returns the cells of the paper's encoder without and with the flow."""
  return [("published", row, STSB) for row in (f"{encoder}-last2avg", f"{encoder}-flow (target)")]


# (page, beginning of a line, (encoder, row, column) of each score in that line)
QUOTES = [
  ("docs/calibrations.md", "| none |", _of_both(PLAIN)),
  ("docs/calibrations.md", "| paper |", _of_both(FLOW)),
  ("docs/calibrations.md", "| recommended |", _of_both(RECIPE)),
  ("docs/calibrations.md", "| fast, no transformer |", _of_both(STATIC)),
  (
    "docs/calibrations.md",
    "| fast, with characters |",
    _of_both("static: word-rows, idf, soft-whitening+characters (target)"),
  ),
  ("docs/calibrations.md", "| string match, no encoder |", _of_both(CHARACTERS)),
  *(
    ("docs/calibrations.md", f"| {name}, {column} |", cells)
    for name, encoder, embedding in (
      ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2", "avg"),
      ("all-mpnet-base-v2", "all-mpnet-base-v2", "avg"),
      ("USE multilingual v3", "use-multilingual-3", "output"),
    )
    for column, cells in _trained(encoder, embedding).items()
  ),
  (
    "docs/calibrations.md",
    "| `static:mini`, `soft-whitening` |",
    _means(MINI, "static: word-rows, idf, soft-whitening"),
  ),
  (
    "docs/calibrations.md",
    "| `static:mini`, `soft-whitening+characters` |",
    _means(MINI, "static: word-rows, idf, soft-whitening+characters"),
  ),
  (
    "docs/calibrations.md",
    "| MiniLM-MLM, `mix`, `idf`, `soft-whitening` |",
    _means(SIX_LAYERS, "recipe: mix, idf, soft-whitening"),
  ),
  (
    "docs/calibrations.md",
    "| MiniLM-MLM, `mix`, `idf`, `soft-whitening+characters` |",
    _means(SIX_LAYERS, "mix, idf, soft-whitening+characters"),
  ),
  ("docs/fine_tuning.md", "| as it is |", _with_flow(MINI)),
  ("docs/fine_tuning.md", "| after SNLI dev", _with_flow(FINE_TUNED)),
  ("docs/calibrations.md", "If an encoder that was trained", [("all-MiniLM-L6-v2", "avg", STSB)]),
  ("docs/calibrations.md", "Mean of the paper's seven", [(MINI, CHARACTERS, "mean"), (SIX_LAYERS, CHARACTERS, "mean")]),
  (
    "docs/calibrations.md",
    "  of the seven sets is",
    [(encoder, row, "mean") for row in (CHOICE, RECIPE) for encoder in (MINI, SIX_LAYERS)],
  ),
  ("docs/limits.md", "  `mini` on STS-B, whitening has", [(MINI, WHITENING, STSB)]),
  *(
    (page, beginning, cells)
    for page in ("README.md", "docs/index.md")
    for beginning, cells in (
      ("| a BERT of your", [(MINI, RECIPE, STSB), (MINI, CHARACTERS, STSB)]),
      ("| an encoder trained", [("all-MiniLM-L6-v2", "avg", STSB), ("all-MiniLM-L6-v2", CHARACTERS, STSB)]),
      ("| the paper", [(MINI, FLOW, STSB), (MINI, CHARACTERS, STSB)]),
    )
  ),
  *(
    ("docs/tour.md", f"| {name} |", [cell])
    for name, cell in (
      ("`paper`", (MINI, FLOW, STSB)),
      ("`recommended`", (MINI, RECIPE, STSB)),
      ("`fast`", (MINI, STATIC, STSB)),
      ("`search`", (MINI, SEARCH, STSB)),
      ("a string match", (MINI, CHARACTERS, STSB)),
    )
  ),
  (
    "README.md",
    "it with `mini`; `bert-flow fit",
    [("published", f"BERT_{size}-flow (target)", STSB) for size in ("base", "large")],
  ),
  ("README.md", "next to the string match's", [(SIX_LAYERS, CHARACTERS, STSB)]),
  ("README.md", "| `base`, the paper", _published("BERT_base")),
  ("README.md", "| MiniLM-MLM, a stand-in", [(SIX_LAYERS, PLAIN, STSB)]),
  ("README.md", "| MiniLM-MLM, this port |", [(SIX_LAYERS, PLAIN, STSB), (SIX_LAYERS, FLOW, STSB)]),
  ("README.md", "| `mini`, this port |", [(MINI, PLAIN, STSB), (MINI, FLOW, STSB)]),
  ("docs/reproduction.md", "| `mini`, seeds 0 to 2 |", [(MINI, PLAIN, STSB), (MINI, FLOW, STSB)]),
  ("docs/reproduction.md", "| the paper's, the default", [(SIX_LAYERS, PLAIN, STSB), (SIX_LAYERS, FLOW, STSB)]),
  *(
    ("docs/reproduction.md", beginning, [(SIX_LAYERS, PLAIN, STSB)])
    for beginning in ("| `--actnorm_init=glorot` |", "| `--flow_model_config=config_l3_d3_w32` |", "| both, as the")
  ),
  *(("docs/reproduction.md", f"| BERT-{size}, the paper", _published(f"BERT_{size}")) for size in ("base", "large")),
  ("docs/static.md", "| `static:mini` | 6", [(MINI, STATIC, STSB), (MINI, STATIC, "STS-15")]),
  ("docs/static.md", "| `mini`, `mix` and", [(MINI, RECIPE, STSB), (MINI, RECIPE, "STS-15")]),
  ("docs/static.md", "| `static:` MiniLM-MLM | 7", [(SIX_LAYERS, STATIC, STSB), (SIX_LAYERS, STATIC, "STS-15")]),
  ("docs/static.md", "| MiniLM-MLM, `mix`", [(SIX_LAYERS, RECIPE, STSB), (SIX_LAYERS, RECIPE, "STS-15")]),
  (_MINI_CARD, "| 37.73 |", [(MINI, row, STSB) for row in ("avg", PLAIN, WHITENING, FLOW)]),
]


# The recipe search has no row in the tables: bert-flow fit --task=STS-B --model=mini --recipe=search prints its score.
PRINTED_BY_FIT = {(MINI, SEARCH, STSB): "61.48"}


def read_results():
  """Returns {(encoder, row, column): score} of the tables Beyond, Choice, 2 and 3, in that order of precedence."""
  text = (REPO / "docs/results.md").read_text(encoding="utf-8")
  scores = {}
  for heading in ("## Beyond:", "## Choice:", "## Table 2:", "## Table 3:"):
    lines = re.search(rf"^{heading}.*?(?=^## )", text, re.DOTALL | re.MULTILINE)[0].splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    encoder = ""
    for row, *cells in table[2:]:
      if row.startswith("*"):
        encoder = row.strip("*")
      for column, cell in zip(table[0][1:], cells, strict=True):
        scores.setdefault((encoder, row, column), cell.replace("*", "").partition(" ")[0])
  return scores


# {page: scores of no table of the results: a command on the page, a test that it names, or the original code has them}
PRINTED = {
  "README.md": ("33.76", "57.39", "67.86"),
  "docs/calibrations.md": (),
  "docs/fine_tuning.md": ("52.82", "34.28"),
  "docs/index.md": (),
  "docs/limits.md": ("65.06",),
  "docs/reproduction.md": ("67.86", "67.89", "67.60", "68.17", "67.54", "67.59"),
  "docs/static.md": (),
  "bert_flow_tf/data/hard_sample/README.md": (),
  "bert_flow_tf/data/sample/README.md": (),
  _MINI_CARD: ("37.83",),
}
# {page: heading of a section whose tables are the whole output of the command in it}
PRINTED_SECTIONS = {"docs/static.md": "### Of distilled tables"}


def _text_lines(page):
  """Returns the lines of a page outside its code blocks, whose outputs `docs_blocks_test` compares."""
  text = (REPO / page).read_text(encoding="utf-8")
  return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines()


def _scores(line):
  return re.findall(r"(?<![\d.])\d\d\.\d\d(?!\d|\.\d)", line)


@pytest.mark.parametrize(("page", "beginning", "quoted"), QUOTES)
def test_quoted_scores_are_those_of_the_results(page, beginning, quoted):
  (line,) = [line for line in _text_lines(page) if line.startswith(beginning)]
  results = read_results() | PRINTED_BY_FIT
  assert [score for score in _scores(line) if score not in PRINTED.get(page, ())] == [results[cell] for cell in quoted]


def test_scores_in_the_help_of_recipes_are_those_of_the_results():
  results = read_results() | PRINTED_BY_FIT
  scores = [*(recipe.stsb_score for recipe in RECIPES.values()), STRING_MATCH_SCORE]
  assert [f"{score:.2f}" for score in scores] == [
    results[MINI, row, STSB] for row in (FLOW, RECIPE, STATIC, SEARCH, CHARACTERS)
  ]


@pytest.mark.parametrize("page", PRINTED)
def test_each_score_is_quoted_from_the_results_or_printed(page):
  """Each line with a score is one of `QUOTES`, or its scores are of `PRINTED`, in which no score is left over."""
  beginnings = tuple(beginning for name, beginning, _ in QUOTES if name == page)
  every_line = _text_lines(page)
  if page in PRINTED_SECTIONS:
    start = every_line.index(PRINTED_SECTIONS[page])
    end = next(row for row in range(start + 1, len(every_line)) if every_line[row].startswith("#"))
    del every_line[start:end]
  lines = [line for line in every_line if _scores(line)]
  other_lines = [line for line in lines if not line.startswith(beginnings)]
  other_scores = [score for line in other_lines for score in _scores(line)]
  assert [score for score in other_scores if score not in PRINTED[page]] == []
  text = (REPO / page).read_text(encoding="utf-8")
  assert [score for score in PRINTED[page] if score not in text] == []
