"""Fits on documents and queries, against NumPy: what separates them is taken away from queries."""

import numpy as np
import pytest
from absl import logging

from bert_flow_tf import FlowConfig, SentenceIndex, SentenceModel, fit_calibration, load_calibration, search
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import CalibrationError, DataError
from tests.encoder import tiny
from tests.flow.cases import cone
from tests.testing import rejected, rewrite_archive
from tests.vectors.toy_folder import needs_faiss

SETTINGS = {"flow_model_config": FlowConfig(n_levels=1, depth=1, coupling_width=8), "show_progress": False}
OFFSET = np.linspace(-1, 2, 8).astype(np.float32)


@pytest.fixture
def warnings(monkeypatch):
  """Returns the warnings that are logged."""
  found = []
  monkeypatch.setattr(logging, "warning", lambda text, *values: found.append(text % values))
  return found


def by_hand(documents, queries):
  """Whitening by the covariance within both roles: the whitened documents, and queries."""
  documents, queries = documents.astype(np.float64), queries.astype(np.float64)
  around = np.concatenate([documents - documents.mean(axis=0), queries - queries.mean(axis=0)])
  values, vectors = np.linalg.eigh(around.T @ around / (len(around) - 1))
  matrix = (vectors / np.sqrt(values))[:, ::-1]
  return (documents - documents.mean(axis=0)) @ matrix, (queries - queries.mean(axis=0)) @ matrix


def same_up_to_signs(found, expected):
  signs = np.sign(np.sum(found * expected, axis=0))
  np.testing.assert_allclose(found * signs, expected, atol=2e-4)
  return signs


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_mean_for_each_role_and_the_covariance_within_both(tmp_path, in_parts):
  documents, queries = cone(90, 8), cone(150, 8)[90:] * np.float32(0.7) + OFFSET
  if in_parts:
    fitted = fit_calibration([documents[:20], documents[20:]], "whitening", queries=[queries[:7], queries[7:]])
  else:
    fitted = fit_calibration(documents, "whitening", queries=queries)
  of_documents, of_queries = by_hand(documents, queries)
  signs = same_up_to_signs(fitted.transform(documents), of_documents)
  np.testing.assert_allclose(fitted.transform_queries(queries) * signs, of_queries, atol=2e-4)
  np.testing.assert_allclose(fitted.query_shift, queries.mean(0, np.float64) - documents.mean(0, np.float64), atol=1e-6)
  fitted.save(tmp_path)
  loaded = load_calibration(tmp_path)
  np.testing.assert_array_equal(loaded.transform_queries(queries), fitted.transform_queries(queries))
  rewrite_archive(tmp_path, "calibration", {"query_shift": np.zeros(3)})
  with pytest.raises(CalibrationError, match="query_shift"):
    load_calibration(tmp_path)


def test_a_new_fit_forgets_queries_and_other_ones_are_not_merged():
  documents, queries = cone(40, 8), cone(40, 8) + OFFSET
  fitted = fit_calibration(documents, "mean", queries=queries)
  with pytest.raises(CalibrationError, match="query_shift cannot be merged"):
    fitted.merge(fit_calibration(documents, "mean"))
  shift = fitted.query_shift
  np.testing.assert_array_equal(fitted.partial_fit(documents[:9]).query_shift, shift)
  assert fitted.fit(documents).query_shift is None


def test_without_queries_they_are_documents(tmp_path):
  rows = cone(40, 8)
  fitted = fit_calibration(rows, "mean")
  np.testing.assert_array_equal(fitted.transform_queries(rows), fitted.transform(rows))
  with np.load(fitted.save(tmp_path), allow_pickle=False) as file:
    assert not any("query" in name for name in file.files)


def test_a_flow_is_that_of_the_documents():
  documents, queries = cone(80, 8), cone(40, 8) + OFFSET
  alone = fit_calibration(documents, "flow", num_train_epochs=1, **SETTINGS)
  fitted = fit_calibration(documents, "flow", queries=queries, num_train_epochs=1, **SETTINGS)
  np.testing.assert_array_equal(fitted.transform(documents), alone.transform(documents))
  moved = queries - (queries.mean(axis=0) - documents.mean(axis=0))
  np.testing.assert_allclose(fitted.transform_queries(queries), alone.transform(moved), atol=1e-4)


def test_wrong_queries(warnings):
  documents = cone(40, 8)
  for wrong in (documents[:0], documents[:, :3], np.full([3, 8], np.nan), "text"):
    with rejected(CalibrationError, "queries"):
      fit_calibration(documents, "mean", queries=wrong)
  fit_calibration(documents, "mean", queries=documents[:31])
  said = "queries: 31 distinct texts; a mean of so few may make a search worse"
  assert [line for line in warnings if line.startswith(said)]
  warnings.clear()
  fit_calibration(documents, "mean", queries=documents[:32])
  assert not warnings


@pytest.mark.parametrize(("count", "is_plain"), [(1, True), (7, True), (8, False)])
def test_very_few_queries_may_be_worse_than_none(warnings, count, is_plain):
  documents = cone(80, 8)
  fit_calibration(documents, "mean", queries=np.tile(documents[:count], [20, 1]))  # copies tell nothing more
  (line,) = warnings
  assert line.startswith(f"queries: {count} distinct text")
  assert ("much worse than after a fit without queries" in line) == is_plain


