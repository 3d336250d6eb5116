"""What a siamese encoder is trained and evaluated on: labelled pairs of either kind, and which of them take part."""

import dataclasses

import numpy as np

from bert_flow_tf.data import entailment
from bert_flow_tf.data.pairs import SPLITS, SentencePairs, TaskData
from bert_flow_tf.data.tasks import TASKS, find_task, load_task
from bert_flow_tf.errors import ConfigError

ALLOWED = ", ".join([task.name for task in entailment.TASKS] + [spec.name for spec in TASKS])
# Of --num_examples.
_ALL_LABELS, _NO_LABELS = -1, 0


@dataclasses.dataclass(frozen=True, eq=False)
class SiameseTask:
  """A task's pairs.

  Attributes:
    name: the task's name.
    labels: names of the classes whose numbers are the scores; None for regression, where the scores are on `scale`.
    splits: {split: `SentencePairs`}.
    source: where they came from, for people to read.
    eval_split: the split whose figure counts; None where there is no gold.
    dropped: {split: pairs left out since their annotators did not agree}.
    scale: the lowest and highest gold score of a regression.
    regression: the `TaskData` of a regression, else None.
  """

  name: str
  labels: tuple[str, ...] | None
  splits: dict
  source: str
  eval_split: str | None
  dropped: dict
  scale: tuple[float, float] = (0.0, 1.0)
  regression: TaskData | None = None

  def targets(self, pairs):
    """What the loss compares with, float64 [n]: numbers of classes, or gold scaled to 0..1; NaN without gold."""
    if self.labels:
      return pairs.scores
    low, high = self.scale
    return (pairs.scores - low) / (high - low)

  def with_gold(self, splits):
    """Those of the splits that exist and have gold."""
    return [split for split in splits if split in self.splits and not np.isnan(self.splits[split].scores).all()]


def load(name, data_dir, tfds_data_dir, stsb_gold):
  """The `SiameseTask` of a name.

  Raises:
    ConfigError: there is no such task, or a flag contradicts it.
    DataError: its data cannot be read.
  """
  if entailment.find_entailment_task(name):
    if stsb_gold is not None:
      raise ConfigError(f"--stsb_gold is of use to STS-B alone, not to {name}; leave it out")
    data = entailment.load_entailment(name, data_dir, tfds_data_dir)
    return SiameseTask(
      data.task.name, entailment.LABELS, dict(data.splits), data.source, data.task.eval_split, dict(data.dropped)
    )
  known = [spelling.lower() for spec in TASKS for spelling in (spec.name, *spec.aliases)]
  if str(name).lower() not in known:
    raise ConfigError(f"unknown task {name!r}; allowed are {ALLOWED}")
  if find_task(name).name == "sample" and data_dir:
    raise ConfigError(f"--data_dir={data_dir}: --task=sample reads no files, say which --task does")
  task = load_task(name, data_dir, tfds_data_dir, stsb_gold)
  spec = task.spec
  return SiameseTask(spec.name, None, dict(task.splits), task.source, spec.eval_split, {}, spec.scale, task)


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPairs:
  """What is trained on.

  Attributes:
    pairs: `SentencePairs`, every pair as often as it stands in an epoch.
    targets: float64 [n]; NaN for a pair that takes part in the flow's loss alone.
    splits: the splits whose labels are used.
    labelled: pairs with a label, copies not counted.
    unlabelled: pairs without, likewise.
  """

  pairs: SentencePairs
  targets: np.ndarray
  splits: tuple[str, ...]
  labelled: int
  unlabelled: int


def training_pairs(task, splits, use_full, num_examples, dupe_factor, flow_loss, seed):
  """Chooses `TrainingPairs`.

  Labels come from `splits` alone; with `use_full` the sentences of all other splits join, without their labels. Where
  no flow's loss wants them, pairs without a label are left out.

  Args:
    task: `SiameseTask`.
    splits: names of the splits whose labels are used.
    use_full: whether the other splits' sentences take part.
    num_examples: -1 for all labels, 0 for none, n for those of n pairs drawn at random.
    dupe_factor: how often every pair stands in an epoch.
    flow_loss: whether pairs without a label are of use.
    seed: of the draw.

  Raises:
    ConfigError: a split is not there, there are too few labels, or nothing is left.
  """
  if use_full and num_examples == _NO_LABELS:
    # Of STS-12 to STS-16, as published, every pair three times.
    all_of_them = task.regression.fitting_pairs(use_full=True) if task.regression else None
    parts = [all_of_them] if all_of_them else list(task.splits.values())
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
      f"--num_examples={num_examples}: {task.name} has {len(labelled)} labelled pairs in {', '.join(splits)}; take "
      "fewer, or -1 for all"
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
    raise ConfigError(f"--task={task.name}: no pair in {', '.join(splits)} has a label, so that nothing can be learned")
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
        f"--train_splits={','.join(splits)}: {task.name} has no {split} split ({task.source}), only "
        f"{', '.join(task.splits)}; --train_splits={next(iter(task.splits))} would train on another one"
      )
