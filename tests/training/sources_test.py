"""training/sources.py: embeddings that are computed once, or in each step with dropout."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.sources import EmbeddingPairs, SentencePairsWithDropout
from tests.encoder import tiny
from tests.training import small
from tests.training.interrupting import Interrupt, interrupt_at

A = [f"A man is eating {food} in the park." for food in ("bread", "rice", "soup", "fish")] * 4
B = [f"{who} plays the guitar." for who in ("She", "He", "Anna", "Somebody")] * 2 + ["", "Yes!"] * 4


@pytest.fixture(scope="module")
def mini():
  return SentenceEncoder.from_pretrained("mini")


def dropout_pairs(mini, a=A, b=B, **arguments):
  return SentencePairsWithDropout(mini, a, b, "avg-first-last", **arguments)


def batch_of(source, positions=range(8)):
  """Returns a function of the seed that gives (a, b) of these positions."""
  features = next(iter(source.features(tf.data.Dataset.from_tensors(tf.constant(list(positions), tf.int64)))))
  return lambda *seed: [side.numpy() for side in source.embed(features, tf.constant(seed, tf.int32))]


def test_embedding_pairs_are_the_rows():
  a, b = small.embeddings()
  source = EmbeddingPairs(a.astype(np.float64), b)
  assert len(source) == 64
  for found, side in zip(batch_of(source, [3, 60, 3])(0, 1), (a, b), strict=True):
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, side[[3, 60, 3]])


def test_embedding_pairs_fingerprint():
  a, b = small.embeddings()
  first = EmbeddingPairs(a, b).fingerprint()
  assert EmbeddingPairs(a.copy(), b.astype(np.float64)).fingerprint() == first
  changed = a.copy()
  changed[0, 0] = np.nextafter(changed[0, 0], np.float32(9))
  others = [(b, a), (changed, b), (a[:-1], b[:-1]), (a.reshape(32, 8), b.reshape(32, 8))]
  assert first not in {EmbeddingPairs(*other).fingerprint() for other in others}
  assert EmbeddingPairs(a, b, "known").fingerprint() == "known"


def test_embedding_pairs_of_a_part_stand_at_their_numbers():
  a, b = small.embeddings()
  numbers = [3, 8, 63]
  source = EmbeddingPairs(a[numbers], b[numbers], "known", numbers, 64)
  assert len(source) == 64
  for found, side in zip(batch_of(source, [63, 3, 63])(0, 1), (a, b), strict=True):
    np.testing.assert_array_equal(found, side[[63, 3, 63]])


def with_value(value, side, dtype=np.float32):
  sides = [array.astype(dtype) for array in small.embeddings()]
  sides[side][[5, 9], 2] = value
  return sides


@pytest.mark.parametrize(
  ("sides", "message"),
  [
    *[
      ([np.zeros(shape) for shape in shapes], r"have shapes .*, expected two \[n, dim\]")
      for shapes in (((4, 2), (5, 2)), ((4, 2), (4, 3)), ((4,), (4,)), ((4, 2, 1), (4, 2, 1)))
    ],
    *[
      (with_value(value, side), rf"embedding {'ab'[side]} of pair 5 \(counted from 0\) has NaN or infinite values")
      for side in (0, 1)
      for value in (np.nan, np.inf, -np.inf)
    ],
    (with_value(1e300, 1, np.float64), "embedding b of pair 5"),  # float32 cannot hold it
    ((["a sentence"], ["another"]), "not numbers"),
  ],
)
def test_rejected_pairs(sides, message):
  with pytest.raises(TrainingError, match=message):
    EmbeddingPairs(*sides)


def test_dropout_is_on_and_follows_from_the_seed(mini):
  embed = batch_of(dropout_pairs(mini))
  first, again, other = embed(1, 2), embed(1, 2), embed(1, 3)
  plain = [mini.encode(side[:8]) for side in (A, B)]
  for side in range(2):
    np.testing.assert_array_equal(again[side], first[side])
    typical = np.abs(plain[side] - plain[side].mean(axis=0)).mean()
    assert np.abs(other[side] - first[side]).mean() > 0.05 * typical
    assert np.abs(plain[side] - first[side]).mean() > 0.05 * typical


def test_the_two_sentences_of_a_pair_have_other_masks(mini):
  a, b = batch_of(dropout_pairs(mini, A, A))(1, 2)
  assert (a != b).any(axis=1).all()


def test_without_a_rate_of_dropout_it_is_what_encode_gives(tmp_path):
  """The right sentences, and no trace of the padding."""
  config = {**tiny.CONFIG, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path, config=config))
  a, b = ["a dog", "cats . a b dog . a cat", "", "b"], ["b b b b", "a", "dog", "cat"]
  source = SentencePairsWithDropout(encoder, a, b, "avg-first-last", max_seq_length=16)
  positions = [3, 1, 2, 1]
  for found, sentences in zip(batch_of(source, positions)(1, 2), (a, b), strict=True):
    expected = encoder.encode([sentences[i] for i in positions], max_seq_length=16)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_fingerprint_with_dropout(mini):
  first = dropout_pairs(mini).fingerprint()
  assert dropout_pairs(mini).fingerprint() == first
  others = [
    dropout_pairs(mini, B, A),
    dropout_pairs(mini, max_seq_length=32),
    SentencePairsWithDropout(mini, A, B, "avg"),
  ]
  assert first not in {other.fingerprint() for other in others}
  # A fit on fixed embeddings of the same sentences is another fit.
  assert first != mini.fingerprint([*A, *B], "avg-first-last")


@pytest.mark.slow
def test_every_step_of_a_fit_has_masks_of_its_own(mini):
  """The same pairs and all but the same weights, step after step."""
  source = dropout_pairs(mini, A[:8], B[:8])
  result, _ = small.fit(source, epochs=4, flow=small.make_flow(256), shuffle=False, flow_learning_rate=1e-9)
  assert len(result.losses) == 4 and np.diff(np.sort(result.losses)).min() > 1e-4


@pytest.mark.slow
def test_fit_with_dropout_resumes_exactly_and_leaves_the_encoder_alone(mini, tmp_path, monkeypatch):
  checksum = mini.weights_checksum
  arguments = {"epochs": 3, "flow_learning_rate": 0.01}
  expected, fitted = small.fit(dropout_pairs(mini), flow=small.make_flow(256), **arguments)
  assert expected.steps == 6

  interrupt_at(monkeypatch, 4)
  with pytest.raises(Interrupt):
    small.fit(
      dropout_pairs(mini), flow=small.make_flow(256), checkpoint_folder=tmp_path, save_checkpoints_steps=2, **arguments
    )
  monkeypatch.undo()
  result, flow = small.fit(dropout_pairs(mini), flow=small.make_flow(256), checkpoint_folder=tmp_path, **arguments)
  assert result.first_step == 4
  small.assert_same_weights(flow, fitted)
  np.testing.assert_array_equal(result.losses, expected.losses[4:])

  assert mini.weights_checksum == checksum and not mini.bert.model.trainable_weights
