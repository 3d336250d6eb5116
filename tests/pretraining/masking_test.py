"""data/masking.py: BERT's masking in numbers, and batches that follow from seed and step."""

import numpy as np

from bert_flow_tf.pretraining.masking import MaskedBatches, mask_pieces

CLS, SEP, MASK, PIECES = 2, 3, 4, 1000


def sentences(count=1000, seed=0):
  rng = np.random.default_rng(seed)
  return [np.array([CLS, *rng.integers(5, PIECES, rng.integers(1, 30)), SEP], np.int32) for _ in range(count)]


def make(rows=None, batch_size=8, seed=0):
  return MaskedBatches(rows or sentences(), batch_size, MASK, (CLS, SEP, 0), PIECES, 0, seed)


def test_shares():
  """15 % of the pieces, of these 80 % [MASK], 10 % anything, 10 % as they were; specials and padding never."""
  rng = np.random.default_rng(1)
  ids = rng.integers(5, PIECES, [400, 100]).astype(np.int32)
  candidates = np.ones(ids.shape, bool)
  candidates[:, 60:] = False
  masked, positions, labels = mask_pieces(ids, candidates, MASK, PIECES, rng)
  assert len(labels) == 400 * 9 and (np.bincount(positions[:, 0]) == 9).all()
  at = tuple(positions.T)
  np.testing.assert_array_equal(labels, ids[at])
  untouched = np.ones(ids.shape, bool)
  untouched[at] = False
  np.testing.assert_array_equal(masked[untouched], ids[untouched])
  assert positions[:, 1].max() < 60
  assert abs(np.mean(masked[at] == MASK) - 0.8) < 0.03 and abs(np.mean(masked[at] == labels) - 0.1) < 0.02
  assert abs(np.bincount(positions[:, 1], minlength=60).std() - np.sqrt(60 * 0.85)) < 2.5  # every place alike


def test_short_sentences():
  """One piece at least, and none where there is none."""
  ids = np.array([[CLS, 7, SEP, 0], [CLS, SEP, 0, 0], [CLS, 8, 9, SEP]], np.int32)
  candidates = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]], bool)
  _, positions, labels = mask_pieces(ids, candidates, MASK, PIECES, np.random.default_rng(0))
  assert positions[:, 0].tolist() == [0, 2] and labels[0] == 7 and labels[1] in (8, 9)


def test_a_pass_sees_each_sentence_once():
  """Found by what stands there once the labels are put back; the 1000 % 64 left are left out."""
  rows = sentences()
  batches = make(rows, 64)
  assert batches.batches_a_pass == 15
  for number in (0, 1):
    seen = []
    for step in range(number * 15, number * 15 + 15):
      batch = batches(step)
      ids = batch.ids.copy()
      ids[tuple(batch.positions.T)] = batch.labels
      assert not ids[batch.mask == 0].any()
      seen += [bytes(row[inside == 1]) for row, inside in zip(ids, batch.mask, strict=True)]
    assert len(seen) == 960 and len(set(seen) - {bytes(row) for row in rows}) == 0
    assert len(set(seen)) > 940  # a few of the short ones are alike


def test_batches_follow_from_seed_and_step():
  """In any order, from any start."""
  forward, backward = make(), make()
  expected = [forward(step) for step in range(300)]
  for step in reversed(range(0, 300, 7)):
    found = backward(step)
    for name in ("ids", "mask", "positions", "labels"):
      np.testing.assert_array_equal(getattr(found, name), getattr(expected[step], name))
  other = make(seed=1)(0)
  assert other.ids.shape != expected[0].ids.shape or (other.ids != expected[0].ids).any()
  assert any(len(expected[step].labels) != len(expected[step + 125].labels) for step in range(100))  # the next pass


def test_batches_are_of_like_length():
  padding = np.mean([1 - make()(step).mask.mean() for step in range(50)])
  assert padding < 0.05


def test_rows_of_a_replica():
  batch = make()(0)
  parts = [batch.rows(0, 4), batch.rows(4, 8)]
  np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), batch.ids)
  np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), batch.labels)
  for part in parts:
    assert (part.positions[:, 0] < 4).all()
  np.testing.assert_array_equal(np.add(parts[1].positions, [4, 0]), batch.positions[len(parts[0].positions) :])
