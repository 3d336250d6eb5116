"""bert_flow_tf/tables/similarity.py: rows, their names, and the published rows that they are compared with."""

import statistics

import numpy as np
import pytest

from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.encoder.other.word_vectors import AVERAGE
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.tables.inputs import TableInputs
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import CONTROLS
from bert_flow_tf.tables.table import paper_tables
from bert_flow_tf.training.settings import FlowSettings
from tests.tables.fakes import Bench, Encoder, NoStore, make, make_bench


def row(rows, end):
  (match,) = (line for line in rows if line.name.endswith(end))
  return match


def names(bench, **plan):
  return [line.name for line in make("2", [bench], seeds=[0], **plan).rows]


def test_rows_by_what_an_encoder_has(data):
  assert names(make_bench(data, ["STS-B"]), calibration=("sn",)) == [
    "fake, avg",
    "fake, avg-first-last",
    "fake, avg-first-last, flow (NLI)",
    "fake, avg-first-last, flow (target)",
    "fake, avg-first-last, sn (target)",
    "fake, tf-idf of word pieces",
    "fake, characters",
  ]
  pooled = make_bench(data, ["STS-B"], encoder=Encoder(has_pooler=True), kind=EncoderKind.TUNED)
  assert names(pooled)[1] == "fake (fine-tuned on NLI), cls"
  words = make_bench(data, ["STS-B"], label="glove.6B", kind=EncoderKind.WORDS, only_embedding=AVERAGE.name)
  assert names(words, calibration=()) == [
    "glove.6B, avg of word vectors",
    "glove.6B, avg of word vectors, flow (target)",
  ]
  saved = make_bench(
    data,
    ["STS-B"],
    label="use",
    encoder=Encoder("saved_model:use"),
    kind=EncoderKind.SAVED_MODEL,
    only_embedding="output",
  )
  of_vectors = ["", ", flow (NLI)", ", flow (target)", ", sn (target)", ", auto (target)"]
  assert names(saved, calibration=("sn",)) == [f"use, output{end}" for end in of_vectors]
  declared = make_bench(data, ["STS-B"], label="minilm", only_embedding="avg")
  of_tokens = ["avg", "avg, flow (NLI)", "avg, flow (target)", "avg, auto (target)", *CONTROLS]
  assert names(declared, calibration=()) == [f"minilm, {name}" for name in of_tokens]


def test_cells_and_spread(data):
  """Table 5: the flow's cells over three seeds."""
  rows = make("5", [make_bench(data, ["STS-B"])], [3, 4, 5], calibration=("mean", "sn")).rows
  flow = row(rows, "flow (target)").cells["STS-B"]
  assert len(set(flow.values)) == 3 and flow.spread == pytest.approx(statistics.stdev(flow.values))
  assert row(rows, ", sn (target)").cells["STS-B"].spread is None
  (name,) = (line.name for line in rows if ", natsv-" in line.name and "chosen" in line.name)
  assert name.startswith("fake, avg, natsv-") and name.endswith(", k chosen on dev (target)")
  assert {line.cells["STS-B"].paper for line in rows} == {None}  # this encoder is not the paper's


def test_cells_that_fail_say_why(data):
  """No NLI here, no dev split in STS-12, fewer dimensions than asked for: the other cells stand."""
  bench = make_bench(data, ["STS-B", "STS-12"])
  rows = make("2", [bench], [0], ["STS-B", "STS-12"], calibration=("natsv", "whitening-7")).rows
  cells = {line.name: line.cells for line in rows}
  assert not any(cell.defined for cell in cells["fake, avg-first-last, flow (NLI)"].values())
  assert "SNLI" in cells["fake, avg-first-last, flow (NLI)"]["STS-B"].reason
  (natsv,) = (row_cells for name, row_cells in cells.items() if "natsv" in name)
  assert natsv["STS-B"].defined and "STS-12 has no dev split" in natsv["STS-12"].reason
  assert "rank 6" in cells["fake, avg-first-last, whitening-7 (target)"]["STS-12"].reason
  assert all(cell.defined for cell in cells["fake, avg-first-last, flow (target)"].values())


