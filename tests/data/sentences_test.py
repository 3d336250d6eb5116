"""data/sentences.py: checks of sentences and pairs."""

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.sentences import check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.errors import DataError


@pytest.mark.parametrize("sentences", ["a sentence", b"bytes", np.str_("numpy"), 3, np.array(3), ["a", None]])
def test_rejects_what_is_not_a_list_of_str(sentences):
  with pytest.raises(DataError) as raised:
    check_sentences(sentences)
  assert raised.value.argument == "sentences" and str(raised.value).startswith("sentences")
  with pytest.raises(DataError) as raised:
    check_pairs(["a"], sentences)
  assert raised.value.argument == "texts_b"


def test_accepts_arrays():
  assert check_sentences(np.array(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
  "pairs",
  [
    SentencePairs.without_gold(["a", "c"], ["b", "d"]),
    (["a", "c"], ["b", "d"]),
    [("a", "b"), ["c", "d"]],
  ],
)
def test_forms_of_pairs(pairs):
  assert sentences_or_pairs(pairs) == (["a", "c"], ["b", "d"])


def test_sentences_and_unequal_sides():
  assert sentences_or_pairs(("a", "b")) == ["a", "b"]
  with pytest.raises(DataError) as raised:
    sentences_or_pairs((["a"], ["b", "c"]))
  assert raised.value.argument == "sentences"
