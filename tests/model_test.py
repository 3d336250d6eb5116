"""bert_flow_tf/model.py: SentenceModel, on a random tiny BERT."""

import copy
import importlib.util
import json
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import calibration_sha256, load_calibration
from bert_flow_tf.calibration.step import Normalize, Step
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError, EncoderError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.distill import distill
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.training.calibrate import fit_calibration
from tests.encoder import tiny
from tests.testing import rejected, rewrite_archive

pytestmark = pytest.mark.packages

SENTENCES = ["a dog.", "cats", "dog b dogs", "", "a b a b .", "dog", "cats b", "b . a", "dogs dogs", "mask", "[ ]", "a"]
POOLING = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 8}
ARGUMENTS = {**POOLING, "low_dim": 3}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  return SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def rows(encoder):
  return encoder.encode(SENTENCES, show_progress=False, **POOLING)


@pytest.fixture
def model(encoder):
  return SentenceModel(encoder, **ARGUMENTS).fit(SENTENCES, "whitening-6", show_progress=False)


class Zeros(Step, methods=("zeros",)):
  def output_dim_of(self, dim):
    return dim

  def __call__(self, features):
    return tf.zeros_like(features.embedding)


def whitened(rows):
  """Whitening worked out here, the first 6 columns."""
  values, vectors = np.linalg.eigh(np.cov(rows.astype(np.float64).T))
  return (rows - rows.mean(axis=0)) @ (vectors / np.sqrt(np.maximum(values, 1e-12)))[:, ::-1][:, :6]


def grouped(embeddings):
  """low_dim=3: the mean of each third of the dimensions."""
  return embeddings.reshape(len(embeddings), 3, -1).mean(axis=2)


def test_embeddings_are_those_of_encoder_and_calibration(model, rows):
  embeddings = model.encode(SENTENCES, 5, False, False)
  assert embeddings.dtype == np.float32 and embeddings.shape == (12, 3) == (12, model.output_dim) and model.dim == 12
  assert model.get_sentence_embedding_dimension() == 3
  calibrated = model.calibration.transform(rows)
  np.testing.assert_allclose(np.abs(calibrated), np.abs(whitened(rows)), rtol=1e-3, atol=1e-3)  # the sign is free
  np.testing.assert_allclose(embeddings, grouped(calibrated), rtol=1e-3, atol=1e-3)
  np.testing.assert_allclose(model.encode(SENTENCES[0]), embeddings[0], atol=5e-4)
  assert model.encode("cats").shape == (3,) and model.encode([]).shape == (0, 3)
  np.testing.assert_allclose(model.encode(SENTENCES, calibrated=False), rows, atol=1e-6)
  normalized = model.encode(SENTENCES, normalize_embeddings=True)
  np.testing.assert_allclose(np.linalg.norm(normalized, axis=1), 1.0, atol=1e-6)


def test_embeddings_are_held_once(encoder, monkeypatch):
  """Those of texts that repeat, and of length 1, are made in place."""
  for name in ("encoder.text_encoder.CHUNK_SENTENCES", "model.CHUNK_SENTENCES", "io.checks._CHUNK"):
    monkeypatch.setattr(f"bert_flow_tf.{name}", 1000)
  table = np.random.default_rng(0).normal(size=[20_000, 256]).astype(np.float32)
  monkeypatch.setattr(encoder, "dim", lambda _: 256)
  monkeypatch.setattr(encoder, "_embed_texts", lambda texts, *_: table[list(map(int, texts))])
  numbers = np.r_[0:9000, 100:900, 9000:20_000, 0:20_000:3]
  texts, model = list(map(str, numbers)), SentenceModel(encoder)
  model.encode(texts[:2000])
  tracemalloc.start()
  try:
    embeddings = model.encode(texts, normalize_embeddings=True)
    peak = tracemalloc.get_traced_memory()[1]
  finally:
    tracemalloc.stop()
  expected = table[numbers] / np.linalg.norm(table[numbers], axis=1, keepdims=True)
  np.testing.assert_array_equal(embeddings, expected)
  assert peak < 1.5 * embeddings.nbytes


def test_without_calibration(encoder, rows):
  model = SentenceModel(encoder, **ARGUMENTS)
  np.testing.assert_allclose(model.encode(np.array(SENTENCES), batch_size=64), grouped(rows), atol=1e-6)
  assert model.output_dim == 3 and model.max_seq_length == 8 and model.name == encoder.name
  for bad in (rows[0], rows[:, 1:], rows * np.nan):
    with rejected(CalibrationError, "embeddings"):
      model.transform(bad)


