"""A model as a transformer of scikit-learn's Pipelines; imported where it is used, as scikit-learn is optional."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
  from sklearn.utils import Tags


class FittableModel(Protocol):
  """Model of sentences that a calibration can be fitted for, as `SentenceModel`."""

  @property
  def output_dim(self) -> int:
    """Dimensions of its embeddings."""

  def encode(self, sentences: Iterable[object]) -> np.ndarray:
    """Returns the embeddings of n sentences, [n, output_dim]."""

  def with_calibration(self, calibration: None) -> "FittableModel":
    """Returns a model of the same encoder without a calibration."""

  def fit(self, sentences: Iterable[object], calibration: str, *, show_progress: bool) -> "FittableModel":
    """Fits a calibration of this name on sentences; returns the model itself."""


class ScikitLearnTransformer(TransformerMixin, BaseEstimator):
  """Transformer from sentences to embeddings.

      pipeline = make_pipeline(model.as_transformer("soft-whitening"), LogisticRegression())
      pipeline.fit(sentences, labels).predict(other_sentences)

  Args:
    model: a `SentenceModel`.
    calibration: name of the calibration that `fit` fits on its sentences; None to take the model as it is.

  Attributes:
    model_: the model that `transform` embeds with, after `fit`.
  """

  def __init__(self, model: FittableModel, calibration: str | None = None) -> None:
    self.model = model
    self.calibration = calibration

  def fit(self, X: Iterable[object], y: object = None) -> "ScikitLearnTransformer":
    """Fits the calibration on sentences; `y`, their labels, is not used."""
    self.model_ = self.model
    if self.calibration is not None:
      self.model_ = self.model.with_calibration(None).fit(X, self.calibration, show_progress=False)
    return self

  def transform(self, X: Iterable[object]) -> np.ndarray:
    """Returns the embeddings of sentences, float32 [n, output_dim]; NotFittedError without a fitted calibration."""
    check_is_fitted(self)
    return self._fitted_model.encode(X)

  @property
  def _fitted_model(self):
    """The model of the last `fit`; without a calibration nothing is fitted."""
    return getattr(self, "model_", self.model)

  def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
    """Returns the names of the columns of `transform`: "embedding0", ..."""
    check_is_fitted(self)
    return np.array([f"embedding{i}" for i in range(self._fitted_model.output_dim)], dtype=object)

  def __sklearn_is_fitted__(self) -> bool:
    return self.calibration is None or hasattr(self, "model_")

  def __sklearn_tags__(self) -> "Tags":
    tags = super().__sklearn_tags__()
    tags.input_tags.two_d_array, tags.input_tags.string = False, True
    return tags

  def __sklearn_clone__(self) -> "ScikitLearnTransformer":
    return ScikitLearnTransformer(self.model, self.calibration)  # the encoder is shared, not copied
