"""However a model was made and is kept, its vectors afterwards are those before, or one sentence says what differs.

`MAKERS` are the ways to make a model, `KEEPERS` the ways to keep one: a new way is one row. `SENTENCES` are the pairs
that end in an error.
"""

import copy
import functools
import importlib.util
import json
import pickle
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.saving import calibration_sha256
from bert_flow_tf.calibration.step import Normalize, Step
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import BertFlowError, EncoderError
from bert_flow_tf.flow.keras import keras
from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter, revision
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.vectors.inverted_lists import has_faiss
from bert_flow_tf.vectors.model_of_vectors import embedder_values, load_model_of
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.encoder import tiny
from tests.encoder.other import saved_models
from tests.testing import REPO, edit_json, is_openvino_limited

pytestmark = pytest.mark.packages

TEXTS = [
  "a dog.",
  "cats",
  "dög b dogs",
  "a b a b .",
  "dog",
  "Cats b man",
  "b . a",
  "dogs dogs",
  "[ ] guitar",
  "a man b",
]
FIT = [
  *TEXTS,
  "a",
  "b b",
  "dog cat",
  "cat . dog .",
  "a cats b",
  "dogs b a a",
  ". a",
  "b cat cat",
  "man dog",
  "the dog a",
]
QUERIES = ["b a", "cat cat", "a . b", "dog man b", "cats ."]
ENCODES = ("encode", "encode_query", "encode_document")
# Largest difference, relative to the largest value. A whitening of few sentences magnifies the rounding of batches.
TOLERANCE = 1e-3