@pytest.mark.parametrize(("name", "plan"), [("2", {}), ("4", {}), ("transfer", {"transfer_corpus": ("nli",)})])
def test_the_note_on_nli_has_pairs_and_steps_and_no_folder(data, tmp_path, name, plan):
  folder = tmp_path / "private" / "SNLI"
  folder.mkdir(parents=True)
  columns = ["index", *"abcdef", "a man eats", "a man has lunch", "neutral"]
  header = [*map(str, range(7)), "sentence1", "sentence2", "gold_label"]
  (folder / "dev.tsv").write_text("\n".join("\t".join(line) for line in [header] + [columns] * 640) + "\n")
  tasks = {"STS-B": load_task("STS-B", data), "QNLI": load_task("STS-B", data)}
  inputs = TableInputs(tasks, DataSettings(data_dir=str(folder.parent)), EncoderSettings(), FlowSettings())
  bench = Bench(Encoder(), inputs, NoStore(), "fake")
  notes = make(name, [bench], [0], ["QNLI"] if name == "4" else ["STS-B"], **plan).notes
  (note,) = (note for note in notes if note.startswith("(NLI): "))
  assert " 640 pairs " in note and "0.15 epoch, 3 steps at learning rate 2e-05" in note and "4,600 steps" in note
  assert not any("private" in note for note in notes)


# {(number, encoder, fine-tuned): {end of our row's name: the paper's row}}
COMPARED = {
  ("2", "base", False): {
    "fake, avg": "BERT_base",
    "fake, cls": None,
    "avg-first-last": "BERT_base-last2avg",
    "flow (target)": "BERT_base-flow (target)",
    "sn (target)": None,
  },
  ("3", "large", True): {"NLI), avg": "BERT_large-NLI", "flow (target)": "BERT_large-NLI-flow (target)"},
  ("5", "base", False): {
    "fake, avg": "BERT_base",
    "avg, sn (target)": "+ SN",
    "avg, natsv-1 (target)": "+ NATSV (k=1)",
    "avg, sn+natsv-1 (target)": "+ SN + NATSV (k=1)",
    "flow (target)": "BERT_base-flow (target)",
  },
}


@pytest.mark.parametrize("case", COMPARED, ids=str)
def test_compared_with_the_papers_row(data, case):
  number, encoder, tuned = case
  pooled, kind = Encoder(has_pooler=True), EncoderKind.TUNED if tuned else EncoderKind.BERT
  bench = make_bench(data, ["STS-B"], encoder=pooled, paper_encoder=encoder, kind=kind)
  rows = make(number, [bench], [0], calibration=("sn",)).rows
  published = {line.name: line.cells["STS-B"] for line in paper_tables()[int(number)].rows}
  for end, name in COMPARED[case].items():
    assert row(rows, end).cells["STS-B"].paper == (published[name] if name else None)
  if case == ("5", "base", False):  # k chosen on dev is compared with the paper's choice, whatever ours is
    rows_on_dev = {line.name.split(",")[2].split("-")[0].strip(): line for line in rows if "chosen" in line.name}
    assert rows_on_dev["natsv"].cells["STS-B"].paper == 60.4 and rows_on_dev["sn+natsv"].cells["STS-B"].paper == 63.51


def test_seeds_of_table_8(data):
  bench = make_bench(data, ["STS-B"], paper_encoder="large", kind=EncoderKind.TUNED)
  seeds = [5, 6, 7, 8]
  rows = make("8", [bench], seeds).rows
  values = row(make("3", [bench], seeds).rows, "avg-first-last, flow (target)").cells["STS-B"].values
  expected = [statistics.fmean(values), statistics.stdev(values), statistics.median(values)]
  assert [cell.mean for cell in rows[2].cells.values()] == pytest.approx(expected)
  assert [cell.paper for cell in rows[2].cells.values()] == [81.1, 0.55, 81.35]
  plain = rows[0].cells
  assert plain["mean"].mean == plain["median"].mean and plain["mean"].paper == 77.26
  assert not plain["standard deviation"].defined and "no seed" in plain["standard deviation"].reason
  one_seed = row(make("8", [bench], [5]).rows, "flow (target)").cells
  assert one_seed["standard deviation"].reason == "only one seed" and one_seed["median"].mean == values[0]


def test_transfer_says_where_it_hurts(data):
  tasks = ["STS-B", "SICK-R"]
  content = make("transfer", [make_bench(data, tasks)], [1, 2], tasks, transfer_corpus=("nli",))
  assert [line.name for line in content.rows] == [
    "fake, no flow",
    *(f"fake, flow fitted on {name}" for name in (*tasks, "NLI")),
  ]
  without, fitted, of_nli = content.rows[0].cells, content.rows[1:3], content.rows[3].cells
  hurts = [np.mean(line.cells[task].values) < without[task].mean for line in fitted for task in tasks]
  assert [line.cells[task].worse for line in fitted for task in tasks] == hurts
  assert content.notes[1] == f"fake: the flow lowers the score in {sum(hurts)} of 4 cells (▼)."
  assert not any(cell.worse for cells in (without, of_nli) for cell in cells.values())
  assert "SNLI" in of_nli["STS-B"].reason  # no such corpus here
