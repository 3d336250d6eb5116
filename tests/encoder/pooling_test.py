"""Tests of pooling.py: every value of sentence_embedding_type against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.encoder.pooling import parse_pooling, unit_rows_of_words
from bert_flow_tf.errors import ConfigError

LAYERS = 5
RNG = np.random.default_rng(3)
STATES = RNG.normal(size=[LAYERS + 1, 3, 7, 4]).astype(np.float32)  # index 0 is the embedding layer
MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0]], np.int32)
WEIGHTS = np.where(MASK == 1, RNG.uniform(size=MASK.shape), 0).astype(np.float32)
ROWS = RNG.normal(size=[3, 7, 4]).astype(np.float32)  # unit length plays no part here
POOLED = RNG.normal(size=[3, 4]).astype(np.float32)


def mean(block):
  """Returns the mean of a block's output over the unmasked positions, for each sentence."""
  return np.stack([STATES[block, i, : MASK[i].sum()].astype(np.float64).mean(axis=0) for i in range(3)])


def mean_of_rows(states, weights=MASK):
  """Returns the weighted mean of each sentence's rows."""
  return np.stack([np.average(states[i].astype(np.float64), axis=0, weights=weights[i]) for i in range(3)])


def published(n):
  """Returns avg-last-N of the published code, which indexes its list of blocks with -i, where -0 is 0."""
  blocks = [mean(block) for block in range(1, LAYERS + 1)]
  return np.mean([blocks[-i] for i in range(n)], axis=0)


def unit(rows):
  return rows / np.linalg.norm(rows, axis=1, keepdims=True)


EXPECTED = {
  "avg": mean(5),
  "cls": POOLED,
  "cls-token": STATES[5, :, 0],
  "avg-first-last": (mean(1) + mean(5)) / 2,
  "avg-last-1": mean(1),
  "avg-last-2": (mean(1) + mean(5)) / 2,
  "avg-last-3": (mean(1) + mean(5) + mean(4)) / 3,
  "avg-last-4": published(4),
  "avg-last-5": published(5),
  "avg-last-last-1": mean(5),
  "avg-last-last-2": mean(4),
  "avg-last-last-5": mean(1),
  "avg-top-1": mean(5),
  "avg-top-2": (mean(4) + mean(5)) / 2,
  "avg-top-5": (mean(1) + mean(2) + mean(3) + mean(4) + mean(5)) / 5,
  "avg-last-12": (mean(1) + mean(5)) / 2,  # the published N is the last digit alone
  "avg-last-last-14": mean(2),
  "avg-last-concat-1": mean(1),
  "avg-last-concat-2": (mean(1) + mean(5)) / 2,
  "avg-last-concat-5": published(5),
  "concat-top-1": mean(5),
  "concat-top-2": np.concatenate([mean(5), mean(4)], axis=1),
  "concat-top-5": np.concatenate([mean(5), mean(4), mean(3), mean(2), mean(1)], axis=1),
  "max": np.stack([STATES[5, i, : MASK[i].sum()].max(axis=0) for i in range(3)]),
  "word-rows": mean_of_rows(ROWS),
  "mix": 0.6 * unit(mean_of_rows(ROWS)) + 0.4 * unit(mean(5)),
  "mix-0.25": 0.25 * unit(mean_of_rows(ROWS)) + 0.75 * unit(mean(5)),
}


# What holds the states: tensors, as in graphs, or arrays of an engine, which stay arrays.
HOLDERS = {"tensors": tf.constant, "arrays": np.asarray}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("holder", HOLDERS)
def test_values_from_its_blocks_alone(holder, name):
  pooling, hold = parse_pooling(name, LAYERS), HOLDERS[holder]
  needed = {block: hold(STATES[block]) for block in pooling.blocks}
  embeddings = pooling.pool(needed, hold(MASK), hold(POOLED), hold(ROWS))
  assert isinstance(embeddings, np.ndarray) == (holder == "arrays")
  assert embeddings.dtype == tf.float32 and tuple(embeddings.shape) == (3, pooling.dim(4))
  np.testing.assert_allclose(embeddings, EXPECTED[name], atol=1e-6)


@pytest.mark.parametrize("holder", HOLDERS)
def test_weights_of_tokens(holder):
  hold = HOLDERS[holder]
  weighted = {block: mean_of_rows(STATES[block], WEIGHTS) for block in (1, 5)}
  expected = {
    "avg": weighted[5],
    "avg-first-last": (weighted[1] + weighted[5]) / 2,
    "mix-0.9": 0.9 * unit(mean_of_rows(ROWS, WEIGHTS)) + 0.1 * unit(weighted[5]),
  }
  for name, values in expected.items():
    pooled = parse_pooling(name, LAYERS).pool(hold(STATES), hold(WEIGHTS), None, hold(ROWS))
    np.testing.assert_allclose(pooled, values, atol=1e-6)
  assert not np.asarray(parse_pooling("avg", LAYERS).pool(hold(STATES), hold(0 * WEIGHTS))).any()


def test_word_rows_of_arrays_are_those_of_tensors():
  ids, kernel = np.array([[1, 0], [2, 2]]), RNG.normal(size=[4, 6]).astype(np.float32)
  table = np.concatenate([RNG.normal(size=[2, 4]), np.zeros([1, 4])]).astype(np.float32)
  for projection in (None, kernel):
    rows = unit_rows_of_words(table, ids, projection)
    np.testing.assert_allclose(rows, unit_rows_of_words(tf.Variable(table), ids, projection), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), [[1, 1], [0, 0]], atol=1e-6)


def test_the_share_is_a_part_of_the_identity():
  assert parse_pooling("mix", LAYERS).identity == ("mix", LAYERS, 0.6)
  assert parse_pooling("mix-0.25", LAYERS).identity == ("mix", LAYERS, 0.25)
  assert parse_pooling("avg", LAYERS).identity == ("mean", LAYERS)


def test_model_of_a_single_block_counts_it_twice_as_the_published_code():
  assert parse_pooling("avg-first-last", 1).blocks == (1, 1)
  assert parse_pooling("avg-last-1", 1).blocks == (1,)


WRONG = [f"avg-{rest}" for rest in ("", "last", "last-0", "last-6", "last--1", "last-02", "last-²", "top-0", "top-6")]
WRONG += [f"avg-{rest}" for rest in ("top-1.5", "last-last", "last-last-0", "last-last-6", "last-concat-6")]
WRONG += ["avg-last-10", "avg-last-last-20", "avg-last-concat-10", "concat-top-6", "concat-top-12", "avg-top-12"]
WRONG += ["mix-0", "mix-1", "mix-0.0", "mix-1.5", "mix-.5", "mix-0.12345", "mix-", "word-rows-1", "word-row"]
WRONG += ["average", "AVG", "cls-2", "avg-first-last-2"]


@pytest.mark.parametrize("name", [*WRONG, "", "cls ", " avg", "avg-top-2\n", None, 2, ["avg"]])
def test_unknown_value(name):
  with pytest.raises(ConfigError) as error:
    parse_pooling(name, LAYERS)
  assert error.value.argument == "sentence_embedding_type"


def test_describe_names_the_blocks():
  assert parse_pooling("avg-last-3", 12).describe() == "avg-last-3: blocks 1, 12, 11 of 12"
  assert parse_pooling("word-rows", 12).describe() == "word-rows"
  assert parse_pooling("mix-0.25", 12).describe("idf-0.5") == "mix-0.25: blocks 12 of 12, token_weights idf-0.5"
