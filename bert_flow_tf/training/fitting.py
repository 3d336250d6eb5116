"""Which sentences a calibration is fitted on, with which settings, and the fit; what the runners share beside flags."""

import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
from absl import logging

import bert_flow_tf
from bert_flow_tf.calibration.spec import make_calibration, parse_calibration
from bert_flow_tf.data import nli
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError

TARGET, TRAIN, NLI = "target", "train", "nli"
LEARNING_RATE = 1e-3


@dataclasses.dataclass(frozen=True)
class FlowCorpus:
  """Sentences that a calibration is fitted on.

  Attributes:
    name: value of `--flow_corpus`.
    pairs: the `SentencePairs`.
    source: where they came from, for people to read.
    learning_rate: the flow's, unless a flag says another.
    num_train_epochs: passes over the pairs, unless a flag says another number.
  """

  name: str
  pairs: SentencePairs
  source: str
  learning_rate: float = LEARNING_RATE
  num_train_epochs: float = 1.0


def load_flow_corpus(name, task, data_dir=None, tfds_data_dir=None):
  """The corpus of a value of `--flow_corpus`.

  Args:
    name: "target" (all sentences of the task), "train" (its train split alone), "nli", or a file.
    task: `TaskData` that is evaluated.
    data_dir: for "nli", folder with SNLI and MNLI.
    tfds_data_dir: for "nli" without data_dir, TensorFlow Datasets' folder.

  Raises:
    ConfigError, DataError: there is no such corpus, or it cannot be read.
  """
  if name in (TARGET, TRAIN):
    pairs = task.all_pairs() if name == TARGET else task.fitting_pairs(use_full=False)
    return FlowCorpus(name, pairs, task.source, num_train_epochs=task.spec.num_train_epochs)
  if name != NLI and not os.path.exists(os.path.expanduser(name)):
    raise ConfigError(f"--flow_corpus={name}: expected target, train, nli, or a file of sentences that exists")
  pairs, source = nli.load_corpus(name, data_dir, tfds_data_dir)
  if name == NLI:
    return FlowCorpus(name, pairs, source, nli.LEARNING_RATE, nli.NUM_TRAIN_EPOCHS)
  return FlowCorpus(name, pairs, source)


def published_corpus(task, use_full):
  """The corpus of a value of the published flag, `--use_full_for_training`; see `TaskData.fitting_pairs`."""
  pairs, source = task.fitting_pairs(use_full), task.source
  if len(pairs) > len(task.all_pairs()):
    source += ", each pair three times, as the published code reads it"
  return FlowCorpus(TARGET if use_full else TRAIN, pairs, source, num_train_epochs=task.spec.num_train_epochs)


def parse_calibrations(names):
  """Specs of the values of `--calibration`, without `none`, which every run shows anyway.

  Raises:
    ConfigError: an unknown name, one given twice, or none given.
  """
  specs = [parse_calibration(name) for name in names]
  if not specs:
    raise ConfigError("--calibration is empty; expected one or more names, as in --calibration=flow,whitening-256")
  twice = {spec.name for spec in specs if specs.count(spec) > 1}
  if twice:
    raise ConfigError(f"--calibration names {', '.join(sorted(twice))} twice; expected each once")
  return [spec for spec in specs if spec.name != "none"]


@dataclasses.dataclass(frozen=True)
class FlowSettings:
  """How a flow is made and fitted: the arguments of `Glow` and `Trainer` that flags give.

  Attributes:
    config: `FlowConfig`.
    strategy: `tf.distribute.Strategy`.
    The others as in `Glow`, `Trainer` and `Trainer.fit`.
  """

  config: Any
  strategy: Any = None
  actnorm_init: str = "data"
  permutation: str = "reverse"
  learning_rate: float = LEARNING_RATE
  num_train_epochs: float = 1.0
  train_batch_size: int = 32
  seed: int = 1234
  use_xla: bool | None = None
  save_checkpoints_steps: int = 100

  def make(self, dim, folder=None, show_progress=True):
    """A flow to be fitted and its trainer, which works in `folder` (or nowhere): `FlowCalibration` and `Trainer`."""
    from bert_flow_tf.calibration.flow import FlowCalibration
    from bert_flow_tf.training.distribution import worker_failures

    strategy = self.strategy or bert_flow_tf.make_strategy()
    with worker_failures(strategy), strategy.scope():
      flow = bert_flow_tf.Glow(self.config, dim, self.actnorm_init, self.permutation, self.seed)
    trainer = bert_flow_tf.Trainer(
      flow,
      self.learning_rate,
      strategy,
      self.train_batch_size,
      self.seed,
      self.use_xla,
      checkpoint_folder=folder and pathlib.Path(folder) / "checkpoints",
      save_checkpoints_steps=self.save_checkpoints_steps,
      summary_folder=folder and pathlib.Path(folder) / "tensorboard",
      show_progress=show_progress,
    )
    return FlowCalibration(flow, trainer, self.num_train_epochs), trainer


def check_dev(specs, task):
  """Refuses a k that is to be chosen on dev where the task has no dev split with gold, or is evaluated on it.

  Raises:
    ConfigError: either of the two.
  """
  chosen = [spec.name for spec in specs if spec.k_on_dev]
  if chosen and ("dev" not in task.splits or np.isnan(task.splits["dev"].scores).all()):
    raise ConfigError(
      f"--calibration={chosen[0]} chooses k on a dev split with gold scores, and {task.spec.name} has none: give k, as "
      f"in {chosen[0]}-6"
    )
  if chosen and task.spec.eval_split == "dev":
    raise ConfigError(
      f"--calibration={chosen[0]} chooses k on the dev split, on which {task.spec.name} is evaluated: give k, as in "
      f"{chosen[0]}-6"
    )


def fit_calibration(spec, rows, task=None, embeddings=None):
  """A fitted calibration that is not the flow, its k chosen where it has to be.

  Args:
    spec: its `CalibrationSpec`.
    rows: embeddings [2 n, dim] of the corpus, first sentences, then second ones.
    task: `TaskData` whose dev split decides k.
    embeddings: `Embeddings` with the sentences of that split.
  """
  calibration = make_calibration(spec).fit(rows)
  if spec.k_on_dev:
    dev = task.splits["dev"]
    found = calibration.choose_k(embeddings.of(dev.sentences_a), embeddings.of(dev.sentences_b), dev.scores)
    logging.info("%s: k=%d chosen on dev, Spearman %.2f", spec.name, calibration.k, found[calibration.k])
  return calibration


def fit_flow(flow, trainer, pairs, embeddings, embed):
  """Fits a flow and returns it; embeds of the corpus what the fit will see and is not embedded yet.

  Args:
    flow: `FlowCalibration`.
    trainer: its `Trainer`.
    pairs: `SentencePairs` of the corpus.
    embeddings: `Embeddings` that may have their sentences.
    embed: what makes `Embeddings` of `SentencePairs`, called where they do not.
  """
  numbers, seen = None, pairs
  if not embeddings.have(pairs):
    numbers = trainer.pairs_seen(len(pairs), flow.num_train_epochs)
    seen = pairs.take(numbers)
    embeddings = embed(seen)
  return flow.fit_source(embeddings.source(seen, numbers, len(pairs)))