@pytest.mark.parametrize("distinct", [4, 100])
@pytest.mark.parametrize("calibration", [None, "mean", "mean+characters-8"])
def test_similarity_of_many_pairs_is_worked_out_in_parts(encoder, monkeypatch, distinct, calibration):
  """With all embeddings in memory, and without."""
  model = SentenceModel(encoder, **POOLING)
  if calibration is not None:
    model.fit(SENTENCES, calibration, show_progress=False)
  pairs = [SENTENCES[row % len(SENTENCES)] for row in range(23)], [SENTENCES[row % 5] for row in range(23)]
  whole = model.similarity(*pairs)
  embedded, embed = [], model._embed_if_read

  def counted(texts, *arguments, **named):
    embedded.append(len(texts))
    return embed(texts, *arguments, **named)

  monkeypatch.setattr(model, "_embed_if_read", counted)
  monkeypatch.setattr("bert_flow_tf.model._MAX_TEXTS", distinct)
  monkeypatch.setattr("bert_flow_tf.model._PART_TEXTS", 8)
  np.testing.assert_allclose(model.similarity(*pairs), whole, atol=1e-4)
  assert max(embedded) == (8 if distinct == 4 else len(SENTENCES))
  assert model.similarity([], []).shape == (0,)


def test_similarity_is_of_pairs(model):
  a, b = (model.encode(side).astype(float) for side in (SENTENCES[:6], SENTENCES[6:]))
  expected = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
  np.testing.assert_allclose(model.similarity(SENTENCES[:6], SENTENCES[6:]), expected, atol=1e-3)
  assert SentenceModel(model.encoder, [Zeros()]).similarity(["a"], ["b"]).tolist() == [0.0]
  for wrong in (["a"], np.ones([2, 3]), "a"):
    with pytest.raises(DataError) as raised:
      model.similarity(["a", "b"], wrong)
    assert raised.value.argument == "texts_b"


@pytest.mark.parametrize("form", ["SentencePairs", "two lists", "list of pairs"])
def test_pairs_are_fitted_as_their_sentences(encoder, model, form):
  a, b = SENTENCES[:6], SENTENCES[6:]
  pairs = {
    "SentencePairs": SentencePairs(a, b, np.zeros(6)),
    "two lists": (a, b),
    "list of pairs": list(zip(a, b, strict=True)),
  }
  fitted = SentenceModel(encoder, **ARGUMENTS).fit(pairs[form], "whitening-6", show_progress=False)
  np.testing.assert_allclose(fitted.encode(SENTENCES), model.encode(SENTENCES), atol=1e-3)


def test_fit_of_a_flow(encoder, tmp_path):
  """It is saved with its encoder."""
  config = tmp_path / "small.json"
  config.write_text(json.dumps({**FlowConfig(n_levels=1, depth=1, coupling_width=8).to_dict()}))
  model = SentenceModel(encoder, **ARGUMENTS)
  model.fit(SENTENCES, flow_model_config=str(config), train_batch_size=2, num_train_epochs=0.5, show_progress=False)
  model.save(tmp_path / "flow")
  loaded = SentenceModel.load(tmp_path / "flow")
  assert loaded.identity == model.identity and loaded.calibration.name == "flow"
  np.testing.assert_array_equal(loaded.encode(SENTENCES), model.encode(SENTENCES))


