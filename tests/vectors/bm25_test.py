"""Hybrid search against bm25s's own scores and ten lines of NumPy."""

import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.io import checksums
from bert_flow_tf.vectors import search, search_embeddings
from bert_flow_tf.vectors.bm25 import Bm25, WordCounts
from bert_flow_tf.vectors.calibrate_files import apply_to_files, fit_files
from bert_flow_tf.vectors.search_choice import search_of_folder
from bert_flow_tf.vectors.sentence_index import SentenceIndex, index_vectors
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.corpus.toy import vector
from tests.testing import REPO, rejected
from tests.vectors.toy_folder import SENTENCES, content_of, embed, needs_faiss
from tests.vectors.toy_rows import Hasher

bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed: it is the extra search")

_WORDS = "saturn rings planet moon water river bridge stone night train music piano singer crowd street"


def corpus(n=300, seed=0):
  """Texts of common and rare words, some of them equal, blank, or of stop words alone."""
  rng = np.random.default_rng(seed)
  texts = []
  for number in range(n):
    words = rng.choice(_WORDS.split(), size=rng.integers(1, 8), p=np.arange(1, 16) / 120)
    texts.append(f"{' '.join(words)} the {number % 40}th")
  texts[7], texts[8], texts[60:63] = "It is the.", "z 土星有环", [texts[5]] * 3
  return texts


QUERIES = [
  "Rings of the planet Saturn",
  "piano music, music!",
  "crowd 12th",
  "nothing known xyzzy",
  "the of is",
  "土星",
]


def reference_scores(texts, queries):
  """Scores [m, n] of bm25s's own index."""
  ranker = bm25s.BM25()
  ranker.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
  tokens = bm25s.tokenize(queries, stopwords="en", return_ids=False, show_progress=False)
  return np.array([ranker.get_scores_from_ids(ranker.get_tokens_ids(of_query)) for of_query in tokens])


def reference(cosines, scores, k):
  """Reciprocal rank fusion of the first 100 of both lists, in plain NumPy."""
  result = []
  for of_cosines, of_scores in zip(cosines, scores, strict=True):
    fused, rows = np.zeros(len(of_cosines)), np.arange(len(of_cosines))
    near = np.lexsort([rows, -of_cosines])
    found = [row for row in np.lexsort([rows, -of_scores]) if of_scores[row] > 0][:100]
    for rank, row in enumerate(near, 1):
      fused[row] += 1 / (60 + rank) if rank <= 100 or row not in found else 0
    for rank, row in enumerate(found, 1):
      fused[row] += 1 / (60 + rank)
    order = np.lexsort([rows, -fused.astype(np.float32)])[:k]
    result.append((fused[order], order))
  return map(np.array, zip(*result, strict=True))


def by_distinct_cosines(n, m, seed=1):
  rng = np.random.default_rng(seed)
  embeddings, queries = rng.normal(size=[n, 6]), rng.normal(size=[m, 6])
  cosines = cosine_similarity(np.repeat(queries, n, axis=0), np.tile(embeddings, [m, 1])).reshape(m, n)
  return embeddings, queries, cosines


class Table:
  """Model that knows the embeddings of some texts by their order."""

  def __init__(self, embeddings, queries):
    self._embeddings, self._queries = embeddings, queries

  def encode_document(self, texts, **_):
    return self._embeddings[: len(texts)]

  def encode_query(self, texts, **_):
    return self._queries[: len(texts)]

  encode = encode_document


def test_scores_are_those_of_bm25s_whatever_the_parts():
  texts = corpus()
  expected = reference_scores(texts, QUERIES)
  for bounds in ([0, 300], [0, 1, 130, 130, 300]):
    parts = [WordCounts.of_texts(texts[i:j]) for i, j in itertools.pairwise(bounds)]
    parts = [WordCounts.of_bytes(part.to_bytes()) for part in parts]
    for query, rows in enumerate(Bm25(WordCounts.joined(parts)).search(QUERIES, 300)[0]):
      known = np.flatnonzero(expected[query])
      assert sorted(rows) == known.tolist()
      np.testing.assert_allclose(expected[query][rows], -np.sort(-expected[query][known]), rtol=1e-5)
  assert not len(Bm25(WordCounts.of_texts(["the of", ""])).search(["the saturn"])[0][0])


def test_fusion_is_that_of_numpy_for_every_top_k():
  texts = corpus()
  embeddings, queries, cosines = by_distinct_cosines(300, len(QUERIES))
  model = Table(embeddings, queries)
  longest = search(model, QUERIES, texts, top_k=1000, hybrid="bm25")
  for k in (1, 10, 99, 100, 101, 150, 300):
    scores, rows = search(model, QUERIES, texts, top_k=k, hybrid="bm25")
    expected_scores, expected_rows = reference(cosines, reference_scores(texts, QUERIES), k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)
    np.testing.assert_array_equal(longest.rows[:, :k], rows)
  # Without a word that is known, the nearest ones.
  np.testing.assert_array_equal(longest.rows[3], search_embeddings(queries[3], embeddings, 300).rows[0])
  assert longest.rows.shape == (6, 300)


