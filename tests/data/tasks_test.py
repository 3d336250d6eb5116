"""data/tasks.py: the registry of tasks, and `load_task`."""

import pathlib
import subprocess
import sys

import pytest

from bert_flow_tf.data import tasks
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import REPO


@pytest.mark.parametrize("name", ["sts", "", "STS-B ", "STS_B", None])
def test_an_unknown_task_lists_the_known(name):
  with pytest.raises(ConfigError) as raised:
    find_task(name)
  assert raised.value.argument == "task"
  assert str(raised.value).endswith(
    "STS-14, STS-15, STS-16, STS-12-16, QNLI, MRPC, QQP, RTE, sample, hard-sample, custom"
  )


def test_tasks_with_classes_are_found_on_request():
  with pytest.raises(ConfigError):
    find_task("SNLI")
  assert find_task("sicke", tasks.KINDS).name == "SICK-E" and find_task("STSb", tasks.KINDS).name == "STS-B"
  assert [spec.name for spec in tasks.TASKS if spec.kind == "classes"] == ["ALLNLI", "MNLI", "SNLI", "SICK-E"]
  with pytest.raises(ConfigError) as raised:
    load_task("SNLI", stsb_gold="x", kinds=tasks.KINDS)
  assert raised.value.argument == "stsb_gold"


@pytest.mark.parametrize(
  ("spelling", "name"),
  [
    *((name, "STS-B") for name in ("STS-B", "sts-b", "stsb", "StSb")),
    ("sick-r", "SICK-R"),
    ("SickR", "SICK-R"),
    *((f"STS{year}", f"STS-{year}") for year in range(12, 17)),
    ("sts-16", "STS-16"),
    ("sts-12-16", "STS-12-16"),
    ("STS12-16", "STS-12-16"),
    *((f"{name}-Regression", name) for name in ("QNLI", "MRPC", "QQP")),
    ("qqp", "QQP"),
    ("CUSTOM", "custom"),
  ],
)
def test_finds_the_spellings_of_the_published_code(spelling, name):
  assert find_task(spelling).name == name


def test_metrics_and_scales():
  figures = {spec.name: (spec.metric, spec.positive, spec.scale, spec.eval_split) for spec in tasks.TASKS}
  assert figures["SICK-R"] == ("correlation", None, (0.0, 5.0), "test")
  assert figures["STS-14"] == figures["STS-12-16"] == figures["STS-B"] == ("correlation", None, (0.0, 5.0), "test")
  assert figures["QNLI"] == ("auc", "entailment", (0.0, 1.0), "dev")
  assert figures["MRPC"] == ("auc", "equivalent", (0.0, 1.0), "test")
  assert figures["RTE"] == ("auc", "entailment", (0.0, 1.0), "dev")
  assert figures["QQP"] == ("auc", "duplicate", (0.0, 1.0), "dev")
  assert figures["custom"][-1] is None
  assert [spec.name for spec in tasks.TASKS if spec.one_file_for_all_splits] == [
    *(f"STS-{year}" for year in range(12, 17)),
    "STS-12-16",
  ]


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
  with pytest.raises(DataError) as raised:
    hard.fitting_pairs(use_full=False)
  assert raised.value.argument == "use_full_for_training"


@pytest.mark.parametrize("argument", ["data_dir", "tfds_data_dir", "stsb_gold"])
def test_an_empty_path_is_an_error(argument):
  with pytest.raises(ConfigError) as raised:
    load_task("STS-B", **{argument: ""})
  assert raised.value.argument == argument


def test_a_path_may_begin_with_the_home_folder(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  with pytest.raises(DataError) as raised:
    load_task("STS-B", data_dir=pathlib.Path("~/data"))
  assert str(tmp_path / "data" / "STS" / "STSBenchmark" / "sts-train.csv") in str(raised.value)


def test_reading_files_imports_neither_tensorflow_nor_its_data_sets():
  heavy = ("tensorflow", "tensorflow_datasets", "tf_keras", "requests")
  code = (
    "import sys; from bert_flow_tf.data.tasks import load_task; load_task('sample'); "
    f"print([name for name in {heavy} if name in sys.modules])"
  )
  done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
  assert done.stdout == "[]\n"