def test_a_fit_that_is_not_resumed_names_what_differs(encoder, tmp_path):
  config = FlowConfig(n_levels=1, depth=1, coupling_width=8)
  settings = {"flow_model_config": config, "train_batch_size": 4, "show_progress": False, "folder": tmp_path}
  SentenceModel(encoder).fit(SENTENCES, **settings)
  name = encoder.name
  others = {
    r"\(max_seq_length 16, now 5\)": (SentenceModel(encoder, max_seq_length=5), {}),
    r"\(precision float32, now bfloat16\)": (SentenceModel.from_pretrained(name, precision="bfloat16"), {}),
    r"\(token_weights uniform, now idf-0.75; ": (SentenceModel.from_pretrained(name, token_weights="idf"), {}),
    r"\(prompt , now a ;": (SentenceModel.from_pretrained(name, prompt="a "), {}),
    r"\(encoder_dropout False, now True\)": (SentenceModel(encoder), {"encoder_dropout": True}),
    r"\(pooling .*, now \['cls'\]; flow.seed 1234, now 2;": (
      SentenceModel(encoder, sentence_embedding_type="cls"),
      {"seed": 2},
    ),
    r"\(flow.seed 1234, now 2; seed 1234, now 2\)": (SentenceModel(encoder), {"seed": 2}),
    r"\(data .*\(data stands for sentences and versions\)": (SentenceModel(encoder), {"sentences": SENTENCES[::-1]}),
  }
  for difference, (other, changes) in others.items():
    with pytest.raises(TrainingError, match=difference):
      other.fit(**{"sentences": SENTENCES, **settings, **changes})
  low = SentenceModel(encoder, low_dim=3).fit(SENTENCES, **settings)
  assert low.flow_fit.first_step == low.flow_fit.steps


def test_k_is_chosen_on_dev(encoder):
  gold = np.arange(6.0)
  model = SentenceModel(encoder, **ARGUMENTS)
  model.fit(SENTENCES, "natsv", dev=SentencePairs(SENTENCES[:6], SENTENCES[6:], gold), show_progress=False)
  assert 1 <= model.calibration.k < 12
  with rejected(ConfigError, "calibration"):
    model.fit(SENTENCES, "natsv", show_progress=False)


@pytest.mark.parametrize("calibrated", [False, True])
def test_saved_and_loaded(encoder, model, tmp_path, calibrated):
  """The folder alone names encoder, pooling and length."""
  model = model if calibrated else SentenceModel(encoder, **ARGUMENTS)
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  assert loaded.identity == model.identity and loaded.output_dim == model.output_dim
  np.testing.assert_array_equal(loaded.encode(SENTENCES), model.encode(SENTENCES))
  with pytest.raises(EncoderError) as error:
    SentenceModel.load(tmp_path / "model", max_seq_length=9)
  assert error.value.argument == "folder" and "max_seq_length 8, now 9" in str(error.value)
  # Another encoder may not even have the settings of the fit.
  remedy = f"give the encoder and settings of the fit, with model={encoder.name}"
  with rejected(EncoderError, "folder", f"static:mini' has no transformer.*{remedy}$"):
    SentenceModel.load(tmp_path / "model", model="static:mini")
  with rejected(ConfigError, "precision", "already loaded, with float32"):
    SentenceModel.load(tmp_path / "model", model=encoder, precision="bfloat16")
  loaded = SentenceModel.load(tmp_path / "model", model=encoder, max_seq_length=9, allow_other_encoder=True)
  assert loaded.max_seq_length == 9 and loaded.encoder is encoder
  if calibrated:
    assert load_calibration(tmp_path / "model").encoder == model.identity.to_dict()
    assert calibration_sha256(tmp_path / "model") == model.steps_checksum == loaded.steps_checksum
    with pytest.raises(ConfigError) as error:
      SentenceModel.load(tmp_path)  # the folder above it
    assert error.value.argument == "folder" and str(tmp_path / "model") in str(error.value)
    with pytest.raises(CalibrationError):
      SentenceModel.load(tmp_path / "none")


def test_a_calibration_in_two_models_is_saved_with_each(encoder, rows, tmp_path):
  """Vectors do not say which model they are of; what was fitted on another encoder is saved with the one in use."""
  calibration = make_calibration("mean").fit(rows)
  models = [SentenceModel(encoder, calibration, **POOLING), SentenceModel(encoder, calibration, max_seq_length=3)]
  fitted = SentenceModel(encoder).fit(SENTENCES, "mean", show_progress=False)
  models.append(SentenceModel(encoder, fitted.calibration, max_seq_length=3, allow_other_encoder=True))
  fitted.save(tmp_path / "fitted")
  replaced = [{"max_seq_length": 3}, {"low_dim": 3}, {"token_weights": "idf"}, {"precision": "bfloat16"}]
  for settings in replaced:
    models.append(SentenceModel.load(tmp_path / "fitted", allow_other_encoder=True, **settings))
  models.append(SentenceModel(encoder, calibration, steps=[Normalize(), LowDim(4)], low_dim=2, **POOLING))
  for number, each in enumerate(models):
    each.save(tmp_path / str(number))
  for number, each in enumerate(models):
    np.testing.assert_array_equal(SentenceModel.load(tmp_path / str(number)).encode(SENTENCES), each.encode(SENTENCES))
  assert calibration.encoder is None and fitted.calibration.encoder == fitted.identity.to_dict()


