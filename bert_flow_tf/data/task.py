"""A task: its row of the registry (TaskSpec) and its sentence pairs (TaskData)."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.files.input_format import MAX_RECORD_BYTES
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.table import TaskTable
from bert_flow_tf.errors import ConfigError, DataError

# Kinds of gold: a similarity score, 0 or 1, a class, or the relevant documents of queries.
SIMILARITY, BINARY, CLASSES, RETRIEVAL = "similarity", "binary", "classes", "retrieval"
_METRICS = {SIMILARITY: "correlation", BINARY: "auc", CLASSES: "accuracy", RETRIEVAL: "ndcg@10"}


@dataclasses.dataclass(frozen=True)
class Paths:
  """Locations of a task's data, the arguments of `load_task`; `~` is expanded, an empty path is a ConfigError."""

  data_dir: Any = None  # str or os.PathLike; str once it is expanded
  tfds_data_dir: Any = None
  stsb_gold: Any = None
  as_published: bool = False
  max_record_bytes: int = MAX_RECORD_BYTES
  columns: Sequence[str] = ()
  header: bool | None = None

  def __post_init__(self) -> None:
    for argument in ("data_dir", "tfds_data_dir", "stsb_gold"):
      path = getattr(self, argument)
      if path is None:
        continue
      # Empty, as from data_dir=$UNSET, it would be the working directory.
      if not os.fspath(path):
        raise ConfigError(f"{argument} is empty; expected a path, or leave it out", argument=argument)
      object.__setattr__(self, argument, os.path.expanduser(path))


@dataclasses.dataclass(frozen=True)
class TaskSpec:
  """Row of the registry of tasks."""

  name: str
  description: str  # a line for the help text
  load: Callable[["TaskSpec", Paths], "TaskData"]
  # SIMILARITY (gold is a score on `scale`), BINARY (gold is 1 for a positive pair, else 0), CLASSES (gold is an index
  # of `labels`) or RETRIEVAL (see `beir.RetrievalTask`).
  kind: str = SIMILARITY
  scale: tuple[float, float] = (0.0, 1.0)
  eval_split: str | None = "test"  # None if the task has no gold
  positive: str | None = None  # meaning of gold 1, for BINARY
  labels: tuple[str, ...] = ()  # names of the classes, for CLASSES
  one_file_for_all_splits: bool = False  # whether the published code uses the only file as train, dev and test
  packaged: bool = False  # whether the pairs come with the package, so that no path is read
  aliases: tuple[str, ...] = ()  # other names, in lower case
  # Default number of passes over the pairs that fit a flow: the paper's; None for `flow_corpus.default_epochs`.
  num_train_epochs: float | None = 1.0
  table: TaskTable | None = None  # the table, if the task is in a single table

  @property
  def metric(self) -> str:
    """Metric of the kind: "correlation", "auc", "accuracy" or "ndcg@10"."""
    return _METRICS[self.kind]

  def with_metric(self, metric: str) -> "TaskSpec":
    """Returns this row with the kind that has another metric."""
    kinds = {name: kind for kind, name in _METRICS.items()}
    return dataclasses.replace(self, kind=kinds[metric])


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
  """Sentence pairs of a task, the result of `load_task`."""

  spec: TaskSpec  # as the data has it; if its eval_split is None, the pairs are only for fitting
  splits: Mapping[str, SentencePairs]  # in the order train, dev, test
  source: str  # description of the data's origin, for the log and results.json
  # {split: number of pairs left out because their annotators did not agree}
  dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
  as_published: bool = False  # whether a training uses the labels that the published code reads: see `load_task`

  def __post_init__(self) -> None:
    object.__setattr__(self, "splits", {name: self.splits[name] for name in SPLITS if name in self.splits})

  def __repr__(self) -> str:
    counts = ", ".join(f"{split} {len(pairs)}" for split, pairs in self.splits.items())
    return f"TaskData({self.name!r}, pairs: {counts})"

  @property
  def name(self) -> str:
    """The task's name."""
    return self.spec.name

  @property
  def labels(self) -> tuple[str, ...]:
    """Names of the classes; empty unless gold is a class."""
    return self.spec.labels

  def split(self, name: str) -> SentencePairs:
    """Returns the pairs of a split; the one file of a task of `one_file_for_all_splits` is every split."""
    if self.spec.one_file_for_all_splits:
      (pairs,) = self.splits.values()
      return pairs
    return self.splits[name]

  def splits_with_gold(self, splits: Iterable[str]) -> list[str]:
    """Returns the names, among `splits`, of the splits that exist and have gold."""
    return [split for split in splits if split in self.splits and len(self.splits[split].with_gold())]

  def targets(self, pairs: SentencePairs) -> np.ndarray:
    """Returns training targets, float64 [n]: class indices, or gold scaled to 0..1; NaN for a pair without gold."""
    if self.spec.kind == CLASSES:
      return pairs.scores
    low, high = self.spec.scale
    return (pairs.scores - low) / (high - low)

  def all_pairs(self) -> SentencePairs:
    """Returns the pairs of all splits, each once, in the order train, dev, test (the paper's "target")."""
    return SentencePairs.concatenate(self.splits.values())

  def fitting_pairs(self, use_full: bool, argument: str = "use_full_for_training=False") -> SentencePairs:
    """Returns the pairs that the published code fits the flow on: all splits, or train alone."""
    # It reads the only file of each of STS-12 to STS-16 three times. `argument` is the user's setting, for the error.
    if use_full and self.spec.one_file_for_all_splits:
      return SentencePairs.concatenate([self.all_pairs()] * len(SPLITS))
    if use_full or self.spec.one_file_for_all_splits:
      return self.all_pairs()
    if "train" not in self.splits:
      message = f"{argument}: {self.name} has no train split, only {', '.join(self.splits)}; give flow_corpus=target"
      raise DataError(message, argument=argument.partition("=")[0])
    return self.splits["train"]
