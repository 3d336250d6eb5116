"""Protocol of sentence-transformers' models and mteb's encoders, around a `SentenceModel`."""

import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bert_flow_tf.data.pairs import Texts, is_table
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import cosine_similarity, normalized
from bert_flow_tf.io.checks import as_array, check_assignment, check_sentence_transformers
from bert_flow_tf.model import SentenceModel, check_sentence_model
from bert_flow_tf.progress import either_name

if TYPE_CHECKING:
  import torch
  from mteb.models.model_meta import ModelMeta

  Embeddings: TypeAlias = np.ndarray | torch.Tensor | list[np.ndarray] | list[torch.Tensor]


class SentenceTransformersAdapter:
  """Model as mteb and sentence-transformers' evaluators call it.

      adapter = SentenceTransformersAdapter(SentenceModel.load("exp/stsb/flow"))
      mteb.evaluate(adapter, tasks)

  Args:
    model: the `SentenceModel`.

  Raises:
    ConfigError: no `SentenceModel`.

  Attributes:
    model: the `SentenceModel`.
    similarity_fn_name: "cosine".
    model_card_data: receives the scores of sentence-transformers' evaluators, and names the model.

  Other attributes cannot be assigned: a ConfigError names the argument that has the effect.
  """

  similarity_fn_name = "cosine"

  def __init__(self, model: SentenceModel) -> None:
    check_sentence_model(model)
    self.model = model
    self.model_card_data = EvaluationMetrics(model)

  def __setattr__(self, name: str, value: Any) -> None:
    """Sets an attribute; a ConfigError for a name that would have no effect, as prompts."""
    check_assignment(self, SentenceTransformersAdapter, ("model", "model_card_data"), name, value)
    super().__setattr__(name, value)

  @property
  def mteb_model_meta(self) -> "ModelMeta | None":
    """The `ModelMeta` of this model; None if mteb is not installed."""
    return _model_meta(self.model)

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self.model.max_seq_length

  def get_max_seq_length(self) -> int:
    """Returns `max_seq_length`."""
    return self.max_seq_length

  @property
  def prompts(self) -> dict[str, str]:
    """The prompts that the encoder's folder declares, by their names."""
    return dict(self.model.encoder.declared.prompts)

  @property
  def truncate_dim(self) -> int | None:
    """Number of the encoder's dimensions that are kept; None for all."""
    return self.model.encoder.truncate_dim

  def get_sentence_embedding_dimension(self) -> int:
    """Returns the dimensions of the embeddings that `encode` returns."""
    return self.model.output_dim

  get_embedding_dimension = get_sentence_embedding_dimension

  @either_name
  def encode(
    self,
    sentences: str | Texts,
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
    normalize_embeddings: bool = False,
    *,
    convert_to_numpy: bool = True,
    convert_to_tensor: bool = False,
    prompt_name: str | None = None,
    prompt: str | None = None,
    prompt_type: object = None,
    truncate_dim: int | None = None,
    **others: object,
  ) -> "Embeddings":
    """Embeds and calibrates sentences.

    Args:
      sentences: n sentences as `SentenceModel.encode` takes them, one str, or an iterable of batches as mteb 2 gives
        them, each a dict with a list of str, or a single str, under "text".
      batch_size: see `SentenceModel.encode`.
      show_progress_bar: see `SentenceModel.encode`.
      normalize_embeddings: see `SentenceModel.encode`.
      convert_to_numpy: False for a list of tensors [dim], as sentence-transformers gives it, or of arrays if PyTorch
        is not imported.
      convert_to_tensor: True for a torch.Tensor; needs PyTorch.
      prompt_name: see `SentenceModel.encode`.
      prompt: see `SentenceModel.encode`.
      prompt_type: see `SentenceModel.encode`.
      truncate_dim: see `SentenceModel.encode`.
      **others: arguments of the two programs that change nothing here (mteb's task_metadata, ...).

    Returns:
      float32 array or tensor of shape [n, dim], or a list of n tensors or arrays [dim]; for one str, one of [dim].

    Raises:
      DataError: not str.
      ConfigError: an argument is unknown, or the model does not support it.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    check_sentence_transformers(others)
    if convert_to_tensor:
      _import_torch()  # an error here comes before the long embedding
    texts = _texts_of(sentences)
    embeddings = self.model.encode(
      texts,
      batch_size,
      bool(show_progress_bar),
      normalize_embeddings,
      prompt_name=prompt_name,
      prompt=prompt,
      prompt_type=prompt_type,
      truncate_dim=truncate_dim,
    )
    embeddings = np.require(embeddings, requirements="W")  # PyTorch warns of tensors that share read-only memory
    if convert_to_tensor:
      return _tensor(embeddings)
    if convert_to_numpy:
      return embeddings
    embeddings = _tensor_if_imported(embeddings)
    if embeddings.ndim == 1:
      return embeddings
    return list(embeddings)

  def encode_query(self, sentences: str | Texts, *args: Any, **kwargs: Any) -> "Embeddings":
    """Embeds queries, after their prompt; see `encode` and `SentenceModel.encode_query`."""
    return self.encode(sentences, *args, **{"prompt_type": "query", **kwargs})

  def encode_document(self, sentences: str | Texts, *args: Any, **kwargs: Any) -> "Embeddings":
    """Embeds documents, after their prompt; see `encode` and `SentenceModel.encode_document`."""
    return self.encode(sentences, *args, **{"prompt_type": "document", **kwargs})

  def embed_documents(self, texts: Texts) -> list[list[float]]:
    """Returns the embeddings of documents as lists of float, as LangChain calls it; see `encode_document`."""
    return self.model.encode_document(texts).tolist()

  def embed_query(self, text: str) -> list[float]:
    """Returns the embedding of a query as a list of float; see `encode_query`."""
    return self.model.encode_query(text).tolist()

  @property
  def device(self) -> str:
    """Device of the embeddings by PyTorch's name: "cpu", where arrays are."""
    return "cpu"

  def eval(self) -> "SentenceTransformersAdapter":
    """Returns the adapter: there is no dropout to turn off."""
    return self

  def similarity(self, embeddings1: npt.ArrayLike, embeddings2: npt.ArrayLike) -> "np.ndarray | torch.Tensor":
    """Returns the cosines of all rows of [n, dim] with all rows of [m, dim], float32 [n, m]; 0 for a row of zeros.

    A tensor if PyTorch is imported, as both programs do, and otherwise an array; two vectors [dim] give one number.
    """
    a, b = _array_of(embeddings1, "embeddings1"), _array_of(embeddings2, "embeddings2")
    are_single = a.ndim == b.ndim == 1
    a, b = np.atleast_2d(a), np.atleast_2d(b)
    if a.shape[1] != b.shape[1]:
      message = f"embeddings2: {b.shape[1]} dimensions, expected {a.shape[1]} as of embeddings1"
      raise DataError(message, argument="embeddings2")
    cosines = (normalized(a) @ normalized(b).T).astype(np.float32)
    if are_single:
      cosines = cosines.reshape([])  # `float` takes no array [1, 1]
    return _tensor_if_imported(cosines)

  def similarity_pairwise(self, embeddings1: npt.ArrayLike, embeddings2: npt.ArrayLike) -> "np.ndarray | torch.Tensor":
    """Returns the cosines of pairs of rows [n, dim], float64 [n]; 0 for a row of zeros; a tensor as `similarity`."""
    a, b = (np.atleast_2d(_array_of(*given)) for given in ((embeddings1, "embeddings1"), (embeddings2, "embeddings2")))
    if a.shape != b.shape:
      message = f"embeddings2: shape {list(b.shape)}, expected {list(a.shape)} as of embeddings1"
      raise DataError(message, argument="embeddings2")
    return _tensor_if_imported(np.nan_to_num(cosine_similarity(a, b)))


