"""A task: its row of the registry (TaskSpec) and its sentence pairs (TaskData)."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.table import Table
from bert_flow_tf.errors import ConfigError, DataError

# Kinds of gold: a similarity score, 0 or 1, or a class.
SIMILARITY, BINARY, CLASSES = "similarity", "binary", "classes"
_METRICS = {SIMILARITY: "correlation", BINARY: "auc", CLASSES: "accuracy"}


@dataclasses.dataclass(frozen=True)
class Paths:
  """Locations of a task's data, the arguments of `load_task`; `~` is expanded, an empty path is a ConfigError."""

  data_dir: Any = None  # str or os.PathLike; str once it is expanded
  tfds_data_dir: Any = None
  stsb_gold: Any = None
  as_published: bool = False

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
class Loaded:
  """Result of a task's loader."""

  splits: dict[str, SentencePairs]
  # Description of the data's origin.
  source: str
  # Fields of the TaskSpec that depend on the data, such as {"eval_split": "dev"}.
  spec_changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  # {split: number of pairs left out because their annotators did not agree}.
  dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TaskSpec:
  """Row of the registry of tasks.

  Attributes:
    name: the name in results and messages.
    description: a line for the help text and the documentation.
    load: loader of the splits, `Paths` -> `Loaded`.
    kind: SIMILARITY (gold is a score on `scale`), BINARY (gold is 1 for a positive pair, else 0) or CLASSES (gold is
      an index of `labels`).
    scale: the lowest and the highest gold score.
    eval_split: the split that is evaluated; None if the task has no gold.
    positive: meaning of gold 1, for BINARY.
    labels: names of the classes, for CLASSES.
    one_file_for_all_splits: whether the published code uses the task's only file as train, dev and test.
    packaged: whether the pairs come with the package, so that no path is read.
    aliases: other names, in lower case. Case is ignored.
    num_train_epochs: default number of passes over the pairs that fit a flow.
    table: the `Table` of a task that is one; else None.
  """

  name: str
  description: str
  load: Callable[[Paths], Loaded]
  kind: str = SIMILARITY
  scale: tuple[float, float] = (0.0, 1.0)
  eval_split: str | None = "test"
  positive: str | None = None
  labels: tuple[str, ...] = ()
  one_file_for_all_splits: bool = False
  packaged: bool = False
  aliases: tuple[str, ...] = ()
  num_train_epochs: float = 1.0
  table: Table | None = None

  @property
  def metric(self) -> str:
    """Metric of the kind: "correlation", "auc" or "accuracy"."""
    return _METRICS[self.kind]

  def with_metric(self, metric: str) -> "TaskSpec":
    """Returns this row with the kind that has another metric."""
    kinds = {name: kind for kind, name in _METRICS.items()}
    return dataclasses.replace(self, kind=kinds[metric])

  def is_called(self, name: str) -> bool:
    """Returns whether `name` is this task's name or alias, in any case."""
    return str(name).lower() in (self.name.lower(), *self.aliases)


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
  """Sentence pairs of a task, the result of `load_task`.

  Attributes:
    spec: the `TaskSpec`, with the loader's changes. If its eval_split is None, the task has no gold and the pairs are
      only for fitting.
    splits: {split: SentencePairs} in the order train, dev, test.
    source: description of the data's origin, for the log and results.json.
    dropped: {split: number of pairs left out without an agreed label}.
    as_published: whether a training uses the labels that the published code reads: see `load_task`.
  """

  spec: TaskSpec
  splits: Mapping[str, SentencePairs]
  source: str
  dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
  as_published: bool = False

  def __post_init__(self) -> None:
    evaluated = self.spec.eval_split
    if not self.splits or (evaluated and evaluated not in self.splits):
      raise DataError(
        f"{self.spec.name} has no {evaluated or 'train'} split: {self.source} has "
        f"{', '.join(self.splits) or 'no pairs'}"
      )
    object.__setattr__(self, "splits", {name: self.splits[name] for name in SPLITS if name in self.splits})

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

  def fitting_pairs(self, use_full: bool, chosen_by: str = "use_full_for_training=False") -> SentencePairs:
    """Returns the pairs that the published code fits the flow on: those of all splits, or of train alone.

    It uses the only file of each of STS-12 to STS-16 as train, dev and test: `use_full` gives each pair three times.
    `chosen_by` names the argument and the value that chose use_full, for the DataError of a task without train.
    """
    if use_full and self.spec.one_file_for_all_splits:
      return SentencePairs.concatenate([self.all_pairs()] * len(SPLITS))
    if use_full or self.spec.one_file_for_all_splits:
      return self.all_pairs()
    if "train" not in self.splits:
      raise DataError(
        f"{chosen_by}: {self.name} has no train split, only {', '.join(self.splits)}; to fit on all splits, "
        "give flow_corpus=target in its place",
        argument=chosen_by.partition("=")[0],
      )
    return self.splits["train"]
