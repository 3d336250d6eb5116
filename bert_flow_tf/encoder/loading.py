"""Saved identities of encoders, and the encoders that they name."""

import os
from typing import Any

from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import LOADING, EncoderSettings, keywords
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io import archive

# Saved thing of a model without a calibration; a calibration's file holds the identity of its encoder itself.
_KIND = "model"


def has_identity(folder: str | os.PathLike) -> bool:
  """Returns whether `save_identity` wrote a folder."""
  return archive.is_in(folder, _KIND)


def save_identity(identity: EncoderIdentity, folder: str | os.PathLike) -> None:
  """Writes an identity alone into a folder."""
  archive.write(folder, _KIND, {"encoder": identity.to_dict()}, {})


def load_identity(folder: str | os.PathLike) -> EncoderIdentity:
  """Returns the identity that `save_identity` wrote."""
  with archive.opened(folder, _KIND, EncoderError) as (settings, _):
    return EncoderIdentity.from_dict(settings["encoder"], f"folder={folder}")


def load_encoder(
  identity: EncoderIdentity | VectorsIdentity | None,
  where: str,
  model: str | SentenceEncoder | None = None,
  cache_dir: str | os.PathLike | None = None,
  **settings: Any,
) -> tuple[SentenceEncoder, dict[str, Any]]:
  """Loads the encoder that an identity names, or `model`.

  `settings` replace those of the identity, whose place is `where`. With `model`, its files decide the settings that are
  `of_files`; without it, a hub model is loaded at the commit of the identity. Returns the encoder, and the arguments
  sentence_embedding_type, max_seq_length and low_dim; without an identity only those of `settings`.
  """
  # First the settings of the fit, then those that the user gives in their place.
  arguments: dict[str, Any] = {}
  if isinstance(identity, EncoderIdentity):
    arguments = identity.settings.saved()
  elif model is None:
    reason = "names no encoder" if identity is None else f"was fitted on {identity}"
    raise EncoderError(f"{where}: {reason}; name the encoder of its embeddings, as model=mini", "folder")
  if model is not None:
    for name in keywords("of_files", False):
      arguments.pop(name, None)
  if settings.get("token_weights") == "uniform":
    arguments.pop("frequency_corpus", None)  # only idf counts
  arguments |= settings
  loading = {name: arguments.pop(name) for name in EncoderSettings().arguments(LOADING) if name in arguments}
  if isinstance(model, SentenceEncoder):
    return model, arguments
  if model is not None:
    return SentenceEncoder.from_pretrained(model, cache_dir=cache_dir, **loading), arguments
  assert isinstance(identity, EncoderIdentity)  # checked above
  try:
    return SentenceEncoder.from_pretrained(identity.name, cache_dir=cache_dir, **loading), arguments
  except ConfigError as error:
    if error.argument != "frequency_corpus" or "frequency_corpus" in settings:
      raise
    message = f"{where}: its word frequencies cannot be counted: {error}; frequency_corpus= can name its new place"
    raise ConfigError(message, argument="frequency_corpus") from error
  except EncoderError as error:
    message = f"{where}: its encoder cannot be loaded: {error}; model= can name its folder"
    raise EncoderError(message, "folder") from error