def test_small_and_blank_corpora():
  assert search(Hasher(), "saturn", ["Saturn"], hybrid="bm25").rows.tolist() == [[0]]
  found = search(Hasher(), ["rings", "stone"], ["", "A stone", " ", "Rings"], top_k=9, hybrid="bm25")
  assert sorted(found.rows[0]) == [1, 3] and found.rows[0, 0] == 3 and found.rows[1, 0] == 1
  assert search(Hasher(), "saturn", ["", " "], hybrid="bm25").rows.shape == (1, 0)
  with rejected(ConfigError, "hybrid", match="hybrid=bm26: expected bm25"):
    search(Hasher(), "saturn", ["Saturn"], hybrid="bm26")
  with rejected(ConfigError, "hybrid", match="embeddings have no words"):
    search(np.eye(3), np.eye(3), hybrid="bm25")


@needs_faiss
def test_an_index_holds_vectors_and_words():
  texts = corpus()
  embeddings, queries, cosines = by_distinct_cosines(300, len(QUERIES))
  index = SentenceIndex.build(embeddings[:200], texts=texts[:200])
  index.add(embeddings[200:], texts[200:])
  expected_scores, expected_rows = reference(cosines, reference_scores(texts, QUERIES), 20)
  found = index.search(queries, 20, QUERIES)
  np.testing.assert_array_equal(found.rows, expected_rows)
  np.testing.assert_allclose(found.scores, expected_scores, rtol=1e-6)
  before = index.search(queries, 20).rows
  for call, error, argument in [
    (lambda: index.add(embeddings[:2]), ConfigError, "texts"),
    (lambda: index.add(embeddings[:2], texts[:1]), DataError, "texts"),
    (lambda: SentenceIndex.build(embeddings).add(embeddings, texts), ConfigError, "texts"),
    (lambda: SentenceIndex.build(embeddings, texts=texts[:3]), DataError, "texts"),
    (lambda: SentenceIndex.build(embeddings).search(queries, 3, QUERIES), ConfigError, "hybrid"),
  ]:
    with rejected(error, argument):
      call()
  np.testing.assert_array_equal(index.search(queries, 20).rows, before)
  assert len(index) == 300


def queries_of(folder, texts, queries=QUERIES):
  """Returns embeddings of queries for texts of a folder, and what a search in it should give."""
  embeddings = np.random.default_rng(0).uniform(size=[len(queries), 4]) * 2**32
  vectors = np.array([vector(text) for text in texts])
  m, n = len(queries), len(texts)
  cosines = cosine_similarity(np.repeat(embeddings, n, axis=0), np.tile(vectors, [m, 1])).reshape(m, n)
  _, rows = reference(cosines, reference_scores(texts, queries), 30)
  return embeddings, rows


def check_folder(folder, texts):
  """Checks that a folder's index finds what plain NumPy finds in these texts."""
  embeddings, expected = queries_of(folder, texts)
  index = SentenceIndex.load(folder)
  np.testing.assert_array_equal(index.search(embeddings, 30, QUERIES).rows, expected)
  exact = search_of_folder(VectorFolder.open(str(folder)), "exact", 1, hybrid="bm25")
  np.testing.assert_array_equal(exact.search(embeddings, 30, QUERIES).rows, expected)


@needs_faiss
@pytest.mark.parametrize("output", ["npy", "jsonl"])
def test_words_are_added_and_removed_with_their_vectors(tmp_path, output):
  folder, texts = tmp_path / "vectors", [text or "blank" for text in corpus()]
  embed(folder / "a", texts[:120], output=output, keep_text=True)
  embed(folder / "b", texts[120:], output=output, keep_text=True)
  index_vectors(str(folder), hybrid="bm25")
  check_folder(folder, texts)
  before = content_of(folder)
  index_vectors(str(folder))
  assert content_of(folder) == before
  # A run whose words are not asked for again has them, as the others have; of one that is gone nothing is found.
  more = [f"planet of music {number}" for number in range(60)]
  embed(folder / "c", more, output=output, keep_text=True)
  shutil.rmtree(folder / "a")
  index_vectors(str(folder))
  check_folder(folder, [*texts[120:], *more])
  parts = len(list((folder / "index").glob("*.codes")))
  assert len(list((folder / "index").glob("*.words"))) == parts == 6


