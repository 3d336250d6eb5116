"""Identities of embeddings: everything that decides them, in one place; without TensorFlow."""

import abc
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging

from bert_flow_tf.encoder.settings import (
  DECIDING,
  LOADING,
  PER_ENCODER,
  POOLING,
  SAVED,
  TENSORFLOW,
  EncoderSettings,
  absent_values,
  keywords,
)
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io import archive
from bert_flow_tf.io import settings as settings_lib
from bert_flow_tf.io.files import Json
from bert_flow_tf.progress import counted

# Kind of the archive of a model without a calibration.
_KIND = "model"
# Key of a model's recipe beside the values of its identity in a file; it decides no embedding.
RECIPE = "recipe"
# Between precision and engine in a value that decides an embedding.
_BY = " by "
# Differences that an error names.
_SHOWN = 3
# Types of the JSON values that are no settings.
_FACTS = {
  "name": str,
  "weights_sha256": str,
  "tokenizer_sha256": str,
  "pooling": list,
  "architecture": dict,
  "token_weights_sha256": str | None,
}


def other_engine(expected: Json, found: Json) -> str | None:
  """Returns "engine=NAME", the expected engine, if two encoders' deciding values differ in nothing else; or None."""
  precision, _, engine = str(expected.get("precision")).partition(_BY)
  found_precision, _, found_engine = str(found.get("precision")).partition(_BY)
  rest, found_rest = {**expected, "precision": None}, {**found, "precision": None}
  if rest != found_rest or precision != found_precision or engine == found_engine:
    return None
  return f"engine={engine or TENSORFLOW}"


class _Identity(abc.ABC):
  """Base of the two kinds of identity."""

  @property
  def remedy(self) -> str:
    """Names what a user can do where another identity is given; the end of a message."""
    return ""

  @abc.abstractmethod
  def to_dict(self) -> Json:
    """Returns JSON values, as a calibration's folder holds them."""

  def deciding(self) -> Json:
    """Returns the JSON values that decide an embedding."""
    return self.to_dict()

  def differences(self, other: "_Identity") -> list[str]:
    """Returns the deciding values that differ: ["max_seq_length 64, now 32"]."""
    if type(self) is not type(other):
      return ["made by different programs"]
    return settings_lib.differences(self.deciding(), other.deciding())

  def check_same(self, other: "_Identity", where: str, argument: str | None = None) -> None:
    """Raises an EncoderError with the differences from another identity, if any; `where` is the place of this one."""
    lines = self.differences(other)
    if not lines:
      return
    # A file of counted sentences may have changed, which a checksum alone would not explain.
    hint = ""
    corpus = other.to_dict().get("frequency_corpus")
    weights_differ = any(line.startswith("token_weights_sha256") for line in lines)
    values, others = self.to_dict(), other.to_dict()
    is_other_rule = values.get("number_weight") != others.get("number_weight")
    if weights_differ and is_other_rule and values["token_weights"] == others["token_weights"]:
      hint = f"; load the encoder with number_weight={values['number_weight']:g}"
    elif weights_differ and corpus:
      hint = f"; if frequency_corpus={corpus} has changed since, restore it or fit again"
    remedy = self.remedy and f"{self.remedy}, or allow_other_encoder=True"
    engine = other_engine(self.deciding(), other.deciding())
    if engine is not None:
      remedy = f"; give {engine}, or allow_other_encoder=True"
    # Another encoder differs in much, because its weights do.
    lines.sort(key=lambda line: not line.startswith("weights_sha256"))
    if len(lines) > _SHOWN:
      lines[_SHOWN:] = [f"and {counted(len(lines) - _SHOWN, 'other difference')}"]
    raise EncoderError(f"{where}: fitted on {self}, got {other}: {'; '.join(lines)}{hint}{remedy}", argument)


