"""Measures of a search: numbers by hand, and those of trec_eval on random runs."""

import numpy as np
import pytest

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.retrieval import DEPTH, MEASURES, JudgedSearch, score_rankings
from tests.testing import rejected

_NAMES = {
  "ndcg@10": "ndcg_cut_10",
  "recall@10": "recall_10",
  "recall@100": "recall_100",
  "map": "map",
  "mrr@10": "recip_rank",
}


def test_measures_by_hand():
  qrels = {
    "graded": {"a": 2, "b": 1, "c": 0, "d": -1, "e": 1},
    "irrelevant": {"a": 0, "b": -2},
    "missing": {"a": 1},
    "late": {"n10": 1, "n100": 3},
  }
  rankings = {
    "graded": ["c", "a", "unjudged", "b", "d"],
    "irrelevant": ["b", "a"],
    "late": [f"n{i}" for i in range(200)],
    "not judged": ["a"],
  }
  scores = score_rankings(rankings, qrels)
  # (2 / log2(3) + 1 / log2(5)) / (2 + 1 / log2(3) + 1 / 2), 1 / 2, 2 of 3, 2 of 3, (1 / 2 + 2 / 4) / 3
  expected = {"graded": [54.0588, 50, 66.6667, 66.6667, 33.3333], "irrelevant": [0] * 5, "missing": [0] * 5}
  # 0, 0, 0, 1 of 2, (1 / 11 + 2 / 101) / 2
  expected["late"] = [0, 0, 0, 50, 5.53555]
  for query, values in expected.items():
    found = [scores.by_query[query][measure] for measure in MEASURES]
    np.testing.assert_allclose(found, values, rtol=1e-5, err_msg=query)
  assert list(scores.by_query) == list(qrels)
  means = np.mean(list(expected.values()), axis=0)
  np.testing.assert_allclose([scores.mean[measure] for measure in MEASURES], means, rtol=1e-5)


def random_search(seed):
  """Returns a search of 300 documents, and scores [m, n] with many ties; grades from -2 to 3."""
  rng = np.random.default_rng(seed)
  names = [f"d{i}" for i in rng.permutation(300)]
  queries = {f"q{i}": "text" for i in range(20)}
  qrels = {}
  for query in list(queries)[:15]:
    judged = rng.choice(names, rng.integers(1, 40), replace=False)
    qrels[query] = {str(name): int(rng.integers(-2, 4)) for name in judged}
  qrels["q1"] = dict.fromkeys(qrels["q1"], 0)
  search = JudgedSearch({name: "text" for name in names}, queries, qrels, ignore_identical_ids=False)
  scores = rng.integers(0, 12, [len(qrels), len(names)]).astype(np.float32)
  scores[2] = 1
  return search, qrels, scores


def ranked(search, scores):
  """Returns the ranking by scores [m, n], equal ones by increasing position, as `search` has them."""
  rows = [np.argsort(-values, kind="stable")[: search.depth] for values in scores]
  rows[3] = rows[3][:0]  # nothing found
  return search.ranking(rows, [values[found] for values, found in zip(scores, rows, strict=True)])


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_of_trec_eval(seed):
  pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed")
  search, qrels, scores = random_search(seed)
  ranking = ranked(search, scores)
  run = {}
  for line in ranking.trec().splitlines():
    query, _, document, _, score, _ = line.split()
    run.setdefault(query, {})[document] = float(score)
  assert len(run) == 14
  evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.10,100", "map", "recip_rank"})
  expected = evaluator.evaluate(run)
  found = search.measure(ranking).by_query
  assert found.pop("q3") == dict.fromkeys(MEASURES, 0.0) and found.keys() == expected.keys()
  for query, values in expected.items():
    for measure, name in _NAMES.items():
      value = values[name] * (name != "recip_rank" or values[name] >= 0.1)
      assert found[query][measure] == pytest.approx(100 * value, abs=1e-9), (query, measure)


