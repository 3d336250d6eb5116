"""bert_flow_tf/tables/summary.py: the main rows of the paper, the published code and ours, side by side."""

from bert_flow_tf.tables.similarity_tables import published_rows
from bert_flow_tf.tables.summary import summary
from bert_flow_tf.tables.table import OURS, Cell, Row, Table

SIX_LAYERS = "a5cf5e4e1e12" + "0" * 52


def table(name, columns, rows, encoders):
  ours = [
    Row(row, OURS, {column: Cell(values, paper=1.0) for column, values in cells.items()}) for row, cells in rows.items()
  ]
  return Table(name, "title", "metric", columns, (*ours, *published_rows(int(name))), (), {"encoders": encoders})


def lines_of(text):
  return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_rows_and_columns():
  rows = {
    "six, avg": {"STS-B": (99.0,), "SICK-R": (99.0,)},
    "six, avg-first-last": {"STS-B": (50.0,), "SICK-R": (58.5,)},
    "six, avg-first-last, flow (NLI)": {"STS-B": (99.0,), "SICK-R": (99.0,)},
    "six, avg-first-last, flow (target)": {"STS-B": (67.0, 69.0), "SICK-R": ()},
    "my, avg-first-last": {"STS-B": (40.0,)},
    "my, avg-first-last, flow (target)": {"STS-B": (65.0,)},
    "words, avg of word vectors": {"STS-B": (30.0,)},
  }
  second = table("2", ("STS-B", "SICK-R"), rows, {"six": SIX_LAYERS, "my": "0" * 64, "words": "1" * 64})
  assert lines_of(summary([second])) == [
    ["", "paper, BERT-base", "published code, six", "ours, six", "ours, my"],
    ["---"] * 5,
    ["STS-B", "59.04 → 70.72", "50.08 → 67.86", "50.00 → 68.00 ±1.41", "40.00 → 65.00"],
    ["SICK-R", "63.75 → 63.11", "58.52 → 60.46", "", ""],
  ]
  assert "Published code:" in summary([second])


def test_best_rows():
  means = {"six, avg": 70.0, "six, avg-first-last": 50.0, "six, avg-first-last, flow (target)": 60.0, "six, mix": 65.5}
  rows = tuple(Row(name, OURS, {"mean": Cell((value,), worse=True)}) for name, value in means.items())
  about = {"encoders": {"six": SIX_LAYERS, "no rows": "0" * 64}}
  assert lines_of(summary([Table("beyond", "t", "m", ("mean",), rows, (), about)])) == [
    ["", "avg-first-last", "avg-first-last, flow (target)", "avg-first-last, whitening (target)", "best row", "which"],
    ["---"] * 6,
    ["six", "50.00", "60.00 (+10.00)", "", "70.00 (+20.00)", "avg"],
  ]


def test_qnli_and_edit_distance():
  name = "my, avg-first-last"
  qnli = table(
    "4",
    ("AUC",),
    {
      name: {"AUC": (61.0,)},
      f"{name}, flow (target)": {"AUC": (77.0,)},
      "tuned (fine-tuned on NLI), avg-first-last": {"AUC": (1.0,)},
    },
    {"my": "0" * 64, "tuned (fine-tuned on NLI)": "2" * 64},
  )
  rows = {"gold similarity": -24.2, f"{name}: BERT-induced similarity": -40.0}
  rows[f"{name}, flow (target): flow-induced similarity"] = -20.0
  cells = {row: {"edit distance": (value,), "gold similarity": (1.0,)} for row, value in rows.items()}
  lexical = table("6", ("edit distance", "gold similarity"), cells, {"my": "0" * 64})
  assert lines_of(summary([qnli, lexical])) == [
    ["", "paper, BERT-base", "ours, my"],
    ["---"] * 3,
    ["QNLI, AUC", "70.30 → 76.17", "61.00 → 77.00"],
    ["STS-B dev, similarity and edit distance", "-50.49 → -28.01", "-40.00 → -20.00"],
    ["STS-B dev, gold and edit distance", "-24.61", "-24.20"],
  ]
  assert "Published code:" not in summary([qnli, lexical])


def test_no_table_of_the_summary():
  assert summary([]) == summary([table("5", ("STS-B",), {"my, avg": {"STS-B": (1.0,)}}, {"my": "0" * 64})]) == ""
