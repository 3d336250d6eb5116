"""evaluation/analysis.py: neighbors of words by brute force, edit distances by the textbook's recursion."""

import math
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance
from sklearn.neighbors import NearestNeighbors
from tokenizers import pre_tokenizers

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import analysis
from bert_flow_tf.evaluation.analysis import (
  edit_correlation,
  edit_distances,
  frequency_groups,
)
from tests.testing import shared


def _line(*places):
  """Embeddings on a line."""
  return np.array(places, np.float64)[:, None]


def test_by_hand():
  (group,) = frequency_groups(_line(1, 2, 4, 8), order=[0, 2], groups=[(0, 2)], neighbors=(1, 2))
  assert (group.words, group.mean_norm) == (2, (1 + 4) / 2)
  # Word 1: 2, then 4; word 4: 2, then 1. By dot product, 8 comes first for both.
  assert group.mean_distance == {1: (1 + 2) / 2, 2: ((1 + 3) / 2 + (2 + 3) / 2) / 2}
  assert group.mean_dot_product == {1: (8 + 32) / 2, 2: ((8 + 4) / 2 + (32 + 8) / 2) / 2}


@pytest.mark.parametrize("piece", [1, 1000, 1 << 22])
def test_against_scikit_learn(monkeypatch, piece):
  monkeypatch.setattr(analysis, "_PIECE", piece)
  rng = np.random.default_rng(0)
  embeddings = (rng.normal(size=(600, 12)) + 3).astype(np.float32)
  order = rng.permutation(600)[:90]  # argpartition sorts short rows
  groups = ((0, 10), (10, 60), (50, 80))
  result = frequency_groups(embeddings, order, groups, (1, 9, 30))
  exact = embeddings.astype(np.float64)
  near = NearestNeighbors(n_neighbors=31, algorithm="brute").fit(exact)
  for group, (first, end) in zip(result, groups, strict=True):
    rows = order[first:end]
    distances, others = near.kneighbors(exact[rows])
    assert (others[:, 0] == rows).all()  # each word itself
    products = exact[rows] @ exact.T
    products[np.arange(len(rows)), rows] = -np.inf
    products = np.sort(products, axis=1)[:, ::-1]
    assert group.words == len(rows)
    assert group.mean_norm == pytest.approx(np.linalg.norm(exact[rows], axis=1).mean(), rel=1e-12)
    for k in (1, 9, 30):
      assert group.mean_distance[k] == pytest.approx(distances[:, 1 : k + 1].mean(), rel=1e-9)
      assert group.mean_dot_product[k] == pytest.approx(products[:, :k].mean(), rel=1e-9)


def test_short_words_have_other_neighbors_by_dot_product():
  """The nearest by l2 of a short vector are short; its largest dot products are with long ones."""
  embeddings = np.array([[1.0, 0.0], [0.9, 0.0], [0.0, 0.5], [50.0, 9.0], [-60.0, 0.0]])
  (group,) = frequency_groups(embeddings, [0], [(0, 1)], (1, 2))
  assert group.mean_distance == pytest.approx({1: 0.1, 2: (0.1 + math.sqrt(1.25)) / 2})
  assert group.mean_dot_product == pytest.approx({1: 50.0, 2: (50.0 + 0.9) / 2})


def test_neighbors_are_among_all_words():
  embeddings = _line(0, 10, 1)
  assert frequency_groups(embeddings, [0, 1], [(0, 2)], (1,))[0].mean_distance == {1: (1 + 9) / 2}
  assert frequency_groups(embeddings[[0, 1]], [0, 1], [(0, 2)], (1,))[0].mean_distance == {1: 10}


def test_an_equal_word_is_a_neighbor_at_0():
  (group,) = frequency_groups(_line(5, 5, 9) + 1e6, [0, 1, 2], groups=[(0, 2)], neighbors=(1, 2))
  assert group.mean_distance == {1: 0, 2: 2}


def test_near_words_far_from_the_origin():
  rng = np.random.default_rng(0)
  embeddings = rng.normal(size=(40, 3)) * 1e-4 + 1e5
  expected = np.sort(distance.cdist(embeddings, embeddings), axis=1)[:, 1:4].mean()
  (group,) = frequency_groups(embeddings, range(40), groups=[(0, 40)], neighbors=(3,))
  assert group.mean_distance[3] == pytest.approx(expected, rel=1e-9)


def test_the_papers_groups_in_a_small_vocabulary():
  result = frequency_groups(np.random.default_rng(0).normal(size=(130, 4)), range(130))
  assert analysis.RANK_GROUPS == ((0, 100), (100, 500), (500, 5000), (5000, 10000))
  assert [group.words for group in result] == [100, 30, 0, 0] and sorted(result[0].mean_distance) == [3, 5, 7]
  for numbers in (result[2].mean_distance, result[2].mean_dot_product, {0: result[2].mean_norm}):
    assert all(map(math.isnan, numbers.values()))
  assert math.isfinite(result[1].mean_distance[7])


