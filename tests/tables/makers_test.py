"""bert_flow_tf/tables/makers.py: whole tables of an encoder without TensorFlow."""

import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.tables.makers import Makers, check_tasks
from bert_flow_tf.tables.plan import Plan
from tests.tables.fakes import Encoder, make_bench


def makers_of(data, tables, tuned=(), **more):
  plan = Plan(tables, task=("STS-B", "STS-12"), calibration=("sn",), num_seeds=2, seed=0, **more)
  names = ["STS-B", "STS-12"]
  models = [
    make_bench(data, names, encoder=Encoder("plain"), label="plain"),
    make_bench(data, names, label="words", words=True),
  ]
  return Makers(plan, models, [make_bench(data, names, label=name, nli_tuned=True) for name in tuned])


def test_models_of_tables(data):
  without, tuned = makers_of(data, ()), makers_of(data, (), ["tuned"])

  def labels(makers):
    names = ("1", "2", "3", "4", "8", "transfer", "figure 2")
    return [" ".join(model.label for model in makers.models_of(name)) for name in names]

  assert labels(without) == ["plain", "plain words", "", "plain", "plain", "plain", "plain"]
  assert labels(tuned) == ["plain", "plain words", "tuned", "plain tuned", "tuned", "plain", "plain"]


def test_table_2_has_published_rows_and_notes(data):
  table = makers_of(data, ("2",)).table("2", {"command": "c"})
  assert table.columns == ("STS-B", "STS-12") and table.about == {"command": "c", "seeds": [0, 1]}
  assert [row.source for row in table.rows] == ["ours"] * 8 + ["published"] * 11
  notes = "\n".join(table.notes)
  assert "weighted" in notes and "No row of cls for plain:" in notes and "of the flow, 0 to 1." in notes
  assert "(paper" not in table.markdown()
  assert table.best == {"STS-B": "the highest", "STS-12": "the highest"}


def test_table_3_without_an_encoder(data):
  table = makers_of(data, ("3",)).table("3", {})
  assert {row.source for row in table.rows} == {"published"} and "--nli_model" in table.notes[-1]


@pytest.mark.parametrize("parts", [(0, 5463, 5463), (104743, 5463, 0), (3, 2, 0), (104743, 5463, 5463)])
def test_table_4_says_how_many_pairs_of_qnli_there_were(data, parts):
  """The splits have their true sizes; rows repeat, which the note does not see."""
  source = make_bench(data, ["STS-B"]).inputs.tasks["STS-B"].splits["test"]
  splits = {}
  for split, count in zip(("train", "dev", "test"), parts, strict=True):
    rows = [i % len(source) for i in range(count)]
    sides = [[side[i] for i in rows] for side in (source.sentences_a, source.sentences_b)]
    splits |= {split: SentencePairs(*sides, [i % 2 for i in range(count)])} if count else {}
  task = TaskData(find_task("QNLI"), splits, "made up")
  table = Makers(Plan(("4",), seed=0), [make_bench(data, [], tasks={"QNLI": task})], []).table("4", {})
  notes = [note for note in table.notes if "QNLI was available" in note]
  train, dev, test = parts
  expected = f"{train} of 104743 train, {dev} of 5463 dev, {test} of 5463 test pairs. The rows (target) are fitted on"
  assert len(notes) == (sum(parts) < 115669)
  assert all(expected in note and f" {sum(parts)} of its 115669 pairs." in note for note in notes)


@pytest.mark.parametrize(("tuned", "noted"), [((), True), (("tuned",), False)])
def test_table_8_says_whether_the_encoder_is_fine_tuned(data, tuned, noted):
  table = makers_of(data, ("8",), tuned).table("8", {})
  assert any("not fine-tuned on NLI" in note for note in table.notes) == noted
  assert table.rows[0].name == ("tuned (fine-tuned on NLI), avg" if tuned else "plain, avg")


@pytest.mark.parametrize("name", ["5", "6", "isotropy", "transfer"])
def test_the_other_tables_hold_their_columns(data, name):
  table = makers_of(data, (name,)).table(name, {})
  assert table.markdown().count("n/a") == 0
  assert all(set(row.cells) == set(table.columns) for row in table.rows)


def test_no_dev_split(data):
  bench = make_bench(data, ["STS-B"])
  check_tasks(Plan(("6",), ("2",)), bench.inputs.tasks)
  bench.inputs.tasks["STS-B"].splits.pop("dev")
  for plan, argument in ((Plan(("6",), ("2",)), "table"), (Plan((), ("2",)), "figure")):
    with pytest.raises(ConfigError) as raised:
      check_tasks(plan, bench.inputs.tasks)
    assert raised.value.argument == argument
