"""Training pairs of a siamese encoder: the pairs of a task, with or without their labels."""

import dataclasses
from collections.abc import Sequence
from random import Random

import numpy as np

from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError

# Values of num_examples.
_ALL_LABELS, _NO_LABELS = -1, 0


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPairs:
  """Pairs of a training, in the order in which the published code writes its records.

  Attributes:
    pairs: the pairs, each once.
    targets: float64 [n]: class indices, or labels scaled to 0..1; NaN for a pair without a label.
    splits: the splits whose labels are used.
    dupe_factor: number of copies of each pair, which `LabelledPairs` makes.
    random: generator of the copies' masks, after the draws that shuffled the pairs.
  """

  pairs: SentencePairs
  targets: np.ndarray
  splits: tuple[str, ...]
  dupe_factor: int
  random: Random

  @property
  def labeled(self) -> int:
    """Number of pairs with a label, without copies."""
    return int(np.count_nonzero(~np.isnan(self.targets)))

  @property
  def unlabeled(self) -> int:
    """Number of pairs without a label, without copies."""
    return len(self.pairs) - self.labeled


def training_pairs(
  task: TaskData,
  splits: Sequence[str] | None = None,
  use_full: bool = False,
  num_examples: int = _ALL_LABELS,
  dupe_factor: int = 1,
  seed: int = 1234,
) -> TrainingPairs:
  """Selects and shuffles the pairs of a training, as the published runner.

  Pairs are shuffled by Python's generator: with `num_examples` > 0 once to draw the labeled pairs, then once more. All
  pairs are kept: those without a label train a flow, and count in the number of steps.

  Args:
    task: the task.
    splits: names of the splits whose labels are used; None for train, with `use_full` for train and dev. The published
      code uses those of test too, which it reads as 0 (`as_published` of the task).
    use_full: whether the pairs of all splits are used.
    num_examples: -1 for all labels, 0 for none, n for those of n random pairs (of all if the task has fewer).
    dupe_factor: number of copies of each pair.
    seed: seed of the order, the labeled pairs and the masks.

  Raises:
    ConfigError: a split does not exist.
  """
  with_labels = [name for name in _names(task) if use_full and (name != "test" or task.as_published)]
  splits = tuple(splits or with_labels or ["train"])
  pairs, targets = _pairs_and_targets(task, splits, use_full)
  random, order = Random(seed), list(range(len(pairs)))
  if num_examples == _NO_LABELS:
    targets = np.full(len(pairs), np.nan)
  elif num_examples != _ALL_LABELS:
    random.shuffle(order)
    labeled = [row for row in order if not np.isnan(targets[row])]
    targets[labeled[num_examples:]] = np.nan
  random.shuffle(order)
  return TrainingPairs(pairs.take(np.array(order)), targets[order], splits, dupe_factor, random)


def _names(task: TaskData) -> list[str]:
  """Returns the names of the splits; the one file of a task of `one_file_for_all_splits` is each of them."""
  return [name for name in SPLITS if task.spec.one_file_for_all_splits or name in task.splits]


def _pairs_and_targets(task: TaskData, splits: Sequence[str], use_full: bool) -> tuple[SentencePairs, np.ndarray]:
  """Returns the pairs of the splits, or of all splits, and their targets, NaN in splits that are not in `splits`."""
  names = _names(task)
  if not set(splits) <= set(names):
    raise ConfigError(
      f"train_splits={','.join(splits)}: {task.name} has no {' and no '.join(sorted({*splits} - {*names}))} split "
      f"({task.source}), only {', '.join(task.splits)}",
      argument="train_splits",
    )
  names = [name for name in names if use_full or name in splits]
  parts = [task.split(name) for name in names]
  targets = [
    _targets(task, name, part) if name in splits else np.full(len(part), np.nan)
    for name, part in zip(names, parts, strict=True)
  ]
  return SentencePairs.concatenate(parts), np.concatenate(targets)


def _targets(task: TaskData, name: str, pairs: SentencePairs) -> np.ndarray:
  """Returns the targets of a split, float64 [n]; the published code reads no label of test and of STS-12 to STS-16."""
  if task.as_published and (name == "test" or task.spec.one_file_for_all_splits):
    return np.zeros(len(pairs))
  return np.array(task.targets(pairs))
