"""bert_flow_tf/tables/plan.py and registry.py: canonical plans; which encoders and tasks a table needs."""

import types

import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import STS_TASKS, DataSettings, find_task
from bert_flow_tf.encoder.other.word_vectors import AVERAGE
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.inputs import TableInputs, label_of, paper_encoder, sample_corpus
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.plan import Plan, canonical
from bert_flow_tf.tables.registry import TABLES, users_of
from bert_flow_tf.tables.run import make_table
from bert_flow_tf.training.settings import FlowSettings
from tests.tables.fakes import Encoder, make, make_bench


def plan_of(**values):
  return canonical(Plan(**{name: tuple(value.split(",")) for name, value in values.items()}))


def test_all_without_frequencies_leaves_table_1_out():
  plan = plan_of(table="ALL", figure="all")
  assert plan.table == tuple(name for name in TABLES if name != "1")
  assert plan.figure == ("2", "isotropy", "cone") and plan.task == STS_TASKS
  assert plan.tasks() == [*STS_TASKS, "QNLI", "MRPC"]
  assert "1" in canonical(Plan(table=("all",), corpus=__file__)).table


def test_order_and_repetition():
  plan = plan_of(table="5, 2,2", task="sts16,stsb,STS-16", calibration="SN,flow,None,whitening-8")
  assert plan.table == ("2", "5") and plan.task == ("STS-B", "STS-16") and plan.calibration == ("sn", "whitening-8")
  assert canonical(Plan(table=("5",), calibration=())).calibration == ()


@pytest.mark.parametrize(
  ("values", "tasks", "needs_models", "corpora"),
  [
    ({"table": "3"}, [], False, []),
    ({"table": "3", "task": "SICK-R", "nli_model": "x"}, ["SICK-R"], False, ["nli"]),
    ({"table": "8", "nli_model": "x"}, ["STS-B"], False, []),
    ({"table": "8"}, ["STS-B"], True, []),
    ({"table": "4"}, ["QNLI"], True, ["nli"]),
    ({"table": "2", "task": "SICK-R", "model": "glove:x"}, ["SICK-R"], True, []),
    ({"table": "transfer", "task": "SICK-R", "transfer_corpus": "NLI"}, ["SICK-R"], True, ["nli"]),
    ({"table": "beyond", "model": "x"}, [*STS_TASKS, "QNLI", "MRPC"], True, []),
    ({"table": "gains", "task": "SICK-R"}, ["SICK-R"], True, []),
    ({"table": "ablation"}, [*STS_TASKS], True, []),
    ({"figure": "2"}, ["STS-B"], True, []),
  ],
)
def test_what_is_loaded(values, tasks, needs_models, corpora):
  plan = plan_of(**values)
  assert (plan.tasks(), plan.needs_models, plan.corpora()) == (tasks, needs_models, corpora)


@pytest.mark.parametrize("table", ["beyond", "gains"])
def test_lines_of_the_corpus_are_loaded(table):
  assert Plan(table=(table,), corpus=__file__).corpora() == [sample_corpus(__file__)]


def test_seeds():
  plan = Plan(seed=10)
  assert plan.seeds("2") == [10] and plan.seeds("8") == [10, 11, 12, 13, 14] and plan.seeds("1") == []
  assert Plan(seed=10, num_seeds=1).seeds("8") == [10] and Plan(seed=10, num_seeds=3).seeds("2") == [10, 11, 12]


def test_arguments_of_some_tables():
  assert users_of("edit_unit") == ["6", "figure 2"] and users_of("num_train_epochs") == []
  assert users_of("num_seeds") == [name for name in TABLES if name not in ("1", "ablation", "choice")]


def test_labels(tmp_path):
  (tmp_path / "bert").mkdir()
  names = ("base", "org/name", f"{tmp_path}/bert/", f"{tmp_path}/bert/../bert/.", "glove:/x/glove.6B.300d.txt")
  assert [label_of(name) for name in names] == ["base", "name", "bert", "bert", "glove.6B.300d"]


BASE, LARGE = (12, 768, 30522), (24, 1024, 30522)


@pytest.mark.parametrize(
  ("name", "sizes", "nli_tuned", "expected"),
  [
    ("base", BASE, False, "base"),
    ("google-bert/bert-large-uncased", LARGE, False, "large"),
    ("/models/bert-base-uncased/", BASE, False, "base"),
    ("bert-base-uncased", (6, 384, 30522), False, None),
    ("base", LARGE, False, None),
    ("bert-large-uncased-whole-word-masking", LARGE, False, None),
    ("base-cased", (12, 768, 28996), False, None),
    ("models/base", BASE, False, None),
    ("bert-base-uncased-squad", BASE, False, None),
    ("out/BERT-Large-Uncased_nli", LARGE, True, "large"),
    ("mine-nli", BASE, True, None),
    ("bert-base-uncased-nli", (6, 384, 30522), True, None),
    ("exp/bert-base-uncased-nli/encoder", BASE, True, "base"),
    ("exp/bert-large-uncased-whole-word-masking-nli/encoder", LARGE, True, None),
  ],
)
def test_which_encoders_are_the_papers(name, sizes, nli_tuned, expected):
  config = dict(zip(("num_hidden_layers", "hidden_size", "vocab_size"), sizes, strict=True))
  assert paper_encoder(name, types.SimpleNamespace(**config), nli_tuned) == expected


