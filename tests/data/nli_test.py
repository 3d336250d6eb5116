"""data/nli.py: SNLI, MNLI and SICK-E, and the corpus of their sentences."""

import gzip

import numpy as np
import pytest

from bert_flow_tf.data import nli
from bert_flow_tf.data.nli import LABELS, load_corpus
from bert_flow_tf.data.tasks import KINDS, load_task
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


def _load(name, *paths, **arguments):
  return load_task(name, *paths, **arguments, kinds=KINDS)


def _labels(pairs):
  return [LABELS[int(score)] for score in pairs.scores]


def test_allnli_is_all_of_snli_and_the_train_split_of_mnli(folder):
  data = _load("allnli", folder)
  assert list(data.splits) == ["train", "dev"] and data.dropped == {"train": 3, "dev": 0}
  train = data.splits["train"]
  assert train.sentences_a == (
    *("MNLI/train.tsv 0", "MNLI/train.tsv 1"),
    *("SNLI/train.tsv 1", "SNLI/train.tsv 2", "SNLI/dev.tsv 0", "SNLI/test.tsv 2"),
  )
  assert _labels(train) == ["neutral", "entailment", "entailment", "contradiction", "contradiction", "neutral"]
  assert data.splits["dev"].sentences_a == ("MNLI/dev_matched.tsv 0",) and train.sentences_b[1] == '"b 1'
  assert data.source == f"ALLNLI's files in {folder}, pairs without an agreed label left out: 3 in train"
  assert data.targets(train) is train.scores and data.labels == LABELS


def test_splits_of_the_others(folder):
  mnli, snli = _load("MNLI", folder), _load("SNLI", folder)
  assert {split: _labels(pairs) for split, pairs in mnli.splits.items()} == {
    "train": ["neutral", "entailment"],
    "dev": ["neutral"],
    "test": ["contradiction"],
  }
  assert snli.dropped == {"train": 1, "dev": 0, "test": 2} and _labels(snli.splits["test"]) == ["neutral"]
  assert (mnli.spec.eval_split, snli.spec.eval_split) == ("dev", "test")


def test_missing_files_are_in_the_source(folder):
  (folder / "MNLI/train.tsv").unlink()
  (folder / "SNLI/train.tsv").unlink()
  data = _load("ALLNLI", folder)
  assert len(data.splits["train"]) == 2
  assert "without MNLI/train.tsv, SNLI/train.tsv, which are missing, pairs without" in data.source
  (folder / "SNLI/test.tsv").unlink()
  snli = _load("SNLI", folder)
  assert list(snli.splits) == ["dev"] and snli.spec.eval_split is None and snli.splits_with_gold(["dev"]) == ["dev"]


def test_malformed_labels(folder):
  write(folder, "SNLI/dev.tsv", SNLI, ["neutral", "maybe"])
  with pytest.raises(DataError, match=r"SNLI/dev\.tsv, line 3: "):
    _load("SNLI", folder)
  write(folder, "SNLI/dev.tsv", SNLI, ["-"])
  with pytest.raises(DataError, match=r"^SNLI: .* dev split"):
    _load("SNLI", folder)


def test_sick_e(tmp_path):
  (tmp_path / "SICK").mkdir()
  for name, label in (("train", "NEUTRAL"), ("trial", "ENTAILMENT"), ("test_annotated", "CONTRADICTION")):
    (tmp_path / f"SICK/SICK_{name}.txt").write_text(f"{SICK}1\tA {name}\tB\t4.5\t{label}\n")
  data = _load("sick-e", tmp_path)
  assert {split: (pairs.sentences_a[0], *_labels(pairs)) for split, pairs in data.splits.items()} == {
    "train": ("A train", "neutral"),
    "dev": ("A trial", "entailment"),
    "test": ("A test_annotated", "contradiction"),
  }
  with pytest.raises(DataError) as raised:
    _load("SICK-E")
  assert raised.value.argument == "data_dir"


def test_the_real_files():
  """Compares with counts of the files' columns."""
  folder = shared("data")
  snli, sick = _load("SNLI", folder), _load("SICK-E", folder)
  counts = {split: np.bincount(pairs.scores.astype(int)).tolist() for split, pairs in snli.splits.items()}
  assert counts == {"dev": [3278, 3329, 3235], "test": [3237, 3368, 3219]}
  assert np.bincount(sick.splits["test"].scores.astype(int)).tolist() == [720, 1414, 2793]
  assert snli.splits["dev"].sentences_b[0].startswith("the sisters are hugging goodbye")
  pairs, source = load_corpus("nli", folder)
  assert len(pairs) == 9842 + 9824 and "without MNLI/train.tsv, SNLI/train.tsv" in source
  assert pairs.sentences_a[0] == "two women are embracing while holding to go packages"


