"""Folders of sentence-transformers are read with the pooling and length that they declare."""

import importlib.util
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, search
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.encoder.checkpoints.declared import read_declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.vectors.model_of_vectors import check_embedder, embedder_values
from tests.encoder import tiny
from tests.testing import edit_json, rejected

pytestmark = pytest.mark.packages

TRANSFORMER, POOLING = "sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"
TEXTS = ["a b c", "b", "c a a b c b a"]


def declare(folder, pooling, modules=(("", TRANSFORMER), ("1_Pooling", POOLING)), length=7, **model):
  """Writes the files of sentence-transformers next to a BERT's; `model`: the declaration of the whole model."""
  (folder / "1_Pooling").mkdir(exist_ok=True)
  modules = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]
  (folder / "modules.json").write_text(json.dumps(modules))
  (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
  (folder / "config_sentence_transformers.json").write_text(json.dumps(model))
  if length is not None:
    (folder / modules[0]["path"] / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))


def modes(*on):
  """Returns the content of 1_Pooling/config.json with some modes on."""
  names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
  return {"word_embedding_dimension": 8} | {f"pooling_mode_{name}": name in on for name in names}


@pytest.mark.parametrize(
  "pooling, ours",
  [
    (modes("mean_tokens"), "avg"),
    (modes("cls_token"), "cls-token"),
    (modes("max_tokens"), "max"),
  ],
)
def test_the_declared_pooling_equals_numpys(tmp_path, pooling, ours):
  weights = tiny.random_weights()
  declare(tiny.save_tiny(tmp_path, weights), pooling)
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  expected = []
  for ids in encoder.tokenizer(TEXTS, 7):
    last = tiny.numpy_bert(weights, ids[np.newaxis], np.ones([1, len(ids)]))[0][-1][0]
    expected.append({"avg": last.mean(axis=0), "cls-token": last[0], "max": last.max(axis=0)}[ours])
  np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=2e-5)
  assert encoder.identity() == encoder.identity(ours, 7)
  assert encoder.fingerprint(TEXTS) == encoder.fingerprint(TEXTS, ours, 7)


def test_an_explicit_pooling_and_length_win_and_the_log_names_the_declared(tmp_path, caplog):
  plain = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "plain"))).encode(TEXTS, "avg-first-last", 5)
  declare(tiny.save_tiny(tmp_path / "declared"), modes("lasttoken"))
  with caplog.at_level("INFO", logger="absl"):
    arguments = {"sentence_embedding_type": "avg-first-last", "max_seq_length": 5}
    model = SentenceModel.from_pretrained(str(tmp_path / "declared"), **arguments)
  assert "lasttoken" in caplog.text and "7 is declared" in caplog.text
  np.testing.assert_array_equal(model.encode(TEXTS, calibrated=False), plain)


def test_the_bert_may_lie_in_a_subfolder(tmp_path):
  tiny.save_tiny(tmp_path / "0_Transformer")
  declare(tmp_path, modes("mean_tokens"), (("0_Transformer", TRANSFORMER), ("1_Pooling", POOLING)))
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  plain = SentenceEncoder.from_pretrained(str(tmp_path / "0_Transformer"))
  assert encoder.name == str(tmp_path)
  np.testing.assert_array_equal(encoder.encode(TEXTS), plain.encode(TEXTS, "avg", 7))


@pytest.mark.parametrize(
  ("pooling", "more", "declared"),
  [
    (modes("lasttoken"), (), "lasttoken"),
    (modes("weightedmean_tokens"), (), "weightedmean_tokens"),
    (modes("cls_token", "mean_tokens"), (), "cls_token and mean_tokens"),
    (modes(), (), "none"),
    (modes("mean_tokens"), (("2_Dense", "sentence_transformers.models.Dense"),), "Dense"),
  ],
)
def test_what_is_not_supported_is_rejected_unless_a_pooling_is_given(tmp_path, pooling, more, declared):
  declare(tiny.save_tiny(tmp_path), pooling, (("", TRANSFORMER), ("1_Pooling", POOLING), *more))
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  with rejected(EncoderError, "sentence_embedding_type", match=f"modules.json .*{declared}"):
    encoder.encode(TEXTS)
  assert tiny.embed(encoder, TEXTS, "avg").shape == (3, encoder.hidden_size)


