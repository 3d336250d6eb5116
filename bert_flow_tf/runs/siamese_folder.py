"""Folder of a training of run_siamese: its checkpoints, encoder, classifier, flow and training.json."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.encoder import google_folder, hub, tf1_names, tf1_reader
from bert_flow_tf.encoder.pooling import low_dim as cut
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW
from bert_flow_tf.io import checksums, files
from bert_flow_tf.training.objectives import Classifier

ENCODER, CLASSIFIER, FLOW, FACTS = "encoder", "classifier", "flow", "training.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """Encoder with a classifier and a flow.

  Attributes:
    encoder: the encoder.
    flow: the flow, or None.
    classifier: the classifier of a task with labels, or None.
    facts: content of training.json; empty if nothing was trained.
    step: number of steps made, the published global_step.
  """

  encoder: SentenceEncoder
  flow: FlowCalibration | None
  classifier: Classifier | None
  facts: dict[str, Any]
  step: int = 0

  def transforms(self, low_dim: int | None) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Returns {method: function of embeddings [n, dim]}: without the flow, and with it if there is one.

    Args:
      low_dim: number of groups of neighboring dimensions to average at last, or None.
    """
    last = (lambda e: e) if low_dim is None else (lambda e: cut(e, low_dim).numpy())
    transforms = {WITHOUT_FLOW: last}
    if self.flow is not None:
      flow = self.flow
      transforms[WITH_FLOW] = lambda u: last(flow.transform(u))
    return transforms

  def variables(self) -> dict[str, np.ndarray]:
    """Returns {published name: float32 array} of all weights."""
    variables = self.encoder.bert.tf1_variables()
    if self.flow is not None:
      variables |= {tf1_names.FLOW + name: array for name, array in self.flow.flow.tf1_variables().items()}
    if self.classifier is not None:
      variables[tf1_names.CLASSIFIER] = self.classifier.output_weights.numpy()
    return variables

  def restore(self, prefix: str) -> dict[str, tuple[int, int]]:
    """Sets the variables of flow and classifier that are in a checkpoint; the others keep their values.

    Args:
      prefix: of a TensorFlow 1 checkpoint.

    Returns:
      {"flow" or "classifier": (number of variables set, number of variables)}.

    Raises:
      ConfigError: a variable has another shape, or the checkpoint's flow is larger than this one.
      FlowError, EncoderError: a variable cannot be read.
    """
    reader, restored = tf1_reader.Tf1Checkpoint(prefix), {}
    if self.flow is not None:
      variables = self.flow.flow.tf1_variables()
      names = [name for name in variables if tf1_names.FLOW + name in reader.shapes]
      _check_not_larger(reader, variables)
      if names:
        saved = {name: _read(reader, tf1_names.FLOW + name, variables[name].shape) for name in names}
        self.flow.flow.load_tf1_variables(variables | saved)
      restored[FLOW] = (len(names), len(variables))
    if self.classifier is not None:
      weights = self.classifier.output_weights
      names = [name for name in tf1_names.CLASSIFIER_NAMES if name in reader.shapes]
      if names:
        weights.assign(_read(reader, names[0], tuple(weights.shape)))
      restored[CLASSIFIER] = (len(names[:1]), 1)
    return restored


def _check_not_larger(reader, variables):
  """Raises a ConfigError if a checkpoint has variables of a flow besides these: without them it is another flow."""
  saved = [name for name in reader.shapes if name.startswith(tf1_names.FLOW)]
  saved = [name for name in saved if not tf1_names.left_out(name, reader.shapes)]
  others = [name for name in saved if name.removeprefix(tf1_names.FLOW) not in variables]
  if others:
    raise ConfigError(
      f"flow_model_config: {reader.prefix} has a flow of {len(saved)} variables, and this configuration has "
      f"{len(variables)}; use the configuration of its training",
      argument="flow_model_config",
    )


def _read(reader, name, shape):
  if reader.shapes[name] != tuple(shape):
    raise ConfigError(
      f"init_checkpoint: {reader.prefix} has {name} of shape {list(reader.shapes[name])}, expected {list(shape)}; give "
      "the flags of its training (flow_model_config, sentence_embedding_type, low_dim)",
      argument="init_checkpoint",
    )
  return reader.read_weight(name, shape)