@pytest.mark.parametrize("words", [1, 3])
def test_fewer_words_than_neighbors(words):
  (group,) = frequency_groups(np.eye(4)[:words], range(words), groups=[(0, 9)], neighbors=(1, 2, 3))
  assert group.words == words and group.mean_norm == 1
  expected = {k: math.sqrt(2) if k < words else math.nan for k in (1, 2, 3)}
  assert group.mean_distance == pytest.approx(expected, nan_ok=True)


def _levenshtein(a, b):
  """Returns the distance by Wagner and Fischer's table, row by row."""
  row = list(range(len(b) + 1))
  for i, x in enumerate(a, start=1):
    above, row = row, [i]
    for j, y in enumerate(b, start=1):
      row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
  return row[-1]


def test_tokens_by_hand():
  pairs = {
    ("I like this restaurant.", "i DISLIKE this  restaurant !"): 2,
    ("a well-known man", "a well known man"): 1,
    ('He said: "no."', "he said no"): 3,  # the last two marks are one token
    ("don't", "do not"): 3,
    ("", "four"): 1,
    ("", " "): 0,
    ("a b c", "b c a"): 2,
    ("\ud800", ""): 1,
  }
  distances = edit_distances(*zip(*pairs, strict=True))
  assert distances.dtype == np.int64 and distances.tolist() == list(pairs.values())


def test_tokens_are_those_of_the_tokenizers_package_and_give_the_papers_gold_score():
  """Table 6's gold row, -24.61, from tokens of another library and the textbook's distance."""
  pairs = load_task("STS-B", shared("data")).splits["dev"]
  whitespace = pre_tokenizers.Whitespace()
  a, b = (
    [[token for token, _ in whitespace.pre_tokenize_str(s.lower())] for s in side]
    for side in (pairs.sentences_a, pairs.sentences_b)
  )
  expected = [_levenshtein(x, y) for x, y in zip(a, b, strict=True)]
  assert edit_distances(pairs.sentences_a, pairs.sentences_b).tolist() == expected
  assert 100 * stats.spearmanr(expected, pairs.scores).statistic == pytest.approx(-24.61, abs=0.5)


def test_characters_by_hand():
  pairs = {
    ("kitten", "sitting"): 3,
    ("I like this restaurant", "I dislike this restaurant"): 3,
    ("", "four"): 4,
    ("", ""): 0,
    ("Cat", "cat"): 1,
    ("a b", "a  b"): 1,
    ("ab", "ba"): 2,  # no transposition, as Damerau's distance has it
    ("caf\u00e9", "cafe\u0301"): 2,  # composed or not: code points as they are
    ("\U0001f600", "x"): 1,
    ("\ud800", ""): 1,
  }
  assert edit_distances(*zip(*pairs, strict=True), "characters").tolist() == list(pairs.values())
  assert edit_distances([], []).shape == (0,)


@pytest.mark.parametrize(("unit", "split"), [("tokens", str.split), ("characters", list)])
def test_against_the_textbook(unit, split):
  rng = np.random.default_rng(0)
  texts = ["".join(rng.choice(list("abc "), size=length)) for length in rng.integers(0, 90, size=60)]
  assert edit_distances(texts[:30], texts[30:], unit).tolist() == [
    _levenshtein(split(a), split(b)) for a, b in zip(texts[:30], texts[30:], strict=True)
  ]


def test_without_rapidfuzz(monkeypatch):
  monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
  with pytest.raises(ConfigError, match=r"rapidfuzz.*pip install"):
    edit_distances(["a"], ["b"])


def test_correlations_against_scipy():
  rng = np.random.default_rng(1)
  gold, similarities = rng.normal(size=(2, 50))
  distances = rng.integers(0, 9, size=50)
  gold[7] = math.nan
  kept = np.arange(50) != 7
  for values in (similarities, gold):
    result = edit_correlation(values, gold, distances)
    assert result.spearman == pytest.approx(100 * stats.spearmanr(values[kept], distances[kept]).statistic, rel=1e-12)
    assert result.pairs == 49
  assert edit_correlation([0.9, 0.5, 0.1], [5, 3, 4], [1, 2, 3]).spearman == pytest.approx(-100)
  undefined = edit_correlation([0.9, 0.5, 0.1], [5, 3, 4], [2, 2, 2])
  assert math.isnan(undefined.spearman) and "all 3 edit distances are 2" in undefined.reason