def test_normalize_is_harmless_and_no_pooling_is_rejected(tmp_path):
  normalize = ("2_Normalize", "sentence_transformers.models.Normalize")
  declare(tmp_path, modes("mean_tokens"), (("", TRANSFORMER), ("1_Pooling", POOLING), normalize), length=None)
  declared, files = read_declared(EncoderFiles(tmp_path))
  assert (declared.pooling(), declared.source, files.folder) == ("avg", str(tmp_path / "modules.json"), tmp_path)
  declare(tmp_path, modes("mean_tokens"), (("", TRANSFORMER), normalize))
  assert read_declared(EncoderFiles(tmp_path))[0].unsupported == "no pooling"


@pytest.mark.parametrize(
  ("name", "content", "length", "expected"),
  [
    ("sentence_bert_config.json", {"max_seq_length": 9}, 5, 9),
    ("sentence_bert_config.json", {"max_seq_length": None, "do_lower_case": False}, 5, 5),
    ("sentence_bert_config.json", {"max_seq_length": 9, "tokenizer_args": {"trust_remote_code": True}}, 5, 9),
    # sentence-transformers 6
    ("sentence_bert_config.json", {"transformer_task": "feature-extraction", "module_output_name": None}, 5, 5),
    ("sentence_xlm-roberta_config.json", {"max_seq_length": 9}, 5, 9),
    ("sentence_bert_config.json", {}, 1000000000000000019884624838656, 16),
    ("sentence_bert_config.json", {}, 1e30, 16),
    ("sentence_bert_config.json", {}, None, 16),
  ],
)
def test_the_length_is_where_each_release_saves_it(tmp_path, name, content, length, expected):
  """The encoder has 16 positions; `length` is the tokenizer's model_max_length."""
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), length=None)
  (tmp_path / name).write_text(json.dumps(content))
  edit_json(tmp_path / "tokenizer_config.json", model_max_length=length)
  assert SentenceModel.from_pretrained(str(tmp_path)).max_seq_length == expected


QUERY = {"prompts": {"query": "a dog . ", "document": "cat ", "no": ""}, "default_prompt_name": "query"}


def test_prompts_are_put_before_sentences(tmp_path):
  """Prompts work in Python, a graph and a layer; by default, by name, as a text, and after a model was saved."""
  declare(tiny.save_tiny(tmp_path / "encoder"), modes("mean_tokens"), length=None, **QUERY)
  name = str(tmp_path / "encoder")
  model, plain = SentenceModel.from_pretrained(name), SentenceModel.from_pretrained(name, prompt="")
  after = {prompt: plain.encode([prompt + text for text in TEXTS]) for prompt in ("a dog . ", "cat ", "b ", "")}
  cached = SentenceModel(model.encoder, cache=str(tmp_path / "cache"))
  for arguments, prompt in (
    ({}, "a dog . "),
    ({"prompt_name": "document"}, "cat "),
    ({"prompt_name": "no"}, ""),
    ({"prompt": "b ", "prompt_name": "query"}, "b "),
    ({"prompt": ""}, ""),
  ):
    for each in (model, cached, cached):
      np.testing.assert_allclose(each.encode(TEXTS, **arguments), after[prompt], atol=1e-5)
  adapter = SentenceTransformersAdapter(model)
  np.testing.assert_allclose(adapter.encode(TEXTS), after["a dog . "], atol=1e-5)
  np.testing.assert_allclose(adapter.encode_document(TEXTS), after["cat "], atol=1e-5)
  np.testing.assert_allclose(adapter.encode(TEXTS, prompt_type="query"), after["a dog . "], atol=1e-5)
  np.testing.assert_allclose(model.encoder.as_layer()(TEXTS), after["a dog . "], atol=1e-5)
  if importlib.util.find_spec("tensorflow_text"):
    np.testing.assert_allclose(model.as_function()(tf.constant(TEXTS)), after["a dog . "], atol=1e-5)
  assert model.identity.differences(plain.identity) != [] and model.identity.settings.prompt == "a dog . "
  for each in (model.fit(TEXTS, "mean"), plain):
    expected = each.encode(TEXTS)
    each.save(tmp_path / "saved")
    np.testing.assert_array_equal(SentenceModel.load(tmp_path / "saved").encode(TEXTS), expected)
  with rejected(ConfigError, "prompt_name", match="query, document, no"):
    model.encode(TEXTS, prompt_name="passage")
  with rejected(ConfigError, "characters"):
    model.with_calibration(None, characters=16)


