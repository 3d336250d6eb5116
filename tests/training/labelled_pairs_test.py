"""training/labelled_pairs.py: copies of pairs with masked word pieces; tests/training/siamese_test.py has the rest."""

import types
from random import Random

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from tests.encoder import tiny

A, B, TARGETS = ["a dog", "b", "cats a b a a"], ["cats", "a a a", "dog ."], [1.0, np.nan, 0.5]


def masked_copies(dupe_factor, seed):
  """Returns [tokens of a, tokens of b] of all rows, written with Python's lists as the published code writes them."""
  pieces = {"a": ["a"], "b": ["b"], "dog": ["dog"], "cats": ["cat", "##s"], ".": ["."]}
  random, rows = Random(seed), []
  for pair in zip(A, B, strict=True):
    sides = [[piece for word in text.split() for piece in pieces[word]][:4] for text in pair]
    for copy in range(dupe_factor):
      row = []
      for side in sides:
        side = list(side)
        if copy > 0:
          side[random.randint(0, len(side) - 1)] = "[MASK]"
        row.append(["[CLS]", *side, "[SEP]"])
      rows.append(row)
  return rows


def test_copies_have_one_masked_word_piece_a_side(tmp_path):
  (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCABULARY))
  encoder = types.SimpleNamespace(tokenizer=SentenceTokenizer(tmp_path / "vocab.txt"))
  random = Random(7)
  sources = [LabelledPairs(encoder, A, B, TARGETS, 6, dupe_factor=3, random=random) for _ in range(2)]
  source = sources[0]
  assert (len(source), source.num_pairs, source.labelled) == (9, 3, 6)
  *sides, targets = next(iter(source.features(tf.data.Dataset.range(9).batch(9))))
  rows = [[[tiny.VOCABULARY[i] for i in ids if i >= 0] for ids in side.numpy()] for side in sides]
  assert [list(row) for row in zip(*rows, strict=True)] == masked_copies(3, 7)
  np.testing.assert_array_equal(targets.numpy(), np.repeat(TARGETS, 3).astype(np.float32))
  assert sources[1].fingerprint() == source.fingerprint()  # the generator is copied
  assert LabelledPairs(encoder, A, B, TARGETS, 6, dupe_factor=3, random=Random(8)).fingerprint() != source.fingerprint()
  assert LabelledPairs(encoder, A, B, TARGETS, 6).num_pairs == 3
