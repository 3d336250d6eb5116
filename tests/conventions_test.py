"""docs/conventions.md, "Where other programs give other numbers": the column "here" of its tables.

Rows that other tests hold: wmean, mean and all in evaluation/metrics_test; the splits in data/conformance_test;
GELU, epsilons and accents of others' files in encoder/checkpoints; roles in integrations/adapters_test; tables of
model2vec in encoder/other/static_model_test and serving/distill_test; trec_eval's ties in evaluation/retrieval_test.
"""

import numpy as np
import pytest

from bert_flow_tf import SentenceModel, fit_calibration, near_duplicates
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.evaluation.task_scores import pair_cosines
from bert_flow_tf.vectors.nearest import search_embeddings


@pytest.fixture(scope="module")
def mini():
  return SentenceModel.from_pretrained("mini")


@pytest.fixture(scope="module")
def static():
  return SentenceModel.from_pretrained("static:mini")


def is_same(model, a, b):
  a, b = model.encode([a, b])
  return np.allclose(a, b, atol=1e-5)


def test_zeros_are_0_and_no_duplicates():
  zeros, ones = np.zeros([2, 3]), np.ones([2, 3])
  assert pair_cosines(zeros, ones, "test").tolist() == [0, 0] == pair_cosines(zeros, zeros, "test").tolist()
  assert near_duplicates(np.concatenate([zeros, ones])).tolist() == [0, 1, 2, 2]


def test_a_threshold_is_included():
  rows = np.array([[1, 0, 0, 0], [1, 1, 1, 1]])  # of cosine 1/2, exactly
  kept = {threshold: near_duplicates(rows, threshold)[1] for threshold in (0.5, 0.51)}
  assert kept == {0.5: 0, 0.51: 1}


def test_equal_scores_are_in_the_order_of_rows():
  rows = np.repeat([[1.0, 0.0], [2.0, 0.0]], 10, axis=0)
  for top_k in (3, 15):
    assert search_embeddings(rows[:1], rows, top_k=top_k).rows[0].tolist() == list(range(top_k))


def test_equal_cosines_share_a_rank_and_identical_sentences_tie(mini):
  assert correlation([0.5, 0.5, 0.1], [3, 1, 0]).spearman == pytest.approx(100 * np.sqrt(0.75))
  texts = ["A cat.", "Some dogs run in the park.", "It rains."]
  # Batches of other lengths round otherwise.
  cosines = pair_cosines(mini.encode(texts), mini.encode(texts, batch_size=1), "test")
  assert set(cosines) == {1}


def test_an_unknown_word_is_the_piece_unk(static):
  """It has a vector: a text of unknown words is not zeros, and two of them are equal."""
  assert static.encode(["苹"]).any() and is_same(static, "苹", "果")
  assert not is_same(static, "cat 苹", "cat")
  # Their difference is not read: they are no duplicates.
  texts = ["Case for phone 苹", "Case for phone 果"]
  assert near_duplicates(static.encode(texts), texts=texts, model=static).tolist() == [0, 1]
  assert near_duplicates(static.encode(texts)).tolist() == [0, 0]


def test_a_word_counts_as_often_as_it_occurs(static):
  cat, dog, both, thrice = static.encode(["cat", "dog", "cat dog", "cat cat dog"])
  shares, errors = np.linalg.lstsq(np.stack([cat, dog], axis=1), np.stack([both, thrice], axis=1))[:2]
  assert errors == pytest.approx([0, 0], abs=1e-9)
  # The weight of cat to that of dog doubles.
  assert shares[0, 1] / shares[1, 1] == pytest.approx(2 * shares[0, 0] / shares[1, 0], rel=1e-4)


def test_empty_texts_have_an_embedding_of_their_own(mini, static):
  for model in (mini, static):
    assert model.encode([""]).any() and is_same(model, "", " \t")
  rows = static.encode(["", "", "cat"])
  assert near_duplicates(rows, texts=["", "", "cat"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
  ("text", "read_as"),
  [
    ("cat\u00a0dog", "cat dog"),  # no-break space
    ("cat\u2003dog", "cat dog"),  # em space
    ("cat\u200bdog", "catdog"),  # zero-width space
    ("cat\u00addog", "catdog"),  # soft hyphen
    ("cat\x07dog", "catdog"),  # control character
    ("CAFÉ", "cafe"),
    ("我爱北京cat", "我 爱 北 京 cat"),
    ("ß" * 101, "苹"),  # 101 letters; below, 60 letters of 120 bytes
  ],
)
def test_blanks_and_scripts(mini, text, read_as):
  assert is_same(mini, text, read_as)


def test_what_is_not_normalized(mini):
  assert not is_same(mini, "ﬁne", "fine") and not is_same(mini, "\uff21", "a")  # a ligature, a fullwidth letter
  assert not is_same(mini, "ß" * 60, "苹")


def test_whitening_divides_by_n_minus_1():
  rows = np.random.default_rng(0).normal(size=[12, 3])
  found = np.asarray(fit_calibration(rows, "whitening").transform(rows))
  np.testing.assert_allclose(np.cov(found, rowvar=False, ddof=1), np.eye(3), atol=1e-5)


def test_the_length_counts_specials_and_the_prompt():
  short = SentenceModel.from_pretrained("mini", max_seq_length=5)
  assert is_same(short, "a cat and a dog", "a cat and") and not is_same(short, "a cat and a dog", "a cat")
  prompted = SentenceModel.from_pretrained("mini", max_seq_length=5, prompt="a cat ")
  assert is_same(prompted, "and a dog", "and")
