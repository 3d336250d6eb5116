"""data/glue.py: QNLI, MRPC and QQP from files and from TensorFlow Datasets."""

import csv

import numpy as np
import pytest

from bert_flow_tf.data import glue
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import DataError
from tests.data.tfds_cases import cut_network, write_tfds
from tests.testing import shared

TASKS = {task.name: task for task in (glue.QNLI, glue.MRPC, glue.QQP)}
SIZES = {"train": 6, "dev": 4, "test": 5}


def _is_hidden(task, split):
  return split == "test" and task is not glue.MRPC


def _labels(split):
  return [i % 3 == 0 for i in range(SIZES[split])]


def _text(task, split):
  """Returns a file in GLUE's format: index, sentences, label; in MRPC the label is first."""
  words = {gold: label for label, gold in task.labels.items()}
  columns = ["index", *task.columns]
  rows = [[str(i), f'"{split} {i}', f"other {i}", words[label]] for i, label in enumerate(_labels(split))]
  if _is_hidden(task, split):
    columns, *rows = ([*row[:3]] for row in (columns, *rows))
  order = [3, 0, 1, 2] if task.name == "MRPC" else range(len(columns))
  return "".join("\t".join(row[i] for i in order) + "\n" for row in (columns, *rows))


def _write(root, task, splits=tuple(SIZES)):
  folder = root / task.name
  folder.mkdir(parents=True)
  for split in splits:
    (folder / task.files[split]).write_text(_text(task, split))
  return folder


def _assert_artificial(split, pairs, labeled):
  assert pairs.sentences_a == tuple(f'"{split} {i}' for i in range(SIZES[split]))
  assert pairs.sentences_b == tuple(f"other {i}" for i in range(SIZES[split]))
  expected = np.array(_labels(split), float) if labeled else np.full(SIZES[split], np.nan)
  np.testing.assert_array_equal(pairs.scores, expected)


def _real_rows(path):
  with open(path, encoding="utf-8-sig", newline="") as file:
    _, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
  return rows


def test_real_qnli():
  folder = shared("data")
  data = load_task("qnli-regression", data_dir=folder)
  dev, test = data.splits["dev"], data.splits["test"]
  rows = _real_rows(folder / "QNLI" / "dev.tsv")
  assert list(data.splits) == ["dev", "test"] and len(dev) == len(test) == 5463 and data.spec.eval_split == "dev"
  assert dev.sentences_a == tuple(row[1] for row in rows) and dev.sentences_b == tuple(row[2] for row in rows)
  assert dev.scores.tolist() == [row[3] == "entailment" for row in rows]
  assert np.isnan(test.scores).all()
  assert data.source == f"QNLI's files in {folder}/QNLI, without train.tsv, which is missing"
  assert len(data.fitting_pairs(use_full=True)) == 10926
  with pytest.raises(DataError) as raised:
    data.fitting_pairs(use_full=False)
  assert raised.value.argument == "use_full_for_training"


def test_real_mrpc():
  folder = shared("data")
  data = load_task("MRPC", data_dir=folder)
  assert {split: len(pairs) for split, pairs in data.splits.items()} == {"train": 3576, "dev": 500, "test": 1725}
  for split, name in glue.MRPC.files.items():
    rows, pairs = _real_rows(folder / "MRPC" / name), data.splits[split]
    assert pairs.sentences_a == tuple(row[3] for row in rows) and pairs.sentences_b == tuple(row[4] for row in rows)
    assert pairs.scores.tolist() == [float(row[0]) for row in rows]
  assert data.spec.eval_split == "test" and data.splits["test"].scores.sum() == 1147


@pytest.mark.parametrize("name", TASKS)
def test_files(tmp_path, name):
  task = TASKS[name]
  _write(tmp_path, task)
  data = load_task(f"{name}-regression", data_dir=tmp_path)
  assert list(data.splits) == list(SIZES) and data.spec.eval_split == task.eval_split
  for split, pairs in data.splits.items():
    _assert_artificial(split, pairs, not _is_hidden(task, split))
  assert data.source == f"{name}'s files in {tmp_path / name}"


@pytest.mark.parametrize("name", TASKS)
def test_only_the_evaluated_split_is_required(tmp_path, name):
  task = TASKS[name]
  _write(tmp_path / "top", task, [task.eval_split])
  data = load_task(name, data_dir=tmp_path / "top")
  assert list(data.splits) == [task.eval_split] and data.source.count("which is missing") == 2