@pytest.mark.parametrize(
  ("prompts", "given", "query", "document"),
  [
    ({"query": "a dog . ", "document": "cat ", "passage": "b "}, {}, "a dog . ", "cat "),
    ({"query": "a dog . ", "document": "", "passage": "b "}, {}, "a dog . ", "b "),
    ({"corpus": "b "}, {}, "", "b "),
    ({"query": "a dog . "}, {"prompt": "cat "}, "a dog . ", "cat "),
    ({"query": "a dog . ", "document": "b "}, {"prompt": ""}, "", ""),
    ({"query": "a dog . ", "document": "b "}, {"query_prompt": "", "document_prompt": "cat "}, "", "cat "),
    ({"no": "b "}, {"prompt": "cat "}, "cat ", "cat "),
    ({}, {"prompt": "cat "}, "cat ", "cat "),
    ({}, {"prompt": "cat ", "query_prompt": "b "}, "b ", "cat "),
    ({}, {}, "", ""),
  ],
)
def test_prompts_of_queries_and_documents(tmp_path, prompts, given, query, document):
  """By what is given, else declared; also of a saved encoder, and of one that embeds documents by default."""
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), prompts=prompts)
  encoder = SentenceEncoder.from_pretrained(str(tmp_path), **given)
  saved = EncoderIdentity.from_dict(encoder.identity().to_dict(), "here").loading_settings()
  for each in (encoder, SentenceEncoder.load(saved), encoder.for_documents()):
    assert (each.prompt_of("query"), each.prompt_of("document")) == (query, document)
  assert encoder.prompt == given.get("prompt", "") and encoder.for_documents().prompt == document
  assert encoder.identity().deciding() == encoder.with_prompt(encoder.prompt).identity().deciding()


def test_a_search_takes_the_prompts_of_queries_and_documents(tmp_path):
  """In every form of a model; `encode` and `similarity` take neither."""
  head = {"prompts": {"query": "a dog . ", "passage": "cat "}}
  declare(tiny.save_tiny(tmp_path / "encoder"), modes("mean_tokens"), **head)
  model = SentenceModel.from_pretrained(str(tmp_path / "encoder"))
  vectors, queries = (model.encode([prompt + text for text in TEXTS]) for prompt in ("cat ", "a dog . "))
  expected, mean = search(queries, vectors, top_k=3), model.encode(TEXTS).mean(axis=0)
  index = embedder_values(model)
  model.save(tmp_path / "saved")
  loaded, of_documents = SentenceModel.load(tmp_path / "saved"), model.for_documents()
  for each in (model, loaded, SentenceTransformersAdapter(model), of_documents, embedder_of(model).load()):
    np.testing.assert_allclose(each.encode_query(TEXTS), queries, atol=1e-5)
    np.testing.assert_allclose(each.encode(TEXTS, prompt_type="passage"), vectors, atol=1e-5)
    np.testing.assert_allclose(search(each, TEXTS, TEXTS, top_k=3).scores, expected.scores, atol=1e-5)
  np.testing.assert_allclose(of_documents.encode(TEXTS), vectors, atol=1e-5)
  for values in (index, embedder_values(of_documents)):  # of a program, and of bert-flow embed
    check_embedder(values, model, "index")
  model.fit(TEXTS, "mean", show_progress=False)  # on sentences without these prompts
  np.testing.assert_allclose(model.encode_document(TEXTS), vectors - mean, atol=1e-5)
  np.testing.assert_allclose(model.for_documents().encode(TEXTS), vectors - mean, atol=1e-5)
  with rejected(ConfigError, "prompt_type"):
    model.encode(TEXTS, prompt_type="both")