def test_an_encoder_that_is_gone_can_be_named(encoder, model, tmp_path):
  model.save(tmp_path / "model")
  gone = str(tmp_path / "gone")
  rewrite_archive(tmp_path / "model", "calibration", encoder={**model.identity.to_dict(), "name": gone})
  match = f"; give its folder, with model=FOLDER .model={gone}: no such folder or name.$"
  with rejected(EncoderError, "folder", match):
    SentenceModel.load(tmp_path / "model")
  assert SentenceModel.load(tmp_path / "model", model=encoder.name).identity.name == encoder.name


def test_a_calibration_of_vectors_is_of_no_encoder(encoder, rows, tmp_path, caplog):
  fitted = fit_calibration(rows, "sn", vectors_of="mine")
  fitted.save(tmp_path / "mine")
  with rejected(EncoderError, "calibration", "fitted on vectors of 'mine', which cannot be compared"):
    SentenceModel(encoder, fitted, **ARGUMENTS)
  with rejected(EncoderError, "folder", "fitted on vectors of 'mine', which cannot be compared"):
    SentenceModel.load(tmp_path / "mine", model=encoder, **ARGUMENTS)
  with rejected(EncoderError, "folder", "name the encoder, as model=mini, with allow_other_encoder=True"):
    SentenceModel.load(tmp_path / "mine")
  SentenceModel.load(tmp_path / "mine", model=encoder, allow_other_encoder=True, **ARGUMENTS).encode("a")
  assert "fitted on vectors of 'mine', got embeddings of" in caplog.text


@pytest.mark.parametrize("vectors_of", [None, "mine"])
def test_loading_with_an_encoder_of_other_dimensions_names_the_folder(encoder, rows, tmp_path, vectors_of):
  fit_calibration(rows[:, :3], "sn", vectors_of=vectors_of).save(tmp_path)
  with rejected(EncoderError, "folder", f"^folder={tmp_path}: fitted on 3 dimensions, but '.*' gives 12; give the"):
    SentenceModel.load(tmp_path, model=encoder, allow_other_encoder=True)


@pytest.mark.parametrize("keyword", ["pooling", "characters"])
def test_a_keyword_of_load_that_is_no_setting(encoder, model, tmp_path, keyword):
  model.save(tmp_path)
  for given in (None, encoder):
    with pytest.raises(TypeError, match=f"unexpected keyword '{keyword}'; expected one of .*max_seq_length"):
      SentenceModel.load(tmp_path, model=given, **{keyword: 8})


def test_folder_without_identity_needs_the_encoder(encoder, rows, tmp_path):
  flow = Glow(FlowConfig(n_levels=1, depth=1, coupling_width=8), 12, seed=1)
  flow.initialize(rows)
  flow.save(tmp_path / "flow")
  with rejected(EncoderError, "folder"):
    SentenceModel.load(tmp_path / "flow")
  loaded = SentenceModel.load(tmp_path / "flow", model=encoder.name, **ARGUMENTS)
  np.testing.assert_allclose(loaded.encode(SENTENCES), grouped(flow.transform(rows).numpy()), atol=5e-4)
  assert loaded.name == f"{encoder.name}+flow"
  loaded.save(tmp_path / "named")
  assert SentenceModel.load(tmp_path / "named").identity == loaded.identity


def test_precision_activation_and_length_of_words_are_those_of_the_fit(encoder, tmp_path):
  settings = {"precision": "bfloat16", "hidden_act": "gelu_new", "max_input_chars_per_word": 3}
  other = SentenceModel.from_pretrained(encoder.name, **settings, **ARGUMENTS)
  other.fit(SENTENCES, "sn", show_progress=False).save(tmp_path / "other")
  with rejected(EncoderError, "folder", "precision"):
    SentenceModel.load(tmp_path / "other", precision="float32")
  loaded = SentenceModel.load(tmp_path / "other")
  assert loaded.identity == other.identity != SentenceModel(encoder, **ARGUMENTS).identity
  np.testing.assert_array_equal(loaded.encode(["dog dogs"]), other.encode(["dog zzz"]))
  named = SentenceModel.load(tmp_path / "other", model=encoder.name)  # the same weights, in whatever folder
  assert named.identity == other.identity
  with rejected(EncoderError, "folder", "hidden_act"):
    SentenceModel.load(tmp_path / "other", model=encoder.name, hidden_act="gelu")


