"""Folder of a training of run_siamese: encoder, classifier, flow and training.json."""

import dataclasses
import json
import pathlib
from typing import Any

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder import saving
from bert_flow_tf.encoder.identity import check_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.storage import FLOW_FOLDER
from bert_flow_tf.io import files
from bert_flow_tf.training.classifier import CLASSIFIER_FOLDER
from bert_flow_tf.training.objectives import SoftmaxObjective

ENCODER, CLASSIFIER, FLOW, FACTS = "encoder", "classifier", "flow", "training.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """Result of a training.

  Attributes:
    encoder: the encoder.
    flow: the fitted flow, or None.
    classifier: the classifier of a task with labels, or None.
    facts: content of training.json; empty if nothing was trained.
  """

  encoder: SentenceEncoder
  flow: FlowCalibration | None
  classifier: SoftmaxObjective | None
  facts: dict[str, Any]


def tuned_encoder(folder: pathlib.Path) -> str | None:
  """Returns the folder of the fine-tuned encoder, None if the encoder was not trained."""
  return str(folder / ENCODER) if saving.is_encoder(folder / ENCODER) else None


def save_trained(folder: pathlib.Path, trained: Trained, pooling: dict[str, Any]) -> None:
  """Writes classifier and flow, with the identity of the encoder.

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


def load_trained(
  folder: pathlib.Path, encoder: SentenceEncoder, pooling: dict[str, Any], needs_flow: bool, task: TaskData
) -> Trained:
  """Loads the classifier of a task with labels, and the flow.

  Args:
    folder: the experiment's folder.
    encoder: the encoder.
    pooling: see `save_trained`.
    needs_flow: whether the flow is loaded.
    task: the task.

  Raises:
    ConfigError: a flow or classifier is needed that is not in the folder.
    BertFlowError: a file is damaged, or belongs to another encoder.
  """
  identity, flow, classifier = encoder.identity(**pooling), None, None
  dim = encoder.dim(pooling["sentence_embedding_type"], pooling["low_dim"])
  if needs_flow:
    if not FLOW_FOLDER.is_in(folder / FLOW):
      raise ConfigError(f"flow: {folder / FLOW} does not exist; train first (do_train)", argument="flow")
    flow = FlowCalibration.load(folder / FLOW)
    check_encoder(flow, identity, dim, str(folder / FLOW))
  if task.labels:
    path, labels = folder / CLASSIFIER, tuple(task.labels)
    if not CLASSIFIER_FOLDER.is_in(path):
      raise ConfigError(f"task={task.name}: {path} does not exist; train a classifier first (do_train)", "task")
    classifier = SoftmaxObjective.load(path)
    check_encoder(classifier, identity, dim, str(path))
    if classifier.labels != labels:
      raise ConfigError(f"{path} has the labels {', '.join(classifier.labels)}, expected {', '.join(labels)}")
  return Trained(encoder, flow, classifier, _read_facts(folder))


def write_facts(folder: pathlib.Path, facts: dict[str, Any]) -> None:
  """Writes training.json."""
  files.write_text(folder / FACTS, json.dumps(facts, indent=2) + "\n")


def _read_facts(folder):
  """Returns the content of training.json; empty if nothing was trained."""
  path = folder / FACTS
  if not path.exists():
    return {}
  try:
    return dict(json.loads(path.read_text(encoding="utf-8")))
  except (OSError, ValueError, TypeError) as error:
    raise ConfigError(f"{path} cannot be read ({error}); remove it, or train again") from error
