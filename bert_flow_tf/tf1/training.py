"""Checkpoints of a training in the published format: model.ckpt-N, and the file `checkpoint` that names the latest."""

import pathlib
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.encoder import google_folder, tf1_reader
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io import files
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.tf1.write import write_config

# As TensorFlow's Estimator.
KEPT = 3
_NAME = "model.ckpt-"


def write_training_checkpoint(
  folder: pathlib.Path, step: int, encoder: SentenceEncoder, variables: Mapping[str, np.ndarray]
) -> None:
  """Writes model.ckpt-STEP, marks it as the latest, and deletes all but the last 3.

  bert_config.json and vocab.txt are written next to it. A checkpoint of the same name is replaced.

  Args:
    folder: the experiment's folder.
    step: number of steps made, which is written as global_step.
    encoder: the encoder, whose configuration and vocabulary are written.
    variables: {published name: array}.

  Raises:
    EncoderError: a file cannot be written.
  """
  if not (folder / google_folder.CONFIG_FILE).exists():
    write_config(folder, encoder)
  prefix = folder / f"{_NAME}{step}"
  try:
    # `checkpoint` names no files that are being deleted: this process may be killed at any moment.
    if step in (before := _steps(folder)):
      before.remove(step)
      _mark(folder, before, before[-1:])
    _delete(prefix)
    tf1_checkpoint.write_checkpoint(prefix, variables)
    kept = sorted({*_steps(folder)[-KEPT:], step})
    _mark(folder, kept, [step])
    for old in set(_steps(folder)) - set(kept):
      _delete(folder / f"{_NAME}{old}")
  except OSError as error:
    raise EncoderError(f"{prefix}: cannot be written ({error})") from error


def _mark(folder, kept, latest):
  """Writes the file `checkpoint`; without a latest step there is none."""
  if not latest:
    (folder / "checkpoint").unlink(missing_ok=True)
    return
  names = "".join(f'all_model_checkpoint_paths: "{_NAME}{step}"\n' for step in kept)
  files.write_text(folder / "checkpoint", f'model_checkpoint_path: "{_NAME}{latest[0]}"\n{names}')


def _steps(folder):
  """Returns the sorted steps of the checkpoints of a training in a folder."""
  names = tf1_reader.prefixes_in(folder)
  return sorted(tf1_checkpoint.step_of(folder / name) or 0 for name in names if name.startswith(_NAME))


def _delete(prefix):
  """Deletes a checkpoint's files; without its index, which goes first, it no longer exists for a reader."""
  prefix.with_name(f"{prefix.name}.index").unlink(missing_ok=True)
  for path in prefix.parent.glob(f"{prefix.name}.data-*"):
    path.unlink()
