"""training/labelled_pairs.py: token ids and targets, and copies of pairs with masked word pieces."""

import types
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from tests.encoder import tiny

A, B, TARGETS = ["a dog", "b", "cats a b a a"], ["cats", "a a a", "dog ."], [1.0, np.nan, 0.5]


@pytest.fixture
def encoder(tmp_path):
  """Something with a tokenizer."""
  (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCABULARY))
  return types.SimpleNamespace(tokenizer=SentenceTokenizer(tmp_path / "vocab.txt"))


def test_ids_and_targets(encoder):
  source = LabelledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, np.nan], 16)
  a, b, targets = next(iter(source.features(tf.data.Dataset.from_tensor_slices([1, 0]).batch(2))))
  rows = (["[CLS]", "b", "[SEP]", "-"], ["[CLS]", "a", "dog", "[SEP]"])
  vocabulary = {"-": -1, **{piece: i for i, piece in enumerate(tiny.VOCABULARY)}}
  assert a.numpy().tolist() == [[vocabulary[piece] for piece in row] for row in rows]
  assert b.shape == (2, 5) and np.isnan(targets.numpy()[0]) and targets.numpy()[1] == 1
  tokens, mask = source.tokens(a)
  assert mask.numpy().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]] and tokens.numpy()[0, 3] == vocabulary["[PAD]"]
  assert (len(source), source.labelled) == (2, 1)
  padded = LabelledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, 1.0], 16, pad_to_max=True)
  assert next(iter(padded.features(tf.data.Dataset.range(2).batch(2))))[0].shape == (2, 16)
  assert padded.fingerprint() != source.fingerprint()


def test_copies_have_one_masked_word_piece_a_side(encoder):
  """original_processors_test has the published draws."""
  random = Random(7)
  sources = [LabelledPairs(encoder, A, B, TARGETS, 6, dupe_factor=3, random=random) for _ in range(2)]
  source = sources[0]
  assert (len(source), source.num_pairs, source.labelled) == (9, 3, 6)
  *sides, targets = next(iter(source.features(tf.data.Dataset.range(9).batch(9))))
  for side in sides:
    masks = (side.numpy() == tiny.VOCABULARY.index("[MASK]")).sum(axis=1)
    assert masks.tolist() == [0, 1, 1] * 3
  np.testing.assert_array_equal(targets.numpy(), np.repeat(TARGETS, 3).astype(np.float32))
  assert sources[1].fingerprint() == source.fingerprint()  # the generator is copied
  assert LabelledPairs(encoder, A, B, TARGETS, 6, dupe_factor=3, random=Random(8)).fingerprint() != source.fingerprint()