@dataclasses.dataclass(frozen=True)
class EncoderIdentity(_Identity):
  """Identity of an encoder's embeddings.

  Attributes:
    name: name or folder of the encoder; does not decide.
    weights_sha256: hexadecimal SHA-256 of BERT's weights.
    tokenizer_sha256: hexadecimal SHA-256 of the vocabulary and the tokenizer's settings.
    pooling: `Pooling.identity`: kind and blocks, ("mean", 1, 4).
    architecture: settings of BERT that change its output and no weight.
    settings: the encoder's settings, with the values of its files in place of None.
    token_weights_sha256: hexadecimal SHA-256 of the table of weights; None for uniform.
  """

  name: str
  weights_sha256: str
  tokenizer_sha256: str
  pooling: tuple[str | int | float, ...]
  architecture: Json
  settings: EncoderSettings
  token_weights_sha256: str | None = None

  def to_dict(self) -> Json:
    """Returns JSON values, as a calibration's folder holds them."""
    facts = {name: getattr(self, name) for name in _FACTS}
    facts["pooling"] = list(self.pooling)
    return facts | self.settings.saved()

  def deciding(self) -> Json:
    """Returns the JSON values that decide an embedding."""
    # Settings that decide nothing by themselves are left out; checksums stand for some of them.
    values = self.to_dict()
    for keyword in {"name", *self.settings.saved()}.difference(keywords(DECIDING)):
      del values[keyword]
    settings = self.settings
    if settings.engine != TENSORFLOW and settings.precision != "float32":  # in which engines round alike
      values["precision"] = f"{settings.precision}{_BY}{settings.engine}"
    return values

  @classmethod
  def from_dict(cls, values: Json, where: str) -> "EncoderIdentity":
    """Returns the identity that `to_dict` gave; EncoderError if a value is missing or of another type."""
    # Facts have fixed types; the settings check themselves.
    try:
      facts = {name: values[name] for name in _FACTS}
      for name, kind in _FACTS.items():
        if not isinstance(facts[name], kind):
          raise ConfigError(f"{name} is {facts[name]!r}")
      values = absent_values() | values
      settings = EncoderSettings.of(**{name: values[name] for name in keywords(SAVED)})
    except (ConfigError, KeyError) as error:
      raise EncoderError(f"{where}: the identity of its encoder is damaged: {error}") from error
    facts["pooling"] = tuple(facts["pooling"])
    return cls(**facts, settings=settings)

  @property
  def remedy(self) -> str:
    """See the base class."""
    return f"; give the encoder and settings of the fit, with model={self.name}"

  def loading_settings(self) -> EncoderSettings:
    """Returns the settings with which the encoder is loaded again."""
    saved = self.settings.saved()
    names = EncoderSettings().loading_arguments().keys() & saved.keys()
    return EncoderSettings.of(self.name, **{name: saved[name] for name in names})

  @property
  def sentence_embedding_type(self) -> str:
    """Pooling as the user wrote it."""
    return str(self.settings.sentence_embedding_type)

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens, [CLS] and [SEP] included."""
    return int(self.settings.max_seq_length or 0)

  @property
  def low_dim(self) -> int | None:
    """Number of groups of neighboring dimensions that are averaged after a calibration; None for none."""
    return self.settings.model_arguments()["low_dim"]

  def __str__(self) -> str:
    return f"embeddings of {self.name!r}"


@dataclasses.dataclass(frozen=True)
class VectorsIdentity(_Identity):
  """Identity of vectors that another program made: the user's description, any text."""

  vectors_of: str

  def to_dict(self) -> Json:
    """Returns JSON values, as a calibration's folder holds them."""
    return {"vectors_of": self.vectors_of}

  def check_same(self, other: _Identity, where: str, argument: str | None = None) -> None:
    """See the base class."""
    if isinstance(other, EncoderIdentity):
      message = f"{where}: fitted on {self}, which cannot be compared with {other}"
      raise EncoderError(f"{message}; if {other.name!r} made them, give allow_other_encoder=True", argument)
    super().check_same(other, where, argument)

  def __str__(self) -> str:
    return f"vectors of {self.vectors_of!r}"


@dataclasses.dataclass(frozen=True)
class FitSettings:
  """Settings of the encoder of a fit, for an encoder that the user names.

  Attributes:
    weights_sha256: hexadecimal SHA-256 of the weights of the encoder of the fit.
    settings: settings with which the encoder of the fit is loaded, in whatever folder it is.
  """

  weights_sha256: str
  settings: EncoderSettings

  def choose(self, settings: EncoderSettings, weights_sha256: str) -> EncoderSettings:
    """Returns the settings of the fit for weights of the fit, else `settings`."""
    if weights_sha256 == self.weights_sha256:
      return self.settings
    return settings


class FitArguments(NamedTuple):
  """Keywords of the encoder of a calibration that is loaded: the user's, else the fit's.

  Attributes:
    loading: keywords of `SentenceEncoder.from_pretrained`.
    loading_of_fit: these, for an encoder that turns out to be the encoder of the fit.
    pooling: sentence_embedding_type, max_seq_length and low_dim.
  """

  loading: Json
  loading_of_fit: Json
  pooling: Json


