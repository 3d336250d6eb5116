"""Identities of embeddings: everything that decides them, in one place; without TensorFlow.

Cache keys, calibrations' folders, manifests, checkpoints and revisions derive from `EncoderIdentity`. A new field
decides an embedding unless its metadata has `"decides": False`; with `"new": True` it takes no part while it has its
default, so that older keys stay valid.
"""

import dataclasses
import typing
from typing import Any

from absl import logging

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.settings import differences

_CORPUS = "frequency_corpus"


@dataclasses.dataclass(frozen=True)
class _Identity:
  """Base of the two kinds of identity."""

  def to_dict(self) -> dict[str, Any]:
    """Returns JSON values, as a calibration's folder holds them."""
    values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

  def deciding(self) -> dict[str, Any]:
    """Returns the JSON values that decide an embedding."""
    values = self.to_dict()
    return {
      field.name: values[field.name]
      for field in dataclasses.fields(self)
      if field.metadata.get("decides", True) and not (field.metadata.get("new") and values[field.name] == field.default)
    }

  def differences(self, other: "_Identity") -> list[str]:
    """Returns the fields that decide an embedding and differ: ["max_seq_length 64, now 32"]."""
    if type(self) is not type(other):
      return ["made by different programs"]
    defaults = {field.name: field.default for field in dataclasses.fields(self) if field.metadata.get("new")}
    mine, others = defaults | self.deciding(), defaults | other.deciding()
    for field in dataclasses.fields(self):
      if field.metadata.get("none_is_unknown") and None in (mine[field.name], others[field.name]):
        others[field.name] = mine[field.name]
    return differences(mine, others)

  def check_same(self, other: "_Identity", where: str, argument: str | None = None) -> None:
    """Raises an error if the other identity's embeddings differ from those of this identity.

    Args:
      other: identity of the embeddings that are to be used.
      where: place of this identity, for the message: a calibration's folder.
      argument: name of the wrong argument, if `where` begins with it.

    Raises:
      EncoderError: they differ; the message names every difference.
    """
    found = self.differences(other)
    if found:
      counted = any(text.startswith("token_weights_sha256") for text in found) and getattr(other, _CORPUS, None)
      hint = f"; if {_CORPUS}={counted} has changed since, restore it or fit again" if counted else ""
      raise EncoderError(f"{where}: fitted on {self}, got {other}: {'; '.join(found)}{hint}", argument)


