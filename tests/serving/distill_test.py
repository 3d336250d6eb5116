"""distill.py and model2vec.py: cosines against the written files, read by NumPy and `tokenizers`, and by model2vec."""

import json
import os
import resource

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file

from bert_flow_tf import SentenceEncoder, SentenceModel, distill, export_model
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.step import Step
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, EncoderError
from bert_flow_tf.serving.settings import ExportError
from bert_flow_tf.vectors.unrelated import is_calibrated
from tests.encoder import tiny
from tests.encoder.other.static_model_test import save, save_static_embedding, unigram, vectors, word_level, word_piece
from tests.encoder.text.odd_text import odd_texts
from tests.testing import edit_json, golden_encoder, rejected

pytestmark = pytest.mark.packages

WORDS = ["a", "b", "dog", "cat", "runs", "eats"]
SENTENCES = [f"{a} {b} {c} {d}" for a in "ab" for b in WORDS for c in WORDS for d in ("dog", "runs")]
TEXTS = [*SENTENCES[::7], "a dog", "cat zebra runs", "eats, cat b", "A\x00 dog\u3000runs", "[UNK] a dog", "a b " * 900]
CALIBRATIONS = ["mean", "sn", "whitening", "whitening-2", "soft-whitening", "soft-whitening-0.3", "tempered-whitening"]
CALIBRATIONS += ["natsv-1", "sn+natsv-1", "none"]


def load(folder, **arguments):
  return SentenceEncoder.from_pretrained(f"static:{folder}", **arguments)


def read(folder, texts=TEXTS):
  """Returns the embeddings of a folder of model2vec by its files, as model2vec defines them, float64 [n, dim]."""
  config, tensors = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
  backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  backend.no_truncation()
  unknown = backend.token_to_id(getattr(backend.model, "unk_token", None) or "")
  if unknown is None:
    unknown = json.loads(backend.to_str())["model"].get("unk_id")
  rows = tensors["embeddings"].astype(np.float64)
  if "weights" in tensors:
    rows *= tensors["weights"][:, np.newaxis]
  assert len(rows) == backend.get_vocab_size()
  result = np.zeros([len(texts), rows.shape[1]])
  for number, text in enumerate(texts):
    if config["max_length"] is not None:
      text = text[: config["max_length"] * int(np.median(list(map(len, backend.get_vocab()))))]
    ids = [row for row in backend.encode(text, add_special_tokens=False).ids if row != unknown][: config["max_length"]]
    if ids:
      result[number] = rows[ids].mean(axis=0)
  lengths = np.linalg.norm(result, axis=1, keepdims=True)
  if config["normalize"]:
    result /= np.where(lengths, lengths, 1)
  return result


def cosines(rows):
  """Returns the cosines of neighboring rows; 0 for rows of zeros."""
  lengths = np.linalg.norm(rows, axis=1)
  products = lengths[1:] * lengths[:-1]
  return (rows[1:] * rows[:-1]).sum(axis=1) / np.where(products, products, 1)


def check(folder, model, texts=TEXTS, tolerance=1e-5):
  """Asserts that a written folder has the cosines of a model."""
  np.testing.assert_allclose(cosines(read(folder, texts)), model.similarity(texts[1:], texts[:-1]), atol=tolerance)


def export(model, folder, **settings):
  assert export_model(model, folder, format="model2vec", **settings) == folder.resolve()
  return folder


