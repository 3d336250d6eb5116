"""The adapters to sentence-transformers, mteb and SentEval; evaluators_test calls the programs themselves."""

import enum
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import evaluate_retrieval
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.retrieval import score_rankings
from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter, revision
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.model import SentenceModel
from tests.encoder import tiny
from tests.model_test import ARGUMENTS, POOLING, SENTENCES
from tests.testing import rejected

pytestmark = pytest.mark.packages


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  folder = tiny.save_tiny(tmp_path_factory.mktemp("tiny"))
  return SentenceModel.from_pretrained(str(folder), **ARGUMENTS).fit(SENTENCES, "whitening-3", show_progress=False)


@pytest.fixture(scope="module")
def adapter(model):
  return SentenceTransformersAdapter(model)


def test_similarities_are_of_embeddings(adapter):
  a, b = adapter.encode(SENTENCES[:4]), adapter.encode(SENTENCES[4:8])
  cosines = [[u @ v / np.linalg.norm(u) / np.linalg.norm(v) for v in b.astype(float)] for u in a.astype(float)]
  np.testing.assert_allclose(adapter.similarity(a, b), cosines, atol=1e-6)
  np.testing.assert_allclose(adapter.similarity_pairwise(a, b), np.diag(cosines), atol=1e-6)
  zero = np.zeros_like(a)
  assert not adapter.similarity(a, zero).any() and not adapter.similarity_pairwise(zero, b).any()


def test_batches_as_mteb_gives_them(model, adapter):
  expected = model.encode(SENTENCES)
  batches = ({"text": SENTENCES[start : start + 5], "id": [0] * 5} for start in range(0, 12, 5))
  embeddings = adapter.encode(batches, task_metadata=object(), hf_split="test", hf_subset="default", prompt_type=None)
  np.testing.assert_allclose(embeddings, expected, atol=5e-4)
  embeddings = adapter.encode([{"title": "", "text": sentence} for sentence in SENTENCES], batch_size=4)
  np.testing.assert_allclose(embeddings, expected, atol=5e-4)
  np.testing.assert_allclose(adapter.encode_query(tuple(SENTENCES)), expected, atol=5e-4)
  for collection in (tf.constant(SENTENCES), tf.data.Dataset.from_tensor_slices(SENTENCES).batch(5)):
    np.testing.assert_allclose(adapter.encode(collection), expected, atol=5e-4)
  assert adapter.encode("cats").shape == (3,) and adapter.get_embedding_dimension() == 3


def test_what_evaluators_call(adapter):
  """Inputs as in sentence-transformers 6.2 and mteb 2.26: lists, a device, single vectors, errors for texts."""
  rows = adapter.encode(SENTENCES[:3], convert_to_numpy=False)
  assert isinstance(rows, list) and adapter.eval() is adapter and adapter.device == "cpu"
  np.testing.assert_array_equal(rows, adapter.encode(SENTENCES[:3]))
  assert adapter.encode(SENTENCES[0], convert_to_numpy=False).shape == (3,)
  cosine = rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1])
  assert float(adapter.similarity(rows[0], rows[1])) == pytest.approx(cosine, abs=1e-6)
  assert adapter.similarity(rows[:1], rows[1:2]).shape == (1, 1) and adapter.similarity(rows[0], rows).shape == (1, 3)
  for function in (adapter.similarity, adapter.similarity_pairwise):
    with rejected(DataError, "embeddings1"):
      function(["a dog"], ["cats"])
  with rejected(DataError, "embeddings2"):
    adapter.similarity_pairwise(rows, rows[:2])


def test_what_other_programs_call_and_assign(model, adapter):
  """LangChain's lists of float, names of sentence-transformers, and assignments that would have no effect."""
  np.testing.assert_allclose(adapter.embed_documents(SENTENCES), model.encode(SENTENCES), atol=5e-4)
  query = adapter.embed_query("cats")
  assert isinstance(query, list) and type(query[0]) is float and type(adapter.embed_documents(["a"])[0][0]) is float
  assert adapter.get_max_seq_length() == adapter.max_seq_length == 8
  assert adapter.prompts == {} and adapter.truncate_dim is None
  wrong = {"truncate_dim": 2, "prompts": {"query": "a "}, "default_prompt_name": "query", "similarity_fn_name": "dot"}
  wrong |= {"max_seq_length": 9, "device": "cuda", "tokenizer": None, "nonsense": 1}
  for name, value in wrong.items():
    with rejected(ConfigError, name, match="from_pretrained|encode|expected"):
      setattr(adapter, name, value)
  with pytest.raises(AttributeError, match="tokenizer"):
    adapter.tokenizer  # noqa: B018


