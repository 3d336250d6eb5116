"""A model as a transformer of scikit-learn's Pipelines; scikit-learn itself is not needed."""

from typing import Any

import numpy as np


class ScikitLearnTransformer:
  """Transformer from sentences to embeddings, with the methods that scikit-learn calls.

      pipeline = make_pipeline(model.as_transformer("soft-whitening"), LogisticRegression())
      pipeline.fit(sentences, labels).predict(other_sentences)

  Args:
    model: a `SentenceModel`.
    calibration: name of the calibration that `fit` fits on its sentences; None to take the model as it is.

  Attributes:
    model_: the model that `transform` embeds with.
  """

  def __init__(self, model: Any, calibration: str | None = None) -> None:
    self.model = model
    self.calibration = calibration
    self.model_ = model

  def fit(self, X: Any, y: Any = None) -> "ScikitLearnTransformer":
    """Fits the calibration on sentences; `y`, their labels, is not used."""
    if self.calibration is not None:
      self.model_ = self.model.with_calibration(None).fit(X, self.calibration, show_progress=False)
    return self

  def transform(self, X: Any) -> np.ndarray:
    """Returns the embeddings of sentences, float32 [n, output_dim]."""
    return self.model_.encode(X)

  def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
    """Fits the calibration on sentences, and returns their embeddings."""
    return self.fit(X, y).transform(X)

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Returns the arguments of the class."""
    return {"model": self.model, "calibration": self.calibration}

  def set_params(self, **params: Any) -> "ScikitLearnTransformer":
    """Sets arguments of the class, as a search over `calibration` does."""
    for name, value in params.items():
      setattr(self, name, value)
    return self

  def __sklearn_tags__(self) -> Any:
    from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # which calls this method

    tags = {"target_tags": TargetTags(required=False), "transformer_tags": TransformerTags()}
    return Tags("transformer", input_tags=InputTags(two_d_array=False, string=True), **tags)

  def __sklearn_clone__(self) -> "ScikitLearnTransformer":
    return ScikitLearnTransformer(self.model, self.calibration)  # the encoder is shared, not copied