@pytest.fixture(scope="module")
def known():
  """TEXTS without unknown words, which a calibrated model reads and a table leaves out."""
  return [text for text in TEXTS if "zebra" not in text and "UNK" not in text and "," not in text]


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("backend", [word_piece, unigram, word_level])
def test_a_calibration_goes_into_the_vectors(tmp_path, backend, calibration):
  model = SentenceModel(load(save(tmp_path / "static", backend=backend(), max_length=None)))
  model.fit(SENTENCES, calibration)
  texts = TEXTS if backend is word_level else [text for text in TEXTS if "\u3000" not in text]
  check(export(model, tmp_path / "out", normalize=True), model, texts)
  again = SentenceModel(load(tmp_path / "out"))
  check(tmp_path / "out", again, texts)
  np.testing.assert_allclose(again.encode(TEXTS), read(tmp_path / "out"), atol=1e-5)
  # A table that is written again has the calibration, too.
  for folder in (tmp_path / "out", export(again, tmp_path / "again")):
    assert (folder / "README.md").read_text().count(f"calibration: {model.calibration_name}") == 1
    assert json.loads((folder / "config.json").read_text())["calibration"] == model.calibration_name


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 2e-3), ("int8", 2e-2)])
def test_types_of_the_vectors(tmp_path, dtype, tolerance):
  model = SentenceModel(load(save(tmp_path / "static"))).fit(SENTENCES, "soft-whitening")
  check(export(model, tmp_path / "out", dtype=dtype), model, tolerance=tolerance)
  tensors = load_file(tmp_path / "out/model.safetensors")
  assert tensors["embeddings"].dtype == dtype and ("weights" in tensors) == (dtype == "int8")


def test_weights_of_tokens_and_dimensions(tmp_path, known):
  tensors = {"embeddings": vectors(5), "mapping": np.array([0, 1, 2, 3, 4, 1, 2]), "weights": np.linspace(0.5, 2, 7)}
  static = save(tmp_path / "static", tensors, max_length=None)
  idf = SentenceModel(load(static, token_weights="idf"), low_dim=2).fit(SENTENCES, "sn")
  check(export(idf, tmp_path / "idf"), idf, known)
  cut = SentenceModel(load(static, truncate_dim=3)).fit(SENTENCES, "whitening")
  check(export(cut, tmp_path / "cut"), cut, known)
  assert read(tmp_path / "idf").shape[1] == 2 and read(tmp_path / "cut").shape[1] == 3
  short = SentenceModel(load(static), max_seq_length=5).fit(SENTENCES, "whitening")
  check(export(short, tmp_path / "short"), short, SENTENCES)


def test_word_rows_of_a_bert(tmp_path):
  model = SentenceModel.from_pretrained("static:mini")
  model.fit([f"{text} {number}" for number, text in enumerate(odd_texts(400))], "soft-whitening")
  texts = ["A man is eating food.", "Two dogs, in 1999!", "</s> [CLS] x", "A man is eating.", "e\u0301t\u00e9 \x00"]
  check(export(model, tmp_path / "out", normalize=True), model, texts)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_static_model_of_others_that_divides_by_lengths(tmp_path, known, dtype):
  """Calibrated before the division, by static_normalize=False; also after it was saved and loaded."""
  static = save(tmp_path / "static", {"embeddings": vectors(dtype=dtype)}, normalize=True)
  with_division = SentenceModel(load(static)).fit(SENTENCES, "whitening")
  with rejected(EncoderError, "model", match="fit it with static_normalize=false"):
    export_model(with_division, tmp_path / "out", format="model2vec")
  model = SentenceModel.from_pretrained(f"static:{static}", static_normalize=False).fit(SENTENCES, "whitening")
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  check(export(loaded, tmp_path / "out", normalize=True), model, [*known[:-1], "zebra a"])
  assert distill(load(static), tmp_path / "again", sentences=SENTENCES, calibration="whitening").encoder.bert.normalizes
  np.testing.assert_allclose(cosines(read(tmp_path / "again")), cosines(read(tmp_path / "out")), atol=1e-6)
  plain = SentenceModel(load(static))
  export(plain, tmp_path / "plain")
  np.testing.assert_allclose(read(tmp_path / "plain"), plain.encode(TEXTS), atol=1e-6)
  nested = SentenceModel(load(save_static_embedding(tmp_path / "other"))).fit(SENTENCES, "whitening")
  check(export(nested, tmp_path / "nested"), nested, known)
  # sentence-transformers counts the unknown token, the first one, whose vector must change no direction.
  np.testing.assert_array_equal(load_file(tmp_path / "nested/model.safetensors")["embeddings"][0], 0)