def _array_of(embeddings, name):
  """Returns embeddings as float64 [n, dim], or one as [dim]; DataError, which calls them `name`, for texts."""
  try:
    array = as_array(embeddings, name, DataError, np.float64)
  except DataError as error:
    raise DataError(f"{error}, as encode returns them; SentenceModel.similarity takes texts", name) from error
  if array.ndim not in (1, 2):
    raise DataError(f"{name}: expected shape [n, dim], got {list(array.shape)}", name)
  return array


class EvaluationMetrics:
  """Scores of sentence-transformers' evaluators: `metrics`, a list of (evaluator, {score: value})."""

  def __init__(self, model: SentenceModel) -> None:
    self._model = model
    self.metrics: list[tuple[object, dict[str, float]]] = []

  @property
  def base_model(self) -> str:
    """Name and revision of the model, under which sentence-transformers caches embeddings."""
    return f"{_name_of(self._model)}@{revision(self._model)}"

  def set_evaluation_metrics(self, evaluator: object, metrics: dict[str, float], epoch: int = 0, step: int = 0) -> None:
    """Keeps the scores of one evaluation."""
    del epoch, step
    self.metrics.append((evaluator, dict(metrics)))


def revision(model: SentenceModel) -> str:
  """Returns 40 hexadecimal digits that depend on encoder, pooling, prompts and calibration."""
  values = model.identity.deciding()
  for name in ("query_prompt", "document_prompt"):  # which decide a retrieval
    prompt = getattr(model.identity.settings, name)
    if prompt is not None:
      values[name] = prompt
  if model.steps_checksum is not None:
    values["calibration_sha256"] = model.steps_checksum
  return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:40]


