"""Former names of modules: they give the public objects, with a warning of the line that imports them."""

import importlib
import sys
import warnings

import pytest

import bert_flow_tf
from bert_flow_tf import vectors
from bert_flow_tf.errors import deprecated
from tests.testing import finished_python


@pytest.fixture
def fresh(monkeypatch):
  """Forgets the former modules, so that an import runs them."""
  for name in list(sys.modules):
    if name == "bert_flow_tf.corpus.sentence_index" or name.startswith("bert_flow_tf.neighbors"):
      monkeypatch.delitem(sys.modules, name)


def test_names_of_the_former_neighbors(fresh):
  with pytest.warns(FutureWarning, match="use bert_flow_tf.vectors") as found:
    from bert_flow_tf.neighbors import near_duplicates, search
  assert [warning.filename for warning in found] == [__file__]
  assert near_duplicates is bert_flow_tf.near_duplicates and search is bert_flow_tf.search
  former = importlib.import_module("bert_flow_tf.neighbors")
  for name in ("Neighbors", "paraphrase_mining", "paraphrase_mining_embeddings", "rows_with_text", "search_embeddings"):
    assert getattr(former, name) is getattr(vectors, name)


@pytest.mark.parametrize(
  ("module", "name"),
  [
    ("neighbors.nearest", "search"),
    ("neighbors.paraphrases", "paraphrase_mining"),
    ("neighbors.duplicates", "near_duplicates"),
    ("corpus.sentence_index", "SentenceIndex"),
  ],
)
def test_places_that_the_reference_named(fresh, module, name):
  with pytest.warns(FutureWarning, match="since version 0.3"):
    former = importlib.import_module(f"bert_flow_tf.{module}")
  assert getattr(former, name) is getattr(bert_flow_tf, name)


def test_public_names_do_not_warn():
  code = "import bert_flow_tf as b, bert_flow_tf.corpus\n"
  code += "b.search, b.paraphrase_mining, b.near_duplicates, b.find_duplicates, b.Duplicates, b.SentenceIndex"
  finished_python("-W", "error::FutureWarning", "-c", code)


def test_the_warning_names_the_line_that_uses_a_name():
  def renamed():
    deprecated("renamed", since="9.8", use="name")

  with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    renamed()
  (warning,) = found
  assert warning.filename == __file__ and str(warning.message).startswith("renamed is deprecated since version 9.8")
