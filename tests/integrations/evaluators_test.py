"""The evaluators and utilities of sentence-transformers and the tasks of mteb, on a tiny model, against NumPy."""

import importlib.util
import itertools
import json

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter
from bert_flow_tf.model import SentenceModel
from tests.encoder import tiny
from tests.testing import run_python

pytestmark = [pytest.mark.packages, pytest.mark.slow]

# Six pairs; no two embeddings are parallel.
A = ["a dog.", "cats", "dog b dogs", "dog a", "a b a b .", "dog"]
B = ["b . a", "dogs cats", "mask", "[ ]", "cats b", "b b dog"]
SCORES = [0.1, 0.9, 0.3, 0.2, 0.8, 0.5]
LABELS = [0, 1, 0, 1, 1, 0]
# Above it, sentences are of one community.
THRESHOLD = 0.7


def skip_without(package):
  if importlib.util.find_spec(package) is None:
    pytest.skip(f"{package} is not installed: adapters_test tests the methods that it calls")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns the folder of a saved model."""
  skip_without("sentence_transformers")
  folder = tmp_path_factory.mktemp("evaluators")
  model = SentenceModel.from_pretrained(str(tiny.save_tiny(folder / "tiny")), sentence_embedding_type="avg-first-last")
  model.fit(A + B, "whitening-3", show_progress=False).save(folder / "model")
  return folder


@pytest.fixture(scope="module")
def embeddings(folder):
  """Returns the embeddings of A and B in float64."""
  model = SentenceModel.load(folder / "model")
  return tuple(model.encode(sentences).astype(np.float64) for sentences in (A, B))


@pytest.fixture(scope="module")
def cosines(embeddings):
  """Returns the cosines of all sentences of A and B with all, [12, 12]."""
  rows = np.concatenate(embeddings)
  rows /= np.linalg.norm(rows, axis=1, keepdims=True)
  return rows @ rows.T


def numbers(folder, name):
  """Returns what a program found on a saved model, called by `evaluators` in a new process."""
  # In a process of its own: where Triton is imported after TensorFlow, it ends the process.
  run_python("-m", "tests.integrations.evaluators", name, folder, HF_HUB_OFFLINE="1", MTEB_CACHE=str(folder / "mteb"))
  return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def found(folder):
  """Returns what sentence-transformers found, {evaluator or utility: result}."""
  return numbers(folder, "sentence_transformers")


def average_precision(scores, is_relevant):
  hits = np.asarray(is_relevant, bool)[np.argsort(-np.asarray(scores))]
  precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
  return precisions[hits].mean()


def close(scores, **expected):
  for name, value in expected.items():
    assert scores[name] == pytest.approx(value, abs=1e-4), name


def test_scores_of_pairs(found, cosines, embeddings):
  cosines = cosines[:6, 6:]
  pairs = np.diag(cosines)
  close(
    found["EmbeddingSimilarityEvaluator"],
    spearman_cosine=stats.spearmanr(pairs, SCORES)[0],
    pearson_cosine=stats.pearsonr(pairs, SCORES)[0],
  )
  close(found["BinaryClassificationEvaluator"], cosine_ap=average_precision(pairs, LABELS))
  is_nearer = pairs > np.diag(np.roll(cosines, -1, axis=1))
  close(found["TripletEvaluator"], cosine_accuracy=is_nearer.mean())
  a, b = embeddings
  mse = ((a - b) ** 2).mean()
  close({name: value / mse for name, value in found["MSEEvaluator"].items()}, negative_mse=-100)
  from_a, from_b = ((cosines.argmax(axis) == np.arange(6)).mean() for axis in (1, 0))
  close(found["TranslationEvaluator"], src2trg_accuracy=from_a, trg2src_accuracy=from_b)
  assert 0 < from_a + from_b < 2


def test_scores_of_rankings(found, cosines):
  every, cosines = cosines, cosines[:6, 6:]
  ranks = (cosines >= np.diag(cosines)[:, np.newaxis]).sum(axis=1)
  expected = {"cosine_mrr@10": (1 / ranks).mean(), "cosine_accuracy@1": (ranks == 1).mean()}
  close(found["InformationRetrievalEvaluator"], **expected)
  is_relevant = np.eye(6) + np.roll(np.eye(6), 1, axis=1)
  close(found["RerankingEvaluator"], map=np.mean(list(map(average_precision, cosines, is_relevant))))
  first, second = np.triu_indices(12, 1)
  is_pair = second - first == 6
  close(found["ParaphraseMiningEvaluator"], average_precision=average_precision(every[first, second], is_pair))


def test_utilities(found, cosines):
  order = np.argsort(-cosines[:6, 6:], axis=1)
  for name in ("semantic_search", "semantic_search of arrays", "semantic_search of tensors"):
    np.testing.assert_array_equal(found[name], order, err_msg=name)
  scores, first, second = np.transpose(found["paraphrase_mining"])
  np.testing.assert_allclose(scores, np.sort(cosines[np.triu_indices(12, 1)])[::-1], atol=1e-4)
  np.testing.assert_allclose(scores, cosines[first.astype(int), second.astype(int)], atol=1e-4)
  communities = found["community_detection"]
  assert sorted(itertools.chain.from_iterable(communities)) == list(range(12)) and 1 < len(communities) < 12
  for community in communities:
    assert (cosines[community[0], community] >= THRESHOLD - 1e-4).all()
  # Of each sentence of A, the nearest of B that is not its own; again from the files of the first call.
  others = np.where(np.eye(6, dtype=bool), -2, cosines[:6, 6:])
  nearest = [B[number] for number in others.argmax(axis=1)]
  for mined in found["mine_hard_negatives"]:
    assert dict(zip(mined["anchor"], mined["negative"], strict=True)) == dict(zip(A, nearest, strict=True))
  assert found["similarity_fct_name"] == "cos_sim"


def test_mteb(folder, cosines):
  """Its tasks of text run, each of a kind; on pairs of ours the scores are SciPy's."""
  skip_without("mteb")
  found = numbers(folder, "mteb")
  tasks = found["mock tasks"]
  assert len(tasks) >= 12 and set(tasks.values()) == {"passed"}, tasks
  spearman = stats.spearmanr(np.diag(cosines[:6, 6:]), SCORES)[0]
  for name in ("STS", "STS from cached embeddings"):
    close(found[name], cosine_spearman=spearman, spearman=spearman)
  by_mteb, ours, without_roles = found["retrieval"]
  assert by_mteb == pytest.approx(ours, abs=2e-3) and abs(ours - without_roles) > 1
  adapter = SentenceTransformersAdapter(SentenceModel.load(folder / "model"))
  assert found["results of"] == [adapter.model_card_data.base_model.replace("/", "__").replace("@", "/")]
