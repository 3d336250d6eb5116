"""BERT's dropout in a training: the masks by their statistics, seen through weights that make each of them show."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.training.sources import SentencePairsWithDropout
from tests.encoder import tiny
from tests.training import small
from tests.training.siamese import small_siamese as small_s

ROWS, HIDDEN, HEADS = 1500, 12, 3
RATES = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.25}
LARGE = 1000.0


def states(folder, seed=(1, 2), rates=RATES, **layer_weights):
  """Returns the hidden states, [ROWS, HIDDEN] each, of one token: all weights of the blocks are 0 but these."""
  config = {**tiny.CONFIG, "num_hidden_layers": 2, **rates}
  weights = tiny.random_weights(config)
  for name in weights:
    if name.startswith("bert.encoder"):
      of_layer = name.split(".", 4)[4]
      value = layer_weights.get(of_layer.replace(".", "_"), float(of_layer.endswith("LayerNorm.weight")))
      weights[name] = np.broadcast_to(np.float32(value), weights[name].shape).copy()
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(folder, weights, config))
  ids = np.full([ROWS, 1], 2, np.int32)
  hidden_states, _ = encoder.bert(tf.constant(ids), tf.ones_like(ids), tf.constant(seed))
  return [state.numpy()[:, 0] for state in hidden_states]


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
  """Returns {dropout layer: where it keeps, bool [ROWS, dimensions]}."""
  folder = tmp_path_factory.mktemp("masks")
  # One dimension stays 0: after normalization, a dimension is above 0 unless it is dropped.
  bias = LARGE * (np.arange(HIDDEN) > 0)
  embedded, *attended = states(folder / "attention", attention_output_dense_bias=bias)
  _, *inner = states(folder / "inner", output_dense_bias=bias)
  masks = {"embeddings": embedded != 0.0}
  for layer in range(2):
    masks[f"attention output {layer}"] = attended[layer][:, 1:] > 0
    masks[f"output {layer}"] = inner[layer][:, 1:] > 0
  # The values of two heads are large, and the dimensions of the third between them and 0.
  of_heads = np.repeat([1.0, 1.0, 0.0], HIDDEN // HEADS)
  _, *of_probabilities = states(
    folder / "probabilities",
    rates={**RATES, "hidden_dropout_prob": 0.0},
    attention_self_value_bias=LARGE * of_heads,
    attention_output_dense_weight=np.eye(HIDDEN),
    attention_output_dense_bias=0.5 * LARGE * (1 - of_heads),
  )
  for layer in range(2):
    masks[f"probabilities {layer}"] = of_probabilities[layer][:, [0, HIDDEN // HEADS]] > 0
  return masks


def test_rates_are_those_of_the_configuration(masks):
  for name, mask in masks.items():
    rate = RATES["attention_probs_dropout_prob" if name.startswith("probabilities") else "hidden_dropout_prob"]
    deviation = np.sqrt(rate * (1 - rate) / mask.size)
    assert abs(np.mean(~mask) - rate) < 4 * deviation, name


def test_no_two_layers_share_a_mask(masks):
  """The correlation of independent masks is 0, with a deviation of 1 / sqrt(their size)."""
  hidden = {name: mask[:, -HIDDEN + 1 :] for name, mask in masks.items() if not name.startswith("probabilities")}
  heads = {name: mask for name, mask in masks.items() if name.startswith("probabilities")}
  for group in (hidden, heads):
    for one, other in itertools.combinations(group, 2):
      correlation = np.corrcoef(group[one].ravel(), group[other].ravel())[0, 1]
      assert abs(correlation) < 4 / np.sqrt(group[one].size), (one, other)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return small_s.save(tmp_path_factory.mktemp("tiny") / "model")


def test_the_two_sentences_of_a_pair_have_other_masks(model, tmp_path):
  """Equal sentences are not equal embeddings, unless the rate is 0."""
  for folder, expected in ((model, True), (small_s.save(tmp_path / "still", dropout=0.0), False)):
    parts = small_s.make(folder, classifier=False)
    source = small_s.LabeledPairs(parts.encoder, ["a dog . cats"] * 8, ["a dog . cats"] * 8, np.ones(8), 16)
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    loss, _ = parts.losses(source, features, tf.constant([1, 2]))
    assert (loss.numpy() > 1e-8) == expected


def test_every_step_has_other_masks(model):
  """The same batch in each step, and no weight that changes: the losses differ by the masks alone."""
  parts = small_s.make(model, learning_rate=1e-30)
  losses = parts.trainer().fit(small_s.source(parts.encoder, 8), 4, shuffle=False).losses
  assert len(set(losses[:, 0])) == 4


def test_every_step_of_a_flow_alone_has_other_masks(model):
  a, b, _ = small_s.pairs(8)
  source = SentencePairsWithDropout(SentenceEncoder.from_pretrained(model), a, b, "avg-first-last", 16)
  result, _ = small.fit(source, epochs=4, shuffle=False, flow=small.make_flow(12), flow_learning_rate=1e-30)
  assert len(result.losses) == 4 and len(np.unique(result.losses)) == 4
