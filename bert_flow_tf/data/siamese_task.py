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
# Name of the prediction of all pairs, and the order of the splits in its published file.
_FULL, _FULL_ORDER = "full", ("test", "dev", "train")


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPairs:
  """Pairs of a training, in the order in which the published code writes its records."""

  pairs: SentencePairs
  targets: np.ndarray  # float64 [n]: class indices, or labels scaled to 0..1; NaN for a pair without a label
  splits: tuple[str, ...]  # those whose labels are used
  dupe_factor: int
  random: Random  # draws the masks of `dupe_factor` copies, after the draws that shuffled the pairs

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
  """Returns the selected and shuffled pairs of a training, as the published runner has them."""
  # `splits`: the splits whose labels are used. The default is train; with `use_full`, which takes the pairs of all
  # splits, train and dev.
  splits = _labeled_splits(task, splits, use_full, num_examples)
  pairs, targets = _pairs_and_targets(task, splits, use_full)
  # The random draws have the order of the published runner: with num_examples > 0, the first draw is for the labeled
  # pairs. Pairs without a label are kept; they train a flow, and count in the number of steps.
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


def _labeled_splits(task, splits, use_full, num_examples):
  """Returns the names of the splits whose labels are used; a ConfigError names the argument that asks for others."""
  names = _names(task)
  if splits is None and use_full:
    # The published code uses the labels of test, too, which it reads as 0. Without labels, any split will do.
    splits = [name for name in names if name != "test" or task.as_published or num_examples == _NO_LABELS]
    if not splits:
      message = f"use_full_for_training: {task.name} has only a test split, whose labels are not trained on; add "
      message += "num_examples=0 to fit a flow without labels, or train_splits=test"
      raise ConfigError(message, argument="use_full_for_training")
  if splits is None:
    splits = ["train"]
  if not splits or len(set(splits)) < len(splits) or not set(splits) <= set(names):
    expected = f"expected one or more splits of {task.name}, each once; it has {', '.join(task.splits)}"
    raise ConfigError(f"train_splits={','.join(splits)}: {expected}", argument="train_splits")
  return tuple(splits)


def _pairs_and_targets(task: TaskData, splits: Sequence[str], use_full: bool) -> tuple[SentencePairs, np.ndarray]:
  """Returns the pairs of the splits, or of all splits, and their targets, NaN in splits that are not in `splits`."""
  parts, targets = [], []
  for name in _names(task):
    if name not in splits and not use_full:
      continue
    part = task.split(name)
    parts.append(part)
    if name not in splits:
      targets.append(np.full(len(part), np.nan))
    elif task.as_published and (name == "test" or task.spec.one_file_for_all_splits):
      # The published code reads no label of test and of STS-12 to STS-16.
      targets.append(np.zeros(len(part)))
    else:
      targets.append(task.targets(part))
  return SentencePairs.concatenate(parts), np.concatenate(targets)


def predicted_pairs(task: TaskData, name: str) -> SentencePairs:
  """Returns the pairs of a split, or of test, dev and train for "full"; a ConfigError if there are none."""
  names = _FULL_ORDER if name == _FULL else (name,)
  available = [split for split in names if split in task.splits or task.spec.one_file_for_all_splits]
  if not available:
    argument = "do_predict_on_dev" if name == "dev" else "do_predict"
    message = f"{argument}: {task.name} has no {name} split, only {', '.join(task.splits)} ({task.source})"
    raise ConfigError(message, argument=argument)
  return SentencePairs.concatenate([task.split(split) for split in available])