def test_the_means_of_ir_measures():
  ir_measures = pytest.importorskip("ir_measures", reason="ir_measures is not installed")
  search, qrels, scores = random_search(7)
  ranking = ranked(search, scores)
  # Its RR@10 is that of MS MARCO's script, which orders equal scores otherwise: here the scores are the ranks.
  run = {}
  for query, names in zip(ranking.query_ids, ranking.document_ids, strict=True):
    run[query] = {name: -float(place) for place, name in enumerate(names)}
  del run["q3"]
  names = ["nDCG@10", "RR@10", "R@10", "R@100", "AP"]
  measures = [ir_measures.parse_measure(name) for name in names]
  expected = ir_measures.calc_aggregate(measures, qrels, run)
  means = search.measure(ranking).mean
  for ours, theirs in zip(MEASURES, measures, strict=True):
    assert means[ours] == pytest.approx(100 * expected[theirs], abs=1e-9), ours


def test_a_document_with_the_id_of_the_query_is_left_out():
  texts = {"a": "text", "b": "text", "blank": " "}
  qrels = {"a": {"b": 1, "a": 0}}
  search = JudgedSearch(texts, {"a": "text"}, qrels)
  assert search.depth == DEPTH + 1 and search.document_ids == ["b", "a"]
  ranking = search.ranking([np.array([1, 0])], [np.array([2.0, 1.0])])
  assert ranking.document_ids == [["b"]] and ranking.trec() == "a Q0 b 1 1 bert_flow\n"
  with_itself = JudgedSearch(texts, {"a": "text"}, qrels, ignore_identical_ids=False)
  assert with_itself.ranking([np.array([1, 0])], [np.array([2.0, 1.0])]).document_ids == [["a", "b"]]
  # It stays where it is relevant: queries and documents may have the same numbers by chance.
  relevant = JudgedSearch(texts, {"a": "text"}, {"a": {"a": 1}})
  assert relevant.ranking([np.array([1, 0])], [np.array([2.0, 1.0])]).document_ids == [["a", "b"]]


def test_a_ranking_ends_at_the_depth():
  names = [f"{i:04}" for i in range(1200)]
  search = JudgedSearch(dict.fromkeys(names, "text"), {"q": "text"}, {"q": {"0000": 1}})
  rows = np.arange(len(names))
  (found,) = search.ranking([rows[: search.depth]], [np.zeros(search.depth)]).document_ids
  assert found == names[:-1001:-1]


def test_wrong_dictionaries():
  with rejected(DataError, "corpus", match="a document is 5; expected a str"):
    JudgedSearch({"d": 5}, {"q": "x"}, {"q": {"d": 1}})
  with rejected(DataError, "corpus", match="title and text of a document are .*5.*; expected str"):
    JudgedSearch({"d": {"title": "a", "text": 5}}, {"q": "x"}, {"q": {"d": 1}})
  with rejected(DataError, "qrels", match=r"the grades of query 'q' are .1.5.; expected integers"):
    JudgedSearch({"d": "x"}, {"q": "x"}, {"q": {"d": 1.5}})
  with rejected(DataError, "qrels", match=r"query 'q' are a list; expected .query's id: .document's id: grade.."):
    JudgedSearch({"d": "x"}, {"q": "x"}, {"q": ["d"]})
  right = {"corpus": {"d": "x"}, "queries": {"q": "x"}, "qrels": {"q": {"d": 1}}}
  for argument in right:
    for value in (["x"], [], None):
      with rejected(DataError, argument, match="expected a dict"):
        JudgedSearch(**{**right, argument: value})


def test_unknown_ids():
  for queries, qrels in (({"q": "x"}, {}), ({}, {"q": {"d": 1}}), ({"q": "x"}, {"q": {"e": 1}})):
    with rejected(DataError, "qrels"):
      JudgedSearch({"d": "x"}, queries, qrels)
