"""A model in Pipelines of scikit-learn: fitted, cloned, searched and pickled."""

import pickle

import numpy as np
import pytest

from bert_flow_tf import SentenceModel

pytestmark = pytest.mark.packages

SENTENCES = [
  f"{subject} {verb}." for subject in ("A dog", "The market", "A child") for verb in ("runs", "falls", "ate")
]
LABELS = [0, 0, 0, 1, 1, 1, 2, 2, 2]

sklearn = pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def model():
  return SentenceModel.from_pretrained("static:mini")


def test_a_pipeline_fits_a_calibration_and_is_pickled(model):
  from sklearn.linear_model import LogisticRegression
  from sklearn.pipeline import make_pipeline

  pipeline = make_pipeline(model.as_transformer("soft-whitening"), LogisticRegression())
  pipeline.fit(SENTENCES, LABELS)
  expected = model.with_calibration(None).fit(SENTENCES, "soft-whitening").encode(SENTENCES)
  np.testing.assert_allclose(pipeline[:-1].transform(SENTENCES), expected, atol=1e-6)
  assert model.calibration is None and pipeline.predict(SENTENCES).tolist() == LABELS
  loaded = pickle.loads(pickle.dumps(pipeline))
  np.testing.assert_array_equal(loaded[:-1].transform(SENTENCES), pipeline[:-1].transform(SENTENCES))


def test_a_clone_has_the_parameters_and_the_encoder(model):
  transformer = model.as_transformer("mean")
  np.testing.assert_array_equal(transformer.fit_transform(SENTENCES), transformer.model_.encode(SENTENCES))
  clone = sklearn.clone(transformer)
  assert clone.get_params() == transformer.get_params() == {"model": model, "calibration": "mean"}
  assert not hasattr(clone, "model_") and clone.model is model and transformer.model_ is not model


def test_what_is_set_holds_after_the_next_fit(model):
  other = SentenceModel.from_pretrained("static:mini", token_weights="uniform")
  transformer = model.as_transformer("mean").fit(SENTENCES)
  for parameters in ({"model": other}, {"calibration": None}):
    transformer.set_params(**parameters).fit(SENTENCES)
  np.testing.assert_array_equal(transformer.transform(SENTENCES), other.encode(SENTENCES))
  with pytest.raises(ValueError, match="calibraton"):
    transformer.set_params(calibraton="mean")


def test_unfitted_and_named_columns(model):
  from sklearn.exceptions import NotFittedError
  from sklearn.pipeline import make_pipeline
  from sklearn.utils.validation import check_is_fitted

  pipeline = make_pipeline(model.as_transformer("whitening-3"))
  for use in (check_is_fitted, lambda each: each.transform(SENTENCES), lambda each: each.get_feature_names_out()):
    with pytest.raises(NotFittedError):
      use(pipeline)
  assert pipeline.fit(SENTENCES).get_feature_names_out().tolist() == ["embedding0", "embedding1", "embedding2"]
  check_is_fitted(make_pipeline(model.as_transformer()))  # nothing is fitted


def test_a_search_over_calibrations(model):
  from sklearn.linear_model import LogisticRegression
  from sklearn.model_selection import GridSearchCV
  from sklearn.pipeline import Pipeline

  pipeline = Pipeline([("embed", model.as_transformer()), ("classify", LogisticRegression())])
  search = GridSearchCV(pipeline, {"embed__calibration": [None, "mean"]}, cv=3, error_score="raise")
  search.fit(SENTENCES, LABELS)
  assert len(search.cv_results_["params"]) == 2