def resolve(identity: _Identity | None, given: Mapping[str, object], is_named: bool) -> FitArguments:
  """Returns the keywords of the encoder of a fit, with the `given` keywords in place of the identity's.

  `is_named`: whether the user names the encoder. Its files decide some settings then, and it has its own revision;
  without a name, a hub model is loaded at the commit of the identity. Raises a TypeError for another keyword.
  """
  known = EncoderSettings().arguments(LOADING, POOLING)
  for keyword in given:
    if keyword not in known:
      raise TypeError(f"unexpected keyword {keyword!r}; expected one of {', '.join(known)}")
  of_fit: Json = {}
  if isinstance(identity, EncoderIdentity):
    of_fit = identity.settings.saved()
  if given.get("token_weights") == "uniform":
    for keyword in ("frequency_corpus", "number_weight"):  # only idf has a use for them
      of_fit.pop(keyword, None)
  if is_named:
    of_fit.pop("revision", None)
  of_encoder = dict(of_fit)
  if is_named:
    for keyword in of_fit.keys() & keywords(PER_ENCODER):
      del of_encoder[keyword]
  of_fit |= given
  of_encoder |= given
  loading = EncoderSettings().arguments(LOADING).keys()
  return FitArguments(
    loading={keyword: value for keyword, value in of_encoder.items() if keyword in loading},
    loading_of_fit={keyword: value for keyword, value in of_fit.items() if keyword in loading},
    pooling={keyword: value for keyword, value in of_encoder.items() if keyword not in loading},
  )


def has_identity(folder: str | os.PathLike) -> bool:
  """Returns whether `save_identity` wrote a folder."""
  return archive.is_in(folder, _KIND)


def save_identity(encoder: Json, folder: str | os.PathLike) -> None:
  """Writes the values of an identity alone into a folder; a calibration's file holds those of its encoder itself."""
  archive.write(folder, _KIND, {"encoder": encoder}, {})


def load_identity(folder: str | os.PathLike) -> tuple[EncoderIdentity, object]:
  """Returns the identity that `save_identity` wrote, and the value of `RECIPE`, None without one."""
  with archive.opened(folder, _KIND, EncoderError) as (settings, _):
    encoder = settings["encoder"]
    return EncoderIdentity.from_dict(encoder, f"folder={folder}"), encoder.get(RECIPE)


def read_identity(values: Json | None, where: str) -> EncoderIdentity | VectorsIdentity | None:
  """Returns the identity in a calibration's folder, which `where` names, or None if it has none."""
  if values is None:
    return None
  if isinstance(values.get("vectors_of"), str):
    return VectorsIdentity(values["vectors_of"])
  return EncoderIdentity.from_dict(values, where)


def check_encoder(
  fitted: Any,
  identity: EncoderIdentity,
  dim: int,
  where: str,
  argument: str | None = None,
  allow_other: bool = False,
) -> None:
  """Raises an EncoderError if a calibration or classifier, at `where`, was fitted on other embeddings.

  An unknown encoder passes; with `allow_other` a difference is only logged, if the dimensions are equal.
  """
  saved = read_identity(fitted.encoder, where)
  if saved is not None:
    if not allow_other:
      saved.check_same(identity, where, argument)
    elif saved.differences(identity):
      different = "; ".join(saved.differences(identity))
      logging.warning("%s: fitted on %s, got %s: %s", where, saved, identity, different)
  check_dim(fitted, identity.name, dim, where, argument)


def check_not_first(fitted: Any, before: str, where: str, argument: str | None = None) -> None:
  """Raises an EncoderError if a calibration, at `where`, that follows the step `before` was fitted on an encoder's."""
  saved = read_identity(fitted.encoder, where)
  if isinstance(saved, EncoderIdentity):
    message = f"{where}: fitted on {saved}, got the output of the step {before}"
    way = "fit it on that output, by fit_calibration(model.encode(sentences)), or give allow_other_encoder=True"
    raise EncoderError(f"{message}; {way}", argument)


def check_dim(fitted: Any, encoder_name: str, dim: int, where: str, argument: str | None = None) -> None:
  """Raises an EncoderError if a calibration or classifier, at `where`, does not take the `dim` dimensions it gets."""
  if fitted.dim != dim:
    message = f"{where}: fitted on {fitted.dim} dimensions, but {encoder_name!r} gives {dim}"
    raise EncoderError(f"{message}; give the encoder of the fit, as model=", argument)
