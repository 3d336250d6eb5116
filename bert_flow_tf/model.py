"""Sentence model: an encoder, its pooling and a calibration in one object."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.flow import FlowCalibration, load_calibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.spec import FLOW
from bert_flow_tf.data.features import check_sentences
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.identity import EncoderIdentity, read_identity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.evaluation.similarity import cosine_similarity
from bert_flow_tf.evaluation.task_scores import WITH_FLOW
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.storage import FLOW_FOLDER
from bert_flow_tf.io.folders import FolderFormat
from bert_flow_tf.training.calibrate import fit_calibration

# Folder of a model without a calibration; the others are a flow's and a calibration's.
_ENCODER_FOLDER = FolderFormat("model", "model.json", "arrays.npz", EncoderError, "SentenceModel.save")
_FOLDERS = (FLOW_FOLDER, storage.FORMAT, _ENCODER_FOLDER)
# Less than float32's rounding around 1; only a vector of zeros is shorter.
_SHORTEST = 1e-30


class SentenceModel:
  """Sentences -> calibrated embeddings.

      model = SentenceModel.from_pretrained("mini")
      model.fit(sentences, calibration="flow")
      embeddings = model.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      model.similarity(["A man is eating."], ["A man has lunch."])  # cosines [1]
      model.save("my_model")
      model = SentenceModel.load("my_model")

  mteb and sentence-transformers' evaluators take it through `integrations.sentence_transformers`, SentEval through
  `integrations.senteval`.

  Args:
    encoder: the encoder.
    calibration: fitted calibration or flow; None for the encoder alone.
    sentence_embedding_type, max_seq_length, low_dim: see `SentenceEncoder.encode`.
    cache: folder where embeddings are kept between runs, an `EmbeddingCache`, or None.
    allow_other_encoder: whether the calibration may have been fitted on other embeddings.

  Raises:
    ConfigError: an argument is not allowed.
    EncoderError: max_seq_length is too large for the encoder; the calibration was fitted on other embeddings, or on
      another number of dimensions.

  Attributes:
    encoder: the `SentenceEncoder`.
    calibration: the `Calibration`, or None.
    identity: the `EncoderIdentity` of the embeddings before calibration.
    dim: dimensions of these embeddings.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    calibration: Calibration | Glow | None = None,
    sentence_embedding_type: str = "avg-first-last",
    max_seq_length: int = 64,
    low_dim: int | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
  ) -> None:
    encoder.bert.check_max_seq_length(max_seq_length)
    self.encoder = encoder
    self.calibration: Any = None  # a Calibration
    self.dim = encoder.dim(sentence_embedding_type, low_dim)
    self.identity = encoder.identity(sentence_embedding_type, max_seq_length, low_dim)
    self._cache = cache
    if calibration is not None:
      self._attach(calibration, "calibration", getattr(calibration, "name", ""), allow_other_encoder)

  @classmethod
  def from_pretrained(
    cls,
    name: str = "mini",
    sentence_embedding_type: str = "avg-first-last",
    max_seq_length: int = 64,
    low_dim: int | None = None,
    precision: str = "float32",
    cache_dir: str | os.PathLike | None = None,
    cache: Any = None,
  ) -> "SentenceModel":
    """Loads an encoder, without a calibration.

    Args:
      name: see `SentenceEncoder.from_pretrained`.
      sentence_embedding_type: see the class.
      max_seq_length: see the class.
      low_dim: see the class.
      precision: see `SentenceEncoder.from_pretrained`.
      cache_dir: see `SentenceEncoder.from_pretrained`.
      cache: see the class.

    Raises:
      ConfigError: an argument is not allowed.
      EncoderError: the encoder cannot be loaded, or max_seq_length is too large for it.
    """
    encoder = SentenceEncoder.from_pretrained(name, cache_dir, precision)
    return cls(encoder, None, sentence_embedding_type, max_seq_length, low_dim, cache)

  @classmethod
  def load(
    cls,
    folder: str | os.PathLike,
    model: str | SentenceEncoder | None = None,
    *,
    cache_dir: str | os.PathLike | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
    **settings: Any,
  ) -> "SentenceModel":
    """Loads what `save` or a runner wrote: the calibration, and the encoder that it was fitted on.

    Args:
      folder: folder of a calibration, such as exp/NAME/flow, or of a model without a calibration.
      model: name or folder of the encoder, or a loaded one; None for the encoder that the folder names.
      cache_dir: see `SentenceEncoder.from_pretrained`.
      cache: see the class.
      allow_other_encoder: see the class.
      **settings: sentence_embedding_type, max_seq_length, low_dim or precision in place of those of the folder.

    Raises:
      FlowError, CalibrationError: the folder is missing, incomplete or damaged.
      ConfigError: the folder contains calibrations and is none.
      EncoderError: the encoder cannot be loaded or is not the one of the fit, or the folder names no encoder and
        `model` is None.
    """
    folder = os.path.expanduser(folder)
    where = f"folder={folder}"
    calibration, identity = _read(folder, where)
    if model is None and not isinstance(identity, EncoderIdentity):
      reason = "names no encoder" if identity is None else f"was fitted on {identity}"
      raise EncoderError(f"{where}: {reason}; say which one made its embeddings, as model=mini", "folder")
    arguments = {}
    if isinstance(identity, EncoderIdentity):
      arguments = {**identity.pooling_arguments(), "precision": identity.precision}
    arguments |= settings
    precision = arguments.pop("precision", "float32")
    if not isinstance(model, SentenceEncoder):
      try:
        model = SentenceEncoder.from_pretrained(model or identity.name, cache_dir, precision)
      except EncoderError as error:
        if model is not None:
          raise
        raise EncoderError(
          f"{where}: its encoder cannot be loaded: {error} model= can name its folder", "folder"
        ) from error
    loaded = cls(model, cache=cache, **arguments)
    if calibration is not None:
      loaded._attach(calibration, "folder", folder, allow_other_encoder)
    elif not allow_other_encoder:
      identity.check_same(loaded.identity, where, "folder")
    return loaded

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the calibration and the encoder's identity; the encoder itself is not copied.

    Args:
      folder: gets the files of `run_flow`'s EXPERIMENT/flow: flow.json and weights.npz, or calibration.json and
        arrays.npz; model.json and arrays.npz without a calibration. An older folder of the same kind is replaced.

    Raises:
      BertFlowError: the folder cannot be written, or contains something else.
    """
    if self.calibration is not None:
      self.calibration.encoder = self.calibration.encoder or self.identity.to_dict()
      self.calibration.save(folder)
    else:
      _ENCODER_FOLDER.write(folder, {"encoder": self.identity.to_dict()}, {})

  @property
  def name(self) -> str:
    """Encoder and calibration: "mini+flow"."""
    return self.encoder.name if self.calibration is None else f"{self.encoder.name}+{self.calibration.name}"

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self.identity.max_seq_length

  @property
  def output_dim(self) -> int:
    """Dimensions of the embeddings that `encode` returns."""
    return self.dim if self.calibration is None else self.calibration.output_dim

  def fit(
    self,
    sentences: Sequence[str] | SentencePairs | tuple[Sequence[str], Sequence[str]] | Sequence[tuple[str, str]],
    calibration: str = FLOW,
    *,
    dev: SentencePairs | None = None,
    batch_size: int = 64,
    show_progress: bool | None = None,
    **settings: Any,
  ) -> "SentenceModel":
    """Embeds sentences, fits a calibration on them without labels, and records the encoder's identity.

    Args:
      sentences: list of str; or pairs, as a `SentencePairs`, a tuple of two lists, or a list of tuples of two str.
        Every occurrence counts. The flow's loss is a mean over pairs of sentences: of a plain list it takes neighbors.
      calibration: "flow", "whitening", "whitening-K", "sn", "natsv-K", "sn+natsv-K", "mean" or "none".
      dev: pairs with gold scores on which natsv and sn+natsv without K choose it.
      batch_size: largest number of sentences embedded at once.
      show_progress: see `SentenceEncoder.encode`.
      **settings: of the flow's fit, see `training.calibrate.fit_calibration`: folder, flow_learning_rate,
        num_train_epochs, seed, ...

    Returns:
      The model itself.

    Raises:
      DataError: not sentences, or lists of different lengths.
      ConfigError: an argument is not allowed.
      BertFlowError: the fit failed; an earlier calibration stays.
    """
    vectors = _map_sides(_sides(sentences), lambda texts: self.embed(texts, batch_size, show_progress))
    gold: Any = None
    if dev is not None:
      sides = (self.embed(texts, batch_size, show_progress) for texts in (dev.sentences_a, dev.sentences_b))
      gold = (*sides, dev.scores)
    fitted = fit_calibration(vectors, calibration, dev=gold, show_progress=show_progress is not False, **settings)
    fitted.encoder = self.identity.to_dict()
    self.calibration = fitted
    return self

  def embed(self, sentences: Sequence[str], batch_size: int = 64, show_progress: bool | None = None) -> np.ndarray:
    """Embeds sentences, without the calibration: float32 [n, dim]; see `SentenceEncoder.encode`."""
    arguments = self.identity.pooling_arguments()
    return self.encoder.encode(
      sentences, batch_size=batch_size, show_progress=show_progress, cache=self._cache, **arguments
    )

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """Applies the calibration to embeddings [n, dim]: float32 [n, output_dim]; without one they are returned."""
    if self.calibration is not None and len(embeddings):
      embeddings = self.calibration.transform(embeddings)
    return np.asarray(embeddings, np.float32).reshape([len(embeddings), self.output_dim])

  def encode(
    self,
    sentences: str | Sequence[str],
    batch_size: int = 64,
    show_progress_bar: bool | None = False,
    normalize_embeddings: bool = False,
    convert_to_numpy: bool = True,
  ) -> np.ndarray:
    """Embeds and calibrates sentences; the arguments are named as in sentence-transformers.

    Args:
      sentences: list of n str, or one str.
      batch_size: largest number of sentences embedded at once; changes results by float rounding only.
      show_progress_bar: see `SentenceEncoder.encode`.
      normalize_embeddings: whether embeddings are divided by their length; one of zeros stays.
      convert_to_numpy: True; tensors are made by `integrations.sentence_transformers`.

    Returns:
      float32 [n, output_dim], or [output_dim] for one str.

    Raises:
      DataError: not str.
      ConfigError: an argument is not allowed.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    if not convert_to_numpy:
      raise ConfigError("convert_to_numpy=False: expected True", argument="convert_to_numpy")
    texts = check_sentences([sentences] if isinstance(sentences, str) else sentences)
    embeddings = self.transform(self.embed(texts, batch_size, bool(show_progress_bar)))
    if normalize_embeddings:
      embeddings = normalized(embeddings)
    return embeddings[0] if isinstance(sentences, str) else embeddings

  def similarity(self, texts_a: Sequence[str], texts_b: Sequence[str], batch_size: int = 64) -> np.ndarray:
    """Returns the cosine of the calibrated embeddings of each pair, float64 [n]; 0 for an embedding of zeros.

    Args:
      texts_a: the first sentences of n pairs.
      texts_b: the second sentences.
      batch_size: see `encode`.

    Raises:
      DataError: not str, or lists of different lengths.
    """
    a, b = _sides((texts_a, texts_b))
    embeddings = self.encode([*a, *b], batch_size)
    return np.nan_to_num(cosine_similarity(embeddings[: len(a)], embeddings[len(a) :]))

  def _attach(self, calibration, argument, value, allow_other_encoder):
    """Takes a calibration, once it is known to fit the embeddings."""
    calibration = FlowCalibration(calibration) if isinstance(calibration, Glow) else calibration
    if not isinstance(calibration, Calibration):
      kind = type(calibration).__name__
      raise ConfigError(f"{argument}={kind}: expected a Calibration, a Glow or None", argument)
    identity = read_identity(calibration.encoder, f"{argument}={value}")
    if isinstance(identity, EncoderIdentity) and not allow_other_encoder:
      identity.check_same(self.identity, f"{argument}={value}", argument)
    elif isinstance(identity, EncoderIdentity) and identity.differences(self.identity):
      logging.warning("%s: fitted on %s: %s", value, identity, "; ".join(identity.differences(self.identity)))
    if calibration.dim != self.dim:
      raise EncoderError(
        f"{argument}={value}: fitted on {calibration.dim} dimensions, but {self.encoder.name!r} gives {self.dim}",
        argument,
      )
    self.calibration = calibration


