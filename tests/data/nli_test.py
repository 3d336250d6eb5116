"""data/nli.py: the parts of ALLNLI, MNLI and SNLI, their labels, and the corpus of their sentences."""

import numpy as np
import pytest

from bert_flow_tf.data.flow_corpus import load_flow_corpus
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.data.siamese_task import training_pairs
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import shared

SNLI = "index\tcaptionID\tsentence1\tsentence2\tlabel1\tgold_label\n"
MNLI = "index\tgenre\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"


def write(root, file, header, labels):
  """Writes a file with a pair per label below `root`; returns its path."""
  path = root / file
  path.parent.mkdir(parents=True, exist_ok=True)
  unused = ["x"] * (header.count("\t") - 4)
  rows = ["\t".join([str(i), "-", f"{file} {i}", f'"b {i}', *unused, label]) for i, label in enumerate(labels)]
  path.write_text(header + "".join(row + "\n" for row in rows))
  return path


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


def _corpus(*paths):
  corpus = load_flow_corpus("nli", None, *paths)
  return corpus.pairs, corpus.source


def _labels(pairs):
  return [LABELS[int(score)] for score in pairs.scores]


def test_allnli_is_all_of_snli_and_the_train_split_of_mnli(folder):
  data = _load("allnli", folder)
  assert list(data.splits) == ["train", "dev"] and data.dropped == {"train": 3}
  train = data.splits["train"]
  assert train.sentences_a == (
    *("MNLI/train.tsv 0", "MNLI/train.tsv 1"),
    *("SNLI/train.tsv 1", "SNLI/train.tsv 2", "SNLI/dev.tsv 0", "SNLI/test.tsv 2"),
  )
  assert _labels(train) == ["neutral", "entailment", "entailment", "contradiction", "contradiction", "neutral"]
  assert data.splits["dev"].sentences_a == ("MNLI/dev_matched.tsv 0",) and train.sentences_b[1] == '"b 1'
  assert (
    data.source
    == f"ALLNLI's files in {folder}/MNLI and {folder}/SNLI, pairs without an agreed label left out: 3 in train"
  )
  assert data.targets(train) is train.scores and data.labels == LABELS
  snli = _load("SNLI", folder)
  assert snli.dropped == {"train": 1, "test": 2} and _labels(snli.splits["test"]) == ["neutral"]


def test_a_split_without_an_agreed_label(folder):
  write(folder, "SNLI/dev.tsv", SNLI, ["-"])
  with pytest.raises(DataError, match=r"^SNLI: .* dev split"):
    _load("SNLI", folder)


def test_the_corpus_keeps_pairs_without_a_label(folder):
  with (folder / "SNLI/train.tsv").open("a") as file:
    file.write("cut\n")
  pairs, source = _corpus(folder)
  counts = {"MNLI/train.tsv": 2, "SNLI/train.tsv": 3, "SNLI/dev.tsv": 1, "SNLI/test.tsv": 3}
  assert pairs.sentences_a == tuple(f"{file} {i}" for file, count in counts.items() for i in range(count))
  assert pairs.sentences_b[:2] == ('"b 0', '"b 1')
  assert (
    source == f"SNLI and MNLI's files in {folder}/MNLI and {folder}/SNLI, 1 malformed line of SNLI/train.tsv left out"
  )
  real, source = _corpus(shared("data"))
  assert len(real) == 9842 + 9824 and "without MNLI/train.tsv, SNLI/train.tsv" in source
  assert real.sentences_a[0] == "two women are embracing while holding to go packages"
  with pytest.raises(ConfigError):
    _corpus("")


def test_folders_of_mnli_and_snli(folder):
  inside = _load("ALLNLI", folder).splits["train"]
  for name in ("ALLNLI", "STS-B", "ALLNLI/"):  # the first does not exist; the second has files of other data
    other = folder / "STS-B"
    other.mkdir(exist_ok=True)
    (other / "train.tsv").write_text("another\tfile\n")
    next_to_it = _load("ALLNLI", f"{folder}/{name}")
    assert next_to_it.splits["train"].sentences_a == inside.sentences_a
    assert next_to_it.source.startswith(f"ALLNLI's files in {folder}/MNLI and ")


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
  full = training_pairs(allnli, use_full=True)
  of_test = [name.startswith("MNLI/test_matched") for name in full.pairs.sentences_a]
  assert sum(of_test) == 2 and (full.targets[of_test] == 0).all() and len(of_test) == len(allnli.splits["train"]) + 3
  (folder / "MNLI/dev_mismatched.tsv").unlink()
  assert len(_load("MNLI", folder).splits["test"]) == 2
