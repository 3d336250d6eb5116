"""tools/results_page.py: a page from the tables of a folder."""

import dataclasses

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.tables.table import OURS, Cell, Row, Table, note, paper_tables
from tests.tables.fakes import make, make_bench
from tools import results_page as page

ABOUT = {
  "command": "python run_scripts/run_table.py --table=5",
  "versions": {"numpy": "2.0"},
  "encoders": {"mini": "0123456789abcdef"},
  "sizes": {"mini": {"blocks": 4, "dimensions": 256, "word pieces": 8192, "folder": "my/mini"}},
  "date": "2026-01-02",
  "commit": "12ab",
  "machine": "x86_64, 2 cores",
  "seeds": [3, 4],
}


def put(folder, name, about):
  table = Table(
    name,
    f"title {name}",
    "metric",
    ("x",),
    (Row("ours here", OURS, {"x": Cell((1.25, 1.75))}),),
    (note("±"), "A note of its own."),
    about,
  )
  (folder / f"table_{name}.json").write_text(table.json())


def test_page_of_tables_and_pictures(tmp_path):
  folder = tmp_path / "my tables"
  folder.mkdir()
  for name, about in {"5": ABOUT, "transfer": {}, "beyond": {}}.items():
    put(folder, name, about)
  (folder / "figure_2_my mini.png").write_bytes(b"\x89PNG")
  page.write(tmp_path / "RESULTS.md", folder)
  text = (tmp_path / "RESULTS.md").read_text()
  headings = [line for line in text.splitlines() if line.startswith("#")]
  assert headings == [
    "# Results",
    "## Terms",
    "## Encoders",
    "## How the tables were made",
    "## Beyond: title beyond",
    "## Table 5: title 5",
    "## Transfer: title transfer",
    "## Figure 2: similarity against edit distance, my mini",
  ]
  assert text.count("| *ours* |  |\n| ours here | 1.50 ±0.35 |") == 3
  assert "- Table 5: 2026-01-02; commit 12ab; seeds of the flow: 3, 4; numpy 2.0; x86_64, 2 cores.\n" in text
  assert "| mini | 4 | 256 | 8192 | `my/mini` | `0123456789ab` |\n" in text
  assert text.count("standard deviation over the seeds") == 1 and text.count("A note of its own.") == 3
  assert "](figure_2_my%20mini.png)" in text and (tmp_path / "figure_2_my mini.png").read_bytes() == b"\x89PNG"


SIX_LAYERS = "a5cf5e4e1e12" + "0" * 52


def table(name, columns, rows, encoders):
  ours = [
    Row(row, OURS, {column: Cell(values, paper=1.0) for column, values in cells.items()}) for row, cells in rows.items()
  ]
  return Table(
    name, "title", "metric", columns, (*ours, *paper_tables()[int(name)].published_rows()), (), {"encoders": encoders}
  )


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
  assert lines_of(page.summary([second])) == [
    ["", "paper, BERT-base", "published code, six", "ours, six", "ours, my"],
    ["---"] * 5,
    ["STS-B", "59.04 → 70.72", "50.08 → 67.86", "50.00 → 68.00 ±1.41", "40.00 → 65.00"],
    ["SICK-R", "63.75 → 63.11", "58.52 → 60.46", "", ""],
  ]
  assert "Published code:" in page.summary([second])


def test_text_that_an_encoder_saw_is_marked(tmp_path):
  """The packaged `mini` and the six layers of the results have notes; other encoders have none."""
  mini = SentenceEncoder.from_pretrained("mini").weights_checksum
  rows = tuple(Row(f"{name}, avg", OURS, {"STS-B": Cell((1.0,))}) for name in ("six", "mini", "my"))
  about = {"encoders": {"six": SIX_LAYERS, "mini": mini, "my": "0" * 64}, "sizes": {}}
  beyond = Table("beyond", "t", "m", ("STS-B", "QNLI"), rows, (), about)
  (tmp_path / "table_beyond.json").write_text(beyond.json())
  page.write(tmp_path / "RESULTS.md", tmp_path)
  text = (tmp_path / "RESULTS.md").read_text()
  groups = {line[0]: line[1:] for line in lines_of(text) if line[0] in ("*six*", "*mini*", "*my*")}
  assert groups == {"*six*": ["seen", "seen"], "*mini*": ["", "seen"], "*my*": ["", ""]}
  assert "| six |  |  |  | all-MiniLM-L6-v2, trained further" in text and "glosses of WordNet" in text


CALIBRATED = ("avg-first-last", "avg-first-last, flow (target)", "avg-first-last, whitening (target)")


def test_best_rows():
  means = {"six, avg": 70.0, "six, avg-first-last": 50.0, "six, avg-first-last, flow (target)": 60.0, "six, mix": 65.5}
  means |= {"six, characters": 66.0, "six, avg, int8": 70.1, "six, avg, bfloat16, openvino": 70.2}
  rows = tuple(Row(name, OURS, {"mean": Cell((value,), worse=True)}) for name, value in means.items())
  about = {"encoders": {"six": SIX_LAYERS, "no rows": "0" * 64}}
  assert lines_of(page.summary([Table("beyond", "t", "m", ("mean",), rows, (), about)])) == [
    ["", *CALIBRATED, "tf-idf of word pieces", "characters", "best row", "which"],
    ["---"] * 8,
    ["six", "50.00", "60.00 (+10.00)", "", "", "66.00 (+16.00)", "70.00 (+20.00)", "avg"],
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
  assert lines_of(page.summary([qnli, lexical])) == [
    ["", "paper, BERT-base", "ours, my"],
    ["---"] * 3,
    ["QNLI, AUC", "70.30 → 76.17", "61.00 → 77.00"],
    ["STS-B dev, similarity and edit distance", "-50.49 → -28.01", "-40.00 → -20.00"],
    ["STS-B dev, gold and edit distance", "-24.61", "-24.20"],
  ]
  assert "Published code:" not in page.summary([qnli, lexical])


def test_a_part_of_qnli():
  """The summary says how many pairs were available, as the note of Table 4 does."""
  task = TaskData(find_task("QNLI"), {"dev": SentencePairs(["a b"] * 8, ["a c"] * 8, [1.0] * 8)}, "made up")
  notes = make("4", [make_bench(None, [], tasks={"QNLI": task})], tasks=["QNLI"]).notes
  four = table("4", ("AUC",), {"my, avg-first-last": {"AUC": (61.0,)}}, {"my": "0" * 64})
  assert lines_of(page.summary([dataclasses.replace(four, notes=tuple(notes))]))[2][0] == (
    "QNLI, AUC; ours: 8 of 115,669 pairs"
  )
