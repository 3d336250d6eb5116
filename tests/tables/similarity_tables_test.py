"""bert_flow_tf/tables/similarity_tables.py: rows, their names, and the published rows that they are compared with."""

import statistics
import types

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.progress import Progress
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.similarity_tables import (
  calibration_recipes,
  count_of,
  published_rows,
  qnli_recipes,
  row_name,
  rows_of,
  seed_rows,
  similarity_recipes,
  transfer_rows,
)
from bert_flow_tf.tables.workbench import Recipe, target_of
from tests.tables.fakes import Encoder, cosine, flow_matrix, make_bench, sides

SHOWN = Progress(0, show=False)
STS_B = {"STS-B": "STS-B"}


def row(rows, end):
  (match,) = (line for line in rows if line.name.endswith(end))
  return match


def test_recipes_by_what_an_encoder_has(data):
  bench = make_bench(data, ["STS-B"])
  names = [row_name(bench, recipe) for recipe in similarity_recipes(bench, ["sn"])]
  assert names == [
    "fake, avg",
    "fake, avg-first-last",
    "fake, avg-first-last, flow (NLI)",
    "fake, avg-first-last, flow (target)",
    "fake, avg-first-last, sn (target)",
  ]
  pooled = make_bench(data, ["STS-B"], encoder=Encoder(has_pooler=True), nli_tuned=True)
  assert row_name(pooled, similarity_recipes(pooled)[1]) == "fake (fine-tuned on NLI), cls"
  words = make_bench(data, ["STS-B"], label="glove.6B", words=True)
  assert [row_name(words, recipe) for recipe in similarity_recipes(words)] == [
    "glove.6B, avg of word vectors",
    "glove.6B, avg of word vectors, flow (target)",
  ]


def test_rows_count_and_spread(data):
  """Table 5's rows: as many cells as counted; the flow's over three seeds, by SciPy and statistics."""
  bench = make_bench(data, ["STS-B"])
  recipes = calibration_recipes(bench, ["mean", "sn"])
  steps = []
  progress = types.SimpleNamespace(update=lambda count, note: steps.append(count))
  rows = rows_of(bench, recipes, STS_B, 5, [3, 4, 5], progress)
  assert sum(steps) == count_of(recipes, STS_B, [3, 4, 5]) == 10 == len(rows) + 2
  pairs = bench.inputs.tasks["STS-B"].splits["test"]
  a, b = (side - 4 for side in sides(pairs, bench.encoder, "avg"))
  expected = [100 * stats.spearmanr(cosine(a @ m, b @ m), pairs.scores)[0] for m in map(flow_matrix, (3, 4, 5))]
  flow = row(rows, "flow (target)").cells["STS-B"]
  assert flow.values == pytest.approx(expected, abs=1e-6) and flow.spread == pytest.approx(statistics.stdev(expected))
  assert row(rows, ", sn (target)").cells["STS-B"].spread is None
  (chosen,) = (line.name for line in rows if ", natsv-" in line.name and "chosen" in line.name)
  assert chosen.startswith("fake, avg, natsv-") and chosen.endswith(", k chosen on dev (target)")
  assert {line.cells["STS-B"].paper for line in rows} == {None}  # this encoder is not the paper's


def test_cells_that_fail_say_why(data):
  """No NLI here, no dev split in STS-12, fewer dimensions than asked for: the other cells stand."""
  bench = make_bench(data, ["STS-B", "STS-12"])
  columns = {task: task for task in ("STS-B", "STS-12")}
  recipes = similarity_recipes(bench, ["natsv", "whitening-7"])
  cells = {line.name: line.cells for line in rows_of(bench, recipes, columns, 2, [0], SHOWN)}
  assert not any(cell.defined for cell in cells["fake, avg-first-last, flow (NLI)"].values())
  assert "SNLI" in cells["fake, avg-first-last, flow (NLI)"]["STS-B"].reason
  (natsv,) = (row_cells for name, row_cells in cells.items() if "natsv" in name)
  assert natsv["STS-B"].defined and "STS-12 has no dev split" in natsv["STS-12"].reason
  assert "rank 6" in cells["fake, avg-first-last, whitening-7 (target)"]["STS-12"].reason
  assert all(cell.defined for cell in cells["fake, avg-first-last, flow (target)"].values())