@dataclasses.dataclass(frozen=True)
class EncoderIdentity(_Identity):
  """Identity of an encoder's embeddings.

  Attributes:
    name: name or folder of the encoder; does not decide.
    weights_sha256: hexadecimal SHA-256 of BERT's weights.
    tokenizer_sha256: hexadecimal SHA-256 of the vocabulary and the tokenizer's settings.
    architecture: settings of BERT that change its output and no weight; None if unknown, as in folders of old versions.
    sentence_embedding_type: pooling as the user wrote it; does not decide, `pooling` does.
    pooling: kind and blocks, ("mean", 1, 4).
    max_seq_length: largest number of tokens, [CLS] and [SEP] included.
    low_dim: number of groups of neighboring dimensions that are averaged, the last step, after a calibration; or None.
    precision: number format of BERT's matrix products.
    max_input_chars_per_word: see `SentenceTokenizer`; tokenizer_sha256 decides. Folders of old versions have 100.
    token_weights: canonical name of the weights of tokens, see `token_weights`.
    token_weights_sha256: hexadecimal SHA-256 of the table of weights; None for uniform.
    frequency_corpus: file whose sentences were counted for it, or None; does not decide, the checksum does.
    revision: commit of a model of the hub, else None; does not decide, weights_sha256 does.
  """

  name: str = dataclasses.field(metadata={"decides": False})
  weights_sha256: str
  tokenizer_sha256: str
  sentence_embedding_type: str = dataclasses.field(metadata={"decides": False})
  pooling: tuple
  max_seq_length: int
  low_dim: int | None
  architecture: dict | None = dataclasses.field(default=None, metadata={"none_is_unknown": True})
  precision: str = "float32"
  max_input_chars_per_word: int = dataclasses.field(default=100, metadata={"decides": False})
  token_weights: str = dataclasses.field(default="uniform", metadata={"new": True})
  token_weights_sha256: str | None = dataclasses.field(default=None, metadata={"new": True})
  frequency_corpus: str | None = dataclasses.field(default=None, metadata={"decides": False})
  revision: str | None = dataclasses.field(default=None, metadata={"decides": False})

  @classmethod
  def from_dict(cls, values: dict[str, Any], where: str) -> "EncoderIdentity":
    """Returns the identity that `to_dict` gave; folders of old versions may lack architecture and precision.

    Args:
      values: JSON values.
      where: place of the values, for messages.

    Raises:
      EncoderError: a value is missing or of another type.
    """
    kinds = typing.get_type_hints(cls)
    arguments = {}
    for field in dataclasses.fields(cls):
      value = values.get(field.name, None if field.default is dataclasses.MISSING else field.default)
      value = tuple(value) if isinstance(value, list) else value
      if not isinstance(value, kinds[field.name]) or isinstance(value, bool):
        raise EncoderError(f"{where}: the identity of its encoder has {field.name} {value!r}; the folder is damaged")
      arguments[field.name] = value
    return cls(**arguments)

  def loading_arguments(self) -> dict[str, Any]:
    """Returns the settings that `SentenceEncoder.from_pretrained` takes; an unknown hidden_act is None."""
    return {
      "precision": self.precision,
      "hidden_act": (self.architecture or {}).get("hidden_act"),
      "max_input_chars_per_word": self.max_input_chars_per_word,
      "token_weights": self.token_weights,
      "frequency_corpus": self.frequency_corpus,
      "revision": self.revision,
    }

  def pooling_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type and max_seq_length, as the methods of `SentenceEncoder` take them."""
    return {"sentence_embedding_type": self.sentence_embedding_type, "max_seq_length": self.max_seq_length}

  def model_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type, max_seq_length and low_dim, as `SentenceModel` takes them."""
    return {**self.pooling_arguments(), "low_dim": self.low_dim}

  def __str__(self) -> str:
    return f"embeddings of {self.name!r}"


@dataclasses.dataclass(frozen=True)
class VectorsIdentity(_Identity):
  """Identity of vectors that another program made.

  Attributes:
    vectors_of: the user's description, any text.
  """

  vectors_of: str

  def __str__(self) -> str:
    return f"vectors of {self.vectors_of!r}"


def read_identity(values: dict[str, Any] | None, where: str) -> EncoderIdentity | VectorsIdentity | None:
  """Returns the identity in a calibration's folder, or None if it has none.

  Args:
    values: JSON values, `Calibration.encoder`.
    where: place of the values, for messages.

  Raises:
    EncoderError: a value is missing or of another type.
  """
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
  """Raises an error if a calibration or classifier was fitted on other embeddings; an unknown encoder passes.

  Args:
    fitted: has the identity of its embeddings as `encoder`, a dict or None, and their dimensions as `dim`.
    identity: identity of the embeddings that it is applied to.
    dim: dimensions of these: the encoder's full width for a calibration, those after `low_dim` for a classifier.
    where: its folder, for the message.
    argument: see `EncoderIdentity.check_same`.
    allow_other: whether another encoder is logged in place of an error; its dimensions must be the same.

  Raises:
    EncoderError: the embeddings differ.
  """
  saved = read_identity(fitted.encoder, where)
  if isinstance(saved, EncoderIdentity):
    if fitted.dim == saved.low_dim != dim:
      raise EncoderError(
        f"{where}: fitted on {fitted.dim} dimensions, after low_dim={saved.low_dim}, as in older versions; low_dim now "
        f"comes after the calibration, which takes all {dim} dimensions: fit it again",
        argument,
      )
    if not allow_other:
      saved.check_same(identity, where, argument)
    elif saved.differences(identity):
      logging.warning("%s: fitted on %s: %s", where, saved, "; ".join(saved.differences(identity)))
  if fitted.dim != dim:
    raise EncoderError(f"{where}: fitted on {fitted.dim} dimensions, but {identity.name!r} gives {dim}", argument)