def test_calibration_of_other_embeddings_is_refused(encoder, rows, model):
  other = {**ARGUMENTS, "max_seq_length": 9}
  narrow = make_calibration("sn").fit(rows[:, :3])
  calibrations = [(model.calibration, other), (narrow, ARGUMENTS)]
  for calibration, arguments in calibrations:
    with rejected(EncoderError, "calibration"):
      SentenceModel(encoder, calibration, **arguments)
  assert SentenceModel(encoder, model.calibration, **other, allow_other_encoder=True).encode("a").shape == (3,)
  with pytest.raises(ConfigError):
    SentenceModel(encoder, "flow", **ARGUMENTS)


@pytest.mark.parametrize(("calibration", "low_dim"), [("none", 5), ("whitening-4", 3), ("none", 0)])
def test_low_dim_divides_the_calibrated_embedding(encoder, calibration, low_dim):
  with rejected(ConfigError, "low_dim"):
    SentenceModel(encoder, **POOLING, low_dim=low_dim).fit(SENTENCES, calibration, show_progress=False)


def test_what_is_no_folder(model):
  for call in (model.save, SentenceModel.load, load_calibration):
    for folder in (None, 5):
      with rejected(ConfigError, "folder", match=f"folder={folder}: expected a path"):
        call(folder)


@pytest.mark.parametrize("others", [", a Calibration or a Glow", ""])
def test_what_is_no_model(encoder, tmp_path, others):
  calls = [SentenceTransformersAdapter, lambda given: export_model(given, tmp_path / "out", format="model2vec")]
  if others:
    calls = [lambda given: export_model(given, tmp_path / "out")]
  for call in calls:
    for given, way in (
      ("m", "a str; SentenceModel.load"),
      (None, "NoneType"),
      (encoder, r"Model\(encoder\) makes one"),
    ):
      with rejected(ConfigError, "model", match=f"expected a SentenceModel{others}, got .*{way}"):
        call(given)
  assert not list(tmp_path.iterdir())


def test_what_is_no_encoder(model, tmp_path):
  for call in (SentenceModel, lambda given: distill(given, tmp_path), lambda given: save_encoder(given, tmp_path)):
    for given, match in (
      ("mini", "encoder='mini': .*from_pretrained"),
      (None, "None"),
      (model, "its attribute encoder"),
    ):
      with rejected(ConfigError, "encoder", match=match):
        call(given)


def test_repr_names_the_parts_and_their_sizes(encoder, model):
  assert repr(model).startswith(f"SentenceModel({encoder.name!r}, pooling=") and "dim=12, output_dim=3" in repr(model)
  assert "calibration=None" in repr(model.with_calibration(None))
  assert repr(encoder).startswith(f"SentenceEncoder({encoder.name!r}, num_hidden_layers=")


def test_arguments_of_sentence_transformers(model):
  arguments = {"convert_to_numpy": True, "convert_to_tensor": False, "device": "cuda", "prompt": None, "num_proc": 2}
  np.testing.assert_array_equal(model.encode(["dog"], show_progress_bar=True, **arguments), model.encode(["dog"]))
  wrong = {"convert_to_tensor": True, "convert_to_numpy": False, "truncate_dim": 2, "nonsense": 1, "batch_size": 0}
  wrong |= {"precision": "int8", "output_value": "token_embeddings", "prompt_name": "query"}
  for name, value in wrong.items():
    with rejected(ConfigError, name):
      model.encode(["dog"], **{name: value})


def test_the_first_dimensions_of_a_call(encoder, rows, model):
  """As `from_pretrained` keeps them; a calibrated embedding has no first ones."""
  plain = SentenceModel(encoder, **POOLING)
  np.testing.assert_allclose(plain.encode(SENTENCES, truncate_dim=5), rows[:, :5], atol=1e-6)
  lengths = np.linalg.norm(plain.encode(SENTENCES, truncate_dim=5, normalize_embeddings=True), axis=1)
  np.testing.assert_allclose(lengths, 1.0, atol=1e-6)
  assert plain.encode("dog", truncate_dim=99).shape == (12,)
  assert model.encode("dog", truncate_dim=5, calibrated=False).shape == (5,)
  with rejected(ConfigError, "truncate_dim", match="from_pretrained"):
    model.encode("dog", truncate_dim=2)
  with rejected(ConfigError, "truncate_dim"):
    plain.encode("dog", truncate_dim=0)


