"""examples/pretrain_bert: masking in numbers, vocabularies, and a training that is resumed to the bit."""

import itertools
import re
import types

import numpy as np
import pytest
import safetensors

from bert_flow_tf import SentenceEncoder
from examples.pretrain_bert import pretrain_bert
from tests.testing import REPO

TEXT = ["The dogs ran.", "A dog runs; the Dogs run!", "Café at the dog run"] * 5


def test_vocabularies():
  pieces = pretrain_bert.build_vocabulary(TEXT, 60, True)
  assert pieces[:5] == list(pretrain_bert.SPECIALS) and len(set(pieces)) == len(pieces) <= 60
  assert {"dog", "the"} <= set(pieces) and "The" not in pieces and "é" not in pieces
  assert pretrain_bert.build_vocabulary(TEXT, 60, True) == pieces
  smaller = pretrain_bert.choose_vocabulary([*pieces, "zebra"], TEXT, 50, True)
  assert smaller[:5] == pieces[:5] and len(smaller) <= 50 and "dog" in smaller and "zebra" not in smaller
  for vocabulary in (pieces, smaller):
    rows = pretrain_bert.tokenize(vocabulary, TEXT, True, 16)
    assert not any(vocabulary.index("[UNK]") in row for row in rows) and len(rows) == len(TEXT)


def test_masked_shares():
  """15 % of the pieces, of these 80 % [MASK], 10 % any piece, 10 % unchanged; padding never."""
  rng = np.random.default_rng(1)
  ids = rng.integers(5, 1000, [400, 100]).astype(np.int32)
  candidates = np.ones(ids.shape, bool)
  candidates[:, 60:] = False
  masked, positions, labels = pretrain_bert.mask_pieces(ids, candidates, 1000, rng)
  assert len(labels) == 400 * 9 and (np.bincount(positions[:, 0]) == 9).all() and positions[:, 1].max() < 60
  at = tuple(positions.T)
  np.testing.assert_array_equal(labels, ids[at])
  restored = masked.copy()
  restored[at] = labels
  np.testing.assert_array_equal(restored, ids)
  assert abs(np.mean(masked[at] == 4) - 0.8) < 0.03 and abs(np.mean(masked[at] == labels) - 0.1) < 0.02


def test_a_pass_has_each_sentence_once_with_little_padding():
  rng = np.random.default_rng(0)
  rows = [np.array([2, *rng.integers(5, 1000, rng.integers(1, 30)), 3], np.int32) for _ in range(1000)]
  batches = pretrain_bert.MaskedBatches(rows, 64, 1000, 0)
  seen, padding = [], []
  for step in range(batches.batches_per_pass):
    ids, mask, positions, labels = batches(step)
    ids[tuple(positions.T)] = labels
    seen += [bytes(row[inside == 1]) for row, inside in zip(ids, mask, strict=True)]
    padding.append(1 - mask.mean())
  assert len(seen) == 960 and set(seen) <= {bytes(row) for row in rows} and len(set(seen)) > 930
  assert np.mean(padding) < 0.1
  again = pretrain_bert.MaskedBatches(rows, 64, 1000, 0)
  for step in (3, 16, 2):  # in any order
    for first, second in zip(batches(step), again(step), strict=True):
      np.testing.assert_array_equal(first, second)


def _names(file):
  with safetensors.safe_open(REPO / file, "numpy") as weights:
    return set(weights.keys())


@pytest.mark.slow
def test_a_resumed_training_is_the_same_to_the_bit(tmp_path, monkeypatch):
  words = ["dog", "cat", "runs", "sleeps", "a", "the", "old", "red"]
  lines = [" ".join(line) for line in itertools.islice(itertools.permutations(words, 4), 0, 1600, 20)]
  (tmp_path / "corpus.txt").write_text("\n".join(lines))
  sizes = {"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "max_seq_length": 16}
  steps = {"num_train_steps": 9, "num_warmup_steps": 2, "train_batch_size": 8, "save_checkpoints_steps": 3}
  rates = {"learning_rate": 0.01, "weight_decay": 0.01, "dropout": 0.1, "seed": 0}
  batches_of = pretrain_bert.MaskedBatches.__call__

  def run(folder, stop_at=None, **changes):
    def batch(self, step):
      if step == stop_at:
        raise KeyboardInterrupt
      return batches_of(self, step)

    others = {"corpus": str(tmp_path / "corpus.txt"), "vocab_file": None, "do_lower_case": True}
    values = {**sizes, **steps, **rates, **others, "output_dir": str(tmp_path / folder), **changes}
    monkeypatch.setattr(pretrain_bert, "FLAGS", types.SimpleNamespace(**values))
    monkeypatch.setattr(pretrain_bert.MaskedBatches, "__call__", batch)
    pretrain_bert.main([])

  run("whole")
  with pytest.raises(KeyboardInterrupt):
    run("resumed", stop_at=5)
  run("resumed")
  weights = [(tmp_path / folder / "model/model.safetensors").read_bytes() for folder in ("whole", "resumed")]
  assert weights[0] == weights[1]
  # The file of `mini`, whose blocks are 4, was written by transformers.
  names = _names("bert_flow_tf/encoder/pretrained/mini/model.safetensors")
  expected = {name for name in names if not re.search(r"\.layer\.[1-3]\.", name)}
  assert _names(tmp_path / "whole/model/model.safetensors") == expected
  encoder = SentenceEncoder.from_pretrained(str(tmp_path / "whole/model"))
  assert encoder.encode(["the old dog"], "avg-first-last", show_progress=False).shape == (1, 8)
  with pytest.raises(SystemExit, match="learning_rate 0"):
    run("whole", learning_rate=0.02)
