"""bert_flow_tf/tables/keys.py: code, text and gold that differ have other fingerprints."""

import hashlib
import shutil

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs, Subset
from bert_flow_tf.tables.keys import file_fingerprint, gold_fingerprint, sources_fingerprint, text_fingerprint
from tests.build_file import read_build
from tests.testing import REPO


@pytest.fixture
def package(tmp_path):
  """A copy of the package's sources."""
  ignored = shutil.ignore_patterns("__pycache__", "pretrained", "hard_sample", "sample", "*.json")
  return shutil.copytree(REPO / "bert_flow_tf", tmp_path / "bert_flow_tf", ignore=ignored)


@pytest.mark.parametrize(
  ("source", "decides"),
  [
    *((f"{part}/__init__.py", True) for part in read_build()[0]["tables"] if part != "model"),
    ("model.py", True),
    ("flow/coupling.py", True),
    ("tables/workbench.py", True),
    ("tables/results_page.py", False),
    ("tables/table.py", False),
    ("serving/export.py", False),
    ("_version.py", False),
  ],
)
def test_sources(package, source, decides):
  """A source that decides a figure changes the fingerprint; every part that tables imports does."""
  before = sources_fingerprint(REPO / "bert_flow_tf")
  assert sources_fingerprint(package) == before
  with (package / source).open("a") as file:
    file.write("\n")
  assert (sources_fingerprint(package) != before) == decides


def test_a_renamed_source(package):
  before = sources_fingerprint(package)
  (package / "flow/glow.py").rename(package / "flow/glow2.py")
  assert sources_fingerprint(package) != before


def test_text():
  alike = [SentencePairs(("a", "b"), ("c", "d"), scores) for scores in ([1.0, 2.0], [3.0, np.nan])]
  assert text_fingerprint(alike[0]) == text_fingerprint(alike[1])
  others = [
    SentencePairs(("b", "a"), ("c", "d"), [1, 2]),
    SentencePairs(("c", "d"), ("a", "b"), [1, 2]),
    SentencePairs(("a", "bc"), ("", "d"), [1, 2]),
    SentencePairs(("a\0b", "c"), ("d", ""), [1, 2]),
    SentencePairs(("a",), ("b",), [1]),
    SentencePairs(("a", "\ud800"), ("c", "d"), [1, 2]),
  ]
  assert len({text_fingerprint(pairs) for pairs in [alike[0], *others]}) == 7


def test_gold():
  def pairs(scores, subsets=()):
    return SentencePairs(("a", "b"), ("c", "d"), scores, subsets)

  different = [
    pairs([1, 2]),
    pairs([1, np.nan]),
    pairs([1, 0]),
    pairs([np.nan, 0]),
    pairs([1, 2], (Subset("x", 0, 2),)),
    pairs([1, 2], (Subset("x", 0, 1), Subset("y", 1, 2))),
  ]
  assert len({gold_fingerprint(pairs_of) for pairs_of in different}) == 6
  assert gold_fingerprint(pairs([1, 2])) == gold_fingerprint(pairs([1, 2]))


def test_file(tmp_path):
  (tmp_path / "file").write_bytes(b"abc")
  assert file_fingerprint(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()