def checkpoint_of(name: str) -> str:
  """Returns the prefix of the checkpoint that is used if an encoder's name is a TensorFlow 1 folder, else the name.

  Raises:
    EncoderError: see `tf1_reader.find_prefix`.
  """
  folder = pathlib.Path(name)
  is_folder = name not in hub.MODEL_NAMES and folder.is_dir() and google_folder.is_tf1(folder)
  return tf1_reader.find_prefix(name) if is_folder else name


def find_checkpoint(folder: pathlib.Path, name: str | None = None) -> str | None:
  """Returns the prefix of a checkpoint in an experiment's folder.

  Args:
    folder: the folder.
    name: the checkpoint's name, such as model.ckpt-40; None for the latest, if the folder has one.

  Raises:
    ConfigError: the folder has no checkpoint of this name.
    EncoderError: the folder has several, and its file `checkpoint` names none of them.
  """
  names = tf1_reader.prefixes_in(folder) if folder.is_dir() else []
  if name is None:
    return tf1_reader.find_prefix(folder) if names else None
  if name not in names:
    raise ConfigError(
      f"eval_checkpoint_name={name}: {folder} has {', '.join(names) or 'no checkpoint'}", "eval_checkpoint_name"
    )
  return str(folder / name)


def save_parts(folder: pathlib.Path, trained: Trained, pooling: dict[str, Any]) -> None:
  """Writes the folders `classifier` and `flow`, with the identity of the encoder.

  Args:
    folder: the experiment's folder.
    trained: the result.
    pooling: sentence_embedding_type, max_seq_length and low_dim.
  """
  identity = trained.encoder.identity(**pooling).to_dict()
  for name, part in ((CLASSIFIER, trained.classifier), (FLOW, trained.flow)):
    if part is not None:
      part.encoder = identity
      part.save(folder / name)


def write_facts(folder: pathlib.Path, facts: dict[str, Any]) -> None:
  """Writes training.json."""
  files.write_text(folder / FACTS, json.dumps(checksums.sealed(facts), indent=2) + "\n")


def read_facts(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the content of training.json; empty if nothing was trained in the folder.

  Raises:
    ConfigError: it cannot be read.
  """
  path = folder / FACTS
  if not path.exists():
    return {}
  try:
    return checksums.opened(files.read_json(path))
  except (OSError, ValueError, TypeError) as error:
    raise ConfigError(f"{path} cannot be read ({error}); remove it, or train again") from error


def check_pooling(folder: pathlib.Path, facts: dict[str, Any], pooling: dict[str, Any]) -> None:
  """Checks that a flow or classifier gets the embeddings that it was trained on; max_seq_length may differ.

  Args:
    folder: the experiment's folder.
    facts: content of its training.json.
    pooling: sentence_embedding_type, max_seq_length and low_dim.

  Raises:
    ConfigError: it gets others.
  """
  for name, value in facts.get("embedding", {}).items():
    if name != "max_seq_length" and pooling[name] != value:
      now, then = ("-1 (none)" if number is None else number for number in (pooling[name], value))
      raise ConfigError(f"{name}={now}: {folder} was trained with {name}={then}", argument=name)


def check_restored(prefix: str, restored: dict[str, tuple[int, int]], needs: dict[str, tuple[str, Any]]) -> None:
  """Checks that flow and classifier come from a checkpoint, as far as they are needed.

  Args:
    prefix: prefix of the checkpoint, or the encoder's name.
    restored: result of `Trained.restore`.
    needs: {"flow" or "classifier": (argument, its value)}; not needed if the value is 0 or empty.

  Raises:
    ConfigError: one is missing, or incomplete.
  """
  for part, (argument, value) in needs.items():
    count, total = restored.get(part, (0, 1))
    if value and count < total:
      lacking = f"has {count} of the {total} variables of this {part}" if count else f"has no {part}"
      raise ConfigError(f"{argument}={value}: {prefix} {lacking}; train first (do_train)", argument)


def log_restored(prefix: str, restored: dict[str, tuple[int, int]]) -> None:
  """Logs the numbers of restored variables."""
  for part, (count, total) in restored.items():
    logging.info("%s: %d of %d variables of the %s restored", prefix, count, total, part)


def step_of(prefix: str) -> int:
  """Returns the N of a checkpoint's prefix that ends in -N, else 0."""
  number = prefix.rpartition("-")[2]
  return int(number) if number.isdecimal() else 0
