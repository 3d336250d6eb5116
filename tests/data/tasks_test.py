"""data/task.py and data/tasks.py: a task's pairs and targets, the registry of tasks, and `load_task`."""

import pathlib

import numpy as np
import pytest

from bert_flow_tf.data import tasks
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData, TaskSpec
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import rejected

# {task: (kind, metric, positive class, evaluated split)} in the order of messages; a new task is a row here.
TASKS = {
  **dict.fromkeys(["STS-B", "SICK-R"], ("similarity", "correlation", None, "test")),
  **dict.fromkeys([f"STS-{year}" for year in range(12, 17)], ("similarity", "correlation", None, "test")),
  "STS-12-16": ("similarity", "correlation", None, "test"),
  "QNLI": ("binary", "auc", "entailment", "dev"),
  "MRPC": ("binary", "auc", "equivalent", "test"),
  "QQP": ("binary", "auc", "duplicate", "dev"),
  "RTE": ("binary", "auc", "entailment", "dev"),
  **dict.fromkeys(["sample", "hard-sample"], ("similarity", "correlation", None, "test")),
  "custom": ("similarity", "correlation", None, None),
  **dict.fromkeys(["ALLNLI", "MNLI"], ("classes", "accuracy", None, "dev")),
  **dict.fromkeys(["SNLI", "SICK-E"], ("classes", "accuracy", None, "test")),
}
SCORED = [name for name, (kind, *_) in TASKS.items() if kind != "classes"]


def test_the_registry():
  found = {spec.name: (spec.kind, spec.metric, spec.positive, spec.eval_split) for spec in tasks.TASKS}
  assert list(found.items()) == list(TASKS.items())
  assert TaskSpec("a task", "", None).with_metric("auc").kind == "binary"


@pytest.mark.parametrize("name", ["sts", "", "STS-B ", "STS_B", None])
def test_an_unknown_task_lists_the_known(name):
  with rejected(ConfigError, "task", match=f"one of {', '.join(SCORED)}$"):
    find_task(name)


def test_a_file_as_task_points_to_custom(tmp_path):
  path = tmp_path / "my.tsv"
  path.touch()
  with pytest.raises(ConfigError, match=r"task=custom and data_dir=.*my\.tsv"):
    find_task(str(path))


def test_tasks_with_classes_are_found_on_request():
  with pytest.raises(ConfigError):
    find_task("SNLI")
  assert [find_task(name, tasks.KINDS).name for name in TASKS] == list(TASKS)
  with rejected(ConfigError, "stsb_gold"):
    load_task("SNLI", stsb_gold="x", kinds=tasks.KINDS)


def test_finds_the_spellings_of_the_published_code():
  names = {"StSb": "STS-B", "sick-r": "SICK-R", "SickR": "SICK-R", "STS12": "STS-12", "sts-16": "STS-16"}
  names |= {"STS12-16": "STS-12-16", "QNLI-Regression": "QNLI", "mrpc-regression": "MRPC", "CUSTOM": "custom"}
  assert {spelling: find_task(spelling).name for spelling in names} == names


def test_no_two_tasks_share_a_spelling():
  spellings = [spelling.lower() for spec in tasks.TASKS for spelling in (spec.name, *spec.aliases)]
  assert len(set(spellings)) == len(spellings)


def test_the_packaged_samples(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)  # they are loaded from any folder
  data, hard = load_task("Sample"), load_task("hard-sample", data_dir="nowhere")
  assert {split: len(pairs) for split, pairs in data.splits.items()} == {"train": 500, "dev": 400, "test": 700}
  assert {split: len(pairs) for split, pairs in hard.splits.items()} == {"test": 360}
  assert len(data.fitting_pairs(use_full=True)) == 1600
  for pairs in (*data.splits.values(), hard.splits["test"]):
    assert pairs.scores.min() == 0 and pairs.scores.max() == 5 and len(set(pairs.scores)) > 5
    assert all(pairs.sentences_a) and all(pairs.sentences_b)
  with rejected(DataError, "use_full_for_training"):
    hard.fitting_pairs(use_full=False)


@pytest.mark.parametrize("argument", ["data_dir", "tfds_data_dir", "stsb_gold"])
def test_an_empty_path_is_an_error(argument):
  with rejected(ConfigError, argument):
    load_task("STS-B", **{argument: ""})


def test_a_path_may_begin_with_the_home_folder(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  with pytest.raises(DataError) as raised:
    load_task("STS-B", data_dir=pathlib.Path("~/data"))
  assert str(tmp_path / "data" / "STS" / "STSBenchmark" / "sts-train.csv") in str(raised.value)


def _pairs(first, scores):
  return SentencePairs([f"{first} {i}" for i in range(len(scores))], ["b"] * len(scores), scores)


def _task(splits, **fields):
  return TaskData(TaskSpec("a task", "", None, **fields), splits, "here")


def test_full_target_set_is_train_then_dev_then_test():
  data = _task({"test": _pairs("test", [3.0]), "train": _pairs("train", [1.0]), "dev": _pairs("dev", [2.0])})
  assert list(data.splits) == ["train", "dev", "test"] == data.splits_with_gold(["train", "dev", "test"])
  assert data.fitting_pairs(use_full=True).sentences_a == ("train 0", "dev 0", "test 0")
  assert data.all_pairs().sentences_a == ("train 0", "dev 0", "test 0")
  assert data.fitting_pairs(use_full=False) is data.splits["train"]


def test_targets():
  pairs = _pairs("x", [1.0, 4.0, np.nan])
  np.testing.assert_array_equal(_task({"test": pairs}, scale=(0.0, 4.0)).targets(pairs), [0.25, 1, np.nan])
  assert _task({"test": pairs}, kind="classes", labels=("a", "b")).targets(pairs) is pairs.scores
