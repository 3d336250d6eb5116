"""The paper's figures against other papers that print them, and against the paper's text."""

import itertools
import json
import math

import pytest

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.tasks import TASKS
from bert_flow_tf.tables.paper_tables import FILE, paper_tables

STS = ("STS-B", "SICK-R", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16")
# Copied a second time, from Su et al. 2021 (arXiv 2103.15316), Tables 1 and 2, in their order of columns.
SU_COLUMNS = ("STS-B", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16", "SICK-R")
SU = {
  2: {
    "Avg. GloVe embeddings": "58.02 55.14 70.66 59.73 68.25 63.66 53.76",
    "Avg. BERT embeddings": "46.35 38.78 57.98 57.98 63.15 61.06 58.40",
    "BERT CLS-vector": "16.50 20.16 30.01 20.09 36.88 38.03 42.63",
    "BERT_base-last2avg": "59.04 57.84 61.95 62.48 70.95 69.81 63.75",
    "BERT_base-flow (NLI)": "58.56 59.54 64.69 64.66 72.92 71.84 65.44",
    "BERT_base-flow (target)": "70.72 63.48 72.14 68.42 73.77 75.37 63.11",
    "BERT_large-last2avg": "59.56 57.68 61.37 61.02 68.04 70.32 60.22",
    "BERT_large-flow (NLI)": "68.09 61.72 66.05 66.34 74.87 74.47 64.62",
    "BERT_large-flow (target)": "72.26 65.20 73.39 69.42 74.92 77.63 62.50",
  },
  3: {
    "InferSent - Glove": "68.03 52.86 66.75 62.15 72.77 66.86 65.65",
    "USE": "74.92 64.49 67.80 64.61 76.83 73.18 76.69",
    "SBERT_base-NLI": "77.03 70.97 76.53 73.19 79.09 74.30 72.91",
    "SBERT_large-NLI": "79.23 72.27 78.46 74.90 80.99 76.25 73.75",
    "SRoBERTa_base-NLI": "77.77 71.54 72.49 70.80 78.74 73.69 74.46",
    "SRoBERTa_large-NLI": "79.10 74.53 77.00 73.18 81.85 76.82 74.29",
    "BERT_base-NLI-last2avg": "78.03 68.37 72.44 73.98 79.15 75.39 74.07",
    "BERT_base-NLI-flow (NLI)": "79.10 67.75 76.73 75.53 80.63 77.58 78.03",
    "BERT_base-NLI-flow (target)": "81.03 68.95 78.48 77.62 81.95 78.94 74.97",
    "BERT_large-NLI-last2avg": "78.45 68.69 75.63 75.55 80.35 76.81 74.93",
    "BERT_large-NLI-flow (NLI)": "79.89 69.61 79.45 77.56 82.48 79.36 77.73",
    "BERT_large-NLI-flow (target)": "81.18 70.19 80.27 78.85 82.97 80.57 74.52",
  },
}
# The cited rows as Reimers and Gurevych (2019), Table 1, print them. Two cells differ from the paper's, both on STS-16:
# BERT CLS-vector and InferSent, which the paper has as 38.03 and 66.86.
SBERT_COLUMNS = ("STS-12", "STS-13", "STS-14", "STS-15", "STS-16", "STS-B", "SICK-R")
SBERT = {
  "Avg. GloVe embeddings": "55.14 70.66 59.73 68.25 63.66 58.02 53.76",
  "Avg. BERT embeddings": "38.78 57.98 57.98 63.15 61.06 46.35 58.40",
  "BERT CLS-vector": "20.16 30.01 20.09 36.88 38.08 16.50 42.63",
  "InferSent - Glove": "52.86 66.75 62.15 72.77 66.87 68.03 65.65",
  "USE": "64.49 67.80 64.61 76.83 73.18 74.92 76.69",
  "SBERT_base-NLI": "70.97 76.53 73.19 79.09 74.30 77.03 72.91",
  "SBERT_large-NLI": "72.27 78.46 74.90 80.99 76.25 79.23 73.75",
  "SRoBERTa_base-NLI": "71.54 72.49 70.80 78.74 73.69 77.77 74.46",
  "SRoBERTa_large-NLI": "74.53 77.00 73.18 81.85 76.82 79.10 74.29",
}

# Scores that only the paper prints, copied a second time, from the other conversion of its page (`li-plain`).
AGAIN = {
  1: (
    "0.95 1.04 1.22 1.45",
    "0.77 0.93 1.16 1.30",
    "0.83 0.99 1.22 1.34",
    "0.87 1.04 1.26 1.37",
    "0.73 0.92 1.20 1.63",
    "0.73 0.91 1.19 1.61",
    "0.72 0.90 1.17 1.60",
  ),
  2: ("47.29 58.21 49.07 55.92 54.75 62.75 65.19", "46.99 53.74 46.89 53.32 49.27 56.54 61.63"),
  3: ("77.08 72.62 66.23 70.22 72.15 77.35 73.91", "77.80 73.44 66.87 73.91 74.04 79.14 75.35"),
  4: ("70.30", "72.52", "76.17", "70.41", "74.19", "77.09"),
  5: ("47.29", "55.46", "51.79", "60.40", "56.02", "63.51", "65.62"),
  6: ("-24.61 100.00", "-50.49 59.30", "-28.01 74.09"),
  8: ("77.26 1.76 78.19", "78.07 1.50 78.68", "81.10 0.55 81.35"),
}


CONTENT = json.loads(FILE.read_text())
TABLES = {table["number"]: table for table in CONTENT["tables"]}
# {row: {source: the columns that it prints}}
SOURCES = {}
for table in CONTENT["tables"]:
  for row in table["rows"]:
    also = {name: table["columns"] if kept == "all" else kept for name, kept in row.get("also_in", {}).items()}
    SOURCES[table["number"], row["name"]] = {**dict.fromkeys(table["sources"], table["columns"]), **also}


def _named(number):
  return {row.name: row for row in paper_tables()[number].rows}


@pytest.mark.parametrize("number", [2, 3])
def test_su_et_al_print_the_same(number):
  rows = _named(number)
  for name, figures in SU[number].items():
    assert dict(rows[name].cells) == dict(zip(SU_COLUMNS, map(float, figures.split()), strict=True)), name
  assert {name for name in rows if "su2021" in SOURCES[number, name]} == set(SU[number])


def test_cited_rows_are_the_cited_papers():
  rows = {**_named(2), **_named(3)}
  assert {name for name, row in rows.items() if row.cited} == set(SBERT)
  for name, figures in SBERT.items():
    theirs = dict(zip(SBERT_COLUMNS, map(float, figures.split()), strict=True))
    same = {column for column in STS if rows[name].cells[column] == theirs[column]}
    number = 2 if (2, name) in SOURCES else 3
    assert same == set(SOURCES[number, name]["sbert2019"]), name
    (note,) = (row.get("note", "") for row in TABLES[number]["rows"] if row["name"] == name)
    assert same == set(STS) or f"{theirs['STS-16']:.2f}" in note


@pytest.mark.parametrize("number", AGAIN)
def test_copied_twice(number):
  rows = [row for row in paper_tables()[number].rows if not {"su2021", "sbert2019"} & set(SOURCES[number, row.name])]
  assert [tuple(row.cells.values()) for row in rows] == [tuple(map(float, line.split())) for line in AGAIN[number]]


def test_gains_are_those_of_the_papers_text():
  # Section 4.1: "5.88 and 8.16 points on average"; section 1: "up to 12.70 points".
  rows, gains = _named(2), {}
  for encoder in ("base", "large"):
    plain, flow = rows[f"BERT_{encoder}-last2avg"].cells, rows[f"BERT_{encoder}-flow (target)"].cells
    gains[encoder] = [flow[column] - plain[column] for column in STS]
  assert round(math.fsum(gains["base"]) / 7, 2) == 5.88
  assert round(math.fsum(gains["large"]) / 7, 2) == 8.16
  assert round(max(gains["large"]), 2) == 12.70


def test_tables_agree_with_each_other_and_with_the_originals_readme():
  assert _named(5)["BERT_base"].cells["STS-B"] == _named(2)["BERT_base"].cells["STS-B"]
  readme = {"BERT_large-NLI": 77.80, "BERT_large-NLI-last2avg": 78.45, "BERT_large-NLI-flow (target)": 81.18}
  assert {name: _named(3)[name].cells["STS-B"] for name in readme} == readme
  edit_distance = {name: row.cells["edit distance"] for name, row in _named(6).items()}
  assert (edit_distance["gold similarity"], edit_distance["BERT-induced similarity"]) == (-24.61, -50.49)  # section 4.4


def test_words_that_are_rare_are_long_and_lonely():
  # Section 2.2: every row of Table 1 grows with the rank, and distances grow with k.
  for row in paper_tables()[1].rows:
    assert sorted(row.cells.values()) == list(row.cells.values()), row.name
  distances = [row.cells for row in paper_tables()[1].rows if "distance" in row.name]
  assert all(near[c] < far[c] for near, far in itertools.pairwise(distances) for c in near)
  assert len(distances) == 3


def test_how_many_rows():
  assert [(number, len(table.rows)) for number, table in paper_tables().items()] == [
    (1, 7), (2, 11), (3, 14), (4, 6), (5, 7), (6, 3), (7, 4), (8, 3)
  ]  # fmt: skip


@pytest.mark.parametrize("number", TABLES)
def test_shape(number):
  table, content = paper_tables()[number], TABLES[number]
  assert len({row.name for row in table.rows}) == len(table.rows)
  known = {source["id"] for source in CONTENT["sources"]}
  for row, values in zip(table.rows, content["rows"], strict=True):
    assert tuple(row.cells) == table.columns
    sources = SOURCES[number, row.name]
    assert set(sources) <= known and "li-structured" in sources
    assert all(set(columns) <= set(table.columns) for columns in sources.values())
    assert values.get("verified", True) or values["note"]
    assert content["kind"] == "settings" or all(value is None or type(value) is float for value in row.cells.values())
    assert (row.encoder in ("base", "large", None)) and (row.corpus in ("nli", "target", None))
    assert row.embedding in ("avg", "avg-first-last", "cls", None)
    assert row.calibration is None or parse_calibration(row.calibration).name == row.calibration


def test_columns_are_tasks():
  assert paper_tables()[2].columns == paper_tables()[3].columns == STS
  assert set(STS) <= {spec.name for spec in TASKS}


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


def test_settings_are_table_7s():
  assert {row.name: row.cells["value"] for row in paper_tables()[7].rows} == {
    "coupling architecture": "3-layer CNN with residual connection",
    "coupling width": 32,
    "levels": 2,
    "depth": 3,
  }
