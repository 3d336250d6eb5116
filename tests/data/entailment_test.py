"""data/entailment.py: labelled pairs by task, the unlabelled ones dropped and counted."""

import numpy as np
import pytest

from bert_flow_tf.data import entailment
from bert_flow_tf.data.entailment import LABELS, load_entailment
from bert_flow_tf.errors import ConfigError, DataError
from tests.data.nli_files import MNLI, SNLI, write
from tests.data.tfds_cases import cut_network, write_tfds
from tests.testing import shared

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


@pytest.fixture
def folder(tmp_path):
  write(tmp_path, "MNLI/train.tsv", MNLI, ["neutral", "entailment"])
  write(tmp_path, "MNLI/dev_matched.tsv", MNLI, ["neutral"])
  write(tmp_path, "MNLI/dev_mismatched.tsv", MNLI, ["contradiction"])
  write(tmp_path, "SNLI/train.tsv", SNLI, ["-", "entailment", "contradiction"])
  write(tmp_path, "SNLI/dev.tsv", SNLI, ["contradiction"])
  write(tmp_path, "SNLI/test.tsv", SNLI, ["-", "-", "neutral"])
  return tmp_path


def _labels(pairs):
  return [LABELS[int(score)] for score in pairs.scores]


def test_allnli_is_all_of_snli_and_the_train_split_of_mnli(folder):
  data = load_entailment("allnli", folder)
  assert list(data.splits) == ["train", "dev"] and data.dropped == {"train": 3, "dev": 0}
  train = data.splits["train"]
  assert train.sentences_a == (
    *("SNLI/train.tsv 1", "SNLI/train.tsv 2", "SNLI/dev.tsv 0", "SNLI/test.tsv 2"),
    *("MNLI/train.tsv 0", "MNLI/train.tsv 1"),
  )
  assert _labels(train) == ["entailment", "contradiction", "contradiction", "neutral", "neutral", "entailment"]
  assert data.splits["dev"].sentences_a == ("MNLI/dev_matched.tsv 0",) and train.sentences_b[0] == '"b 1'
  assert data.source == f"ALLNLI's files in {folder}, pairs without an agreed label left out: 3 in train"


def test_splits_of_the_others(folder):
  mnli, snli = load_entailment("MNLI", folder), load_entailment("SNLI", folder)
  assert {split: _labels(pairs) for split, pairs in mnli.splits.items()} == {
    "train": ["neutral", "entailment"],
    "dev": ["neutral"],
    "test": ["contradiction"],
  }
  assert snli.dropped == {"train": 1, "dev": 0, "test": 2} and _labels(snli.splits["test"]) == ["neutral"]
  assert (mnli.task.eval_split, snli.task.eval_split) == ("dev", "test")


def test_what_is_not_there_is_said(folder):
  (folder / "MNLI/train.tsv").unlink()
  (folder / "SNLI/train.tsv").unlink()
  data = load_entailment("ALLNLI", folder)
  assert len(data.splits["train"]) == 2
  assert "without SNLI/train.tsv, MNLI/train.tsv, which are not there, pairs without" in data.source
  assert "train" not in load_entailment("SNLI", folder).splits


def test_errors(folder):
  write(folder, "SNLI/dev.tsv", SNLI, ["neutral", "maybe"])
  message = r"SNLI/dev\.tsv, line 3: the label is 'maybe', expected contradiction or entailment or neutral or -$"
  with pytest.raises(DataError, match=message):
    load_entailment("SNLI", folder)
  write(folder, "SNLI/dev.tsv", SNLI, ["-"])
  with pytest.raises(DataError, match=r"no pair of its dev split has a label, all 1 are '-'"):
    load_entailment("SNLI", folder)
  with pytest.raises(ConfigError, match="unknown task 'RTE'; allowed are ALLNLI, MNLI, SNLI, SICK-E"):
    load_entailment("RTE", folder)
  with pytest.raises(ConfigError, match="--data_dir is empty"):
    load_entailment("SNLI", "")
  with pytest.raises(DataError, match=r"did you mean --data_dir="):
    load_entailment("MNLI", folder / "MNLI")
  with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
    load_entailment("SICK-E", folder / "nowhere")
  with pytest.raises(DataError, match=r"SICK-E is not in TensorFlow Datasets: pass --data_dir=FOLDER"):
    load_entailment("SICK-E")


def test_sick(tmp_path):
  (tmp_path / "SICK").mkdir()
  for name, label in (("train", "NEUTRAL"), ("trial", "ENTAILMENT"), ("test_annotated", "CONTRADICTION")):
    (tmp_path / f"SICK/SICK_{name}.txt").write_text(f"{SICK}1\tA {name}\tB\t4.5\t{label}\n")
  data = load_entailment("sick-e", tmp_path)
  assert {split: (pairs.sentences_a[0], *_labels(pairs)) for split, pairs in data.splits.items()} == {
    "train": ("A train", "neutral"),
    "dev": ("A trial", "entailment"),
    "test": ("A test_annotated", "contradiction"),
  }


def test_the_real_files():
  """The counts that the files' own columns have."""
  folder = shared("data")
  snli, sick = load_entailment("SNLI", folder), load_entailment("SICK-E", folder)
  found = {split: np.bincount(pairs.scores.astype(int)).tolist() for split, pairs in snli.splits.items()}
  assert found == {"dev": [3278, 3329, 3235], "test": [3237, 3368, 3219]}
  assert np.bincount(sick.splits["test"].scores.astype(int)).tolist() == [720, 1414, 2793]
  assert snli.splits["dev"].sentences_b[0].startswith("the sisters are hugging goodbye")


def test_tfds(tmp_path, monkeypatch):
  import tensorflow_datasets as tfds

  cut_network(monkeypatch)
  for name in ("MNLI", "SNLI"):
    data_set = entailment._TFDS[name]
    version = str(tfds.builder(data_set.tfds, data_dir=tmp_path).version)
    # TFDS writes SNLI's "-" as -1.
    labels = ["neutral", "contradiction", *([-1] if name == "SNLI" else [])]
    rows = {
      split: [{"premise": f"{name} {split} {label}", "hypothesis": "ü", "label": label} for label in labels]
      for split in data_set.tfds_splits.values()
    }
    write_tfds(tmp_path, data_set.tfds, version, rows)
  data = load_entailment("ALLNLI", tfds_data_dir=tmp_path)
  assert data.dropped == {"train": 3, "dev": 0} and len(data.splits["train"]) == 8
  for pairs in data.splits.values():
    assert [a.split()[-1] for a in pairs.sentences_a] == _labels(pairs) and set(pairs.sentences_b) == {"ü"}
  assert {a.split()[1] for a in data.splits["dev"].sentences_a} == {"validation_matched"}
  assert data.source.startswith("TensorFlow Datasets multi_nli/1.")


def test_without_files_or_network(tmp_path, monkeypatch):
  cut_network(monkeypatch)
  with pytest.raises(
    DataError, match=r"^SNLI cannot be had from TensorFlow Datasets: .* SNLI/test\.tsv, in GLUE's layout"
  ):
    load_entailment("SNLI", tfds_data_dir=tmp_path / "tfds")