def load_models(folders: Sequence[str], model: str | None = None, **arguments: Any) -> dict[str, SentenceModel]:
  """Loads several calibrations of one encoder.

  Args:
    folders: folders of calibrations.
    model: see `SentenceModel.load`.
    **arguments: see `SentenceModel.load`.

  Returns:
    {name of the calibration: model}, all with the same encoder; names that repeat get numbers: sn_1, sn_2.

  Raises:
    ConfigError: no folder, an empty name, or a folder twice.
    BertFlowError: see `SentenceModel.load`.
  """
  if not folders or not all(folders):
    raise ConfigError("folder: empty, or with an empty name; expected folders of calibrations", argument="folder")
  folders = [os.path.expanduser(folder) for folder in folders]
  if len({os.path.realpath(folder) for folder in folders}) < len(folders):
    raise ConfigError(f"folder={','.join(folders)}: a folder is given twice", argument="folder")
  models = []
  for folder in folders:
    models.append(SentenceModel.load(folder, model, **arguments))
    # The next ones share encoder and pooling.
    model, arguments = models[0].encoder, {**arguments, **models[0].identity.pooling_arguments()}
  names = [getattr(loaded.calibration, "name", "none") for loaded in models]
  names = [WITH_FLOW if name == FLOW else name for name in names]
  numbered = [f"{name}_{names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]
  return dict(zip(numbered, models, strict=True))


def normalized(embeddings: np.ndarray) -> np.ndarray:
  """Divides rows [n, dim] by their length; rows of zeros stay."""
  return embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), _SHORTEST)


