"""bert_flow_tf/training/fitting.py: what calibrations are fitted on, by the value of --flow_corpus."""

import numpy as np
import pytest

from bert_flow_tf.calibration.spec import parse_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.training import fitting
from tests.run_scripts import tiny_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return tiny_data.write(tmp_path_factory.mktemp("data"))


def test_target_and_train(data):
  task = load_task("STS-B", data)
  target, train = (fitting.load_flow_corpus(name, task) for name in ("target", "train"))
  assert target.pairs.sentences_a == sum((pairs.sentences_a for pairs in task.splits.values()), ())
  assert train.pairs.sentences_a == task.splits["train"].sentences_a
  assert (target.learning_rate, target.num_train_epochs, target.source) == (1e-3, 1.0, task.source)


def test_one_pass_over_a_task_of_one_file_and_three_as_published(data):
  task = load_task("STS-13", data)
  once, published, train = (
    fitting.load_flow_corpus("target", task),
    fitting.published_corpus(task, use_full=True),
    fitting.published_corpus(task, use_full=False),
  )
  (pairs,) = task.splits.values()
  assert once.pairs.sentences_a == train.pairs.sentences_a == pairs.sentences_a
  assert published.pairs.sentences_a == pairs.sentences_a * 3 and "each pair three times" in published.source
  assert (once.name, published.name, train.name) == ("target", "target", "train")


def test_the_tasks_own_epochs_are_for_the_tasks_own_sentences(tmp_path):
  task = load_task("sample")
  (tmp_path / "corpus.txt").write_text("".join(f"sentence {i}\n" for i in range(9)))
  assert fitting.load_flow_corpus("target", task).num_train_epochs == 20.0
  corpus = fitting.load_flow_corpus(str(tmp_path / "corpus.txt"), task)
  assert (corpus.num_train_epochs, corpus.learning_rate, len(corpus.pairs)) == (1.0, 1e-3, 5)
  assert corpus.pairs.sentences_b[0] == "sentence 5" and corpus.source.endswith("corpus.txt")


def test_nli_has_the_papers_rate_and_epochs(tmp_path, data):
  (tmp_path / "SNLI").mkdir()
  rows = [f"{'x' * 3}\tA {i}\tB {i}" for i in range(4)]
  (tmp_path / "SNLI/dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2", *rows]) + "\n")
  corpus = fitting.load_flow_corpus("nli", load_task("STS-B", data), tmp_path)
  assert (corpus.name, corpus.learning_rate, corpus.num_train_epochs) == ("nli", 2e-5, 0.15)
  assert corpus.pairs.sentences_a == ("A 0", "A 1", "A 2", "A 3") and "SNLI/train.tsv" in corpus.source


@pytest.mark.parametrize(
  ("name", "error", "message"),
  [
    ("", ConfigError, "--flow_corpus=: expected target, train, nli, or a file"),
    ("targets", ConfigError, "--flow_corpus=targets: expected"),
    ("c" * 300, ConfigError, "expected target"),
    (".", DataError, "is a folder"),
    ("train", DataError, "sample has no train split"),
  ],
)
def test_refused_corpora(name, error, message):
  with pytest.raises(error, match=message):
    fitting.load_flow_corpus(name, load_task("sample"))


@pytest.mark.parametrize(
  ("names", "message"),
  [
    ([], "--calibration is empty"),
    (["flow", ""], "calibration is ''"),
    (["pca"], "'pca', expected one of flow"),
    (["SN", "sn "], "names sn twice"),
    (["flow-3"], "'flow-3'"),
  ],
)
def test_refused_calibrations(names, message):
  with pytest.raises(ConfigError, match=message):
    fitting.parse_calibrations(names)


def test_calibrations_keep_their_order():
  specs = fitting.parse_calibrations(["SN", "none", "Flow", "natsv-3", "natsv"])
  assert [spec.name for spec in specs] == ["sn", "flow", "natsv-3", "natsv"]
  assert fitting.parse_calibrations(["none"]) == []


def test_k_is_chosen_on_dev_where_there_is_one_to_choose_on(data):
  specs = [parse_calibration("sn+natsv")]
  fitting.check_dev(specs, load_task("STS-B", data))
  fitting.check_dev([parse_calibration("natsv-3"), parse_calibration("flow")], load_task("sample"))
  with pytest.raises(ConfigError, match=r"sn\+natsv chooses k on a dev split .* sample has none: give k, as in sn"):
    fitting.check_dev(specs, load_task("sample"))


def test_k_is_not_chosen_on_what_is_evaluated(tmp_path):
  (tmp_path / "QNLI").mkdir()
  rows = [f"{i}\tWhat {i}?\tThat {i}.\t{'not_' * (i % 2)}entailment" for i in range(6)]
  (tmp_path / "QNLI/dev.tsv").write_text("\n".join(["index\tquestion\tsentence\tlabel", *rows]) + "\n")
  task = load_task("QNLI", tmp_path)
  assert not np.isnan(task.splits["dev"].scores).any()
  with pytest.raises(ConfigError, match="on which QNLI is evaluated: give k, as in natsv-6"):
    fitting.check_dev([parse_calibration("natsv")], task)