class Clip(Step, methods=("law-clip",)):
  """A user's step, without a name."""

  def output_dim_of(self, dim):
    return dim

  def __call__(self, features):
    return tf.clip_by_value(features.embedding, -0.5, 0.5)

  def contents(self):
    return {"method": "law-clip"}, {}

  @classmethod
  def restore(cls, settings, arrays):
    return cls()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """Returns a folder with encoders, `tiny`, `other`, `declared` and `vectors`, and texts to count words in."""
  folder = tmp_path_factory.mktemp("place")
  tiny.save_tiny(folder / "of releases")
  config = {**tiny.CONFIG, "num_hidden_layers": 2}  # a graph takes most of the time of a test
  for name, seed in (("tiny", 0), ("other", 1), ("declared", 2)):
    tiny.save_tiny(folder / name, tiny.random_weights(config, seed=seed), config)
  edit_json(folder / "other" / "tokenizer_config.json", do_lower_case=False)
  (folder / "declared" / "modules.json").write_text(
    '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},'
    ' {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]'
  )
  (folder / "declared" / "1_Pooling").mkdir()
  (folder / "declared" / "1_Pooling" / "config.json").write_text(
    '{"word_embedding_dimension": 12, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
  )
  (folder / "declared" / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
  (folder / "declared" / "config_sentence_transformers.json").write_text(
    '{"prompts": {"query": "dog a ", "document": "b "}, "default_prompt_name": null, "truncate_dim": 9}'
  )
  (folder / "corpus.txt").write_text("a dog\na b\na cats\n")
  rng = np.random.default_rng(3)
  lines = [" ".join([word, *map(str, rng.normal(size=7))]) for word in ("a", "b", "dog", "cats", "dogs", "man")]
  (folder / "words.txt").write_text("\n".join(lines) + "\n")
  saved_models.write_callable(folder / "vectors")
  return folder


def pretrained(name="tiny", fit=None, steps=None, queries=None, **settings):
  """Returns the way of `from_pretrained`, with a fit or steps; `name` is in the folder, after a kind."""

  def make(place):
    kind, _, path = name.rpartition(":")
    whole = f"{kind}:{place / path}" if kind else str(place / path)
    given = {key: str(place / value) if key == "frequency_corpus" else value for key, value in settings.items()}
    model = SentenceModel.from_pretrained(whole, **given)
    if steps is not None:
      model = SentenceModel(model.encoder, steps, **model.identity.settings.model_arguments())
    if fit is not None:
      epochs = {"num_train_epochs": 1, "train_batch_size": 4} if "flow" in fit else {}
      model.fit(FIT, fit or None, queries=queries, show_progress=False, **epochs)
    return model

  return make


def loaded(model=None, fit="whitening-6", **settings):
  """Returns the way of `load` with another encoder of the same size, or settings in place of the saved ones."""

  def make(place):
    folder = place / "fitted" / fit
    if not folder.exists():
      pretrained(fit=fit)(place).save(folder)
    name = None if model is None else str(place / model)
    return SentenceModel.load(folder, model=name, allow_other_encoder=True, **settings)

  return make


def shared(place):
  """A calibration that is in a model of another length, too, which is saved first."""
  calibration = pretrained(fit="whitening-6")(place).calibration
  encoder = SentenceEncoder.from_pretrained(str(place / "tiny"))
  SentenceModel(encoder, calibration, max_seq_length=4, allow_other_encoder=True).save(place / "shared")
  return SentenceModel(encoder, calibration, allow_other_encoder=True, low_dim=2)


def trained(place):
  """An encoder whose weights were trained since it was loaded."""
  model = pretrained()(place)
  variable = model.encoder.as_layer(trainable=True).trainable_variables[0]
  variable.assign(variable + np.random.default_rng(4).normal(size=variable.shape).astype(np.float32))
  return model


def released(version, name):
  """Returns the way of a model that a release saved."""

  def make(place):
    golden = REPO / "tests/golden/models" / version
    encoder = str(place / "of releases")
    encoders = {"static-sn": f"static:{encoder}", "word-vectors-mean": f"glove:{golden / 'word_vectors.txt'}"}
    return SentenceModel.load(golden / name, model=encoders.get(name, encoder))

  return make


def releases():
  """Returns the ways of all models of releases, but for those that 0.2 rejects."""
  ways = {}
  for path in sorted((REPO / "tests/golden/models").glob("*/*/*.npz")):
    version, name = path.parent.parent.name, path.parent.name
    if version != "0.1.0" or not name.endswith("-of-mix"):
      ways[f"release {version} {name}"] = released(version, name)
  return ways


def by_openvino():
  """Returns the ways of models whose encoder OpenVINO computes, {} where it is not possible."""
  if importlib.util.find_spec("openvino") is None or is_openvino_limited():
    return {}
  return {
    "openvino": pretrained(engine="openvino"),
    "openvino, fitted": pretrained(engine="openvino", queries=QUERIES, fit="whitening-6"),
    "int8 by openvino": pretrained(engine="openvino", precision="int8", fit="soft-whitening"),
  }


MAKERS = {
  "plain": pretrained(),
  "pooling": pretrained(sentence_embedding_type="avg-top-2"),
  "length": pretrained(max_seq_length=4),
  "low_dim": pretrained(low_dim=3),
  "idf": pretrained(token_weights="idf"),
  "idf of a corpus": pretrained(token_weights="idf-0.5", frequency_corpus="corpus.txt"),
  "bfloat16": pretrained(precision="bfloat16"),
  "int8": pretrained(precision="int8"),
  "activation": pretrained(hidden_act="relu"),
  "long words": pretrained(max_input_chars_per_word=3),
  "accents": pretrained(strip_accents=False),
  "prompt": pretrained(prompt="dog b "),
  "prompts of roles": pretrained(query_prompt="dog b ", document_prompt="cats "),
  "truncated": pretrained(truncate_dim=8),
  "declared": pretrained("declared"),
  "declared, replaced": pretrained(
    "declared", truncate_dim=0, prompt="a ", max_seq_length=7, sentence_embedding_type="avg"
  ),
  "static": pretrained("static:tiny"),
  "words": pretrained("glove:words.txt"),
  "SavedModel": pretrained("saved_model:vectors"),
  "recipe paper": pretrained(recipe="paper", sentence_embedding_type="avg"),
  "recipe recommended": pretrained(recipe="recommended", fit=""),
  "recipe fast": pretrained(recipe="fast", fit=""),
  "recipe search": pretrained("declared", recipe="search", fit=""),
  "whitening": pretrained(fit="whitening-6"),
  "flow": pretrained(fit="flow", max_seq_length=6),
  "flow+soft-whitening": pretrained(fit="flow+soft-whitening"),
  "characters": pretrained(fit="mean+characters-16"),
  "characters alone": pretrained(steps=[Characters(16)]),
  "SavedModel, fitted": pretrained("saved_model:vectors", fit="soft-whitening"),
  "words, fitted": pretrained("glove:words.txt", fit="sn"),
  "int8, fitted": pretrained(precision="int8", fit="soft-whitening"),
  "declared, fitted": pretrained("declared", fit="soft-whitening"),
  "step without a name": pretrained(steps=[Clip()]),
  "steps": pretrained(steps=[Normalize(), Clip(), Characters(16), LowDim(2)]),
  "steps, fitted": pretrained(steps=[Clip(), Normalize()], fit="sn"),
  "low_dim, fitted": pretrained(low_dim=2, fit="sn"),
  "with_calibration": lambda place: pretrained(fit="sn")(place).with_calibration([Normalize(), LowDim(4)]),
  "queries": pretrained(fit="whitening-6", queries=QUERIES),
  "queries, flow, steps": pretrained(fit="flow+characters-16", queries=QUERIES, low_dim=2),
  "queries, declared": pretrained("declared", fit="sn", queries=QUERIES),
  "queries, prompts": pretrained(query_prompt="dog b ", fit="flow", queries=QUERIES),
  "queries, SavedModel": pretrained("saved_model:vectors", fit="soft-whitening", queries=QUERIES),
  "queries, prompts, characters": pretrained(query_prompt="dog b ", fit="mean+characters-16", queries=QUERIES),
  "for_queries": lambda place: pretrained("declared", fit="sn", queries=QUERIES)(place).for_queries(),
  "declared, no prompts": pretrained("declared", prompt=""),
  "for_documents": lambda place: pretrained("declared", fit="sn")(place).for_documents(),
  "load": loaded(),
  "load of another encoder": loaded("other"),
  "load of another length": loaded(max_seq_length=4),
  "load of another precision": loaded(precision="bfloat16"),
  "load of other weights": loaded(token_weights="idf"),
  "load of another low_dim": loaded(low_dim=3),
  "load of another pooling": loaded(sentence_embedding_type="cls"),
  "shared calibration": shared,
  "trained": trained,
  **by_openvino(),
  **releases(),
}


def vectors_of(model):
  """Returns {method: vectors of TEXTS} of a model's ways to encode."""
  return {name: getattr(model, name)(TEXTS) for name in ENCODES}


def by_save(model, folder):
  """SentenceModel.save and load."""
  model.save(folder / "model")
  if model.steps_checksum is not None:
    assert calibration_sha256(folder / "model") == model.steps_checksum
  return vectors_of(SentenceModel.load(folder / "model"))


def by_pickle(model, folder):
  """pickle, as Spark and joblib send objects."""
  return vectors_of(pickle.loads(pickle.dumps(model)))


def by_copy(model, folder):
  """copy.deepcopy."""
  return vectors_of(copy.deepcopy(model))


def by_keras(model, folder, ending):
  """A file of Keras with the encoder as a layer; the steps are applied by the model."""
  layer = model.encoder.as_layer(sentence_embedding_type=model.pooling, max_seq_length=model.max_seq_length)
  inputs = keras.Input([], dtype="string")
  keras.Model(inputs, layer(inputs)).save(folder / f"model{ending}")
  found = keras.models.load_model(folder / f"model{ending}")
  return {"encode": model.transform(np.asarray(found(tf.constant(TEXTS))), TEXTS)}


def by_export(model, folder):
  """A SavedModel for TF Serving."""
  place = export_model(model, folder / "export")
  signatures, found = tf.saved_model.load(str(place)).signatures, {}
  for method, name in zip(ENCODES, ("serving_default", "embed_query", "embed_document"), strict=True):
    if name in signatures:
      found[method] = signatures[name](text=tf.constant(TEXTS))["embedding"].numpy()
  return found


def by_embed(model, folder):
  """Vectors of a corpus, as `bert-flow embed` writes them, and the model that the manifest names, for queries."""
  model.save(folder / "model")
  (folder / "corpus.txt").write_text("".join(f"{text}\n" for text in TEXTS))
  job = EmbeddingJob(JobSettings(input=(str(folder / "corpus.txt"),), output_dir=str(folder / "vectors")))
  job.run(embedder_of(model, str(folder / "model")))
  vectors = VectorFolder.open(str(folder / "vectors"))
  found = np.concatenate([block for file in vectors.files for block in file.blocks()])
  return {"encode_document": found, "encode_query": load_model_of(vectors).encode_query(TEXTS)}


def by_beam(model, folder):
  """The model that a worker of Beam loads."""
  model.save(folder / "model")
  embedder = embedder_of(model, str(folder / "model"))
  return {"encode_document": pickle.loads(pickle.dumps(embedder.load))().encode(TEXTS)}


def by_index(model, folder):
  """An index, which knows its model."""
  model.save(folder / "model")
  vectors = model.encode_document(TEXTS)
  SentenceIndex.build(vectors, model=model).save(folder / "index")
  index = SentenceIndex.load(folder / "index")
  index.check_model(model)
  index.check_model(SentenceModel.load(folder / "model"))
  others = SentenceModel(model.encoder, [Normalize(), Clip(), Clip()], **model.identity.settings.model_arguments())
  with pytest.raises(EncoderError):
    index.check_model(others)
  scores, _ = index.search(vectors, top_k=1)
  np.testing.assert_allclose(scores[np.abs(vectors).max(axis=1) > 0, 0], 1, atol=1e-3)
  return {}


def by_encoder(model, folder, caplog):
  """The encoder as a folder, for a model with the same steps; a warning names the settings to give again."""
  save_encoder(model.encoder, folder / "encoder")
  given = {}
  for named in re.findall("it does not hold (.*), with which", caplog.text):
    given |= eval(f"dict({named})")
  encoder = SentenceEncoder.from_pretrained(str(folder / "encoder"), **given)
  arguments = model.identity.settings.pooling_arguments()
  return vectors_of(SentenceModel(encoder, list(model.steps), **arguments, allow_other_encoder=True))


def by_adapter(model, folder):
  """The adapter of sentence-transformers and mteb."""
  adapter = SentenceTransformersAdapter(model)
  return {name: np.asarray(getattr(adapter, name)(TEXTS)) for name in ENCODES}


def by_function(model, folder):
  """A function in a graph of the user's."""
  found = {}
  for method, of_role in (("encode", model), ("encode_query", model.for_queries())):
    embed = tf.function(of_role.as_function(), [tf.TensorSpec([None], tf.string)])
    found[method] = embed(tf.constant(TEXTS)).numpy()
  return found


KEEPERS = {
  "save": by_save,
  "pickle": by_pickle,
  "deepcopy": by_copy,
  "keras": functools.partial(by_keras, ending=".keras"),
  "h5": functools.partial(by_keras, ending=".h5"),
  "export": by_export,
  "function": by_function,
  "embed": by_embed,
  "beam": by_beam,
  "index": by_index,
  "save_encoder": by_encoder,
  "adapter": by_adapter,
}
_NO_LAYER = dict.fromkeys(("keras", "h5"), "cannot be a layer on ids")
_NO_GRAPH = dict.fromkeys(("export", "function"), "cannot be a part of a graph")
_NO_ENCODER = {"save_encoder": "cannot be saved"}
_OF_KIND = {
  "words": {**_NO_LAYER, **_NO_GRAPH, **_NO_ENCODER},
  "SavedModel": {**_NO_LAYER, **_NO_ENCODER},
  "static": _NO_ENCODER,
  "int8": dict.fromkeys(("keras", "h5"), "the weights are fixed"),
  "bfloat16": {"export": "a served model computes in float32 or int8"},
}
# {way to make: {way to keep: the error}}
SENTENCES = {
  **_OF_KIND,
  "words, fitted": _OF_KIND["words"],
  "SavedModel, fitted": _OF_KIND["SavedModel"],
  "recipe fast": _OF_KIND["static"],
  "queries, SavedModel": _OF_KIND["SavedModel"],
  "queries, prompts, characters": {"function": "characters-16: the encoder puts"},
  "int8, fitted": _OF_KIND["int8"],
  "load of another precision": _OF_KIND["bfloat16"],
  "int8 by openvino": {
    **_OF_KIND["int8"],
    **dict.fromkeys(("export", "function"), "with other embeddings in int8"),
  },
  "trained": dict.fromkeys(("save", "embed", "beam", "index"), "its weights were trained"),
  "release 0.1.0 static-sn": _OF_KIND["static"],
  "release 0.2.0 static-sn": _OF_KIND["static"],
  "release 0.1.0 word-vectors-mean": _OF_KIND["words"],
  "release 0.2.0 word-vectors-mean": _OF_KIND["words"],
  "release 0.2.0 int8": _OF_KIND["int8"],
}


@pytest.fixture(scope="module")
def made(place):
  """Returns a function from the name of a way to its model and the vectors of `TEXTS`, made once."""

  @functools.cache
  def make(name):
    model = MAKERS[name](place)
    return model, vectors_of(model)

  return make


def values_of(model):
  """Returns what is known of a model, as text."""
  values = [model.identity.to_dict(), model.steps_checksum, revision(model), model.calibration_name, repr(model)]
  return json.dumps([*values, embedder_values(model)], sort_keys=True, default=str)


def check_equal(found, expected):
  """Asserts that the vectors of some methods are the expected ones."""
  for method, vectors in found.items():
    scale = np.abs(expected[method]).max()
    np.testing.assert_allclose(vectors, expected[method], rtol=0, atol=TOLERANCE * scale, err_msg=method)


def pairs():
  """Yields (way to make, way to keep), each way in one that is not slow; models of releases are kept in two ways."""
  for number, maker in enumerate(MAKERS):
    is_release = maker.startswith("release")
    for place, keeper in enumerate(KEEPERS):
      if maker.startswith("openvino") and keeper in ("keras", "h5"):
        continue  # a layer makes the encoder TensorFlow's: encoder/engine_test
      turn = (number + place) % len(KEEPERS)
      if turn and is_release and keeper != "save":
        continue
      is_slow = turn or is_release or (keeper == "export" and number > len(KEEPERS))
      yield pytest.param(maker, keeper, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("maker", "keeper"), list(pairs()))
def test_a_kept_model_gives_its_vectors_or_one_sentence(maker, keeper, made, tmp_path, caplog):
  pytest.importorskip("tensorflow_text")
  if keeper == "index" and not has_faiss():
    pytest.skip("faiss-cpu is not installed: it is the extra search")
  model, expected = made(maker)
  values, sentence = values_of(model), SENTENCES.get(maker, {}).get(keeper)
  keep = KEEPERS[keeper]
  if keep is by_encoder:
    keep = functools.partial(keep, caplog=caplog)
  if sentence is None:
    check_equal(keep(model, tmp_path), expected)
  else:
    with pytest.raises(BertFlowError, match=sentence) as raised:
      keep(model, tmp_path)
    assert "\n" not in str(raised.value)
  # Nothing of the model has changed.
  assert values_of(model) == values
  np.testing.assert_array_equal(model.encode(TEXTS), expected["encode"])


def test_what_was_kept_stays_when_other_models_are_kept(made, tmp_path):
  kept = ["shared calibration", "load", "load of another encoder", "load of another low_dim", "whitening", "steps"]
  for maker in kept:
    made(maker)[0].save(tmp_path / maker)
  for maker in kept:
    check_equal(vectors_of(SentenceModel.load(tmp_path / maker)), made(maker)[1])


def test_models_with_other_vectors_have_other_identities(made):
  seen = {}
  makers = [maker for maker in MAKERS if not maker.startswith("release")]
  for maker in makers:
    model, vectors = made(maker)
    first, others = seen.setdefault(revision(model), (maker, vectors))
    for method in ENCODES:
      assert vectors[method].shape == others[method].shape, (first, maker)
      np.testing.assert_allclose(vectors[method], others[method], atol=1e-5, err_msg=f"{first}, {maker}, {method}")
  assert len(seen) > len(makers) - 3