def test_prompts_by_the_type_that_mteb_gives(tmp_path):
  model = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path)), query_prompt="a dog ", document_prompt="cats ")
  adapter = SentenceTransformersAdapter(model)
  types_of_mteb = enum.Enum("PromptType", {"query": "query", "document": "document"})
  for prompt_type, prompt in ((types_of_mteb.query, "a dog "), (types_of_mteb.document, "cats "), (None, "")):
    expected = model.encode([prompt + text for text in SENTENCES[:3]])
    np.testing.assert_allclose(adapter.encode(SENTENCES[:3], prompt_type=prompt_type), expected, atol=1e-5)
  np.testing.assert_allclose(adapter.embed_query("b"), model.encode("a dog b"), atol=1e-5)
  np.testing.assert_allclose(adapter.embed_documents(["b"]), model.encode(["cats b"]), atol=1e-5)
  others = [SentenceModel.from_pretrained(model.encoder.name, query_prompt=prompt) for prompt in (None, "", "dogs ")]
  assert len({revision(each) for each in (model, *others)}) == 4
  given = adapter.encode(["b"], prompt_type="query", prompt="dogs ")
  np.testing.assert_allclose(given, model.encode(["dogs b"]), atol=1e-5)


def test_a_search_as_mteb_runs_it(tmp_path):
  """Roles by the type that mteb gives, and its ranking; evaluators_test runs mteb itself."""
  model = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path)), query_prompt="cats ", **ARGUMENTS)
  texts = [*filter(None, SENTENCES), "dog b"]
  model.fit(texts[6:], "whitening-3", queries=texts[:6], show_progress=False)
  queries, corpus = ({f"{i}": text for i, text in enumerate(side)} for side in (texts[:6], texts[6:]))
  qrels = {f"{i}": {f"{(i + 2) % 6}": 2, f"{(i + 3) % 6}": 1} for i in range(6)}
  adapter = SentenceTransformersAdapter(model)
  types_of_mteb = enum.Enum("PromptType", {"query": "query", "document": "document"})
  of_queries = adapter.encode([{"text": list(queries.values())}], prompt_type=types_of_mteb.query)
  documents = [{"title": ["", ""], "text": list(corpus.values())[start : start + 2]} for start in range(0, 6, 2)]
  cosines = np.asarray(adapter.similarity(of_queries, adapter.encode(documents, prompt_type=types_of_mteb.document)))
  rankings = {f"{i}": list(map(str, np.argsort(-row))) for i, row in enumerate(cosines)}
  kept = {"ignore_identical_ids": False}
  ours = evaluate_retrieval(model, corpus, queries, qrels, **kept)
  assert score_rankings(rankings, qrels).mean == pytest.approx(ours.mean)
  without_roles = types.SimpleNamespace(encode=model.encode)
  assert evaluate_retrieval(without_roles, corpus, queries, qrels, **kept).mean != pytest.approx(ours.mean)


def test_tensors_where_pytorch_is_imported(adapter, monkeypatch):
  """sentence-transformers stacks the list of `encode`, and moves the similarities, of arrays too, to a device."""

  class Tensor(np.ndarray):
    pass

  torch = types.SimpleNamespace(from_numpy=lambda array: array.view(Tensor))
  monkeypatch.setitem(sys.modules, "torch", None)
  with rejected(ConfigError, "convert_to_tensor", "pip install torch$"):
    adapter.encode(SENTENCES[:3], convert_to_tensor=True)
  rows = adapter.encode(SENTENCES[:3])
  assert rows.flags.writeable and not isinstance(adapter.similarity(rows, rows), Tensor)
  monkeypatch.setitem(sys.modules, "torch", torch)
  tensors = adapter.encode(SENTENCES[:3], convert_to_numpy=False)
  assert isinstance(tensors, list) and isinstance(adapter.encode(SENTENCES[0], convert_to_numpy=False), Tensor)
  for tensor in (*tensors, adapter.similarity(rows, rows), adapter.similarity_pairwise(rows, rows)):
    assert isinstance(tensor, Tensor)
  assert type(adapter.encode(SENTENCES[:3])) is np.ndarray
  np.testing.assert_array_equal(tensors, rows)


