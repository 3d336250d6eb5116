"""static_model.py: folders of model2vec and of StaticEmbedding, against NumPy on their vectors and model2vec."""

import json
import pickle

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.encoder_graph import EncoderGraph
from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from bert_flow_tf.serving.export import export_model
from tests.testing import edit_json, hub_folder, rejected

pytestmark = pytest.mark.packages

WORDS = ["a", "b", "dog", "cat", "runs", "eats"]
TOKENS = 1 + len(WORDS)  # the unknown one comes first
TEXTS = ["a dog runs", "cat", "", "zebra", "a zebra eats", "dog dog b", "cat runs a dog eats"]
PLACES = [{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
NESTED = [{**PLACES[0], "path": "0_StaticEmbedding"}]
NORMALIZE = {"path": "1_Normalize", "type": "sentence_transformers.models.Normalize"}


def word_piece():
  backend = Tokenizer(models.WordPiece({word: i for i, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
  backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
  return backend


def unigram():
  vocabulary = [("<unk>", 0.0), *((f"▁{word}", -1.0) for word in WORDS)]
  backend = Tokenizer(models.Unigram(vocabulary, unk_id=0))
  backend.normalizer, backend.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
  return backend


def word_level():
  backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
  backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  return backend


def vectors(rows=TOKENS, dtype=np.float32):
  return np.random.default_rng(0).normal(0, 40, [rows, 4]).astype(dtype)


def save(folder, tensors=None, backend=None, **config):
  """Writes a folder of model2vec."""
  folder.mkdir(parents=True, exist_ok=True)
  save_file(tensors or {"embeddings": vectors()}, folder / "model.safetensors")
  (backend or word_piece()).save(str(folder / "tokenizer.json"))
  values = {"model_type": "model2vec", "architectures": ["StaticModel"], "seq_length": 1_000_000, **config}
  (folder / "config.json").write_text(json.dumps(values))
  return folder


def save_static_embedding(folder, modules=PLACES, backend=None, tensor="embedding.weight", **declared):
  """Writes a folder of sentence-transformers, whose first module has its files in its place."""
  place = folder / modules[0]["path"]
  save(place, {tensor: vectors()}, backend)
  (place / "config.json").unlink()
  (folder / "modules.json").write_text(json.dumps(modules))
  (folder / "config_sentence_transformers.json").write_text(json.dumps(declared))
  return folder


def load(folder, **arguments):
  return SentenceEncoder.from_pretrained(f"static:{folder}", **arguments)


def means(rows, texts=TEXTS, unknown=False):
  """Returns the mean of the rows of each text's words, float64 [n, 4], with or without unknown words."""
  result = np.zeros([len(texts), 4])
  for number, text in enumerate(texts):
    ids = [1 + WORDS.index(word) if word in WORDS else 0 for word in text.split()]
    ids = [row for row in ids if row or unknown]
    if ids:
      result[number] = rows[ids].astype(np.float64).mean(axis=0)
  return result


def unit(rows):
  lengths = np.linalg.norm(rows, axis=1, keepdims=True)
  return rows / np.where(lengths, lengths, 1)


def in_graph(encoder, texts):
  graph = EncoderGraph(encoder, encoder.pooling(), encoder.check_max_seq_length(None))
  assert graph.without_text is None
  return graph.features(tf.constant(texts))[0].numpy()


@pytest.mark.parametrize("backend", [word_piece, unigram, word_level])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_embeddings_are_means_without_unknown_words(tmp_path, backend, dtype):
  rows = vectors(dtype=dtype)
  encoder = load(save(tmp_path, {"embeddings": rows}, backend()))
  np.testing.assert_allclose(encoder.encode(TEXTS), means(rows), atol=1e-4)
  assert encoder.is_static and encoder.dim() == 4 and encoder.declared.max_seq_length == 512 + 2


@pytest.mark.parametrize("backend", [word_piece, unigram])
@pytest.mark.parametrize("normalize", [False, True])
def test_rows_and_weights_of_tokens(tmp_path, backend, normalize):
  rows, mapping = vectors(3), np.array([0, 1, 2, 2, 1, 0, 0])
  weights = np.linspace(0.5, 2, TOKENS)
  tensors = {"embeddings": rows, "mapping": mapping, "weights": weights}
  encoder = load(save(tmp_path, tensors, backend(), normalize=normalize))
  expected = means(rows[mapping] * weights[:, np.newaxis])
  if normalize:
    expected = unit(expected)
  np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-4)
  np.testing.assert_allclose(pickle.loads(pickle.dumps(encoder)).encode(TEXTS), expected, atol=1e-4)
  pytest.importorskip("tensorflow_text")
  np.testing.assert_allclose(in_graph(encoder, TEXTS), expected, atol=1e-4)


def test_a_tokenizer_without_a_form_as_a_graph_leaves_ids(tmp_path):
  pytest.importorskip("tensorflow_text")
  encoder = load(save(tmp_path, backend=word_level()))
  graph = EncoderGraph(encoder, encoder.pooling(), 64)
  assert "WhitespaceSplit" in graph.without_text
  ids, lengths = tf.constant([[1, 3, 5, 0], [4, 0, 0, 0]]), tf.constant([3, 1])
  np.testing.assert_allclose(graph.of_ids(ids, lengths), means(vectors(), TEXTS[:2]), atol=1e-4)


def test_long_texts(tmp_path):
  """model2vec cuts a text at max_length times the median length of a token, and then at max_length tokens."""
  encoder = load(save(tmp_path, max_length=4))
  characters = 4 * 3
  assert np.median([len(token) for token in ["[UNK]", *WORDS]]) == 3
  texts = ["a b a b dog dog", "runs eats a b", f"a{' ' * (characters - 3)}dog", "zebra a b a dog"]
  expected = means(vectors(), ["a b a b", "runs eats a", "a", "zebra a b a"])
  np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-4)
  pytest.importorskip("tensorflow_text")
  np.testing.assert_allclose(in_graph(encoder, texts), expected, atol=1e-4)
  assert load(save(tmp_path, max_length=None)).check_max_seq_length(None) == 65536


@pytest.mark.parametrize("path", ["", "0_StaticEmbedding"])
def test_static_embedding_of_sentence_transformers(tmp_path, path):
  modules, backend = [{**PLACES[0], "path": path}], word_piece()
  save_static_embedding(tmp_path, modules)
  encoder = load(tmp_path)
  np.testing.assert_allclose(encoder.encode(TEXTS), means(vectors(), unknown=True), atol=1e-4)
  assert encoder.check_max_seq_length(None) == 65536
  backend.enable_truncation(2)
  declared = {"prompts": {"query": "cat "}, "default_prompt_name": "query", "truncate_dim": 3}
  encoder = load(save_static_embedding(tmp_path, [*modules, NORMALIZE], backend, **declared))
  read = [" ".join(["cat", *text.split()][:2]) for text in TEXTS]
  expected = unit(means(vectors(), read, unknown=True))[:, :3]
  np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-4)


def test_a_model_of_model2vec_that_sentence_transformers_lists_is_read_as_model2vec_reads_it(tmp_path):
  save(tmp_path, normalize=True)
  (tmp_path / "modules.json").write_text(json.dumps([{**PLACES[0], "path": "."}, NORMALIZE]))
  np.testing.assert_allclose(load(tmp_path).encode(TEXTS), unit(means(vectors())), atol=1e-5)


def test_a_keras_file_with_a_layer_is_loaded(tmp_path):
  layer = SentenceEncoder.from_pretrained(f"static:{save(tmp_path / 'model')}").as_layer()
  text = tf.keras.Input([], dtype=tf.string)
  tf.keras.Model(text, layer(text)).save(tmp_path / "model.keras")
  loaded = tf.keras.models.load_model(tmp_path / "model.keras")
  np.testing.assert_array_equal(loaded(tf.constant(TEXTS)), layer(tf.constant(TEXTS)))


def test_model2vec_gives_the_same(tmp_path):
  model2vec = pytest.importorskip("model2vec")
  tensors = {"embeddings": vectors(), "mapping": np.arange(TOKENS)[::-1].copy(), "weights": np.linspace(0.5, 2, TOKENS)}
  texts = [*TEXTS, "a dog " * 600, "dog" * 2000, "Dog, cat & B."]
  for backend in (word_piece, unigram, word_level):
    save(tmp_path, tensors, backend(), normalize=True)
    expected = model2vec.StaticModel.from_pretrained(tmp_path).encode(texts)
    np.testing.assert_allclose(load(tmp_path).encode(texts), expected, atol=1e-5)


def test_a_calibrated_model_is_saved_and_loaded(tmp_path):
  encoder = load(save(tmp_path / "static", normalize=True))
  sentences = [f"{a} {b} {c} {d}" for a in "ab" for b in WORDS for c in WORDS for d in ("dog", "runs")]
  model = SentenceModel(encoder, cache=tmp_path / "cache").fit(sentences, "whitening")
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model", cache=tmp_path / "cache")
  assert loaded.identity == model.identity and loaded.encoder.name == f"static:{tmp_path / 'static'}"
  np.testing.assert_array_equal(loaded.encode(sentences), model.encode(sentences))
  edit_json(tmp_path / "static/config.json", normalize=False)
  with pytest.raises(EncoderError, match="normalize"):
    SentenceModel.load(tmp_path / "model")


def test_what_decides_an_embedding_is_in_its_identity(tmp_path):
  tensors = {"embeddings": vectors(), "mapping": np.arange(TOKENS), "weights": np.ones(TOKENS)}
  fingerprints = [load(save(tmp_path, tensors)).fingerprint(TEXTS)]
  assert load(save(tmp_path, tensors)).fingerprint(TEXTS) == fingerprints[0]
  for name, values in (("embeddings", vectors() + 1), ("mapping", np.zeros(TOKENS, int)), ("weights", np.arange(7.0))):
    fingerprints.append(load(save(tmp_path, tensors | {name: values})).fingerprint(TEXTS))
  for config in ({"normalize": True}, {"max_length": 3}):
    fingerprints.append(load(save(tmp_path, tensors, **config)).fingerprint(TEXTS))
  fingerprints.append(load(save_static_embedding(tmp_path / "other", tensor="embedding.weight")).fingerprint(TEXTS))
  assert len(set(fingerprints)) == len(fingerprints)


def test_token_weights_and_characters(tmp_path):
  encoder = load(save(tmp_path), token_weights="idf")
  weights = encoder.token_weights.table[:-1]
  expected = np.average(vectors()[[3, 5]], axis=0, weights=weights[[3, 5]])
  np.testing.assert_allclose(encoder.encode(["dog zebra runs"])[0], expected, rtol=1e-4)
  assert SentenceModel(encoder).fit(TEXTS * 2, "mean+characters").encode(TEXTS).shape[0] == len(TEXTS)


@pytest.mark.slow
def test_an_export_takes_text(tmp_path):
  pytest.importorskip("tensorflow_text")
  sentences = [f"{a} {b} {c}" for a in "ab" for b in WORDS for c in WORDS]
  model = SentenceModel(load(save(tmp_path / "static", normalize=True))).fit(sentences, "whitening")
  served = tf.saved_model.load(str(export_model(model, tmp_path / "served")))
  embeddings = served.signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
  np.testing.assert_allclose(embeddings, model.encode(TEXTS), atol=1e-4)


def test_a_model_of_the_hub(tmp_path):
  for name, write in (("a/static", save), ("a/nested", lambda to: save_static_embedding(to, NESTED))):
    write(hub_folder(tmp_path, name, "main"))
    encoder = SentenceEncoder.from_pretrained(f"static:{name}", cache_dir=tmp_path)
    assert encoder.name == f"static:{name}" and encoder.revision


@pytest.mark.parametrize("write", [save, save_static_embedding])
def test_without_its_prefix_it_says_how_to_name_it(tmp_path, write):
  folder = write(tmp_path)
  with rejected(EncoderError, "model", match=f"give static:{folder}"):
    SentenceEncoder.from_pretrained(str(folder))


@pytest.mark.parametrize(
  "arguments",
  [
    {"precision": "float16"},
    {"hidden_act": "gelu"},
    {"max_input_chars_per_word": 5},
    {"strip_accents": True},
    {"saved_model_output": "x"},
    {"vocab_file": "x"},
    {"frequency_corpus": "x"},
  ],
)
def test_settings_without_a_use(tmp_path, arguments):
  with rejected(ConfigError, next(iter(arguments))):
    load(save(tmp_path), **arguments)


def test_it_cannot_be_trained(tmp_path):
  encoder = load(save(tmp_path))
  with rejected(EncoderError, "model", match="use a BERT"):
    encoder.as_layer(trainable=True)
  assert encoder.as_layer()(tf.constant(TEXTS)).shape == [len(TEXTS), 4]


BAD_TENSORS = {
  "no tensor is embeddings": {"vectors": vectors()},
  "for 7 tokens": {"embeddings": vectors(6)},
  "[8, 4]": {"embeddings": vectors(8)},
  "[7, 0]": {"embeddings": np.zeros([7, 0], np.float32)},
  "[7]": {"embeddings": np.zeros(7, np.float32)},
  "[6]": {"embeddings": vectors(), "weights": np.ones(6)},
  "beyond the 3 rows": {"embeddings": vectors(3), "mapping": np.arange(7)},
  "-1": {"embeddings": vectors(3), "mapping": np.full(7, -1)},
  "NaN": {"embeddings": np.full([7, 4], np.nan, np.float32)},
}


@pytest.mark.parametrize("match", BAD_TENSORS)
def test_weights_that_do_not_fit(tmp_path, match):
  save(tmp_path, BAD_TENSORS[match])
  with pytest.raises(EncoderError) as raised:
    load(tmp_path)
  assert "model.safetensors" in str(raised.value) and "\n" not in str(raised.value)
  assert match in str(raised.value) or match == "-1"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff{"])
def test_damaged_files(tmp_path, name, content):
  save(tmp_path)
  path = tmp_path / name
  path.unlink()
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(BertFlowError) as raised:
    load(tmp_path)
  assert str(tmp_path) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
  "model", [models.WordPiece({"a": 0}, unk_token="[UNK]"), models.Unigram([("a", 0.0)]), models.BPE({}, [])]
)
def test_tokenizers_that_cannot_cut_every_text(tmp_path, model):
  with pytest.raises(EncoderError, match=r"tokenizer.json: cannot be read as a tokenizer \("):
    load(save(tmp_path, {"embeddings": vectors(1)}, Tokenizer(model)))


@pytest.mark.parametrize("values", [{"normalize": "yes"}, {"max_length": 0}, {"max_length": "512"}])
def test_settings_that_are_not_supported(tmp_path, values):
  with pytest.raises(EncoderError, match=f"config.json: {next(iter(values))}"):
    load(save(tmp_path, **values))


def test_modules_that_are_not_supported(tmp_path):
  dense = {"path": "1_Dense", "type": "sentence_transformers.models.Dense"}
  with pytest.raises(EncoderError, match=r"modules.json: the module Dense"):
    load(save_static_embedding(tmp_path, [*PLACES, dense]))
  backend = word_piece()
  backend.enable_truncation(4, direction="left")
  with pytest.raises(EncoderError, match=r"tokenizer.json: .* beginning"):
    load(save_static_embedding(tmp_path / "left", backend=backend))