def test_an_attribute_without_an_effect_is_not_assigned(model):
  for name in ("normalize", "token_weights", "truncate_dim", "max_seq_length", "prompts", "nonsense"):
    with rejected(ConfigError, name):
      setattr(model, name, 3)
  model.sample = ["a"]
  assert not hasattr(model, "nonsense") and model.max_seq_length == 8

  class Own(SentenceModel):
    nonsense = 1

  own = Own(model.encoder)
  own.nonsense = 2
  with rejected(ConfigError, "normalize"):
    own.normalize = True


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("prefix", ["", "static:"])
def test_what_is_saved_has_the_absolute_path_of_the_encoder(tmp_path, monkeypatch, prefix, calibrated):
  """The encoder is named by a relative path, and the model is loaded in another working folder."""
  (tmp_path / "encoder").mkdir()
  tiny.save_tiny(tmp_path / "encoder")
  monkeypatch.chdir(tmp_path)
  model = SentenceModel.from_pretrained(f"{prefix}encoder", max_seq_length=8)
  if calibrated:
    model.fit(["a dog", "b cat", "dog cat", "cat"], "sn")
  model.save("saved")
  (tmp_path / "elsewhere").mkdir()
  monkeypatch.chdir(tmp_path / "elsewhere")
  loaded = SentenceModel.load("../saved")
  assert loaded.identity.name == f"{prefix}{tmp_path / 'encoder'}"
  np.testing.assert_array_equal(loaded.encode(["a dog"]), model.encode(["a dog"]))


def test_a_pooling_beside_a_recipe_takes_the_place_of_its_pooling():
  model = SentenceModel.from_pretrained("mini", recipe="recommended", sentence_embedding_type="avg")
  assert model.identity.sentence_embedding_type == "avg" and model.identity.settings.token_weights == "idf-0.75"
  assert SentenceModel.from_pretrained("mini", recipe="recommended").pooling.name == "mix"


def test_a_recipe_without_a_fit_is_said_once(encoder, caplog):
  model = SentenceModel.from_pretrained(encoder.name, recipe="paper")
  for _ in range(2):
    model.encode(SENTENCES)
  model.encode(SENTENCES, calibrated=False)
  assert caplog.text.count("not fitted yet") == 1
  caplog.clear()
  fitted = SentenceModel.from_pretrained(encoder.name, recipe="paper").fit(SENTENCES, "mean", show_progress=False)
  for each in (fitted, SentenceModel(encoder)):
    each.encode(SENTENCES)
  assert "not fitted" not in caplog.text


def test_a_recipe_is_kept_by_what_makes_a_model_of_a_model(encoder, tmp_path, caplog):
  name = encoder.name
  new = SentenceModel.from_pretrained(name, recipe="recommended")
  fitted = SentenceModel.from_pretrained(name, recipe="recommended").fit(SENTENCES, "mean", show_progress=False)
  new.save(tmp_path / "new")
  fitted.save(tmp_path / "fitted")
  SentenceModel.load(tmp_path / "new").save(tmp_path / "again")
  prompts = SentenceModel.from_pretrained(name, recipe="recommended", query_prompt="a ", document_prompt="b ")
  others = {
    "load": SentenceModel.load(tmp_path / "new"),
    "load of a loaded one": SentenceModel.load(tmp_path / "again"),
    "other settings": SentenceModel.load(tmp_path / "new", max_seq_length=5, allow_other_encoder=True),
    "other encoder": SentenceModel.load(tmp_path / "new", model=encoder, allow_other_encoder=True),
    "load of a calibration": SentenceModel.load(tmp_path / "fitted").with_calibration(None),
    "with_calibration": fitted.with_calibration(None),
    "documents": prompts.for_documents(),
    "copy": copy.copy(new),
    "deep copy": copy.deepcopy(new),
  }
  for form, other in others.items():
    caplog.clear()
    other.encode(SENTENCES)
    assert caplog.text.count("recipe=recommended: not fitted yet") == 1, form
    assert other.fit(SENTENCES, show_progress=False).calibration_name == "soft-whitening", form
  replaced = fitted.with_calibration(make_calibration("sn").fit(new.encode(SENTENCES, calibrated=False)))
  assert replaced.fit(SENTENCES, show_progress=False).calibration_name == "soft-whitening"


