"""Calibrations that run_flow saved, and the encoder that they were fitted for."""

import os
import pathlib
from typing import Any, NamedTuple

from absl import flags, logging

import bert_flow_tf
from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.spec import FLOW
from bert_flow_tf.encoder.identity import EncoderIdentity, check_encoder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.evaluation.task_figures import WITH_FLOW
from bert_flow_tf.flow.storage import FLOW_FOLDER
from run_scripts import common_flags

FLAGS = flags.FLAGS

_POOLING_FLAGS = ("sentence_embedding_type", "max_seq_length", "low_dim")
DECIDING_FLAGS = (*_POOLING_FLAGS, "precision")  # of an encoder's embeddings


class Saved(NamedTuple):
  """A calibration by its folder: `calibration` has `dim`, `transform` and `encoder`, the identity or None."""

  folder: str
  calibration: Any


def load_saved(folders):
  """{method: `Saved`} of the values of `--flow_folder`, named as run_flow names them, with numbers where names repeat.

  Raises:
    ConfigError: no folder, an empty name, or one folder twice.
    FlowError, CalibrationError: a folder is absent, incomplete or damaged.
  """
  from bert_flow_tf.calibration.flow import load_any

  if not folders or not all(folders):
    raise ConfigError("--flow_folder is empty or has an empty name in it; expected folders, as exp/NAME/flow")
  folders = [os.path.expanduser(folder) for folder in folders]
  if len({os.path.realpath(folder) for folder in folders}) < len(folders):
    raise ConfigError(f"--flow_folder={','.join(folders)} names a folder twice")
  found = []
  for folder in folders:
    inside = _calibrations_in(folder)
    if inside:
      raise ConfigError(f"--flow_folder={folder} holds {', '.join(inside)}: name one of these, or several")
    found.append(Saved(folder, load_any(folder)))
  names = [WITH_FLOW if saved.calibration.name == FLOW else saved.calibration.name for saved in found]
  numbered = [f"{name}_{names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]
  return dict(zip(numbered, found, strict=True))


def saved_identity(saved):
  """(folder, identity) of the first that says which encoder it was fitted for; (None, {}) where none does.

  Args:
    saved: {method: `Saved`}.

  Raises:
    EncoderError: what it says cannot be an encoder's identity.
  """
  for folder, calibration in saved.values():
    identity = calibration.encoder
    if identity is None:
      logging.info("%s does not say which encoder it was fitted for: taken on trust", folder)
  for folder, calibration in saved.values():
    identity = calibration.encoder
    if identity is None:
      continue
    return folder, EncoderIdentity.from_dict(identity, folder).to_dict()
  return None, {}


def load_encoder(folder, identity):
  """The encoder, and how it embeds: flags that are given, else what a saved calibration says, else the flags' defaults.

  A runner without --precision has a float32 encoder.

  Args:
    folder: where the identity comes from, for messages.
    identity: of `saved_identity`.

  Raises:
    EncoderError: it cannot be loaded.
  """
  arguments = common_flags.embedding_arguments()
  arguments |= {name: identity[name] for name in _POOLING_FLAGS if name in identity and not common_flags.given([name])}
  precision = "float32"
  if "precision" in FLAGS:
    precision = FLAGS.precision if common_flags.given(["precision"]) else identity.get("precision", FLAGS.precision)
  if common_flags.given(["model", "init_checkpoint"]) or not identity:
    name = FLAGS.init_checkpoint or FLAGS.model
    return bert_flow_tf.SentenceEncoder.from_pretrained(name, FLAGS.model_cache_dir, precision), arguments
  try:
    return bert_flow_tf.SentenceEncoder.from_pretrained(identity["name"], FLAGS.model_cache_dir, precision), arguments
  except EncoderError as error:
    raise EncoderError(
      f"{folder} was fitted for an encoder that is not there now: {error} --model says where it is"
    ) from error


def check_saved(saved, identity, dim, insist):
  """Refuses calibrations for embeddings of another kind than they were fitted on.

  Args:
    saved: {method: `Saved`}.
    identity: `SentenceEncoder.identity` of the embeddings at hand.
    dim: their dimensions.
    insist: whether another encoder is allowed; it is said in the log then.

  Raises:
    EncoderError: encoder, pooling or another thing differs; or the dimensions do, which nothing allows.
  """
  for folder, calibration in saved.values():
    try:
      check_encoder(calibration, identity, folder)
    except EncoderError as error:
      if not insist:
        raise EncoderError(f"{error}; give the same flags as there, or insist with --allow_other_encoder") from error
      logging.warning("%s", error)
    if calibration.dim != dim:
      raise EncoderError(
        f"{folder} takes embeddings of {calibration.dim} dimensions, found {dim} of {identity['name']!r}"
      )


def _calibrations_in(folder):
  """Names of the calibrations below an experiment's folder, as [exp/NAME/flow]; [] for one that is a calibration."""
  path = pathlib.Path(folder)
  kinds = (FLOW_FOLDER, storage.FORMAT)
  if not path.is_dir() or any(kind.is_in(path) for kind in kinds):
    return []
  return [str(inside) for inside in sorted(path.iterdir()) if any(kind.is_in(inside) for kind in kinds)]