@pytest.fixture(scope="module")
def benches(data):
  names = ["STS-B", "STS-12"]
  plain = make_bench(data, names, encoder=Encoder("plain"), label="plain")
  words = make_bench(data, names, label="words", kind=EncoderKind.WORDS, only_embedding=AVERAGE.name)
  return [plain, words], [make_bench(data, names, label="tuned", kind=EncoderKind.TUNED)]


def table_of(name, benches, tuned=False):
  encoders = benches[0]
  if tuned:
    encoders = benches[0] + benches[1]
  nli_model = ("tuned",) if tuned else ()
  plan = Plan(table=(name,), task=("STS-B", "STS-12"), nli_model=nli_model, calibration=("sn",), num_seeds=2, seed=0)
  return make_table(name, plan, TABLES[name].select(encoders), {"command": "c"})


def test_encoders_of_tables(benches):
  labels = {}
  for tuned in ([], benches[1]):
    specs = [TABLES[name] for name in ("1", "2", "3", "4", "8", "transfer")]
    labels[bool(tuned)] = [" ".join(bench.label for bench in spec.select(benches[0] + tuned)) for spec in specs]
  assert labels[False] == ["plain", "plain words", "", "plain", "plain", "plain"]
  assert labels[True] == ["plain", "plain words", "tuned", "plain tuned", "tuned", "plain"]


def test_table_2_is_a_table_of_the_paper(benches):
  table = table_of("2", benches)
  assert table.columns == ("STS-B", "STS-12") and table.about == {"command": "c", "seeds": [0, 1]}
  assert [row.source for row in table.rows] == ["ours"] * 10 + ["published"] * 11
  assert table.rows[10].name == "Avg. GloVe embeddings" and table.rows[10].cells["STS-B"].mean == 58.02
  assert "weighted" in table.notes[0] and "(paper" not in table.markdown()
  assert table.best == {"STS-B": "the highest", "STS-12": "the highest"}


@pytest.mark.parametrize(
  ("name", "tuned", "first", "expected_notes"),
  [
    ("2", False, "plain, avg", ["No row of cls for plain:", "of the flow, 0 to 1."]),
    ("3", False, "InferSent - Glove", ["--nli_model"]),
    ("8", False, "plain, avg", ["not fine-tuned on NLI"]),
    ("8", True, "tuned (fine-tuned on NLI), avg", []),
  ],
)
def test_rows_and_notes(benches, name, tuned, first, expected_notes):
  table = table_of(name, benches, tuned)
  rows = [row for row in table.rows if row.source == "ours"]
  notes = "\n".join(table.notes)
  assert all(text in notes for text in expected_notes) and ("not fine-tuned" in notes) == (
    "not fine-tuned on NLI" in expected_notes
  )
  assert table.rows[0].name == first and (name in "28" or "n/a" not in table.markdown())
  assert all(set(row.cells) == set(table.columns) for row in rows)


@pytest.mark.parametrize("counts", [(0, 5463, 5463), (3, 2, 0), (104743, 5463, 5463)])
def test_table_4_says_how_many_pairs_of_qnli_there_were(data, counts):
  """The splits have their true sizes; a single pair is repeated."""
  splits = {}
  for split, count in zip(("train", "dev", "test"), counts, strict=True):
    if count:
      splits[split] = SentencePairs(["a b"] * count, ["a c"] * count, [1.0] * count)
  task = TaskData(find_task("QNLI"), splits, "invented")
  notes = make("4", [make_bench(data, [], tasks={"QNLI": task})], tasks=["QNLI"]).notes
  notes = [note for note in notes if "QNLI was available" in note]
  train, dev, test = counts
  expected = f"{train:,} of 104,743 train, {dev:,} of 5,463 dev, {test:,} of 5,463 test pairs. The rows (target) are"
  assert len(notes) == (sum(counts) < 115669)
  assert all(expected in note and f" {sum(counts):,} of 115,669 pairs." in note for note in notes)


@pytest.mark.parametrize("content", ["", "\n\n", "alone\nalone\n"])
def test_a_corpus_needs_sentences(tmp_path, content):
  path = tmp_path / "corpus.txt"
  path.write_text(content)
  inputs = TableInputs({}, DataSettings(), EncoderSettings(), FlowSettings())
  with pytest.raises(DataError, match=r"corpus\.txt"):
    inputs.check_fits([sample_corpus(str(path))])


def test_a_corpus_has_no_sentence_of_the_evaluated_sets(tmp_path):
  """No sentence of a split is left, whatever its case and punctuation; the source counts the lines left out."""
  splits = {"test": SentencePairs(["A man isn't here."], ["Two dogs, one cat!"], [1.0])}
  splits["train"] = SentencePairs(["It rains"], ["it  snows"], [1.0])
  path = tmp_path / "corpus.txt"
  others = ["a man is here", "dogs", "it rains today", "birds sing"]
  path.write_text("\n".join(["a man isnt here", "TWO DOGS ONE CAT", "two dogs one cat", "It snows.", *others, "dogs"]))
  inputs = TableInputs(
    {"x": TaskData(find_task("QNLI"), splits, "invented")}, DataSettings(), EncoderSettings(), FlowSettings()
  )
  corpus = inputs.corpus(sample_corpus(str(path)))
  assert sorted([*corpus.pairs.sentences_a, *corpus.pairs.sentences_b]) == sorted(others)
  assert corpus.source.startswith("4 of 8 distinct lines; 4 lines were left out")