def test_distillation_embeds_each_token_between_cls_and_sep(tmp_path):
  encoder = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny")))
  static = distill(encoder, tmp_path / "out", token_weights="uniform", sentence_embedding_type="avg")
  backend = static.encoder.tokenizer.backend
  tokens = sorted(set(tiny.VOCABULARY) - {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
  assert sorted(backend.get_vocab()) == sorted(["[UNK]", *tokens])
  ids = [[2, tiny.VOCABULARY.index(token), 3] for token in tokens]
  states, _ = tiny.numpy_bert(tiny.random_weights(), np.array(ids), np.ones([len(ids), 3]))
  rows = load_file(tmp_path / "out/model.safetensors")["embeddings"]
  found = rows[[backend.token_to_id(token) for token in tokens]]
  np.testing.assert_allclose(found, states[-1].mean(axis=1), atol=1e-4)
  np.testing.assert_array_equal(rows[backend.token_to_id("[UNK]")], 0)
  texts = ["a dog zebra", "", "zebra", "[MASK] cats."]
  np.testing.assert_allclose(static.encode(texts), read(tmp_path / "out", texts), atol=1e-5)
  np.testing.assert_array_equal(static.encode(["", "zebra"]), 0)


def test_distillation_with_a_calibration(tmp_path):
  encoder = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny")))
  rng = np.random.default_rng(0)
  sentences = [" ".join(rng.choice(["mask", "a", "b", "dog", "cat", "dogs", "zebra"], 4)) for _ in range(300)]
  assert not is_calibrated(distill(encoder, tmp_path / "plain", token_weights="uniform"))
  model = SentenceModel(load(tmp_path / "plain")).fit(sentences, "soft-whitening")
  arguments = {"sentences": iter(sentences), "calibration": "soft-whitening", "dim": 2, "token_weights": "uniform"}
  static = distill(encoder, tmp_path / "out", **arguments)
  assert is_calibrated(static)
  assert model.output_dim > static.output_dim == 2 and static.encoder.bert.normalizes
  known = [text for text in sentences if text != "zebra zebra zebra zebra"]
  found = cosines(read(tmp_path / "out", known))
  np.testing.assert_allclose(found, cosines(model.encode(known)[:, :2].astype(float)), atol=1e-4)
  words = SentenceEncoder.from_pretrained(str(tmp_path / "tiny"), token_weights="idf-2")
  by_words = distill(words, tmp_path / "words").encode(known)
  np.testing.assert_allclose(by_words, read(tmp_path / "words", known), atol=1e-5)
  assert np.abs(by_words - distill(encoder, tmp_path / "idf").encode(known)).max() > 0.1


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "albert", "modernbert", "deberta-v2"])
def test_architectures(tmp_path, name):
  encoder = SentenceEncoder.from_pretrained(str(golden_encoder(name)))
  texts = ["a man is playing a guitar", "two dogs run", "</s> <s> [CLS]", "", "x\u3000\x00 well-known", *odd_texts(50)]
  sentences = [f"{text} {number}" for number, text in enumerate(odd_texts(300))]
  static = distill(encoder, tmp_path / "out", sentences=sentences, calibration="mean")
  np.testing.assert_allclose(static.encode(texts), read(tmp_path / "out", texts), atol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
def test_model2vec_gives_the_same(tmp_path, known, normalize):
  model2vec = pytest.importorskip("model2vec")
  model = SentenceModel(load(save(tmp_path / "static", max_length=9))).fit(SENTENCES, "soft-whitening")
  for dtype, tolerance in (("float32", 1e-5), ("float16", 2e-3), ("int8", 2e-2)):
    folder = export(model, tmp_path / dtype, dtype=dtype, normalize=normalize)
    embeddings = model2vec.StaticModel.from_pretrained(folder).encode(known)
    np.testing.assert_allclose(cosines(embeddings), model.similarity(known[1:], known[:-1]), atol=tolerance)


@pytest.mark.parametrize("normalize", [False, True])
def test_sentence_transformers_gives_the_same(tmp_path, known, normalize):
  sentence_transformers = pytest.importorskip("sentence_transformers")
  model = SentenceModel(load(save(tmp_path / "static", max_length=9))).fit(SENTENCES, "soft-whitening")
  folder = export(model, tmp_path / "out", normalize=normalize)
  embeddings = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(known)
  np.testing.assert_allclose(cosines(embeddings), model.similarity(known[1:], known[:-1]), atol=1e-5)


class Double(Step, methods="double of distill_test"):
  """A step of a user."""

  def output_dim_of(self, dim):
    return dim

  def __call__(self, features):
    return 2 * features.embedding


def static_model(folder, calibration="mean", **arguments):
  return SentenceModel(load(save(folder / "static"), **arguments)).fit(SENTENCES, calibration)


def test_what_no_table_can_hold(tmp_path):
  model = static_model(tmp_path)
  encoder = model.encoder
  not_affine = [
    SentenceModel(encoder).fit(SENTENCES, "mean+characters"),
    SentenceModel(encoder, model.calibration, steps=[Double()]),
  ]
  for other in not_affine:
    with rejected(ConfigError, "calibration", match="is not affine"):
      export_model(other, tmp_path / "out", format="model2vec")
  queries = SentenceModel(encoder).fit(SENTENCES, "mean", queries=SENTENCES[:80])
  with rejected(ConfigError, "calibration", match="without queries"):
    export_model(queries, tmp_path / "out", format="model2vec")
  with rejected(ConfigError, "prompt", match="'a '.* give an empty prompt"):
    export_model(static_model(tmp_path, prompt="a "), tmp_path / "out", format="model2vec")
  full = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny")))
  with rejected(EncoderError, "model", match="distill a transformer"):
    export_model(full, tmp_path / "out", format="model2vec")
  uniform = SentenceModel.from_pretrained(f"static:{tmp_path / 'tiny'}", token_weights="uniform")
  with rejected(ConfigError, "token_weights", match="use idf"):
    export_model(uniform, tmp_path / "out", format="model2vec")
  with rejected(ConfigError, "model", match="a calibration alone"):
    export_model(make_calibration("mean").fit(vectors()), tmp_path / "out", format="model2vec")
  assert sorted(path.name for path in tmp_path.iterdir()) == ["static", "tiny"]


@pytest.mark.parametrize(
  "settings",
  [{"version": 1}, {"model_name": "x"}, {"reference": ["a"]}, {"dtype": "int4"}, {"format": "x"}],
)
def test_settings_that_a_table_does_not_have(tmp_path, settings):
  with rejected(ConfigError, next(iter(settings))):
    export_model(static_model(tmp_path), tmp_path / "out", **{"format": "model2vec", **settings})
  with rejected(ConfigError, "dtype", match="of format=model2vec"):
    export_model(static_model(tmp_path), tmp_path / "out", dtype="int8")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
  return SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path_factory.mktemp("tiny"))))


