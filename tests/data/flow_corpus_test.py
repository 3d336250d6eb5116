"""bert_flow_tf/data/flow_corpus.py: the sentences that calibrations are fitted on."""

import numpy as np
import pytest

from bert_flow_tf.data import flow_corpus
from bert_flow_tf.data.flow_corpus import CorpusSettings
from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.training.settings import FlowSettings
from tests.run_scripts import tiny_data
from tests.testing import rejected


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return tiny_data.write(tmp_path_factory.mktemp("data"))


def test_target_and_train(data):
  task = load_task("STS-B", data)
  target, train = (flow_corpus.load_flow_corpus(name, task) for name in ("target", "train"))
  assert target.pairs.sentences_a == sum((pairs.sentences_a for pairs in task.splits.values()), ())
  assert train.pairs.sentences_a == task.splits["train"].sentences_a
  assert (target.learning_rate, target.num_train_epochs, target.source) == (1e-3, 1.0, task.source)


def test_one_pass_over_a_task_of_one_file_and_three_as_published(data):
  corpora = []
  for use_full in (None, True, False):
    task, corpus = flow_corpus.load_task_and_corpus(DataSettings("STS-13", str(data)), CorpusSettings(None, use_full))
    corpora.append(corpus)
  once, published, train = corpora
  (pairs,) = task.splits.values()
  assert once.pairs.sentences_a == train.pairs.sentences_a == pairs.sentences_a
  assert published.pairs.sentences_a == pairs.sentences_a * 3 and "each pair three times" in published.source
  np.testing.assert_array_equal(published.pairs.scores, np.tile(pairs.scores, 3))
  assert (once.name, published.name, train.name) == ("target", "target", "train")


def test_the_epochs_of_a_paper_task_are_for_its_own_sentences(tmp_path, data, monkeypatch):
  task = load_task("STS-B", data)
  (tmp_path / "corpus.txt").write_text("".join(f"sentence {i}\n" for i in range(9)))
  monkeypatch.setenv("HOME", str(tmp_path))
  corpus = flow_corpus.load_flow_corpus("~/corpus.txt", task)
  assert (corpus.num_train_epochs, corpus.learning_rate, len(corpus.pairs)) == (None, 1e-3, 5)
  assert corpus.pairs.sentences_b[0] == "sentence 5" and corpus.source.endswith("corpus.txt")


def test_epochs_by_the_number_of_pairs():
  """The sample's 5 passes are of the same rule as a user's file."""
  for name, epochs in (("sample", 5.0), ("hard-sample", 5.0)):
    corpus = flow_corpus.load_flow_corpus("target", load_task(name))
    assert FlowSettings().for_corpus(corpus).epochs == epochs
    assert FlowSettings(num_train_epochs=0.5).for_corpus(corpus).epochs == 0.5
  assert [flow_corpus.default_epochs(n) for n in (1, 360, 1500, 1600, 5000, 8000, 10**6)] == [5, 5, 5, 5, 2, 1, 1]


def test_nli_has_the_papers_rate_and_epochs(tmp_path, data):
  (tmp_path / "SNLI").mkdir()
  rows = [f"xxx\tA {i}\tB {i}\t-" for i in range(4)]
  (tmp_path / "SNLI/dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tgold_label", *rows]) + "\n")
  corpus = flow_corpus.load_flow_corpus("nli", load_task("STS-B", data), tmp_path)
  assert (corpus.name, corpus.learning_rate, corpus.num_train_epochs) == ("nli", 2e-5, 0.15)
  assert corpus.pairs.sentences_a == ("A 0", "A 1", "A 2", "A 3") and "SNLI/train.tsv" in corpus.source


@pytest.mark.parametrize(
  ("name", "error", "argument"),
  [
    ("", ConfigError, "flow_corpus"),
    ("targets", ConfigError, "flow_corpus"),
    ("c" * 300, ConfigError, "flow_corpus"),
    (".", DataError, None),
    ("train", DataError, "flow_corpus"),
  ],
)
def test_rejected_corpora(name, error, argument):
  with rejected(error, argument):
    flow_corpus.load_flow_corpus(name, load_task("hard-sample"))


def test_two_settings_that_choose_the_corpus_are_rejected():
  with rejected(ConfigError, "flow_corpus"):
    flow_corpus.load_task_and_corpus(DataSettings("hard-sample"), CorpusSettings("train", True))