def test_every_occurrence_of_a_query_counts(encoder, texts):
  documents, queries = texts
  model = SentenceModel(encoder).fit(documents, "mean", queries=[*queries, *queries[:20]], show_progress=False)
  rows = encoder.encode([f"man . {query}" for query in [*queries, *queries[:20]]], show_progress=False)
  expected = rows.mean(0, np.float64) - encoder.encode(documents, show_progress=False).mean(0, np.float64)
  np.testing.assert_allclose(model.calibration.query_shift, expected, atol=1e-6)


def test_rows_of_zeros_are_said_of_both_roles(warnings):
  documents, queries = cone(60, 8), cone(100, 8)[60:]
  documents[3], queries[[1, 5]] = 0, 0
  for given, asked in ((documents, queries), ([documents[:9], documents[9:]], [queries[:2], queries[2:]])):
    warnings.clear()
    fit_calibration(given, "mean", queries=asked)
    assert [line.partition(", as of")[0] for line in warnings] == [
      "vectors: 1 row of zeros",
      "queries: 2 rows of zeros",
    ]
  warnings.clear()
  fit_calibration((documents[10:20], documents[20:30]), "mean", queries=queries[6:])
  assert not warnings


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  return SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path_factory.mktemp("tiny"))), query_prompt="man . ")


@pytest.fixture(scope="module")
def texts():
  words = ["a", "b", "dog", "cats", "dogs", "cat", "man", "."]
  rng = np.random.default_rng(0)
  draw = lambda n: [" ".join(rng.choice(words, rng.integers(2, 6))) for _ in range(n)]  # noqa: E731
  return draw(60), [f"{text} cats cats" for text in draw(40)]


def test_texts_have_the_prompts_of_their_roles_and_their_means(encoder, texts):
  documents, queries = texts
  model = SentenceModel(encoder).fit(documents, "whitening-6", queries=queries, show_progress=False)
  rows = encoder.encode(documents, show_progress=False)
  rows_of_queries = encoder.encode([f"man . {query}" for query in queries], show_progress=False)
  of_documents, of_queries = (rows[:, :6] for rows in by_hand_of_rank(rows, rows_of_queries))
  signs = same_up_to_signs(model.encode_document(documents), of_documents)
  for found in (
    model.encode_query(queries),
    model.encode(queries, prompt_type="query"),
    model.for_queries().encode(queries),
    model.transform(rows_of_queries, prompt_type="query"),
    SentenceModel.encode_query(model.with_calibration(model.calibration), queries),
  ):
    np.testing.assert_allclose(found * signs, of_queries, atol=5e-3)
  np.testing.assert_array_equal(model.encode(documents), model.encode_document(documents))
  # A model of queries knows where documents lie, and what it was fitted with.
  of_queries = model.for_queries()
  np.testing.assert_array_equal(of_queries.encode_document(documents), model.encode_document(documents))
  np.testing.assert_array_equal(of_queries.for_documents().encode(documents), model.encode_document(documents))
  assert of_queries.calibration is model.calibration and of_queries.with_calibration(None).calibration is None
  blank = SentenceModel(encoder).fit(documents, "whitening-6", queries=[*queries, " "], show_progress=False)
  np.testing.assert_array_equal(blank.calibration.query_shift, model.calibration.query_shift)
  with rejected(DataError, "queries"):
    model.fit(documents, "mean", queries=[3], show_progress=False)
  with rejected(CalibrationError, "queries"):
    model.fit(documents, "mean", queries=[], show_progress=False)


def by_hand_of_rank(documents, queries):
  """`by_hand` of embeddings whose covariance may lack a rank: the first directions alone."""
  documents, queries = documents.astype(np.float64), queries.astype(np.float64)
  around = np.concatenate([documents - documents.mean(axis=0), queries - queries.mean(axis=0)])
  values, vectors = np.linalg.eigh(around.T @ around / (len(around) - 1))
  matrix = (vectors / np.sqrt(np.maximum(values, 1e-12)))[:, ::-1]
  return (documents - documents.mean(axis=0)) @ matrix, (queries - queries.mean(axis=0)) @ matrix


def test_texts_without_roles_have_no_model_of_their_own(encoder, texts):
  model = SentenceModel(SentenceEncoder.from_pretrained(encoder.name)).fit(texts[0], "mean", show_progress=False)
  assert model.for_queries() is model is model.for_documents()


def test_search_says_that_queries_lie_apart(encoder, texts, warnings):
  documents, queries = texts

  def apart(model, asked):
    warnings.clear()
    search(model, asked, documents, top_k=1)
    return any("lie apart" in line for line in warnings)

  alone = SentenceModel(encoder).fit(documents, "whitening-6", show_progress=False)
  assert apart(alone, queries) and not apart(alone, queries[:7])
  assert not apart(SentenceModel(encoder), queries)
  with_queries = SentenceModel(encoder).fit(documents, "whitening-6", queries=queries, show_progress=False)
  assert not apart(with_queries, queries)


@needs_faiss
def test_an_index_has_queries_where_they_lie(encoder, texts):
  documents, queries = texts
  model = SentenceModel(encoder).fit(documents, "mean", queries=queries, show_progress=False)
  index = SentenceIndex.build(model.encode_document(documents), model=model)
  expected = search(model.encode_query(queries), model.encode_document(documents), top_k=3)
  found = search(model, queries, index, top_k=3)
  np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