FIT = {"sentences": SENTENCES, "calibration": "soft-whitening"}
WRONG = {
  "sentences": [
    ({"sentences": SENTENCES}, ConfigError, "give one, as soft-whitening"),
    ({"calibration": "mean"}, ConfigError, "needs sentences"),
    ({**FIT, "sentences": SENTENCES[:10]}, DataError, "has 10 different .* expected at least 13, better 120,"),
    ({**FIT, "sentences": [" ", ""] * 30}, DataError, "has 0 different sentences"),
  ],
  "dim": [
    ({"dim": 2}, ConfigError, "without a calibration"),
    ({**FIT, "dim": 13}, ConfigError, "expected 1 to 12"),
    ({**FIT, "dim": 0}, ConfigError, "expected 1 to 12"),
    ({**FIT, "calibration": "whitening-3", "dim": 4}, ConfigError, "expected 1 to 3"),
    ({**FIT, "calibration": "mean", "dim": 2}, ConfigError, "which mean does not have"),
  ],
  "calibration": [
    ({**FIT, "calibration": "flow"}, ConfigError, "is not affine"),
    ({**FIT, "calibration": "auto"}, ConfigError, "is not affine"),
    ({**FIT, "calibration": "mean+characters"}, ConfigError, "is not affine"),
    ({**FIT, "calibration": "natsv"}, ConfigError, "as in natsv-6"),
    ({**FIT, "calibration": "x"}, ConfigError, "expected one of"),
  ],
  "token_weights": [({"token_weights": "x"}, ConfigError, "expected uniform")],
  "frequency_corpus": [({"frequency_corpus": "/no/file"}, ConfigError, "/no/file")],
  "sentence_embedding_type": [({"sentence_embedding_type": "x"}, ConfigError, "expected")],
  "dtype": [({"dtype": "float64"}, ConfigError, "expected one of")],
  "batch_size": [({"batch_size": 0}, ConfigError, "positive")],
}


