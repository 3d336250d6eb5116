"""Training pairs of a siamese encoder: which pairs of a task take part, with or without their labels."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError

# Values of num_examples.
_ALL_LABELS, _NO_LABELS = -1, 0


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPairs:
  """Pairs of a training.

  Attributes:
    pairs: the pairs, copies included.
    targets: float64 [n]; NaN for a pair that only the flow's loss uses.
    splits: the splits whose labels are used.
    labelled: number of pairs with a label, copies not counted.
    unlabelled: number of pairs without a label, copies not counted.
  """

  pairs: SentencePairs
  targets: np.ndarray
  splits: tuple[str, ...]
  labelled: int
  unlabelled: int


def training_pairs(
  task: TaskData,
  splits: Sequence[str],
  use_full: bool,
  num_examples: int,
  dupe_factor: int,
  flow_loss: bool,
  seed: int,
) -> TrainingPairs:
  """Chooses the pairs of a training.

  Only the labels of `splits` are used. With `use_full`, the sentences of all other splits join, without their labels.
  Without `flow_loss`, pairs without a label are left out.

  Args:
    task: the task.
    splits: names of the splits whose labels are used.
    use_full: whether the other splits' sentences take part.
    num_examples: -1 for all labels, 0 for none, n for those of n random pairs.
    dupe_factor: number of copies of each pair.
    flow_loss: whether pairs without a label are used.
    seed: seed of the random choice.

  Raises:
    ConfigError: a split does not exist, the labels are too few, or no pair is left.
  """
  if use_full and num_examples == _NO_LABELS:
    # Of STS-12 to STS-16, as published, every pair three times.
    parts = [task.fitting_pairs(use_full=True)]
    targets = [np.full(len(part), np.nan) for part in parts]
  else:
    _check_splits(task, splits)
    names = [split for split in SPLITS if split in splits or (use_full and split in task.splits)]
    parts = [task.splits[name] for name in names]
    targets = [
      task.targets(part) if name in splits else np.full(len(part), np.nan)
      for name, part in zip(names, parts, strict=True)
    ]
  pairs, targets = SentencePairs.concatenate(parts), np.concatenate(targets)
  labelled = np.flatnonzero(~np.isnan(targets))
  if num_examples > len(labelled):
    raise ConfigError(
      f"num_examples={num_examples}: {task.name} has {len(labelled)} labelled pairs in {', '.join(splits)}; use fewer, "
      "or -1 for all",
      argument="num_examples",
    )
  if num_examples != _ALL_LABELS:
    chosen = np.random.default_rng(seed).permutation(labelled)[:num_examples]
    kept = np.zeros(len(targets), bool)
    kept[chosen] = True
    targets = np.where(kept, targets, np.nan)
  if not flow_loss:
    rows = np.flatnonzero(~np.isnan(targets))
    pairs, targets = pairs.take(rows), targets[rows]
  if not len(pairs):
    raise ConfigError(
      f"task={task.name}: no pair in {', '.join(splits)} has a label, so nothing can be learned", argument="task"
    )
  count = int(np.count_nonzero(~np.isnan(targets)))
  return TrainingPairs(
    SentencePairs.concatenate([pairs] * dupe_factor),
    np.tile(targets, dupe_factor),
    tuple(splits),
    count,
    len(pairs) - count,
  )


def _check_splits(task, splits):
  for split in splits:
    if split not in task.splits:
      raise ConfigError(
        f"train_splits={','.join(splits)}: {task.name} has no {split} split ({task.source}), only "
        f"{', '.join(task.splits)}",
        argument="train_splits",
      )
