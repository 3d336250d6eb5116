"""training/sources.py and labeled_pairs.py: embeddings computed once, or in each step with dropout; token ids."""

import types
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training import sources
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.sources import (
  EmbeddingPairs,
  ScaledPairs,
  SentencePairsWithDropout,
  VectorPairs,
)
from tests.encoder import tiny
from tests.testing import rejected
from tests.training import small

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
  with pytest.raises(tf.errors.InvalidArgumentError):  # a pair that the fit was not to use
    batch_of(source, [4])


def test_scaled_pairs_are_scaled_over_both_sides():
  a, b = small.embeddings(dim=8)
  scaled = ScaledPairs(EmbeddingPairs(a, b, "known"))
  rows = np.concatenate([a, b]).astype(np.float64)
  expected = rows - rows.mean(axis=0)
  expected /= np.sqrt(np.mean(np.sum(expected**2, axis=1)))
  for found, side in zip(batch_of(scaled, [5, 63])(0, 1), (expected[:64], expected[64:]), strict=True):
    np.testing.assert_allclose(found, side[[5, 63]], rtol=1e-4, atol=1e-6)
  assert len(scaled) == 64
  assert scaled.fingerprint() not in ("known", ScaledPairs(EmbeddingPairs(a, b, "x")).fingerprint())


def test_vector_pairs_are_neighbors_across_files(monkeypatch):
  monkeypatch.setattr(sources, "_ROWS", 4)  # several parts of a file
  rows = np.random.default_rng(0).normal(size=[11, 3]) * [1.0, 2.0, 3.0]
  source = VectorPairs([rows[:3], rows[3:4], rows[4:]])
  assert (len(source), source.dim) == (5, 3)
  found = batch_of(source, [0, 1, 4, 2])(0, 1)
  np.testing.assert_allclose(found, [rows[[0, 2, 8, 4]], rows[[1, 3, 9, 5]]], rtol=1e-6)
  # The last row of an odd number has no pair.
  for files in ([rows[:3], rows[3:4], rows[4:]], [rows[:10], rows[10:]]):
    moments = VectorPairs(files).moments()
    assert moments.count == 10
    np.testing.assert_allclose(moments.mean, rows[:10].mean(axis=0))
  deviation = np.sqrt(np.mean(np.var(rows[4:8], axis=0)))  # of the largest file
  assert source.deviation() == pytest.approx(deviation)
  changed = rows.copy()
  changed[7, 2] += 1e-3
  corpora = ([rows], [changed], [rows[:10]], [rows[:6]], [rows[:6].reshape(9, 2)])
  fingerprints = {VectorPairs(files).fingerprint() for files in corpora}
  # The same pairs: without the odd last row, with other borders, in memory.
  first = VectorPairs([rows]).fingerprint()
  assert len(fingerprints) == 4 and VectorPairs([rows[:10]]).fingerprint() == first
  assert VectorPairs([rows[:3], rows[3:6], rows[6:]]).fingerprint() == first
  assert EmbeddingPairs(rows[0:10:2], rows[1:10:2]).fingerprint() == first
  for files in ([], [rows, rows[:, :2]], [rows[0]]):
    with rejected(TrainingError, "vectors"):
      VectorPairs(files)


def with_value(value, side, dtype=np.float32):
  sides = [array.astype(dtype) for array in small.embeddings()]
  sides[side][[5, 9], 2] = value
  return sides


@pytest.mark.parametrize(
  ("sides", "place"),
  [
    ((np.zeros([4, 2]), np.zeros([5, 2])), "pairs"),
    ((np.zeros([4, 2]), np.zeros([4, 3])), "second"),
    ((np.zeros([4]), np.zeros([4])), "first"),
    ((np.zeros([4, 2, 1]), np.zeros([4, 2, 1])), "first"),
    (with_value(np.nan, 0), "first .* row 5 "),
    (with_value(np.inf, 1), "second .* row 5 "),
    (with_value(1e300, 1, np.float64), "second .* row 5"),  # float32 cannot hold it
    ((["a sentence"], ["another"]), "first"),
  ],
)
def test_rejected_pairs(sides, place):
  with pytest.raises(TrainingError, match=place):
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
  a, b = ["a dog", "cats . a b dog . a cat", "", "b"], ["b b b b", "a", "dog " * 20, "cat"]
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


@pytest.fixture
def encoder(tmp_path):
  """Something with a tokenizer."""
  (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCABULARY))
  return types.SimpleNamespace(tokenizer=SentenceTokenizer(tmp_path / "vocab.txt"))


def test_ids_and_targets(encoder):
  source = LabeledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, np.nan], 16)
  a, b, targets = next(iter(source.features(tf.data.Dataset.from_tensor_slices([1, 0]).batch(2))))
  rows = (["[CLS]", "b", "[SEP]", "-"], ["[CLS]", "a", "dog", "[SEP]"])
  vocabulary = {"-": -1, **{piece: i for i, piece in enumerate(tiny.VOCABULARY)}}
  assert a.numpy().tolist() == [[vocabulary[piece] for piece in row] for row in rows]
  assert b.shape == (2, 5) and np.isnan(targets.numpy()[0]) and targets.numpy()[1] == 1
  tokens, mask = source.tokens(a)
  assert mask.numpy().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]] and tokens.numpy()[0, 3] == vocabulary["[PAD]"]
  assert (len(source), source.labelled) == (2, 1)
  padded = LabeledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, 1.0], 16, pad_to_max=True)
  assert next(iter(padded.features(tf.data.Dataset.range(2).batch(2))))[0].shape == (2, 16)
  assert padded.fingerprint() != source.fingerprint()


def test_copies_have_one_masked_word_piece_a_side(encoder):
  """original_processors_test has the published draws."""
  random = Random(7)
  pairs = ["a dog", "b", "cats a b a a"], ["cats", "a a a", "dog ."], [1.0, np.nan, 0.5]
  sources = [LabeledPairs(encoder, *pairs, 6, dupe_factor=3, random=random) for _ in range(2)]
  source = sources[0]
  assert (len(source), source.num_pairs, source.labelled) == (9, 3, 6)
  *sides, targets = next(iter(source.features(tf.data.Dataset.range(9).batch(9))))
  for side in sides:
    masks = (side.numpy() == tiny.VOCABULARY.index("[MASK]")).sum(axis=1)
    assert masks.tolist() == [0, 1, 1] * 3
  np.testing.assert_array_equal(targets.numpy(), np.repeat(pairs[2], 3).astype(np.float32))
  assert sources[1].fingerprint() == source.fingerprint()  # the generator is copied
  assert LabeledPairs(encoder, *pairs, 6, dupe_factor=3, random=Random(8)).fingerprint() != source.fingerprint()
