"""run_scripts/run_table.py: right, wrong and interrupted command lines, all in one process."""

import json
import re

import pytest
from scipy import stats

from bert_flow_tf.data.tasks import load_task
from tests.run_scripts import hostile_table
from tests.run_scripts.command_lines import check_rejected

pytestmark = pytest.mark.slow
COMMAND_LINES = hostile_table


def cells(folder, table):
  """Returns {row: {column: plain cell}} of our rows; strict json."""

  def refuse(constant):
    raise AssertionError(f"json has no {constant}")

  output = json.loads((folder / f"table_{table}.json").read_text(), parse_constant=refuse)
  return {row["name"]: row["cells"] for row in output["rows"] if row["source"] == "ours"}


def test_good_command_lines(ran):
  folder, output = ran
  statuses = {name: output["results"][name]["status"] for name in hostile_table.good(folder)}
  assert statuses == {name: 130 if name == "killed" else 0 for name in statuses}, output["results"]


def test_rejected_command_lines_leave_no_files(ran):
  folder, output = ran
  cases = {
    **hostile_table.bad(folder),
    "without rapidfuzz": ([], "rapidfuzz"),
  }
  check_rejected(output["results"], cases, alone=False)
  assert not (folder / "refused/cells").exists() and not (folder / "R.md").exists()


def test_a_killed_run_is_resumed(ran):
  """The second run makes the fits that the first did not finish; the third those of two damaged scores."""
  folder, output = ran
  assert [output["fits"][name] for name in ("killed", "resumed", "again")] == [
    {"flow": 1, "linear": 0},
    {"flow": 1, "linear": 2},
    {"flow": 0, "linear": 2},
  ]
  resumed, again = (output["results"][name]["stdout"] for name in ("resumed", "again"))
  assert resumed == again
  assert resumed == (folder / "out/table_2.md").read_text() + "\n"


def test_flow_is_that_of_the_library(ran):
  """The first seed's cell is that of embeddings, flow, fit and Spearman without the tables."""
  folder, output = ran
  gold = load_task("STS-B", folder / "data").splits["test"].scores
  expected = 100 * stats.spearmanr(output["by_hand"], gold)[0]
  cell = cells(folder / "out", "2")["mini, avg-first-last, flow (target)"]["STS-B"]
  assert len(cell["values"]) == 2 and cell["values"][0] == pytest.approx(expected, abs=0.2)
  assert cell["spread"] == pytest.approx(abs(cell["values"][0] - cell["values"][1]) / 2**0.5)


def test_rows_of_table_2(ran):
  """Without NLI the row has a reason; none and flow in --calibration change nothing."""
  folder, output = ran
  rows = cells(folder / "out", "2")
  names = [re.sub("natsv-[0-9]+", "natsv-K", name) for name in rows]
  assert names == [
    "mini, avg",
    "mini, avg-first-last",
    "mini, avg-first-last, flow (NLI)",
    "mini, avg-first-last, flow (target)",
    "mini, avg-first-last, whitening-8 (target)",
    "mini, avg-first-last, natsv-K, k chosen on dev (target)",
  ]
  missing = rows["mini, avg-first-last, flow (NLI)"]["STS-B"]
  assert missing["value"] is None and "SNLI" in missing["reason"]
  markdown = output["results"]["resumed"]["stdout"]
  assert "| avg-first-last, flow (NLI) | n/a [1] |" in markdown and "\n[1] " in markdown
  assert "±: standard deviation over the seeds of the flow, 7 to 8." in markdown


def test_the_command_of_a_table_makes_that_table(ran):
  folder, _ = ran
  about = json.loads((folder / "out/table_1.json").read_text())["about"]
  assert (
    "--table=1" in about["command"] and "--table=1,6" not in about["command"] and "--figure" not in about["command"]
  )
  assert f"--corpus={folder}/corpus.txt" in about["command"] and about["seeds"] == []
  about = json.loads((folder / "out/table_6.json").read_text())["about"]
  assert "--corpus" not in about["command"] and about["seeds"] == [7] and list(about["encoders"]) == ["mini"]


