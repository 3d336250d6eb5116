"""evaluation/word_embeddings.py: Table 1's numbers by brute force and by hand."""

import math

import numpy as np
import pytest
from scipy.spatial import distance
from sklearn.neighbors import NearestNeighbors

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation import word_embeddings
from bert_flow_tf.evaluation.word_embeddings import RANK_GROUPS, frequency_groups


def _line(*places):
  """Embeddings on a line."""
  return np.array(places, np.float64)[:, None]


def test_by_hand():
  (group,) = frequency_groups(_line(1, 2, 4, 8), order=[0, 2], groups=[(0, 2)], neighbors=(1, 2), show_progress=False)
  assert (group.first, group.end, group.words) == (0, 2, 2)
  assert group.mean_norm == (1 + 4) / 2
  # Word 1: 2, then 4; word 4: 2, then 1. By dot product, 8 comes first for both.
  assert group.mean_distance == {1: (1 + 2) / 2, 2: ((1 + 3) / 2 + (2 + 3) / 2) / 2}
  assert group.mean_dot_product == {1: (8 + 32) / 2, 2: ((8 + 4) / 2 + (32 + 8) / 2) / 2}


@pytest.mark.parametrize("piece", [1, 1000, 1 << 22])
def test_against_scikit_learn(monkeypatch, piece):
  monkeypatch.setattr(word_embeddings, "_PIECE", piece)
  rng = np.random.default_rng(0)
  embeddings = (rng.normal(size=(600, 12)) + 3).astype(np.float32)
  order = rng.permutation(600)[:90]  # argpartition sorts short rows
  groups = ((0, 10), (10, 60), (50, 80))
  result = frequency_groups(embeddings, order, groups, (1, 9, 30), show_progress=False)
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
  (group,) = frequency_groups(embeddings, [0], [(0, 1)], (1, 2), show_progress=False)
  assert group.mean_distance == pytest.approx({1: 0.1, 2: (0.1 + math.sqrt(1.25)) / 2})
  assert group.mean_dot_product == pytest.approx({1: 50.0, 2: (50.0 + 0.9) / 2})


def test_neighbors_are_among_all_words():
  embeddings = _line(0, 10, 1)
  assert frequency_groups(embeddings, [0, 1], [(0, 2)], (1,), False)[0].mean_distance == {1: (1 + 9) / 2}
  assert frequency_groups(embeddings[[0, 1]], None, [(0, 2)], (1,), False)[0].mean_distance == {1: 10}


def test_an_equal_word_is_a_neighbor_at_0():
  (group,) = frequency_groups(_line(5, 5, 9) + 1e6, groups=[(0, 2)], neighbors=(1, 2), show_progress=False)
  assert group.mean_distance == {1: 0, 2: 2}


def test_near_words_far_from_the_origin():
  rng = np.random.default_rng(0)
  embeddings = rng.normal(size=(40, 3)) * 1e-4 + 1e5
  expected = np.sort(distance.cdist(embeddings, embeddings), axis=1)[:, 1:4].mean()
  (group,) = frequency_groups(embeddings, groups=[(0, 40)], neighbors=(3,), show_progress=False)
  assert group.mean_distance[3] == pytest.approx(expected, rel=1e-9)


def test_the_papers_groups_in_a_small_vocabulary():
  result = frequency_groups(np.random.default_rng(0).normal(size=(130, 4)), show_progress=False)
  assert [(group.first, group.end) for group in result] == [(0, 100), (100, 500), (500, 5000), (5000, 10000)]
  assert [group.words for group in result] == [100, 30, 0, 0]
  assert RANK_GROUPS[-1] == (5000, 10000) and sorted(result[0].mean_distance) == [3, 5, 7]
  for numbers in (result[2].mean_distance, result[2].mean_dot_product, {0: result[2].mean_norm}):
    assert all(map(math.isnan, numbers.values()))
  assert math.isfinite(result[1].mean_distance[7])


@pytest.mark.parametrize("words", [1, 3])
def test_fewer_words_than_neighbors(words):
  (group,) = frequency_groups(np.eye(4)[:words], groups=[(0, 9)], neighbors=(1, 2, 3), show_progress=False)
  assert group.words == words and group.mean_norm == 1
  expected = {k: math.sqrt(2) if k < words else math.nan for k in (1, 2, 3)}
  assert group.mean_distance == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"embeddings": [1.0, 2.0]}, r"shape \(2,\)"),
    ({"embeddings": np.zeros([0, 3])}, "at least one word"),
    ({"embeddings": [["a"]]}, "not numbers"),
    ({"embeddings": [[1.0], [math.nan]]}, "row 1"),
    ({"order": [0, 2, 0]}, "row 0 twice"),
    ({"order": [0, 3]}, "row 3, expected 0 to 2"),
    ({"order": [-1]}, "row -1"),
    ({"order": [0.0]}, "float64"),
    ({"groups": [(5, 5)]}, "ranks 5 to 5"),
    ({"groups": []}, "0 groups"),
    ({"neighbors": (0,)}, "k of 1 or more"),
  ],
)
def test_bad_arguments(arguments, message):
  with pytest.raises(DataError, match=message):
    frequency_groups(**{"embeddings": np.eye(3), "show_progress": False, **arguments})
