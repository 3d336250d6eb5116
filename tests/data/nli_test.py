import gzip

import numpy as np
import pytest

from bert_flow_tf.data.nli import load_corpus
from bert_flow_tf.errors import ConfigError, DataError
from tests.data.nli_files import MNLI, SNLI, write
from tests.data.tfds_cases import cut_network, write_tfds
from tests.testing import shared


@pytest.fixture
def folder(tmp_path):
  write(tmp_path, "MNLI/train.tsv", MNLI, ["neutral", "entailment"])
  write(tmp_path, "MNLI/dev_matched.tsv", MNLI, ["neutral"])
  write(tmp_path, "SNLI/train.tsv", SNLI, ["-", "entailment"])
  write(tmp_path, "SNLI/dev.tsv", SNLI, ["contradiction"])
  write(tmp_path, "SNLI/test.tsv", SNLI, ["-"])
  return tmp_path


def test_all_of_snli_and_the_train_split_of_mnli(folder):
  pairs, source = load_corpus("NLI", data_dir=folder)
  counts = {"MNLI/train.tsv": 2, "SNLI/train.tsv": 2, "SNLI/dev.tsv": 1, "SNLI/test.tsv": 1}
  assert pairs.sentences_a == tuple(f"{file} {i}" for file, count in counts.items() for i in range(count))
  assert pairs.sentences_b[:2] == ('"b 0', '"b 1') and np.isnan(pairs.scores).all()
  assert source == f"6 pairs of SNLI and MNLI in {folder}"


def test_what_is_not_there_is_said(folder):
  (folder / "MNLI/train.tsv").unlink()
  assert (
    load_corpus("nli", folder)[1] == f"4 pairs of SNLI and MNLI in {folder}, without MNLI/train.tsv, which is not there"
  )
  for name in ("dev", "test"):
    (folder / f"SNLI/{name}.tsv").unlink()
  assert load_corpus("nli", folder)[1].endswith(
    "without MNLI/train.tsv, SNLI/dev.tsv, SNLI/test.tsv, which are not there"
  )
  (folder / "SNLI/train.tsv").rename(folder / "SNLI/all.tsv")
  with pytest.raises(DataError, match=r"have no pairs; --data_dir=.* must hold SNLI/\{train,dev,test\}\.tsv and MNLI/"):
    load_corpus("nli", folder)
  with pytest.raises(DataError, match=r"; there is no folder .*nowhere$"):
    load_corpus("nli", folder / "nowhere")


def test_malformed_lines(folder):
  path = folder / "SNLI/train.tsv"
  with path.open("a") as file:
    file.write("cut\n")
  with pytest.raises(DataError, match=r"SNLI/train\.tsv, line 4: 1 column, expected 6"):
    load_corpus("nli", folder)
  with path.open("a") as file:
    file.write("i\tc\ta\tb\tx\t-\n" * 1000)
  pairs, source = load_corpus("nli", folder)
  assert len(pairs) == 1006 and source.endswith(", 1 malformed line of SNLI/train.tsv left out")


def test_the_real_files():
  pairs, source = load_corpus("nli", shared("data"))
  assert len(pairs) == 9842 + 9824 and "without MNLI/train.tsv, SNLI/train.tsv" in source
  assert pairs.sentences_a[0] == "two women are embracing while holding to go packages"


def test_tfds(tmp_path, monkeypatch):
  import tensorflow_datasets as tfds

  cut_network(monkeypatch)
  for name, splits in (("multi_nli", ["train"]), ("snli", ["train", "validation", "test"])):
    version = str(tfds.builder(name, data_dir=tmp_path).version)
    # TFDS writes SNLI's "-" as -1.
    labels = ["neutral", -1] if name == "snli" else ["neutral"]
    rows = {s: [{"premise": f"{name} {s}", "hypothesis": "ü", "label": label} for label in labels] for s in splits}
    write_tfds(tmp_path, name, version, rows)
  pairs, source = load_corpus("nli", tfds_data_dir=tmp_path)
  snli = [f"snli {split}" for split in ("train", "validation", "test") for _ in range(2)]
  assert pairs.sentences_a == ("multi_nli train", *snli) and set(pairs.sentences_b) == {"ü"}
  assert np.isnan(pairs.scores).all()
  assert source.startswith("TensorFlow Datasets multi_nli/1.") and f"in {tmp_path} and snli/1." in source


def test_without_files_or_network(tmp_path, monkeypatch):
  cut_network(monkeypatch)
  with pytest.raises(DataError) as caught:
    load_corpus("nli", tfds_data_dir=tmp_path / "tfds")
  message = str(caught.value)
  assert message.startswith("MNLI cannot be had from TensorFlow Datasets: ") and "no route to https" in message
  assert message.endswith("that holds SNLI/{train,dev,test}.tsv and MNLI/train.tsv, in GLUE's layout")
  assert not (tmp_path / "tfds").exists()


def test_a_file(tmp_path, monkeypatch):
  path = tmp_path / "corpus.txt.gz"
  path.write_bytes(gzip.compress(b"one\ntwo\n"))
  pairs, source = load_corpus(path)
  assert (pairs.sentences_a, pairs.sentences_b, source) == (("one",), ("two",), f"1 pair of {path}")
  monkeypatch.setenv("HOME", str(tmp_path))
  assert len(load_corpus("~/corpus.txt.gz")[0]) == 1


@pytest.mark.parametrize("arguments", [("",), ("nli", ""), ("nli", None, "")])
def test_an_empty_name_is_an_error(arguments):
  with pytest.raises(ConfigError, match="is empty; expected 'nli' or a path"):
    load_corpus(*arguments)
