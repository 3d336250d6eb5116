"""A tiny BERT and labelled pairs, small enough that a fit takes seconds."""

import dataclasses
from typing import Any

import numpy as np

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.siamese.losses import SiameseLosses
from bert_flow_tf.training.siamese.objectives import Classifier
from bert_flow_tf.training.siamese.settings import SiameseSettings
from bert_flow_tf.training.siamese.trainer import SiameseTrainer
from tests.encoder import tiny

WORDS = ("a", "b", "dog", "cat", "dogs", "cats", ".", "mask")
LABELS = ("contradiction", "entailment", "neutral")
BATCH = 8


def save(folder, blocks=1, dropout=0.1, scale=0.2):
  """Writes the BERT's folder, by default with weights small enough to be trained."""
  rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
  config = {**tiny.CONFIG, **rates, "num_hidden_layers": blocks}
  weights = {name: scale * value for name, value in tiny.random_weights(config).items()}
  return tiny.save_tiny(folder, weights, config)


def pairs(n=64, seed=0, longest=5):
  """Two lists of sentences, and numbers of labels that follow from them: whether they share words."""
  rng = np.random.default_rng(seed)
  sides = [[" ".join(rng.choice(WORDS, rng.integers(1, longest + 1))) for _ in range(n)] for _ in range(2)]
  shared = [len({*a.split()} & {*b.split()}) for a, b in zip(*sides, strict=True)]
  return *sides, np.minimum(shared, 2).astype(float)


@dataclasses.dataclass
class Small:
  """The parts of a training, everything from fixed seeds."""

  encoder: SentenceEncoder
  classifier: Classifier | None
  flow: Glow | None
  losses: SiameseLosses
  settings: SiameseSettings
  strategy: Any

  def trainer(self, folder=None):
    return SiameseTrainer(self.losses, self.settings, self.strategy, folder)


def make(model, classifier=True, flow=False, pooling="avg-first-last", strategy=None, **settings):
  """The parts of a training with a classifier, or without, with a flow or without."""
  encoder = SentenceEncoder.from_pretrained(model)
  encoder.compute_in(encoder.precision, frozen=False)  # as a run that trains it
  classifier = Classifier.initial(12, LABELS, 1) if classifier else None
  flow = Glow(FlowConfig(n_levels=1, depth=1, coupling_width=4), 12, seed=7) if flow else None
  settings = SiameseSettings(
    **{"learning_rate": 1e-2, "train_batch_size": BATCH, "save_checkpoints_steps": 3, "flow_loss": flow is not None}
    | settings
  )
  losses = SiameseLosses(encoder, encoder.identity(pooling), classifier, flow, settings)
  return Small(encoder, classifier, flow, losses, settings, strategy)


def source(encoder, n=64, targets=None, **arguments):
  """`LabeledPairs` of `pairs`."""
  a, b, labels = pairs(n)
  return LabeledPairs(encoder, a, b, labels if targets is None else targets, 16, **arguments)
