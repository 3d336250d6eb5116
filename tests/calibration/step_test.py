"""calibration/step.py: a step that a user writes is a part of a model in Python, in its file and in its graph."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration import Features, LowDim, Normalize, Step
from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.combined import SideBySide
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, EncoderError
from bert_flow_tf.integrations.sentence_transformers import revision
from bert_flow_tf.serving.served_model import ServedModel
from bert_flow_tf.vectors.model_of_vectors import embedder_values
from tests.encoder import tiny
from tests.testing import rejected, rewrite_archive

TEXTS = ["a dog runs", "cats", "the dog", "a cat sleeps", "runs"] * 4


class Reversed(Step, methods=("reversed",)):
  """Dimensions in the other order, times a factor."""

  name = "reversed"

  def __init__(self, factor):
    self.factor = factor

  def output_dim_of(self, dim):
    return dim

  def __call__(self, features):
    return self.factor * tf.cast(features.embedding[:, ::-1], tf.float32)

  def contents(self):
    return {"method": "reversed"}, {"factor": np.float32(self.factor)}

  @classmethod
  def restore(cls, settings, arrays):
    return cls(float(arrays["factor"]))


@pytest.mark.parametrize("calibration", ["mean", "mean+characters-16", "characters-16"])
def test_a_step_of_the_user(calibration, tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  plain = SentenceModel(encoder).fit(TEXTS, calibration)
  model = SentenceModel(encoder, steps=[Reversed(3.0)], low_dim=2).fit(TEXTS, calibration)
  expected = (3 * plain.encode(TEXTS)[:, ::-1]).reshape(len(TEXTS), 2, -1).mean(axis=2)
  np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
  assert model.output_dim == 2 and model.calibration_name == f"{calibration}+reversed"
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
  np.testing.assert_allclose(loaded.as_function()(TEXTS), expected, atol=1e-5)
  # A later fit keeps it.
  again = loaded.fit(TEXTS, calibration).encode(TEXTS)
  np.testing.assert_allclose(again, expected, atol=1e-5)


class WithoutContents(Reversed):
  """Its settings would make a `Reversed`."""


class OfTwoColumns(Reversed):
  """Gives fewer dimensions than it says."""

  def __call__(self, features):
    return features.embedding[:, :2]


class OfNaN(Reversed):
  def __call__(self, features):
    return features.embedding * np.nan


def test_a_saved_model_has_its_steps_in_their_order(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  rows = SentenceModel(encoder, steps=[Normalize()]).encode(TEXTS)
  whitening = make_calibration("whitening-3").fit(rows)
  mean = make_calibration("mean").fit(rows)
  for steps in (
    [Normalize(), whitening],
    [mean, Reversed(2.0), Characters(16)],
    [mean, whitening],
    [Characters(16), Normalize()],
  ):
    model = SentenceModel(encoder, steps=steps)
    model.save(tmp_path / "model")
    loaded = SentenceModel.load(tmp_path / "model")
    assert list(map(type, loaded.steps)) == list(map(type, steps))
    np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-6)


def test_low_dim_may_divide_the_calibrated_embedding_alone(tmp_path):
  """12 dimensions, of which a whitening keeps 5."""
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  whitening = make_calibration("whitening-5").fit(np.random.default_rng(0).normal(size=[40, 12]))
  model = SentenceModel(encoder, whitening, low_dim=5)
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-6)


def test_a_fit_replaces_the_fitted_steps_and_keeps_the_others(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  rows = SentenceModel(encoder).encode(TEXTS)
  mean = make_calibration("mean").fit(rows)
  further = [LowDim(4), Reversed(2.0)]
  for fitted in ([], [mean], [Characters(16)], [mean, Characters(16)]):
    for name in ("mean", "characters-32", "sn+characters-32"):
      model = SentenceModel(encoder, [*fitted, *further], low_dim=1)
      changed = model.with_calibration(None)
      model.fit(TEXTS, name)
      assert model.calibration_name == f"{name}+reversed"
      for kept in (model.steps[-3:], changed.steps):
        assert list(map(type, kept)) == [*map(type, further), LowDim]
        assert list(kept[:2]) == further


def test_a_fit_does_not_change_what_a_later_calibration_gets(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  whitening = make_calibration("whitening-3").fit(SentenceModel(encoder, [Normalize()]).encode(TEXTS))
  mean = make_calibration("mean").fit(SentenceModel(encoder).encode(TEXTS))
  model = SentenceModel(encoder, [Normalize(), whitening])
  for change in (lambda: model.fit(TEXTS, "mean"), lambda: model.with_calibration(mean)):
    with rejected(ConfigError, "steps", match="whitening-3"):
      change()
  assert model.with_calibration(None).steps == model.steps == (model.steps[0], whitening)
  with rejected(ConfigError, "steps", match="whitening-3"):
    SentenceModel(encoder, [mean, Normalize(), whitening]).with_calibration(None)


def test_a_fit_gives_no_second_characters(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  first = SentenceModel(encoder, steps=[Characters(16)]).fit(TEXTS, "mean+characters-16")
  assert first.calibration_name == "mean+characters-16" and first.output_dim == encoder.dim() + 16
  later = SentenceModel(encoder, [Normalize(), Characters(16)])
  for change in (lambda: later.fit(TEXTS, "mean+characters-8"), lambda: later.with_calibration(None, characters=16)):
    with rejected(ConfigError, "steps", match="characters-16"):
      change()
  later.fit(TEXTS, "mean").save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  assert list(map(type, loaded.steps)) == [type(first.calibration), Normalize, Characters]
  np.testing.assert_array_equal(loaded.encode(TEXTS), later.encode(TEXTS))


def test_a_calibration_of_an_encoder_comes_first(tmp_path):
  """It was fitted on embeddings, not on what another step gives, although the dimensions are equal."""
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  fitted = SentenceModel(encoder).fit(TEXTS, "sn").calibration
  for before in (Characters(encoder.dim()), Normalize()):
    with rejected(EncoderError, "calibration", match="fit_calibration"):
      SentenceModel(encoder, [before, fitted])
    allowed = SentenceModel(encoder, [before, fitted], allow_other_encoder=True)
    allowed.save(tmp_path / "model")
    loaded = SentenceModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(TEXTS), allowed.encode(TEXTS))


class Unnamed(Reversed, methods=("unnamed",)):
  name = None

  def contents(self):
    return {"method": "unnamed"}, {"factor": np.float32(self.factor)}


def test_a_step_without_a_name_is_there(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  bare = SentenceModel(encoder)
  for model in (bare, SentenceModel(encoder, low_dim=2)):
    assert model.calibration_name is None and ServedModel(model, normalize=False).name == "none"
  for step in (Unnamed(2.0), LowDim(2), Normalize()):
    model = SentenceModel(encoder, steps=[step])
    assert model.calibration_name == type(step).__name__ and type(step).__name__ in repr(model)
    assert embedder_values(model) != embedder_values(bare) and revision(model) != revision(bare)
    assert ServedModel(model, normalize=False).name == type(step).__name__
    model.save(tmp_path / "model")
    loaded = SentenceModel.load(tmp_path / "model")
    assert embedder_values(loaded) == embedder_values(model)
    with rejected(ConfigError, None, match=f"has the step {type(step).__name__}"):
      load_calibration(tmp_path / "model")
    mixed = SentenceModel(encoder, steps=[make_calibration("mean").fit(bare.encode(TEXTS)), step])
    assert mixed.calibration_name == "mean"


def test_steps_are_given_in_several_forms(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  mean = make_calibration("mean").fit(SentenceModel(encoder).encode(TEXTS))
  models = [
    SentenceModel(encoder, [mean, Characters(16), Normalize()], low_dim=2),
    SentenceModel(encoder, steps=[mean, Characters(16), Normalize()], low_dim=2),
    SentenceModel(encoder, mean, characters=16, steps=[Normalize()], low_dim=2),
    SentenceModel(encoder, calibration=[mean], characters=16, steps=(Normalize(),), low_dim=2),
    SentenceModel(encoder, steps=[Normalize()], low_dim=2).with_calibration(mean, characters=16),
  ]
  for model in models[1:]:
    np.testing.assert_array_equal(model.encode(TEXTS), models[0].encode(TEXTS))
    assert (model.steps_checksum, model.identity) == (models[0].steps_checksum, models[0].identity)
  other = SentenceModel(encoder, max_seq_length=3).fit(TEXTS, "mean").calibration
  for arguments in ({"calibration": other}, {"calibration": [other]}, {"steps": [other]}):
    with rejected(EncoderError, "calibration", match="max_seq_length"):
      SentenceModel(encoder, **arguments)


def test_steps_that_are_wrong(tmp_path):
  encoder = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).encoder
  for steps in ([Reversed], ["whitening"], [None], lambda features: features.embedding):
    with rejected(ConfigError, "steps"):
      SentenceModel(encoder, steps=steps)
    with rejected(ConfigError, "calibration"):
      SentenceModel(encoder, steps)
  mean = make_calibration("mean").fit(np.eye(12))
  with rejected(ConfigError, "steps", match="12 dimensions, and gets 6"):
    SentenceModel(encoder, [LowDim(6), mean])
  with rejected(ConfigError, None):
    SentenceModel(encoder, steps=[WithoutContents(1.0)]).save(tmp_path / "model")
  assert not (tmp_path / "model").exists()
  with rejected(ConfigError, None):
    SentenceModel(encoder, steps=[OfTwoColumns(1.0)]).encode(TEXTS)
  with rejected(CalibrationError, "embeddings"):
    SentenceModel(encoder, steps=[OfNaN(1.0)]).encode(TEXTS)
  with rejected(ConfigError, None):

    class Other(Step, methods=("whitening",)):
      pass

  # A program that has not imported the class.
  SentenceModel(encoder, steps=[Reversed(2.0), Normalize(), LowDim(3)]).save(tmp_path / "model")
  assert SentenceModel.load(tmp_path / "model").output_dim == 3
  rewrite_archive(tmp_path / "model", "calibration", parts=[{"method": "of another program"}])
  with rejected(CalibrationError, "folder", match="import its class"):
    SentenceModel.load(tmp_path / "model")


def test_low_dim_averages_neighbors():
  rows = np.arange(12, dtype=np.float32).reshape(2, 6)
  for n, expected in {2: [[1, 4], [7, 10]], 3: [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]], 6: rows}.items():
    np.testing.assert_array_equal(LowDim(n).transform(rows), expected)
  for n in (0, 4, 12, -1, 1.5):
    with rejected(ConfigError, "low_dim"):
      LowDim(n).transform(rows)


def test_steps_on_arrays():
  rows = np.float32([[3, 4, 0, 0], [0, 0, 0, 0]])
  np.testing.assert_allclose(Normalize().transform(rows), rows / 5)
  np.testing.assert_allclose(LowDim(2)(Features(tf.constant(rows))), [[3.5, 0], [0, 0]])
  np.testing.assert_allclose(LowDim(2).cosines(np.concatenate([rows, rows])), [1, 0])


@pytest.mark.parametrize("kind", [LinearCalibration, FlowCalibration, SideBySide, Characters, LowDim, Normalize])
def test_a_step_that_is_called_on_an_array_names_transform(kind):
  step = kind.__new__(kind)  # nothing of it is read
  with rejected(CalibrationError, "features", match="transform"):
    step(np.zeros([3, 12], np.float32))
