"""Training pairs of a siamese encoder: the pairs of a task, with or without their labels."""

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
    labeled: number of pairs with a label, without copies.
    unlabeled: number of pairs without a label, without copies.
  """

  pairs: SentencePairs
  targets: np.ndarray
  splits: tuple[str, ...]
  labeled: int
  unlabeled: int


def training_pairs(
  task: TaskData,
  splits: Sequence[str],
  use_full: bool,
  num_examples: int,
  dupe_factor: int,
  flow_loss: bool,
  seed: int,
) -> TrainingPairs:
  """Selects the pairs of a training.

  Only the labels of `splits` are used. With `use_full`, the pairs of all other splits are added without their labels.
  Without `flow_loss`, pairs without a label are left out.

  Args:
    task: the task.
    splits: names of the splits whose labels are used.
    use_full: whether the pairs of the other splits are used.
    num_examples: -1 for all labels, 0 for none, n for those of n random pairs.
    dupe_factor: number of copies of each pair.
    flow_loss: whether pairs without a label are used.
    seed: seed of the random choice.

  Raises:
    ConfigError: a split does not exist, the labels are too few, or no pair is left.
  """
  if use_full and num_examples == _NO_LABELS:
    # Each pair of STS-12 to STS-16 three times, as in the published code.
    pairs = task.fitting_pairs(use_full=True)
    targets = np.full(len(pairs), np.nan)
  else:
    pairs, targets = _pairs_and_targets(task, splits, use_full)
  if num_examples != _ALL_LABELS:
    targets = _sample_labels(task, splits, targets, num_examples, seed)
  labeled = np.flatnonzero(~np.isnan(targets))
  if not flow_loss:
    pairs, targets = pairs.take(labeled), targets[labeled]
  if not len(pairs):
    raise ConfigError(
      f"task={task.name}: no pair in {', '.join(splits)} has a label, so nothing can be learned", argument="task"
    )
  copies = SentencePairs.concatenate([pairs] * dupe_factor)
  targets = np.tile(targets, dupe_factor)
  return TrainingPairs(copies, targets, tuple(splits), len(labeled), len(pairs) - len(labeled))


def _pairs_and_targets(task: TaskData, splits: Sequence[str], use_full: bool) -> tuple[SentencePairs, np.ndarray]:
  """Returns the pairs of the splits, or of all splits, and their targets, NaN in splits that are not in `splits`."""
  for split in splits:
    if split not in task.splits:
      raise ConfigError(
        f"train_splits={','.join(splits)}: {task.name} has no {split} split ({task.source}), only "
        f"{', '.join(task.splits)}",
        argument="train_splits",
      )
  parts = {name: task.splits[name] for name in SPLITS if name in splits or (use_full and name in task.splits)}
  targets = [task.targets(part) if name in splits else np.full(len(part), np.nan) for name, part in parts.items()]
  return SentencePairs.concatenate(parts.values()), np.concatenate(targets)


def _sample_labels(
  task: TaskData, splits: Sequence[str], targets: np.ndarray, num_examples: int, seed: int
) -> np.ndarray:
  """Returns the targets, float64 [n], with all but `num_examples` random labels replaced by NaN."""
  labeled = np.flatnonzero(~np.isnan(targets))
  if num_examples > len(labeled):
    raise ConfigError(
      f"num_examples={num_examples}: {task.name} has {len(labeled)} labeled pairs in {', '.join(splits)}; use fewer, "
      "or -1 for all",
      argument="num_examples",
    )
  sample = np.random.default_rng(seed).permutation(labeled)[:num_examples]
  sampled = np.full(len(targets), np.nan)
  sampled[sample] = targets[sample]
  return sampled
