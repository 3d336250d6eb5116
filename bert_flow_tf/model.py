"""Sentence model: an encoder, its pooling and a calibration in one object."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration.flow import as_calibration, load_calibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import AUTO, FLOW, parse_calibration
from bert_flow_tf.data.pairs import SentencePairs, check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.identity import check_encoder, read_identity
from bert_flow_tf.encoder.loading import IDENTITY_FOLDER, load_encoder, load_identity, save_identity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.evaluation.metrics import cosine_similarity, normalized
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.calibrate import fit_calibration
from bert_flow_tf.training.choice import choose_calibration


class SentenceModel:
  """Sentences -> calibrated embeddings: low_dim(calibration(pooling(BERT(sentences)))).

      model = SentenceModel.from_pretrained("mini")
      model.fit(sentences, calibration="flow")
      embeddings = model.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      model.similarity(["A man is eating."], ["A man has lunch."])  # cosines [1]
      model.save("my_model")
      model = SentenceModel.load("my_model")

  Adapters for mteb, sentence-transformers and SentEval are in `integrations`.

  Args:
    encoder: the encoder.
    calibration: fitted calibration or flow; None for the encoder alone.
    sentence_embedding_type, max_seq_length: see `SentenceEncoder.encode`.
    low_dim: number of groups of neighboring dimensions to average, after the calibration; None for none.
    cache: folder where embeddings are kept between runs, an `EmbeddingCache`, or None.
    allow_other_encoder: whether the calibration may have been fitted on other embeddings.

  Raises:
    ConfigError, EncoderError: an argument is not allowed, or the calibration was fitted on other embeddings.

  Attributes:
    encoder: the `SentenceEncoder`.
    calibration: the `Calibration`, or None.
    identity: the `EncoderIdentity` of the embeddings before calibration, and of `low_dim`.
    dim: dimensions of the embeddings before calibration.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    calibration: Calibration | Glow | None = None,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
    low_dim: int | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
  ) -> None:
    self.encoder = encoder
    self.calibration: Any = None  # a Calibration
    self.dim = encoder.dim(sentence_embedding_type)
    self.identity = encoder.identity(sentence_embedding_type, max_seq_length, low_dim)
    self._cache = cache
    if calibration is not None:
      self.calibration = as_calibration(calibration)
      where = f"calibration={self.calibration.name}"
      check_encoder(self.calibration, self.identity, self.dim, where, "calibration", allow_other_encoder)
    pooling_lib.check_low_dim(getattr(self.calibration, "output_dim", self.dim), low_dim)

  @classmethod
  def from_pretrained(
    cls,
    name: str = "mini",
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
    low_dim: int | None = None,
    cache: Any = None,
    **loading: Any,
  ) -> "SentenceModel":
    """Loads an encoder, without a calibration; see the class. `loading`: see `SentenceEncoder.from_pretrained`.

    Raises:
      ConfigError, EncoderError: an argument is not allowed, or the encoder cannot be loaded.
    """
    encoder = SentenceEncoder.from_pretrained(name, **loading)
    model = cls(encoder, None, sentence_embedding_type, max_seq_length, low_dim, cache)
    encoder.bert.declared.log(**model.identity.pooling_arguments())
    return model

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
      **settings: sentence_embedding_type, max_seq_length, low_dim or settings of `SentenceEncoder.from_pretrained`, in
        place of those of the folder.

    Raises:
      FlowError, CalibrationError, ConfigError: see `load_calibration`.
      EncoderError: the encoder cannot be loaded or is not the one of the fit, or neither folder nor `model` names it.
    """
    folder = os.path.expanduser(folder)
    where = f"folder={folder}"
    with naming("folder"):
      calibration: Any = None if IDENTITY_FOLDER.is_in(folder) else load_calibration(folder)
      identity: Any = load_identity(folder) if calibration is None else read_identity(calibration.encoder, where)
    model, arguments = load_encoder(identity, where, model, cache_dir, **settings)
    loaded = cls(model, cache=cache, **arguments)
    if calibration is not None:
      check_encoder(calibration, loaded.identity, loaded.dim, where, "folder", allow_other_encoder)
      pooling_lib.check_low_dim(calibration.output_dim, loaded.identity.low_dim)
      loaded.calibration = calibration
    elif not allow_other_encoder:
      identity.check_same(loaded.identity, where, "folder")
    return loaded

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the calibration and the encoder's identity; the encoder itself is not copied.

    Args:
      folder: gets calibration.json and arrays.npz; without a calibration model.json and arrays.npz. An older folder of
        the same kind is replaced.

    Raises:
      BertFlowError: the folder cannot be written, or contains something else.
    """
    if self.calibration is not None:
      self.calibration.encoder = self.calibration.encoder or self.identity.to_dict()
      self.calibration.save(folder)
    else:
      save_identity(self.identity, folder)

  @property
  def name(self) -> str:
    """Encoder and calibration: "mini+flow"."""
    return self.encoder.name if self.calibration is None else f"{self.encoder.name}+{self.calibration.name}"

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self.identity.max_seq_length

  @property
  def shares(self) -> tuple[float, ...]:
    """Share of each view that the pooling concatenates, for the calibration's mix of them; () for one embedding."""
    return getattr(self.encoder.pooling(self.identity.sentence_embedding_type), "shares", ())

  @property
  def output_dim(self) -> int:
    """Dimensions of the embeddings that `encode` returns."""
    return self.identity.low_dim or (self.dim if self.calibration is None else self.calibration.output_dim)

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
    """Embeds sentences, fits a calibration on them without labels, and returns the model itself.

    Args:
      sentences: list of str; or pairs, as a `SentencePairs`, a tuple of two lists, or a list of tuples of two str.
        Every occurrence counts. The flow's loss is a mean over pairs of sentences: of a plain list it takes neighbors.
      calibration: a name that `parse_calibration` reads: "flow", "whitening", "flow+soft-whitening", ...; or "auto",
        which compares some of them without labels.
      dev: pairs with gold scores on which natsv and sn+natsv without K choose it.
      batch_size: largest number of sentences embedded at once.
      show_progress: see `SentenceEncoder.encode`.
      **settings: of the flow's fit (num_train_epochs, seed, ...); see `training.calibrate.fit_calibration`.

    Raises:
      BertFlowError: sentences or an argument are not allowed, or the fit failed; an earlier calibration stays.
    """
    embed = functools.partial(self.embed, batch_size=batch_size, show_progress=show_progress)
    texts = sentences_or_pairs(sentences)
    vectors: Any = tuple(map(embed, texts)) if isinstance(texts, tuple) else embed(texts)
    self.log_cone(np.concatenate(vectors) if isinstance(vectors, tuple) else vectors)
    gold: Any = None if dev is None else (embed(dev.sentences_a), embed(dev.sentences_b), dev.scores)
    fitted: Any
    if parse_calibration(calibration).method == AUTO:
      fitted = self._choose(texts, vectors, batch_size, **settings)
    else:
      settings |= {"dev": gold, "show_progress": show_progress is not False, "shares": self.shares}
      fitted = fit_calibration(vectors, calibration, **settings)
    pooling_lib.check_low_dim(fitted.output_dim, self.identity.low_dim)
    fitted.encoder = self.identity.to_dict()
    self.calibration = fitted
    return self

  def _choose(self, texts, vectors, batch_size, seed=0, **others):
    """Returns the calibration that auto chooses for sentences, or for pairs of them, and their embeddings."""
    if others:
      raise ConfigError(f"{next(iter(others))}: calibration=auto takes only seed", argument=next(iter(others)))
    if isinstance(texts, tuple):
      texts, vectors = [*texts[0], *texts[1]], np.concatenate(vectors)
    return choose_calibration(self.encoder, self.identity, texts, vectors, self.shares, seed, batch_size).calibration

  def log_cone(self, embeddings: np.ndarray) -> dict[str, Any]:
    """Logs how narrow the cone of embeddings [n, dim] of `embed` is; see `isotropy.log_cone`."""
    kind = getattr(self.encoder.pooling(self.identity.sentence_embedding_type), "kind", "")
    return isotropy.log_cone(embeddings, self.shares, kind == "words")

  def embed(self, sentences: Sequence[str], batch_size: int = 64, show_progress: bool | None = None) -> np.ndarray:
    """Embeds sentences, without calibration and low_dim: float32 [n, dim]; see `SentenceEncoder.encode`."""
    arguments = {"batch_size": batch_size, "show_progress": show_progress, **self.identity.pooling_arguments()}
    return self.encoder.encode(sentences, cache=self._cache, **arguments)

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """Applies the calibration, then low_dim, to embeddings [n, dim]: float32 [n, output_dim]."""
    if not len(embeddings):
      return np.zeros([0, self.output_dim], np.float32)
    return self.reduce(embeddings if self.calibration is None else self.calibration.transform(embeddings))

  def reduce(self, embeddings: np.ndarray) -> np.ndarray:
    """Applies low_dim, the last step, to embeddings [n, dim], calibrated or not: float32 [n, low_dim or dim]."""
    return np.asarray(pooling_lib.low_dim(np.asarray(embeddings, np.float32), self.identity.low_dim))

  def encode(
    self,
    sentences: str | Sequence[str],
    batch_size: int = 64,
    show_progress_bar: bool | None = False,
    normalize_embeddings: bool = False,
  ) -> np.ndarray:
    """Embeds and calibrates sentences; the arguments are named as in sentence-transformers.

    Args:
      sentences: list of n str, or one str.
      batch_size: largest number of sentences embedded at once; changes results by float rounding only.
      show_progress_bar: see `SentenceEncoder.encode`.
      normalize_embeddings: whether embeddings are divided by their length; one of zeros stays.

    Returns:
      float32 [n, output_dim], or [output_dim] for one str.

    Raises:
      DataError: not str.
      ConfigError: an argument is not allowed.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    texts = check_sentences([sentences] if isinstance(sentences, str) else sentences)
    embeddings = self.transform(self.embed(texts, batch_size, bool(show_progress_bar)))
    embeddings = normalized(embeddings) if normalize_embeddings else embeddings
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
    a, b = check_pairs(texts_a, texts_b)
    embeddings = self.encode([*a, *b], batch_size)
    return np.nan_to_num(cosine_similarity(embeddings[: len(a)], embeddings[len(a) :]))