def test_the_first_dimensions_are_kept(tmp_path):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), truncate_dim=5)
  model = SentenceModel.from_pretrained(str(tmp_path))
  whole = SentenceModel.from_pretrained(str(tmp_path), truncate_dim=0)
  expected = whole.encode(TEXTS)
  assert (model.dim, whole.dim) == (5, 12)
  np.testing.assert_array_equal(model.encode(TEXTS), expected[:, :5])
  np.testing.assert_allclose(model.encoder.as_layer()(TEXTS), expected[:, :5], atol=1e-5)
  assert model.identity.differences(whole.identity) == ["truncate_dim 5, now 0"]
  assert model.fit(TEXTS, "mean").encode(TEXTS).shape == (3, 5)


@pytest.mark.parametrize(
  ("model", "error"),
  [
    ({"prompts": {"query": 3}}, "prompts is"),
    ({"prompts": ["query"]}, "prompts is"),
    ({"default_prompt_name": "query"}, "default_prompt_name is 'query'"),
    ({"truncate_dim": "5"}, "truncate_dim is '5'"),
  ],
)
def test_a_damaged_declaration_of_the_model(tmp_path, model, error):
  declare(tmp_path, modes("mean_tokens"), **model)
  with pytest.raises(EncoderError, match=rf"config_sentence_transformers\.json: {error}"):
    read_declared(EncoderFiles(tmp_path))


def test_a_pooling_without_the_prompt_is_rejected(tmp_path):
  pooling = {"pooling_mode": "mean", "include_prompt": False}
  declare(tiny.save_tiny(tmp_path), pooling, **QUERY)
  with rejected(EncoderError, "prompt", match="include_prompt"):
    SentenceEncoder.from_pretrained(str(tmp_path))
  encoder = SentenceEncoder.from_pretrained(str(tmp_path), prompt="")
  with rejected(EncoderError, "prompt"):
    SentenceModel(encoder).encode(TEXTS, prompt="b ")


@pytest.mark.parametrize("content", [{"query_length": 8}, {"processing_kwargs": {"text": {"max_length": 5}}}])
def test_a_transformer_of_another_kind_is_rejected(tmp_path, content):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), length=None)
  (tmp_path / "sentence_bert_config.json").write_text(json.dumps(content))
  with rejected(EncoderError, "sentence_embedding_type", match=next(iter(content))):
    SentenceEncoder.from_pretrained(str(tmp_path)).encode(TEXTS)


@pytest.mark.parametrize(("mode", "ours"), [("mean", "avg"), (["cls"], "cls-token")])
def test_the_notation_of_newer_versions(tmp_path, mode, ours):
  declare(tmp_path, {"pooling_mode": mode})
  declared, _ = read_declared(EncoderFiles(tmp_path))
  assert (declared.pooling(), declared.max_seq_length) == (ours, 7)


@pytest.mark.parametrize("length", ["7", 2, True, 1.5])
def test_damaged_length(tmp_path, length):
  declare(tmp_path, modes("mean_tokens"), length=length)
  with pytest.raises(EncoderError, match=r"sentence_bert_config\.json: max_seq_length"):
    read_declared(EncoderFiles(tmp_path))


def test_declared_lower_case_must_be_the_tokenizers(tmp_path):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"))
  (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
  SentenceEncoder.from_pretrained(str(tmp_path))
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  for name in (str(tmp_path), f"static:{tmp_path}"):
    with pytest.raises(EncoderError, match=r"sentence_bert_config\.json: do_lower_case"):
      SentenceEncoder.from_pretrained(name)


def test_a_length_beyond_the_positions_becomes_their_number(tmp_path):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), length=10_000)
  model = SentenceModel.from_pretrained(str(tmp_path))
  assert model.max_seq_length == model.encoder.bert.config.max_position_embeddings