def test_short_lines_are_left_out(tmp_path):
  folder = _write(tmp_path, glue.QQP)
  (folder / "train.tsv").write_text(_text(glue.QQP, "train") + "x\tcut\n\nshort\tb\t1\n" + "y\tc\td\t0\n")
  data = load_task("QQP", data_dir=tmp_path)
  assert len(data.splits["train"]) == 7 and data.splits["train"].sentences_a[-1] == "c"
  assert data.source.endswith(", 2 malformed lines of train.tsv left out")


@pytest.mark.parametrize("name", TASKS)
def test_data_dir_may_be_the_tasks_own_folder(tmp_path, name):
  task = TASKS[name]
  folder = _write(tmp_path, task)
  expected = load_task(name, data_dir=tmp_path)
  data = load_task(name, data_dir=f"{folder}/")
  assert {split: pairs.sentences_a for split, pairs in data.splits.items()} == {
    split: pairs.sentences_a for split, pairs in expected.splits.items()
  }
  folder.rename(tmp_path / f"{name}-Regression")
  assert list(load_task(name, data_dir=tmp_path).splits) == list(SIZES)


def test_mrpc_in_glues_layout_is_evaluated_on_test_if_it_has_labels(tmp_path):
  for split in SIZES:
    (tmp_path / f"{split}.tsv").write_text(_text(glue.MRPC, split))
  data = load_task("mrpc-regression", data_dir=tmp_path)
  for split, pairs in data.splits.items():
    _assert_artificial(split, pairs, labeled=True)
  assert data.spec.eval_split == "test"
  hidden = "".join(f'{i}\t-\t-\t"test {i}\tother {i}\n' for i in range(SIZES["test"]))
  (tmp_path / "test.tsv").write_text("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + hidden)
  data = load_task("MRPC", data_dir=tmp_path)
  _assert_artificial("test", data.splits["test"], labeled=False)
  assert data.spec.eval_split == "dev" and data.source.endswith(", evaluated on dev, because test has no gold")
  # GLUE's script leaves this file in the folder.
  (tmp_path / "msr_paraphrase_test.txt").write_text(_text(glue.MRPC, "test"))
  data = load_task("MRPC", data_dir=tmp_path)
  _assert_artificial("test", data.splits["test"], labeled=True)
  assert data.spec.eval_split == "test"


@pytest.mark.parametrize(
  ("old", "new", "line"),
  [("not_entailment", "neutral", 3), ("not_entailment", "-1", 3), ("label", "gold", 1)],
)
def test_the_evaluated_split_needs_labels(tmp_path, old, new, line):
  folder = _write(tmp_path, glue.QNLI)
  path = folder / "dev.tsv"
  path.write_text(path.read_text().replace(old, new))
  with pytest.raises(DataError) as raised:
    load_task("QNLI", data_dir=tmp_path)
  assert str(raised.value).startswith(f"{path}, line {line}: ")


def _write_tfds(root, task, hidden=("test",)):
  import tensorflow_datasets as tfds

  names = tfds.builder(f"glue/{task.config}", data_dir=root).info.features["label"].names
  (negative,) = set(names) - {task.positive}

  def examples(split):
    for i, label in enumerate(_labels(split)):
      word = -1 if split in hidden else task.positive if label else negative
      yield {task.text[0]: f'"{split} {i}', task.text[1]: f"other {i}", "label": word, "idx": i}

  version = str(tfds.builder(f"glue/{task.config}", data_dir=root).version)
  stored = {"train": "train", "dev": "validation", "test": "test"}
  write_tfds(root, f"glue/{task.config}", version, {stored[split]: list(examples(split)) for split in SIZES})
  return version


@pytest.mark.parametrize("name", TASKS)
def test_tfds(tmp_path, monkeypatch, name):
  cut_network(monkeypatch)
  task = TASKS[name]
  version = _write_tfds(tmp_path, task)
  data = load_task(name, tfds_data_dir=tmp_path)
  for split, pairs in data.splits.items():
    _assert_artificial(split, pairs, split != "test")
  assert data.spec.eval_split == "dev" and data.spec.name == name
  # TFDS hides MRPC's test labels too.
  note = ", evaluated on dev, because test has no gold" if name == "MRPC" else ""
  assert data.source == f"TensorFlow Datasets glue/{task.config}/{version} in {tmp_path}{note}"


def test_a_split_with_hidden_labels_is_not_evaluated(tmp_path):
  _write_tfds(tmp_path, glue.QNLI, hidden=("dev", "test"))
  with pytest.raises(DataError, match=r"^glue/qnli, validation split, row 1: "):
    load_task("QNLI", tfds_data_dir=tmp_path)


def test_the_addresses_of_mrpc_are_those_of_tfds():
  from tensorflow_datasets.text import glue as theirs

  assert set(glue.MRPC.urls) == {theirs._MRPC_TRAIN, theirs._MRPC_TEST, theirs._MRPC_DEV_IDS}
