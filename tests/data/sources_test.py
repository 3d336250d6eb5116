"""data/sources.py and data/tfds_source.py: errors of missing data, for each task."""

import pathlib
import time

import pytest

from bert_flow_tf.data.nli import load_corpus
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.errors import DataError
from tests.data.tfds_cases import cut_network

# {task: the first file that its loader looks for}
FILES = {
  "STS-B": "STS/STSBenchmark/sts-train.csv",
  "SICK-R": "SICK/SICK_train.txt",
  "SICK-E": "SICK/SICK_train.txt",
  "STS-15": "STS/STS15-en-test/STS.input.answers-forums.txt",
  "STS-12-16": "STS/STS12-en-test/STS.input.MSRpar.txt",
  "QNLI": "QNLI/dev.tsv",
  "MRPC": "MRPC/msr-para-test.tsv",
  "QQP": "QQP/dev.tsv",
  "ALLNLI": "MNLI/train.tsv",
  "SNLI": "SNLI/train.tsv",
  "MNLI": "MNLI/train.tsv",
}


def _error(task, data_dir):
  with pytest.raises(DataError) as raised:
    load_task(task, data_dir=data_dir, kinds=KINDS)
  message = str(raised.value)
  assert raised.value.argument == "data_dir" and message.startswith(f"data_dir={data_dir}: ") and "\n" not in message
  return message


@pytest.mark.parametrize("task", FILES)
def test_a_missing_file_is_named(tmp_path, task):
  assert f"{tmp_path / FILES[task]} does not exist" in _error(task, tmp_path)


@pytest.mark.parametrize("task", ["STS-B", "STS-15", "QNLI", "MNLI"])
@pytest.mark.parametrize("place", ["above", "nowhere", "file"])
def test_a_data_dir_a_level_away(tmp_path, task, place):
  file = tmp_path / "top" / "mine" / FILES[task]
  file.parent.mkdir(parents=True)
  file.touch()
  (tmp_path / "file").touch()
  data_dir = tmp_path / {"above": "top"}.get(place, place)
  hint = {"above": f"data_dir={tmp_path}/top/mine?", "nowhere": "nowhere is missing", "file": "/file is a file"}
  assert _error(task, data_dir).endswith(hint[place])


@pytest.mark.parametrize("task", ["STS-B", "STS-15", "QNLI", "MNLI"])
def test_data_dir_may_be_the_folder_of_the_files(tmp_path, task):
  file = tmp_path / pathlib.Path(FILES[task]).name
  file.touch()
  with pytest.raises(DataError, match=f"^{tmp_path}/"):
    load_task(task, data_dir=tmp_path, kinds=KINDS)


@pytest.mark.parametrize("task", [*(task for task in FILES if task != "SICK-E"), "nli"])
def test_without_files_or_network(tmp_path, monkeypatch, task):
  cut_network(monkeypatch)
  root, start = tmp_path / "tfds", time.monotonic()
  with pytest.raises(DataError) as raised:
    load_corpus(task, tfds_data_dir=root) if task == "nli" else load_task(task, tfds_data_dir=root, kinds=KINDS)
  message = str(raised.value)
  assert time.monotonic() - start < 10 and "\n" not in message
  assert f" in {root}, then at http" in message and "(ConnectionError: no route to http" in message
  assert pathlib.Path(FILES.get(task, "SNLI/train.tsv")).parts[0] in message.rpartition("data_dir")[2]
  assert not root.exists()
