"""bert_flow_tf/tables/analysis.py: neighbors of words by brute force, edit distances by the textbook's recursion."""

import math
import sys

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from scipy import stats
from scipy.spatial import distance
from sklearn.neighbors import NearestNeighbors
from tokenizers import pre_tokenizers

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.tables import analysis
from bert_flow_tf.tables.analysis import edit_distances, frequency_groups
from tests.testing import shared


def _line(*places):
  """Embeddings on a line."""
  return np.array(places, np.float64)[:, None]


# A word that is shorter than its neighbors: the nearest ones by l2-distance are short, by dot products long.
SHORT = np.array([[1.0, 0.0], [0.9, 0.0], [0.0, 0.5], [50.0, 9.0], [-60.0, 0.0]])
ROOT = math.sqrt(2)
# (embeddings, rows by frequency, mean l2-norm, {k: mean distance}, {k: mean dot product})
BY_HAND = {
  # Word 1: 2, then 4; word 4: 2, then 1. By dot product, 8 comes first for both.
  "two words": (_line(1, 2, 4, 8), [0, 2], 2.5, {1: 1.5, 2: (2 + 2.5) / 2}, {1: 20.0, 2: (6 + 20) / 2}),
  "a short word": (SHORT, [0], 1.0, {1: 0.1, 2: (0.1 + math.sqrt(1.25)) / 2}, {1: 50.0, 2: (50.0 + 0.9) / 2}),
  "a neighbor without a rank": (_line(0, 10, 1), [0, 1], 5.0, {1: (1 + 9) / 2}, {1: (0 + 10) / 2}),
  "no other word": (_line(0, 10), [0, 1], 5.0, {1: 10.0}, {1: 0.0}),
  "equal words": (_line(5, 5, 9) - 7, [0, 1], 2.0, {1: 0.0, 2: 2.0}, {1: 4.0, 2: 0.0}),
  "fewer words than neighbors": (np.eye(4)[:3], [0, 1, 2], 1.0, {2: ROOT, 3: math.nan}, {2: 0.0, 3: math.nan}),
  "one word": (np.eye(4)[:1], [0], 1.0, {1: math.nan}, {1: math.nan}),
}


DISTANCE, PRODUCT = "mean k-NN l2-distance, k={}", "mean k-NN dot product, k={}"


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
  embeddings, order, norm, distances, products = BY_HAND[name]
  (group,) = frequency_groups(embeddings, order, groups=[(0, len(order))], neighbors=tuple(distances))
  expected = {"mean l2-norm": norm}
  for k in distances:
    expected |= {DISTANCE.format(k): distances[k], PRODUCT.format(k): products[k]}
  assert group == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("piece", [1, 1000, 1 << 22])
def test_against_scikit_learn(monkeypatch, piece):
  """Groups of different sizes, one without words."""
  monkeypatch.setattr(analysis, "_PIECE", piece)
  rng = np.random.default_rng(0)
  embeddings = (rng.normal(size=(600, 12)) + 3).astype(np.float32)
  order = rng.permutation(600)[:90]  # argpartition sorts short rows
  groups = ((0, 10), (10, 60), (50, 80), (90, 99))
  *result, empty = frequency_groups(embeddings, order, groups, (1, 9, 30))
  assert all(map(math.isnan, empty.values()))
  exact = embeddings.astype(np.float64)
  near = NearestNeighbors(n_neighbors=31, algorithm="brute").fit(exact)
  for group, (first, end) in zip(result, groups[:3], strict=True):
    rows = order[first:end]
    distances, others = near.kneighbors(exact[rows])
    assert (others[:, 0] == rows).all()  # each word itself
    products = exact[rows] @ exact.T
    products[np.arange(len(rows)), rows] = -np.inf
    products = np.sort(products, axis=1)[:, ::-1]
    assert group["mean l2-norm"] == pytest.approx(np.linalg.norm(exact[rows], axis=1).mean(), rel=1e-12)
    for k in (1, 9, 30):
      assert group[DISTANCE.format(k)] == pytest.approx(distances[:, 1 : k + 1].mean(), rel=1e-9)
      assert group[PRODUCT.format(k)] == pytest.approx(products[:, :k].mean(), rel=1e-9)


def test_near_words_far_from_the_origin():
  rng = np.random.default_rng(0)
  embeddings = rng.normal(size=(40, 3)) * 1e-4 + 1e5
  expected = np.sort(distance.cdist(embeddings, embeddings), axis=1)[:, 1:4].mean()
  (group,) = frequency_groups(embeddings, range(40), groups=[(0, 40)], neighbors=(3,))
  assert group[DISTANCE.format(3)] == pytest.approx(expected, rel=1e-9)


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
  """Table 6's gold row is -24.61."""
  pairs = load_task("STS-B", shared("data")).splits["dev"]
  split = pre_tokenizers.Whitespace().pre_tokenize_str
  expected = []
  for sides in zip(pairs.sentences_a, pairs.sentences_b, strict=True):
    a, b = ([token for token, _ in split(sentence.lower())] for sentence in sides)
    expected.append(Levenshtein.distance(a, b))
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


def test_without_rapidfuzz(monkeypatch):
  monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
  with pytest.raises(ConfigError, match=r"rapidfuzz.*pip install"):
    edit_distances(["a"], ["b"])
