"""Encoder and calibration as one model with the `encode` that other programs call."""

import numpy as np

from bert_flow_tf.calibration.flow import FlowCalibration, check_encoder, load_any
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.data.features import check_sentences
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.evaluation.similarity import cosine_similarity
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.integrations import mteb_meta
from bert_flow_tf.integrations.inputs import check_others, texts_of

_DEFAULTS = {"sentence_embedding_type": "avg-first-last", "max_seq_length": 64, "low_dim": None}
_KINDS = {"sentence_embedding_type": str, "max_seq_length": int, "low_dim": int | None, "name": str}
# Below the rounding of float32 around 1; only a vector of zeros is shorter.
_SHORTEST = 1e-30


class SentenceModel:
  """Sentences -> calibrated embeddings, with the methods of sentence-transformers' models and mteb's encoders.

      model = SentenceModel.from_pretrained(calibration="exp/stsb/flow")
      embeddings = model.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      model.similarity(embeddings, embeddings)  # cosines [2, 2]

  `mteb.evaluate(model, tasks)` and sentence-transformers' evaluators take it as it is; SentEval through
  `harness.senteval.SentEvalAdapter`.

  Args:
    encoder: a `SentenceEncoder`.
    calibration: a fitted `Calibration` or `Glow`; None for the encoder alone.
    sentence_embedding_type, max_seq_length, low_dim: as in `SentenceEncoder.encode`.
    cache: as there.
    allow_other_encoder: whether a calibration may be applied to embeddings of another kind than it was fitted on.

  Raises:
    ConfigError: an argument is not allowed.
    EncoderError: max_seq_length does not suit the encoder; the calibration was fitted on embeddings of another kind
      (encoder, pooling, length), or of another number of dimensions.

  Attributes:
    encoder: the `SentenceEncoder`.
    calibration: the `Calibration`, or None.
    similarity_fn_name: "cosine".
    model_card_data: where sentence-transformers' evaluators leave their figures.
  """

  similarity_fn_name = "cosine"

  def __init__(
    self,
    encoder,
    calibration=None,
    sentence_embedding_type="avg-first-last",
    max_seq_length=64,
    low_dim=None,
    cache=None,
    allow_other_encoder=False,
  ):
    self.encoder = encoder
    self.calibration = FlowCalibration(calibration) if isinstance(calibration, Glow) else calibration
    self.model_card_data = EvaluationMetrics()
    self._cache = cache
    self._arguments = {
      "sentence_embedding_type": sentence_embedding_type,
      "max_seq_length": max_seq_length,
      "low_dim": low_dim,
    }
    encoder.bert.check_max_seq_length(max_seq_length)
    self._dim = encoder.dim(sentence_embedding_type, low_dim)
    if self.calibration is None:
      return
    if not isinstance(self.calibration, Calibration):
      raise ConfigError(f"calibration is {type(calibration).__name__}, expected a Calibration, a Glow or None")
    if not allow_other_encoder:
      check_encoder(self.calibration, encoder.identity(**self._arguments), self.calibration.name)
    if self.calibration.dim != self._dim:
      raise EncoderError(
        f"{self.calibration.name} takes embeddings of {self.calibration.dim} dimensions, found {self._dim} of "
        f"{encoder.name!r}"
      )

  @classmethod
  def from_pretrained(cls, name=None, calibration=None, cache_dir=None, precision=None, **arguments):
    """Loads encoder and calibration.

    Args:
      name: as in `SentenceEncoder.from_pretrained`; None for the encoder that the calibration was fitted for, or
        `mini` where there is none.
      calibration: folder that `run_flow.py`, `Glow.save` or `Calibration.save` wrote, or None.
      cache_dir: as in `SentenceEncoder.from_pretrained`.
      precision: as there; None for that which the calibration was fitted with, float32 where there is none.
      **arguments: of the class; what is not given of sentence_embedding_type, max_seq_length and low_dim is as the
        calibration was fitted.

    Raises:
      FlowError, CalibrationError: the calibration's folder is absent, incomplete or damaged.
      EncoderError: the encoder cannot be loaded, or is not the calibration's.
    """
    fitted = None if calibration is None else load_any(calibration)
    identity = (fitted.encoder if fitted else None) or {}
    settings = _DEFAULTS | _checked(identity, calibration) | arguments
    if name is None:
      name = identity.get("name", "mini")
    encoder = SentenceEncoder.from_pretrained(name, cache_dir, precision or identity.get("precision", "float32"))
    return cls(encoder, fitted, **settings)

  @property
  def name(self):
    """Encoder and calibration in a few words: "mini+flow"."""
    return self.encoder.name if self.calibration is None else f"{self.encoder.name}+{self.calibration.name}"

  @property
  def max_seq_length(self):
    """Tokens of a sentence that count, [CLS] and [SEP] included."""
    return self._arguments["max_seq_length"]

  @property
  def output_dim(self):
    """Dimensions of the results of `encode`."""
    return self.get_sentence_embedding_dimension()

  @property
  def identity(self):
    """What decides the embeddings before calibration: `SentenceEncoder.identity`."""
    return self.encoder.identity(**self._arguments)

  @property
  def mteb_model_meta(self):
    """The `ModelMeta` of this model; None where mteb is not installed."""
    return mteb_meta.model_meta(self)

  def get_sentence_embedding_dimension(self):
    """Dimensions of what `encode` gives."""
    return self._dim if self.calibration is None else self.calibration.output_dim

  get_embedding_dimension = get_sentence_embedding_dimension

  def encode(
    self,
    sentences,
    batch_size=32,
    show_progress_bar=None,
    normalize_embeddings=False,
    *,
    convert_to_numpy=True,
    convert_to_tensor=False,
    **others,
  ):
    """Embeds sentences and calibrates them.

    Args:
      sentences: list of str, or a lone str; or batches of them as mteb 2 gives them (`harness.inputs.texts_of`).
      batch_size: sentences a step; changes results by float rounding only.
      show_progress_bar: True shows progress as `SentenceEncoder.encode` does; None and False do not.
      normalize_embeddings: whether embeddings are divided by their length; one of zeros stays.
      convert_to_numpy: True, unless convert_to_tensor is.
      convert_to_tensor: True for a torch.Tensor, where PyTorch is installed.
      **others: arguments of the two programs that change nothing here (mteb's task_metadata, prompt_type, ...); any
        other is refused.

    Returns:
      float32 array of shape [n, dim], or [dim] for a lone str.

    Raises:
      DataError: what is not a str.
      ConfigError: an argument is unknown, or asks for what this model has not.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    check_others(others)
    if not convert_to_numpy and not convert_to_tensor:
      raise ConfigError("encode: convert_to_numpy is False, expected True, or convert_to_tensor=True beside it")
    texts, is_single = texts_of(sentences)
    texts = check_sentences(texts)
    embeddings = self.encoder.encode(
      texts, batch_size=batch_size, show_progress=bool(show_progress_bar), cache=self._cache, **self._arguments
    )
    if self.calibration is not None and len(texts):
      embeddings = self.calibration.transform(embeddings)
    embeddings = np.asarray(embeddings, np.float32).reshape([len(texts), self.get_sentence_embedding_dimension()])
    if normalize_embeddings:
      embeddings = normalized(embeddings)
    embeddings = embeddings[0] if is_single else embeddings
    return _tensor(embeddings) if convert_to_tensor else embeddings

  # Queries and documents are embedded alike.
  encode_query = encode_document = encode

  def similarity(self, embeddings1, embeddings2):
    """Cosine of every embedding [n, dim] with every one of [m, dim]: float32 [n, m]; 0 for one of zeros.

    Of arrays an array, of torch's tensors a tensor.
    """
    a, b = (normalized(np.atleast_2d(np.asarray(rows, np.float64))) for rows in (embeddings1, embeddings2))
    return _like(embeddings1, (a @ b.T).astype(np.float32))

  def similarity_pairwise(self, embeddings1, embeddings2):
    """Cosine of each pair of rows [n, dim]: float64 [n]; 0 for an embedding of zeros. Tensors as `similarity`."""
    a, b = (np.atleast_2d(np.asarray(rows)) for rows in (embeddings1, embeddings2))
    return _like(embeddings1, np.nan_to_num(cosine_similarity(a, b)))


class EvaluationMetrics:
  """Figures that evaluators of sentence-transformers leave: `found`, a list of (evaluator, {figure: value})."""

  def __init__(self):
    self.found = []

  def set_evaluation_metrics(self, evaluator, metrics, epoch=0, step=0):
    """Keeps the figures of one evaluation."""
    del epoch, step
    self.found.append((evaluator, dict(metrics)))


def normalized(embeddings):
  """Rows [n, dim] divided by their length; rows of zeros stay."""
  return embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), _SHORTEST)


def _checked(identity, folder):
  """The arguments of the class among what a calibration says of its encoder."""
  for key, kind in _KINDS.items() if identity else ():
    value = identity.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
      raise EncoderError(f"{folder}: its encoder has {key} {value!r}; it is damaged, or not run_flow's")
  return {key: identity[key] for key in _DEFAULTS} if identity else {}


def _like(embeddings, values):
  """Values as a tensor where the embeddings are one of torch's."""
  return _tensor(values) if type(embeddings).__module__.split(".")[0] == "torch" else values


def _tensor(embeddings):
  try:
    import torch
  except ImportError as error:
    raise ConfigError("encode: convert_to_tensor=True needs PyTorch, which is not installed; leave it out") from error
  return torch.from_numpy(embeddings)
