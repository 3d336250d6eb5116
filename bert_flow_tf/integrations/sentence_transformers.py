"""Protocol of sentence-transformers' models and mteb's encoders, around a `SentenceModel`."""

from typing import Any

import numpy as np

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity, normalized
from bert_flow_tf.integrations import mteb_meta
from bert_flow_tf.integrations.inputs import check_others, texts_of
from bert_flow_tf.model import SentenceModel


class SentenceTransformersAdapter:
  """Model as mteb and sentence-transformers' evaluators call it.

      adapter = SentenceTransformersAdapter(SentenceModel.load("exp/stsb/flow"))
      mteb.evaluate(adapter, tasks)

  Args:
    model: the `SentenceModel`.

  Attributes:
    model: the `SentenceModel`.
    similarity_fn_name: "cosine".
    model_card_data: receives the scores of sentence-transformers' evaluators.
  """

  similarity_fn_name = "cosine"

  def __init__(self, model: SentenceModel) -> None:
    self.model = model
    self.model_card_data = EvaluationMetrics()

  @property
  def mteb_model_meta(self) -> Any:
    """The `ModelMeta` of this model; None if mteb is not installed."""
    return mteb_meta.model_meta(self.model)

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self.model.max_seq_length

  def get_sentence_embedding_dimension(self) -> int:
    """Returns the dimensions of the embeddings that `encode` returns."""
    return self.model.output_dim

  get_embedding_dimension = get_sentence_embedding_dimension

  def encode(
    self,
    sentences: Any,
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
    normalize_embeddings: bool = False,
    *,
    convert_to_numpy: bool = True,
    convert_to_tensor: bool = False,
    **others: Any,
  ) -> Any:
    """Embeds and calibrates sentences.

    Args:
      sentences: list of n str, one str, or batches as mteb 2 gives them (`integrations.inputs.texts_of`).
      batch_size: see `SentenceModel.encode`.
      show_progress_bar: the same.
      normalize_embeddings: the same.
      convert_to_numpy: True, unless convert_to_tensor is.
      convert_to_tensor: True for a torch.Tensor; needs PyTorch.
      **others: arguments of the two programs that change nothing here (mteb's task_metadata, prompt_type, ...).

    Returns:
      float32 array or tensor of shape [n, dim], or [dim] for one str.

    Raises:
      DataError: not str.
      ConfigError: an argument is unknown, or asks for what this model does not have.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    check_others(others)
    if not convert_to_numpy and not convert_to_tensor:
      raise ConfigError("convert_to_numpy=False: expected True, or convert_to_tensor=True", argument="convert_to_numpy")
    texts, is_single = texts_of(sentences)
    embeddings = self.model.encode(texts, batch_size, bool(show_progress_bar), normalize_embeddings)
    embeddings = embeddings[0] if is_single else embeddings
    return _tensor(embeddings) if convert_to_tensor else embeddings

  # Queries and documents are embedded alike.
  encode_query = encode_document = encode

  def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
    """Returns the cosines of all rows of [n, dim] with all rows of [m, dim], float32 [n, m]; 0 for a row of zeros.

    Arrays give an array, torch's tensors a tensor.
    """
    a, b = (normalized(np.atleast_2d(np.asarray(rows, np.float64))) for rows in (embeddings1, embeddings2))
    return _like(embeddings1, (a @ b.T).astype(np.float32))

  def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
    """Returns the cosines of pairs of rows [n, dim], float64 [n]; 0 for a row of zeros; tensors as `similarity`."""
    a, b = (np.atleast_2d(np.asarray(rows)) for rows in (embeddings1, embeddings2))
    return _like(embeddings1, np.nan_to_num(cosine_similarity(a, b)))


class EvaluationMetrics:
  """Scores of sentence-transformers' evaluators: `metrics`, a list of (evaluator, {score: value})."""

  def __init__(self) -> None:
    self.metrics = []

  def set_evaluation_metrics(self, evaluator: Any, metrics: dict[str, float], epoch: int = 0, step: int = 0) -> None:
    """Keeps the scores of one evaluation."""
    del epoch, step
    self.metrics.append((evaluator, dict(metrics)))


def _like(embeddings, values):
  """Returns values as a tensor if the embeddings are one of torch's."""
  return _tensor(values) if type(embeddings).__module__.split(".")[0] == "torch" else values


def _tensor(embeddings):
  try:
    import torch
  except ImportError as error:
    raise ConfigError(
      "convert_to_tensor=True: PyTorch is not installed; leave it out", argument="convert_to_tensor"
    ) from error
  return torch.from_numpy(embeddings)