def _read(folder, where):
  """Returns the calibration in a folder, or None, and the identity of its encoder, or None."""
  path = pathlib.Path(folder)
  if _ENCODER_FOLDER.is_in(path):
    return None, EncoderIdentity.from_dict(_ENCODER_FOLDER.read_settings(path).get("encoder") or {}, where)
  if path.is_dir() and not any(kind.is_in(path) for kind in _FOLDERS):
    inside = [str(item) for item in sorted(path.iterdir()) if any(kind.is_in(item) for kind in _FOLDERS)]
    if inside:
      raise ConfigError(f"{where}: contains {', '.join(inside)}; expected one of these", argument="folder")
  calibration = load_calibration(path)
  return calibration, read_identity(calibration.encoder, where)


def _sides(sentences):
  """Returns a list of str, or a tuple of two for pairs in any form."""
  if isinstance(sentences, SentencePairs):
    return list(sentences.sentences_a), list(sentences.sentences_b)
  if isinstance(sentences, tuple) and len(sentences) == 2 and not isinstance(sentences[0], str):
    a, b = (check_sentences(side) for side in sentences)
  elif not isinstance(sentences, str) and len(sentences) and all(_is_pair(item) for item in sentences):
    a, b = (check_sentences([pair[side] for pair in sentences]) for side in range(2))
  else:
    return check_sentences(sentences)
  if len(a) != len(b):
    raise DataError(f"pairs of {len(a)} and {len(b)} sentences; expected two lists of the same length")
  return a, b


def _is_pair(item):
  return isinstance(item, list | tuple) and len(item) == 2


def _map_sides(sides, function):
  return tuple(map(function, sides)) if isinstance(sides, tuple) else function(sides)