def _model_meta(model):
  """Returns the `ModelMeta` of a `SentenceModel`, whose name and revision mteb stores; None without mteb."""
  try:
    from mteb.models.model_meta import ModelMeta
  except ImportError:
    return None
  ours = {
    "name": _name_of(model),
    "revision": revision(model),
    "framework": [],
    "max_tokens": model.max_seq_length,
    "embed_dim": model.output_dim,
    "similarity_fn_name": "cosine",
    "n_parameters": model.encoder.count_params(),
    "use_instructions": False,
  }
  # Fields that must be given and that we do not know are None.
  values = {}
  for field, about in ModelMeta.model_fields.items():
    if field in ours or about.is_required():
      values[field] = ours.get(field)
  return ModelMeta(**values)


def _name_of(model):
  """Returns a name of the encoder and the calibration, of the characters that a path may have."""
  name = pathlib.PurePath(model.encoder.name).name  # of an encoder's folder, its last part
  if model.calibration_name is not None:
    name += f"+{model.calibration_name}"
  name = re.sub(r"[^A-Za-z0-9._+-]", "-", name) or "model"
  return f"bert-flow-tf/{name}"


def _texts_of(sentences):
  """Returns sentences, or the texts of mteb's batches, as a list; `SentenceModel.encode` checks that they are str."""
  # A tensor without dimensions is Iterable, too; of a mapping and a set, a list would lose the texts or their order.
  if (
    isinstance(sentences, str | Mapping | Set)
    or not isinstance(sentences, Iterable)
    or getattr(sentences, "ndim", 1) == 0
    or hasattr(sentences, "to_pylist")  # a column of Arrow
    or is_table(sentences)
    or hasattr(sentences, "as_numpy_iterator")  # a tf.data.Dataset
  ):
    return sentences
  texts = []
  for position, item in enumerate(sentences):
    if not isinstance(item, Mapping):
      texts.append(item)
    elif isinstance(item.get("text"), str):
      texts.append(item["text"])
    elif "text" in item:
      texts += item["text"]
    else:
      message = f"sentences: batch {position} (from 0) has {list(item)}, expected text; this model embeds text alone"
      raise DataError(message, argument="sentences")
  return texts


def _tensor_if_imported(values):
  """Returns an array as a tensor if PyTorch is imported: the code of both programs expects one."""
  if sys.modules.get("torch") is None:
    return values
  return _tensor(values)


def _tensor(embeddings):
  return _import_torch().from_numpy(embeddings)


def _import_torch():
  try:
    import torch
  except ImportError as error:
    message = f"convert_to_tensor=True: PyTorch cannot be imported ({error}): pip install torch"
    raise ConfigError(message, argument="convert_to_tensor") from error
  return torch
