"""bert_flow_tf/tables/table.py: tables in Markdown and JSON, and read back."""

import hashlib
import json
import math

import pytest

from bert_flow_tf.tables.recipe import RowRecipe
from bert_flow_tf.tables.table import (
  HIGHEST,
  NEAREST_0,
  OURS,
  PUBLISHED,
  Cell,
  Row,
  Table,
  from_json,
  paper_tables,
)

VALUES = (68.25, 67.5, 69.125)
ROWS = (
  Row("mini, a|b", OURS, {"STS-B": Cell(VALUES, 70.5), "SICK-R": Cell((60.0,))}),
  Row("other", OURS, {"STS-B": Cell((math.nan,), 70.0, "too\nfew"), "SICK-R": Cell(reason="not | here")}),
  Row("again", OURS, {"STS-B": Cell(reason="not | here"), "SICK-R": Cell((-1.0, math.nan))}),
  Row("BERT", PUBLISHED, {"STS-B": Cell((70.5,))}),
)
ABOUT = {
  "command": "python run_scripts/run_table.py --table=2",
  "seeds": [1, 2, 3],
  "encoders": {"mini": "ab", "min": "cd"},
}
TABLE = Table("2", "a title", "spearman x 100", ("STS-B", "SICK-R"), ROWS, ("A note.",), ABOUT)


def cell(value):
  return Cell((value,))


def test_markdown_read_back():
  lines = TABLE.markdown().splitlines()
  assert lines[0] == "## Table 2: a title" and lines[2] == "Spearman x 100."
  table = [line for line in lines if line.startswith("|")]
  cells = [[cell.strip() for cell in line.replace("\\|", "/").split("|")[1:-1]] for line in table]
  assert cells[0] == ["", "STS-B", "SICK-R"] and set(cells[1]) == {"---"}
  assert cells[2:] == [
    ["*mini*", "", ""],
    ["a/b", "68.29 ±0.81 (paper 70.50, -2.21)", "60.00"],
    ["*ours*", "", ""],
    ["other", "n/a [1]", "n/a [2]"],
    ["again", "n/a [2]", "n/a"],
    ["*published*", "", ""],
    ["BERT", "70.50", ""],
  ]
  assert [line for line in lines if line.startswith("[")] == ["[1] too few", "[2] not | here"]
  assert "A note." in lines and lines[-2] == ABOUT["command"]


def test_json_is_json_and_read_back():
  def refuse(constant):
    raise AssertionError(f"json has no {constant}")

  json.loads(TABLE.json(), parse_constant=refuse)
  again = from_json(TABLE.json())
  assert again.markdown() == TABLE.markdown() and again.json() == TABLE.json()


def test_a_difference_and_its_interval_read_back():
  cells = {"a": Cell((1.5, 2.0), interval=(-0.25, 3.0)), "b": Cell((1.0,), interval=()), "c": Cell((1.0,))}
  cells |= {
    "d": Cell((1.0,), interval=(0.5, 2.0)),
    "e": Cell((-1.0,), interval=(-2.0, -0.5)),
    "f": Cell((1.0,), worse=True),
  }
  table = Table("gains", "t", "m", tuple("abcdef"), (Row("mini, x over y", OURS, cells),), (), ABOUT)
  assert "| *mini, over y* |  |  |  |  |  |  |\n" in table.markdown()
  row = "| x | +1.75 [-0.25, +3.00] | +1.00 | 1.00 | +1.00 ▲ [+0.50, +2.00] | -1.00 ▼ [-2.00, -0.50] | 1.00 ▼ |"
  assert row in table.markdown()
  assert from_json(table.json()) == table


def test_best_cells():
  """The best rounded cells per encoder; published rows, single rows and columns of equal cells have none."""
  scores = {"a": (50.0, -3.0, 1.0), "b": (60.004, 2.0, 1.0), "c": (60.0, 4.0, 1.0)}
  rows = [Row(f"mini, {name}", OURS, dict(zip("xyz", map(cell, row), strict=True))) for name, row in scores.items()]
  rows += [Row("other, a", OURS, {"x": cell(70.0)}), Row("other, b", OURS, {"x": Cell()})]
  rows += [Row("BERT", PUBLISHED, {"x": cell(90.0), "y": cell(0.0)})]
  about = {"encoders": {"mini": "ab", "other": "cd"}}
  best = {"x": HIGHEST, "y": NEAREST_0, "z": HIGHEST}
  table = Table("2", "t", "m", ("x", "y", "z", "w"), tuple(rows), (), about, best)
  lines = [line for line in table.markdown().splitlines() if "**" in line]
  assert lines == ["| b | **60.00** | **2.00** | 1.00 |  |", "| c | **60.00** | 4.00 | 1.00 |  |"]
  assert from_json(table.json()) == table


# Digest of all names and cells. At commit 7d76ad6 they were equal, cell by cell, to second copies in this test: from Su
# et al. 2021 (arXiv 2103.15316, Tables 1 and 2), Reimers and Gurevych 2019 (Table 1), another conversion of the paper.
CHECKED = "4feac0621c3a7ebe37f6481553c591ff6f2423b4a1a3c7fb3dfd047eeaf935a5"


def test_cells_are_those_that_were_compared_with_other_copies():
  cells = [[number, row.name, dict(row.cells)] for number, table in paper_tables().items() for row in table.rows]
  assert hashlib.sha256(json.dumps(cells).encode()).hexdigest() == CHECKED


@pytest.mark.parametrize("number", [2, 3, 4, 5, 8])
def test_match_finds_each_of_the_papers_own_rows(number):
  table = paper_tables()[number]
  for row in table.rows:
    fields = {f: getattr(row, f) for f in ("calibration", "encoder", "embedding", "corpus", "nli_tuned")}
    assert (table.match(**fields) is row) != row.cited, row.name


def test_match_takes_what_the_paper_leaves_open():
  ours = {"encoder": "base", "embedding": "avg", "corpus": "target"}
  assert paper_tables()[5].match(calibration="sn+natsv-6", **ours).cells["STS-B"] == 63.51
  assert paper_tables()[2].match(calibration="none", **ours).cells["STS-B"] == 47.29
  assert paper_tables()[6].match(calibration="flow", **ours).cells["gold similarity"] == 74.09
  assert paper_tables()[2].match(calibration="flow", **ours) is None  # the flow's rows are of avg-first-last
  assert paper_tables()[2].match(calibration="none", encoder="mini", embedding="avg") is None
  assert paper_tables()[2].match(calibration="none", nli_tuned=True, encoder="base", embedding="avg") is None


def test_a_table_without_a_number_has_no_scores():
  missing, there = Row("a", OURS, {"x": Cell(reason="why")}), Row("b", OURS, {"x": Cell((1.0,))})
  published = Row("c", PUBLISHED, {"x": Cell((2.0,))})
  for rows, expected in (((missing, published), False), ((missing, there), True), ((published,), True)):
    assert Table("5", "title", "metric", ("x",), rows).has_scores == expected


def test_a_recipe_is_named_in_words():
  recipe = RowRecipe("mix", "soft-whitening", token_weights="idf")
  assert str(recipe) == "mix, idf, soft-whitening (target)" and str(RowRecipe("avg")) == "avg"