@needs_faiss
def test_a_saved_index_has_its_words(tmp_path):
  texts = corpus()
  embeddings, queries, _ = by_distinct_cosines(300, len(QUERIES))
  index = SentenceIndex.build(embeddings[:150], texts=texts[:150])
  index.add(embeddings[150:], texts[150:])
  index.save(tmp_path)
  loaded = SentenceIndex.load(tmp_path)
  for index_again in (index, loaded):
    index_again.search(queries[:1], 1, ["saturn"])  # the words are made ready
    index_again.add(embeddings[:9] ** 2, ["whale"] * 9)
  np.testing.assert_array_equal(loaded.search(queries, 50, QUERIES).rows, index.search(queries, 50, QUERIES).rows)
  assert set(loaded.search(queries[:1], 5, ["whale"]).rows[0]) & set(range(300, 309))


_KILLED = """
import os, signal, sys
from bert_flow_tf.vectors.bm25 import WordCounts
from bert_flow_tf.vectors.sentence_index import index_vectors
to_bytes, calls = WordCounts.to_bytes, []
def killed(words):
  calls.append(0)
  if len(calls) == 3:
    os.kill(os.getpid(), signal.SIGKILL)
  return to_bytes(words)
WordCounts.to_bytes = killed
index_vectors(sys.argv[1], hybrid="bm25")
"""


@needs_faiss
@pytest.mark.parametrize("has_index", [False, True])
def test_a_killed_run_resumes(tmp_path, has_index):
  folder, texts = tmp_path / "vectors", [text or "blank" for text in corpus()]
  embed(folder, texts, keep_text=True)
  if has_index:  # which gets words
    index_vectors(str(folder))
  environment = {**os.environ, "PYTHONPATH": str(REPO)}
  done = subprocess.run([sys.executable, "-c", _KILLED, str(folder)], env=environment, check=False, capture_output=True)
  assert done.returncode == -signal.SIGKILL, done.stderr
  before = {path: value for path, value in content_of(folder / "index").items() if path.suffix == ".words"}
  assert len(before) == 2
  if has_index:
    with rejected(ConfigError, "hybrid", match="has no words"):
      SentenceIndex.load(folder).search(np.ones(4), 1, ["saturn"])
  index_vectors(str(folder))
  after = content_of(folder / "index")
  assert all(after[path] == value for path, value in before.items())
  check_folder(folder, texts)


@needs_faiss
def test_damage_and_folders_without_texts_are_one_sentence(tmp_path):
  folder = tmp_path / "vectors"
  embed(folder, SENTENCES)
  with rejected(ConfigError, "vectors", match="has no texts.*--keep_text"):
    index_vectors(str(folder), hybrid="bm25")
  with rejected(ConfigError, "vectors", match="has no texts.*--keep_text"):
    search_of_folder(VectorFolder.open(str(folder)), "exact", 1, hybrid="bm25")
  shutil.rmtree(folder)
  embed(folder, SENTENCES, keep_text=True)
  index_vectors(str(folder), hybrid="bm25")
  for path, call in [
    (folder / "index/00001.words", lambda: SentenceIndex.load(folder)),
    (folder / "shard-00001-of-00005.texts.jsonl", lambda: VectorFolder.open(str(folder)).files[1].texts()),
  ]:
    good = path.read_bytes()
    path.write_bytes(good[:-3] + bytes([good[-3] ^ 1]) + good[-2:])
    with rejected(DataError, "vectors", match="damaged"):
      call()
    path.write_bytes(good)
  # With right checksums, as another program may write it.
  counts = WordCounts.of_texts(["saturn"] * 50)
  others = [WordCounts.of_texts(["one text"])]
  others += [
    dataclasses.replace(counts, words=[""], **{name: counts.distinct[:50] + 7}) for name in ("numbers", "distinct")
  ]
  for content in (b"", b"PK", *(other.to_bytes() for other in others)):
    (folder / "index/00001.words").write_bytes(content)
    state = json.loads((folder / "index/index.json").read_text())
    state["parts"][1]["words_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "index/index.json").write_text(json.dumps(checksums.sealed(state)))
    with rejected(DataError, "vectors", match="00001.words: damaged"):
      SentenceIndex.load(folder)


def test_calibrated_vectors_keep_their_texts(tmp_path):
  embed(tmp_path / "vectors", SENTENCES, keep_text=True)
  folder = str(tmp_path / "vectors")
  fit_files([folder], "mean", str(tmp_path / "mean"))
  apply_to_files([folder], str(tmp_path / "mean"), str(tmp_path / "calibrated"))
  files = VectorFolder.open(str(tmp_path / "calibrated")).files
  assert [text for file in files for text in file.texts()] == SENTENCES


def test_without_bm25s_it_is_one_sentence(monkeypatch):
  monkeypatch.setitem(sys.modules, "bm25s", None)
  with rejected(ConfigError, "hybrid", match=r"needs bm25s.*pip install 'bert-flow-tf\[search\]'"):
    search(Hasher(), "saturn", ["Saturn"], hybrid="bm25")