@pytest.mark.parametrize("argument", WRONG)
def test_arguments_that_are_not_allowed(tmp_path, transformer, argument):
  for arguments, error, match in WRONG[argument]:
    with rejected(error, argument, match=match):
      distill(transformer, tmp_path / "out", **arguments)
  assert not list(tmp_path.iterdir())


def test_encoders_without_tokens_prompts_and_weights_that_are_given(tmp_path, transformer):
  (tmp_path / "vectors.txt").write_text("a 1 2\nb 2 1\n")
  with rejected(EncoderError, "model", match="embeds whole texts"):
    distill(SentenceEncoder.from_pretrained(f"glove:{tmp_path / 'vectors.txt'}"), tmp_path / "out")
  with rejected(ConfigError, "prompt", match="give an empty prompt"):
    distill(transformer.with_prompt("a "), tmp_path / "out")
  with rejected(ConfigError, "token_weights", match="that it was loaded with"):
    distill(load(save(tmp_path / "static")), tmp_path / "out", token_weights="idf")


def test_a_declared_prompt_is_left_out_by_an_empty_one(tmp_path):
  folder = tiny.save_tiny(tmp_path / "tiny")
  (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "a ", "document": "b "}}')
  (folder / "modules.json").write_text(json.dumps([{"path": "", "type": "sentence_transformers.models.Transformer"}]))
  with rejected(ConfigError, "prompt", match="'a '"):
    distill(SentenceEncoder.from_pretrained(str(folder)), tmp_path / "out", sentence_embedding_type="avg")
  encoder = SentenceEncoder.from_pretrained(str(folder), prompt="")
  assert distill(encoder, tmp_path / "out", sentence_embedding_type="avg").output_dim == 12


@pytest.mark.parametrize("content", ["file", "folder"])
def test_what_exists_stays(tmp_path, transformer, content):
  path = tmp_path / "out"
  if content == "folder":
    path.mkdir()
    path = path / "file"
  path.write_text("mine")
  with rejected(ConfigError, "folder", match="is no empty folder"):
    distill(transformer, tmp_path / "out")
  with rejected(ConfigError, "export_dir", match="is no empty folder"):
    export_model(static_model(tmp_path), tmp_path / "out", format="model2vec")
  assert path.read_text() == "mine"
  path.unlink()
  assert distill(transformer, tmp_path / "out").output_dim == 12  # an empty folder is used


def test_an_error_leaves_no_folder(tmp_path):
  encoder = SentenceEncoder.from_pretrained("static:mini")
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))  # the vectors have 8 MB
  try:
    with rejected(ExportError, "folder", match="too large"):
      distill(encoder, tmp_path / "out")
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  assert os.listdir(tmp_path) == []


def test_a_model_without_a_tokenizer(tmp_path):
  static = save(tmp_path / "static")
  (static / "tokenizer.json").unlink()
  with pytest.raises(BertFlowError, match="no tokenizer"):
    load(static)
  edit_json(save(tmp_path / "static") / "config.json", normalize=True)
  with rejected(ConfigError, "static_normalize", match="no static model of others"):
    SentenceEncoder.from_pretrained("mini", static_normalize=False)
