"""tools/retrieval_tables.py: folders in BEIR's layout, and nDCG of their judgments."""

import numpy as np
import pytest

from bert_flow_tf.data.beir import load_beir
from bert_flow_tf.evaluation.retrieval import score_rankings
from tools import retrieval_tables as tables

SENTENCES = ["a dog runs", "a cat sleeps", "the dog is running", "a dog runs", "rain falls"]
PARAPHRASES = [("a dog runs", "the dog is running"), ("a cat sleeps", "rain falls"), ("a dog runs", "rain falls")]


def search(folder, pairs, asks):
  tables._write_folder(folder, SENTENCES, pairs, asks)
  return tables.Search(load_beir(folder))


def test_a_folder_has_its_sentences_once_and_a_query_that_is_a_sentence_has_its_id(tmp_path):
  questions = [("who runs ?", "a dog runs"), ("who sleeps ?", "a cat sleeps")]
  asked = search(tmp_path / "questions", questions, True)
  assert asked.documents == list(dict.fromkeys(SENTENCES))
  assert asked.task.queries == {"q0": "who runs ?", "q1": "who sleeps ?"}
  assert asked.task.qrels == {"q0": {"d0": 1}, "q1": {"d1": 1}}
  found = search(tmp_path / "paraphrases", PARAPHRASES, False)
  assert found.task.queries == {"d0": "a dog runs", "d1": "a cat sleeps"}
  assert found.task.qrels == {"d0": {"d2": 1, "d3": 1}, "d1": {"d3": 1}}


def test_each_judgment_is_scored_as_the_only_one_and_no_query_finds_itself(tmp_path):
  found = search(tmp_path, PARAPHRASES, False)
  embeddings = np.random.default_rng(0).standard_normal([len(found.documents), 3])
  scores = found.cosines(embeddings[:2], embeddings)
  names = list(found.task.documents)
  expected = []
  for query, grades in enumerate(found.task.qrels.values()):
    ranking = [names[row] for row in np.argsort(-scores[query]) if row != query]
    for document in grades:
      expected.append(score_rankings({"q": ranking}, {"q": {document: 1}}).mean["ndcg@10"])
  np.testing.assert_allclose(found.ndcg(scores), expected)


def test_fusion_adds_reciprocal_ranks():
  fused = tables._reciprocal_ranks(np.float32([[3, 2, 1]])) + tables._reciprocal_ranks(np.float32([[1, 3, 2]]))
  np.testing.assert_allclose(fused, [[1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62]], rtol=1e-6)


def test_pairs_that_are_judged_in_both_orders_are_drawn_together(tmp_path):
  """The interval of 20 pairs is that of the 20 when each is judged in both orders, too."""
  pairs = [(f"first {row}", f"second {row}") for row in range(20)]
  intervals = []
  for name, both in (("one", pairs), ("both", [*pairs, *(pair[::-1] for pair in pairs)])):
    tables._write_folder(tmp_path / name, [text for pair in pairs for text in pair], both, False)
    found = tables.Search(load_beir(tmp_path / name))
    queries, _ = found.judgments
    values = np.array([float(found.queries[query].split()[1]) for query in queries])
    intervals.append(found.gain(values, np.zeros(len(values))))
  draws = np.random.default_rng(0).integers(20, size=[1000, 20]).mean(axis=1)
  low, high = np.percentile(draws, [2.5, 97.5])
  assert intervals == [f"+9.5 [{low:+.1f}, {high:+.1f}]"] * 2


def test_few_queries_are_the_mean_of_samples_by_seeds(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(tables, "_FEW_QUERIES", (8,))
  sentences = [f"sentence {number}" for number in range(60)]
  pairs = [(f"question {number} ?", sentence) for number, sentence in enumerate(sentences[:40])]
  tables._write_folder(tmp_path, sentences, pairs, True)
  random = np.random.default_rng(0)
  documents = random.standard_normal([60, 8])
  queries = documents[:40] + random.standard_normal([40, 8]) + 2
  embedded = tables.Embedded(tables.Search(load_beir(tmp_path)), queries, documents)
  tables.print_few_queries("tiny", embedded)
  rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line]
  assert rows[0] == ["tiny, queries", "none", "8"]
  # By hand: whitening of what lies around the mean of its role.
  scores = []
  for seed in range(5):
    few = queries[np.random.default_rng(seed).permutation(40)[:8]]
    around = np.vstack([documents - documents.mean(axis=0), few - few.mean(axis=0)])
    whitening = np.linalg.cholesky(np.linalg.inv(around.T @ around))
    found = embedded.search.cosines(
      (queries - few.mean(axis=0)) @ whitening, (documents - documents.mean(axis=0)) @ whitening
    )
    scores.append(embedded.search.ndcg(found).mean())
  assert rows[2][0] == "whitening" and float(rows[2][2]) == pytest.approx(np.mean(scores), abs=0.06)