def test_a_column_of_arrow_is_taken_whole(model, adapter):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  column = pa.chunked_array([SENTENCES[:5], SENTENCES[5:]]).dictionary_encode()
  np.testing.assert_allclose(adapter.encode(column), model.encode(SENTENCES), atol=5e-4)
  with pytest.raises(DataError, match=r"sentences\[0\] is \{'text': 'a'\}"):
    adapter.encode(pa.array([{"text": "a"}, {"text": "b"}]))


def test_embeddings_that_are_not_compared(adapter):
  rows = np.ones([2, 8])
  for call in (adapter.similarity, adapter.similarity_pairwise):
    assert np.shape(call(rows, rows[:1].repeat(2, axis=0)))[0] == 2
    for a, b, argument in (
      (rows, rows[:, :5], "embeddings2"),
      (rows, rows[0, :5], "embeddings2"),
      (rows, rows[np.newaxis], "embeddings2"),
      (rows[np.newaxis], rows, "embeddings1"),
      (["a text"], rows, "embeddings1"),
    ):
      with rejected(DataError, argument):
        call(a, b)


@pytest.mark.parametrize(
  ("sentences", "arguments", "error"),
  [
    (["a", None], {}, DataError),
    (3, {}, DataError),
    ([{"image": []}], {}, DataError),
    ({"text": ["a"]}, {}, DataError),
    ({"a", "b"}, {}, DataError),
    (np.array("a"), {}, DataError),
    (["a"], {"normalize": True}, ConfigError),
    (["a"], {"prompt_name": "query"}, ConfigError),
  ],
)
def test_refused(adapter, sentences, arguments, error):
  with pytest.raises(error) as raised:
    adapter.encode(sentences, **arguments)
  argument = next(iter(arguments), "sentences")
  assert raised.value.argument == argument


def test_revision_for_mteb_follows_from_everything_that_decides(model):
  """Equal for equal models, different for another calibration, pooling or length."""
  encoder, rows = model.encoder, model.encode(SENTENCES, calibrated=False)
  again = make_calibration("whitening-3").fit(rows)
  again.encoder = model.calibration.encoder
  assert revision(SentenceModel(encoder, again, **ARGUMENTS)) == revision(model)
  other = make_calibration("whitening-3").fit(rows[1:])
  models = [model, SentenceModel(encoder, other, **ARGUMENTS), SentenceModel(encoder, **ARGUMENTS)]
  models.append(SentenceModel(encoder, **{**ARGUMENTS, "max_seq_length": 9}))
  assert len({revision(each) for each in models}) == 4
  steps = [SentenceModel(encoder, steps=[LowDim(groups)], **POOLING) for groups in (2, 3)]  # which have no name
  assert len({revision(each) for each in (SentenceModel(encoder, **POOLING), *steps)}) == 3
  # sentence-transformers caches embeddings under this name.
  assert len({SentenceTransformersAdapter(each).model_card_data.base_model for each in models}) == 4


def test_senteval(model):
  """Words are joined again, an empty sentence becomes "."; prepare embeds each distinct sentence once."""
  asked = []

  def encode(sentences):
    asked.append(list(sentences))
    return model.encode(sentences)

  adapter = SentEvalAdapter(encode)
  words = [["a", "dog."], [], ["cats"], [b"a", b"dog."], "cats", ["  "]]
  expected = model.encode(["a dog.", ".", "cats", "a dog.", "cats", "."])
  np.testing.assert_allclose(adapter.batcher({}, words), expected, atol=5e-4)
  assert asked.pop() == ["a dog.", ".", "cats", "a dog.", "cats", "."]
  assert adapter.prepare({}, np.array(words, dtype=object)) is None
  found = adapter.batcher({}, words)
  np.testing.assert_allclose(found, expected, atol=5e-4)
  assert asked == [["a dog.", ".", "cats"]] and found.dtype == np.float32
  adapter.batcher({}, [["b"]])  # never prepared
  assert asked[1:] == [["b"]]
  adapter.prepare({}, [])
  assert adapter.batcher({}, [["b"]]).shape == (1, 3)
  embedded = SentEvalAdapter(model).batcher({}, [["a", "dog."]])
  np.testing.assert_allclose(embedded, model.encode(["a dog."]), atol=5e-4)