def test_a_recipe_decides_no_embedding(encoder, tmp_path):
  models = []
  for number, recipe in enumerate(["recommended", None]):
    settings = {"sentence_embedding_type": "mix", "token_weights": "idf"}
    model = SentenceModel.from_pretrained(encoder.name, recipe=recipe, **settings)
    model.fit(SENTENCES, "mean", show_progress=False).save(tmp_path / str(number))
    models += [model, SentenceModel.load(tmp_path / str(number))]
  for model in models:
    assert model.identity == models[0].identity and model.steps_checksum == models[0].steps_checksum
    assert model.calibration.encoder == models[0].calibration.encoder
  assert calibration_sha256(tmp_path / "0") == calibration_sha256(tmp_path / "1") == models[0].steps_checksum


@pytest.mark.parametrize("value", ["best", 3, ["paper"], {}, True])
@pytest.mark.parametrize("kind", ["model", "calibration"])
def test_a_file_with_a_wrong_recipe(encoder, model, tmp_path, kind, value):
  saved = model if kind == "calibration" else SentenceModel(encoder)
  saved.save(tmp_path)
  rewrite_archive(tmp_path, kind, encoder={**saved.identity.to_dict(), "recipe": value})
  with rejected(EncoderError, "folder", "recipe=.*expected one of paper, recommended, fast"):
    SentenceModel.load(tmp_path)


def test_characters_before_low_dim(encoder):
  """The cosine is of the groups' means, in Python and in a graph, and not the exact one of the characters."""
  model = SentenceModel(encoder, max_seq_length=8, low_dim=4).fit(SENTENCES, "mean+characters-16", show_progress=False)
  whole = SentenceModel(encoder, max_seq_length=8).fit(SENTENCES, "mean+characters-16", show_progress=False)
  expected = whole.encode(SENTENCES).reshape(len(SENTENCES), 4, -1).mean(axis=2)
  np.testing.assert_allclose(model.encode(SENTENCES), expected, atol=1e-5)
  a, b = expected[:6].astype(np.float64), expected[6:].astype(np.float64)
  lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
  found = model.similarity(SENTENCES[:6], SENTENCES[6:])
  np.testing.assert_allclose(found * lengths, (a * b).sum(axis=1), atol=1e-5)
  if importlib.util.find_spec("tensorflow_text"):
    np.testing.assert_allclose(model.as_function()(tf.constant(SENTENCES)), expected, atol=1e-5)


def test_characters_by_the_users_corpus_and_their_digest(tmp_path, encoder):
  """Rare characters of the corpus weigh more; a saved model is of its corpus."""
  corpus = tmp_path / "corpus.txt"
  corpus.write_text("a dog\n" * 50 + "cats\n")
  arguments = {"token_weights": "idf", "frequency_corpus": str(corpus)}
  counted = SentenceModel.from_pretrained(encoder.name, **arguments).fit(
    SENTENCES, "characters-16", show_progress=False
  )
  general = SentenceModel(encoder).fit(SENTENCES, "characters-16", show_progress=False)
  pairs = (["a dog cats"] * 2, ["a dog", "cats"])
  common, rare = counted.similarity(*pairs)
  assert rare > common and np.abs(general.similarity(*pairs) - [common, rare]).max() > 0.05
  counted.save(tmp_path / "saved")
  np.testing.assert_allclose(SentenceModel.load(tmp_path / "saved").similarity(*pairs), [common, rare])
  corpus.write_text("cats\n" * 50 + "a dog\n")
  with pytest.raises(EncoderError, match="frequency_corpus"):
    SentenceModel.load(tmp_path / "saved")


def test_tensors_without_a_dense_shape_are_rejected(model):
  ragged = tf.ragged.constant([["a", "b"], ["c"]])
  for call, argument in [
    (lambda: model.transform(tf.ragged.constant([[1.0, 2.0], [3.0]])), "embeddings"),
    (lambda: model.transform(tf.sparse.from_dense(np.eye(12, dtype=np.float32))), "embeddings"),
    (lambda: model.as_function()(ragged), "text"),
    (lambda: model.encoder.as_layer()(ragged), "inputs"),
    (lambda: model.encode(ragged), "sentences"),
  ]:
    with rejected(DataError, argument):
      call()