def test_a_corpus_keeps_pairs_without_a_label(folder):
  pairs, source = load_corpus("NLI", data_dir=folder)
  counts = {"MNLI/train.tsv": 2, "SNLI/train.tsv": 3, "SNLI/dev.tsv": 1, "SNLI/test.tsv": 3}
  assert pairs.sentences_a == tuple(f"{file} {i}" for file, count in counts.items() for i in range(count))
  assert pairs.sentences_b[:2] == ('"b 0', '"b 1') and np.isnan(pairs.scores).all()
  assert source == f"SNLI and MNLI's files in {folder}"


def test_malformed_lines(folder):
  path = folder / "SNLI/train.tsv"
  with path.open("a") as file:
    file.write("cut\n")
  pairs, source = load_corpus("nli", folder)
  assert len(pairs) == 9 and source.endswith(", 1 malformed line of SNLI/train.tsv left out")


def test_folders_of_mnli_and_snli(folder):
  inside, own = _load("ALLNLI", folder).splits["train"], _load("MNLI", folder).splits
  for name in ("ALLNLI", "ALLNLI/", "STS-B"):  # folders of other tasks, of which the last two exist
    (folder / "STS-B").mkdir(exist_ok=True)
    beside = _load("ALLNLI", f"{folder}/{name}")
    assert beside.splits["train"].sentences_a == inside.sentences_a
    assert beside.source.startswith(f"ALLNLI's files in {folder}, ")
  data = _load("mnli", f"{folder}/MNLI/")
  assert {split: pairs.sentences_a for split, pairs in data.splits.items()} == {
    split: pairs.sentences_a for split, pairs in own.items()
  }


def test_labels_as_published(folder):
  path = folder / "MNLI/dev_matched.tsv"
  header, row = path.read_text().splitlines()
  path.write_text(f"{header}\n{row.replace('x', 'entailment', 1)}\n")
  write(folder, "MNLI/test_matched.tsv", MNLI.replace("\tlabel1\tlabel2\tgold_label", "\tx"), ["-", "-"])
  allnli, mnli = (_load(name, folder, as_published=True) for name in ("ALLNLI", "MNLI"))
  assert _labels(allnli.splits["dev"]) == _labels(mnli.splits["dev"]) == ["entailment"]
  assert _labels(_load("MNLI", folder).splits["dev"]) == ["neutral"]
  assert _labels(allnli.splits["train"])[-3:] == ["contradiction"] * 3 and allnli.dropped["train"] == 1
  assert np.isnan(mnli.splits["test"].scores).all() and mnli.splits_with_gold(["dev", "test"]) == ["dev"]
  assert mnli.splits["test"].sentences_a[0] == "MNLI/test_matched.tsv 0" and mnli.dropped["test"] == 0
  (folder / "MNLI/dev_mismatched.tsv").unlink()
  assert len(_load("MNLI", folder).splits["test"]) == 2


def test_tfds(tmp_path, monkeypatch):
  import tensorflow_datasets as tfds

  cut_network(monkeypatch)
  for data_set in (nli.MNLI, nli.SNLI):
    version = str(tfds.builder(data_set.tfds, data_dir=tmp_path).version)
    # TFDS writes SNLI's "-" as -1.
    labels = ["neutral", "contradiction", *([-1] if data_set is nli.SNLI else [])]
    rows = {
      split: [{"premise": f"{data_set.name} {split} {label}", "hypothesis": "ü", "label": label} for label in labels]
      for split in data_set.tfds_splits.values()
    }
    write_tfds(tmp_path, data_set.tfds, version, rows)
  data = _load("ALLNLI", tfds_data_dir=tmp_path)
  assert data.dropped == {"train": 3, "dev": 0} and len(data.splits["train"]) == 8
  for pairs in data.splits.values():
    assert [a.split()[-1] for a in pairs.sentences_a] == _labels(pairs) and set(pairs.sentences_b) == {"ü"}
  assert {a.split()[1] for a in data.splits["dev"].sentences_a} == {"validation_matched"}
  pairs, source = load_corpus("nli", tfds_data_dir=tmp_path)
  assert [a.rsplit(" ", 1)[0] for a in pairs.sentences_a] == [
    *["MNLI train"] * 2,
    *(f"SNLI {split}" for split in ("train", "validation", "test") for _ in range(3)),
  ]
  assert np.isnan(pairs.scores).all()
  assert (
    source.startswith("TensorFlow Datasets multi_nli/1.") and f"in {tmp_path} and TensorFlow Datasets snli" in source
  )


def test_a_file_is_a_corpus(tmp_path, monkeypatch):
  path = tmp_path / "corpus.txt.gz"
  path.write_bytes(gzip.compress(b"one\ntwo\n"))
  pairs, source = load_corpus(path)
  assert (pairs.sentences_a, pairs.sentences_b, source) == (("one",), ("two",), f"1 pair of {path}")
  monkeypatch.setenv("HOME", str(tmp_path))
  assert len(load_corpus("~/corpus.txt.gz")[0]) == 1


@pytest.mark.parametrize(("arguments", "argument"), [(("nli", ""), "data_dir"), (("nli", None, ""), "tfds_data_dir")])
def test_an_empty_path_is_an_error(arguments, argument):
  with pytest.raises(ConfigError) as raised:
    load_corpus(*arguments)
  assert raised.value.argument == argument