# {(number, encoder, fine-tuned): {end of our row's name: the paper's row}}
COMPARED = {
  (2, "base", False): {
    "fake, avg": "BERT_base",
    "fake, cls": None,
    "avg-first-last": "BERT_base-last2avg",
    "flow (target)": "BERT_base-flow (target)",
    "sn (target)": None,
  },
  (2, "large", False): {"avg-first-last": "BERT_large-last2avg", "flow (target)": "BERT_large-flow (target)"},
  (3, "base", True): {"NLI), avg": "BERT_base-NLI", "flow (target)": "BERT_base-NLI-flow (target)"},
  (3, "large", True): {"NLI), avg": "BERT_large-NLI", "flow (target)": "BERT_large-NLI-flow (target)"},
  (5, "base", False): {
    "fake, avg": "BERT_base",
    "avg, sn (target)": "+ SN",
    "avg, natsv-1 (target)": "+ NATSV (k=1)",
    "avg, sn+natsv-1 (target)": "+ SN + NATSV (k=1)",
    "flow (target)": "BERT_base-flow (target)",
  },
  (5, "large", False): {"fake, avg": None, "avg, sn (target)": None},
}


@pytest.mark.parametrize("case", COMPARED, ids=str)
def test_compared_with_the_papers_row(data, case):
  number, encoder, tuned = case
  pooled = Encoder(has_pooler=True)
  bench = make_bench(data, ["STS-B"], encoder=pooled, paper_encoder=encoder, nli_tuned=tuned)
  recipes = calibration_recipes(bench) if number == 5 else similarity_recipes(bench, ["sn"])
  rows = rows_of(bench, recipes, STS_B, number, [0], SHOWN)
  published = {line.name: line.cells["STS-B"] for line in paper_table(number).rows}
  for end, name in COMPARED[case].items():
    assert row(rows, end).cells["STS-B"].paper == (published[name] if name else None)
  if number == 5 and encoder == "base":  # k chosen on dev is compared with the paper's choice, whatever ours is
    chosen = {line.name.split(",")[2].split("-")[0].strip(): line for line in rows if "chosen" in line.name}
    assert chosen["natsv"].cells["STS-B"].paper == 60.4 and chosen["sn+natsv"].cells["STS-B"].paper == 63.51


def test_qnli_is_compared_where_the_encoder_was_fine_tuned(data):
  def papers(tuned):
    bench = make_bench(data, ["STS-B"], paper_encoder="large", nli_tuned=tuned)
    rows = rows_of(bench, qnli_recipes(bench), {"AUC": "STS-B"}, 4, [0], SHOWN)
    return [line.cells["AUC"].paper for line in rows]

  assert papers(True) == [70.41, 74.19, 77.09] and papers(False) == [None] * 3


def test_seeds_of_table_8(data):
  bench = make_bench(data, ["STS-B"], paper_encoder="large", nli_tuned=True)
  rows = seed_rows(bench, "STS-B", [5, 6, 7, 8], SHOWN)
  (flow,) = rows_of(bench, [Recipe("avg-first-last", "flow")], STS_B, 3, [5, 6, 7, 8], SHOWN)
  values = flow.cells["STS-B"].values
  expected = [statistics.fmean(values), statistics.stdev(values), statistics.median(values)]
  assert [cell.mean for cell in rows[2].cells.values()] == pytest.approx(expected)
  assert [cell.paper for cell in rows[2].cells.values()] == [81.1, 0.55, 81.35]
  plain = rows[0].cells
  assert plain["mean"].mean == plain["median"].mean and plain["mean"].paper == 77.26
  assert not plain["standard deviation"].defined and "no seed" in plain["standard deviation"].reason
  (one_seed,) = (line.cells for line in seed_rows(bench, "STS-B", [5], SHOWN) if "flow" in line.name)
  assert one_seed["standard deviation"].reason == "only one seed" and one_seed["median"].mean == values[0]


def test_transfer_says_where_it_hurts(data):
  bench = make_bench(data, ["STS-B", "SICK-R"])
  columns = {task: task for task in ("STS-B", "SICK-R")}
  corpora = {"STS-B": target_of("STS-B"), "SICK-R": target_of("SICK-R"), "NLI": "nli"}
  rows, note = transfer_rows(bench, corpora, columns, [1, 2], SHOWN)
  assert [line.name for line in rows] == [
    "fake, no flow",
    *(f"fake, flow fitted on {name}" for name in ("STS-B", "SICK-R", "NLI")),
  ]
  without, fitted = rows[0].cells, rows[1:3]
  hurts = [np.mean(line.cells[task].values) < without[task].mean for line in fitted for task in columns]
  assert [line.cells[task].worse for line in fitted for task in columns] == hurts
  assert note == f"fake: the flow lowers the score in {sum(hurts)} of 4 cells (▼)."
  assert not any(cell.worse for line in (rows[0], rows[3]) for cell in line.cells.values())
  assert "SNLI" in rows[3].cells["STS-B"].reason  # no such corpus here


def test_published_rows_are_the_papers():
  rows = published_rows(2)
  assert rows[0].name == "Avg. GloVe embeddings" and rows[0].cells["STS-B"].mean == 58.02
  assert len(rows) == len(paper_table(2).rows) and {line.source for line in rows} == {"published"}
