"""Checkpoints of a training in the published format: model.ckpt-N, and the file `checkpoint` that names the latest."""

import pathlib

import numpy as np

from bert_flow_tf.encoder.checkpoints import tf1, tf1_names
from bert_flow_tf.encoder.checkpoints.files import GOOGLE_CONFIG, checkpoint_prefixes_in
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io import files
from bert_flow_tf.tf1 import checkpoint as tf1_checkpoint
from bert_flow_tf.tf1.write import write_config
from bert_flow_tf.training.siamese.objectives import Classifier

# Number of the newest checkpoints that are kept, as by the original's Estimator.
KEPT = 3
_NAME = "model.ckpt-"


def write_training_checkpoint(
  folder: pathlib.Path, step: int, encoder: SentenceEncoder, flow: Glow | None, classifier: Classifier | None
) -> None:
  """Writes model.ckpt-STEP with configuration and vocabulary, marks it as the latest, deletes all but the last 3."""
  if not (folder / GOOGLE_CONFIG).exists():
    write_config(folder, encoder)
  variables = tf1_checkpoint.model_variables(encoder, flow, classifier)
  prefix = folder / f"{_NAME}{step}"
  # `checkpoint` names no files that are being deleted: this process may be killed at any moment.
  earlier = _steps(folder)
  if step in earlier:
    earlier.remove(step)
    _mark(folder, earlier, earlier[-1:])
  _delete(prefix)
  tf1_checkpoint.write_checkpoint(prefix, variables)
  steps = _steps(folder)
  kept = sorted({step}.union(steps[-KEPT:]))
  _mark(folder, kept, [step])
  for old in set(steps) - set(kept):
    _delete(folder / f"{_NAME}{old}")


def _mark(folder, kept, latest):
  """Writes the file `checkpoint`; without a latest step there is none."""
  if not latest:
    (folder / "checkpoint").unlink(missing_ok=True)
    return
  lines = [f'model_checkpoint_path: "{_NAME}{latest[0]}"\n']
  for step in kept:
    lines.append(f'all_model_checkpoint_paths: "{_NAME}{step}"\n')
  files.write_text(folder / "checkpoint", "".join(lines))


def _steps(folder):
  """Returns the sorted steps of the checkpoints of a training in a folder."""
  names = checkpoint_prefixes_in(folder)
  return sorted(tf1_checkpoint.step_of(name) or 0 for name in names if name.startswith(_NAME))


def _delete(prefix):
  """Deletes a checkpoint's files; without its index, which goes first, it no longer exists for a reader."""
  prefix.with_name(f"{prefix.name}.index").unlink(missing_ok=True)
  for path in prefix.parent.glob(f"{prefix.name}.data-*"):
    path.unlink()


def restore(prefix: str, flow: Glow | None, classifier: Classifier | None) -> dict[str, tuple[int, int]]:
  """Sets the variables of flow and classifier that are in a checkpoint; returns {part: (restored, all)}."""
  reader = tf1.Checkpoint(prefix)
  restored = {}
  if flow is not None:
    restored["flow"] = _restore_flow(reader, flow)
  if classifier is not None:
    has_classifier = tf1_names.CLASSIFIER in reader.shapes
    if has_classifier:
      weights = classifier.output_weights
      weights.assign(_read(reader, tf1_names.CLASSIFIER, tuple(weights.shape)))
    restored["classifier"] = int(has_classifier), 1
  return restored


def _restore_flow(reader, flow):
  variables = tf1_checkpoint.flow_variables(flow)
  saved = []
  for name in reader.shapes:
    if name.startswith(tf1_names.FLOW) and not tf1_names.left_out(name, reader.shapes):
      saved.append(name)
  if not set(saved) <= set(variables):
    raise ConfigError(
      f"flow_model_config: {reader.prefix} has a flow of {len(saved)} variables, and this configuration has "
      f"{len(variables)}; use the configuration of its training",
      argument="flow_model_config",
    )
  for name in saved:
    variables[name] = _read(reader, name, variables[name].shape)
  if saved:
    flow.load_tf1_variables(variables)
  return len(saved), len(variables)


def _read(reader: tf1.Checkpoint, name: str, shape: tuple[int, ...]) -> np.ndarray:
  if reader.shapes[name] != tuple(shape):
    raise ConfigError(
      f"init_checkpoint: {reader.prefix} has {name} of shape {list(reader.shapes[name])}, expected {list(shape)}; give "
      "the flags of its training (flow_model_config, sentence_embedding_type, low_dim)",
      argument="init_checkpoint",
    )
  return reader.read_weight(name, shape)