def test_word_vectors(ran):
  folder, output = ran
  rows = cells(folder / "words", "2")
  assert list(rows) == [
    f"tiny, avg of word vectors{end}" for end in ("", ", flow (target)", ", sn (target)", ", whitening (target)")
  ]
  assert all(isinstance(row["STS-B"]["value"], float) for row in rows.values()) and output["fits"]["words"]["flow"] == 1


def test_fine_tuned_encoder(ran):
  """The same weights under another name: no fit, and rows with the encoder's kind."""
  folder, output = ran
  rows, plain = cells(folder / "out", "3"), cells(folder / "out", "2")
  assert output["fits"]["tuned"] == {"flow": 0, "linear": 0}
  assert list(rows) == [
    f"tuned (fine-tuned on NLI), {end}"
    for end in ("avg", "avg-first-last", "avg-first-last, flow (NLI)", "avg-first-last, flow (target)")
  ]
  tuned, flow = (
    of[name]["STS-B"]["values"]
    for of, name in [
      (rows, "tuned (fine-tuned on NLI), avg-first-last, flow (target)"),
      (plain, "mini, avg-first-last, flow (target)"),
    ]
  )
  assert tuned == flow[:1]


def test_word_frequencies_of_both_kinds(ran):
  folder, output = ran
  kept = [json.loads(file.read_text()) for file in (folder / "out/cells").iterdir()]
  (ranks,) = (cell["value"] for cell in kept if cell["key"]["kind"] == "ranks")
  assert ranks == output["ranks"]
  counts, corpus = (cells(folder / name, "1") for name in ("counts", "out"))
  assert list(counts) == list(corpus) and len(counts) == 7
  for rows in (counts, corpus):
    figures = [cell["value"] for cell in rows["mini, mean l2-norm"].values()]
    assert isinstance(figures[0], float) and isinstance(figures[1], float) and figures[3] is None
  assert counts != corpus


def test_table_6_and_figure_2(ran):
  """Both use the same fit."""
  folder, output = ran
  assert output["fits"]["rest"]["flow"] == 1
  rows = cells(folder / "out", "6")
  assert rows["gold similarity"]["gold similarity"]["value"] == pytest.approx(100.0)
  assert (folder / "out/figure_2_mini.png").read_bytes().startswith(b"\x89PNG")


def test_beyond(ran):
  """The rows that Table 2 has too have its scores, and each gain is a difference of two rows."""
  folder, _ = ran
  rows, second = cells(folder / "beyond", "beyond"), cells(folder / "out", "2")
  assert {row["STS-B"]["reason"] for row in rows.values()} == {""}
  for name in ("mini, avg", "mini, avg-first-last", "mini, avg-first-last, flow (target)"):
    assert rows[name]["STS-B"]["values"] == second[name]["STS-B"]["values"]
  flow, whitening = "mini, avg-first-last, flow", "mini, avg-first-last, whitening"
  gain = cells(folder / "beyond", "gains")[f"{flow} over avg-first-last, whitening (target)"]["STS-B"]
  expected = rows[f"{flow} (target)"]["STS-B"]["value"] - rows[f"{whitening} (target)"]["STS-B"]["value"]
  assert gain["value"] == pytest.approx(expected) and gain["interval"][0] < gain["value"] < gain["interval"][1]
  recipe = "mini, recipe: mix, idf, soft-whitening (target)"
  assert cells(folder / "beyond", "ablation")[recipe]["STS-B"]["values"] == rows[recipe]["STS-B"]["values"]


def test_page(ran):
  folder, _ = ran
  page = (folder / "RESULTS.md").read_text()
  assert [line for line in page.splitlines() if line.startswith("#")][:8] == [
    "# Results",
    "## Summary",
    "## Terms",
    "## Encoders",
    "## How the tables were made",
    "## Table 1: BERT's word embeddings by word frequency rank",
    "## Table 2: Semantic textual similarity without NLI supervision",
    "## Table 3: Semantic textual similarity with NLI supervision",
  ]
  assert "| mini | 4 | 256 | 8192 | in this package: `examples/pretrain_bert` has how it was trained | `" in page
  assert "](figure_2_mini.png)" in page and (folder / "figure_2_mini.png").is_file()
