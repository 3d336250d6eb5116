"""Tasks and training pairs against the published runner's own processors and records (golden_siamese/facts.json)."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.data.features import SentenceTokenizer
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import training_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from tests.testing import shared


@pytest.fixture(scope="module")
def facts():
  return json.loads(shared("golden_siamese/facts.json").read_text())


@pytest.fixture(scope="module")
def tokenizer(facts, tmp_path_factory):
  vocab_file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
  vocab_file.write_text("".join(f"{piece}\n" for piece in facts["vocabulary"]))
  return SentenceTokenizer(vocab_file)


def rows_of(source, tokenizer):
  """Returns [tokens of a, tokens of b, target] of all rows of `LabelledPairs`, targets as float32."""
  features = next(iter(source.features(tf.data.Dataset.range(len(source)).batch(len(source)))))
  *sides, targets = (feature.numpy() for feature in features)
  texts = [[" ".join(tokenizer.vocab[i] for i in row if i >= 0) for row in side] for side in sides]
  return list(map(list, zip(*texts, targets, strict=True)))


def source_of(chosen, tokenizer, max_seq_length=12):
  encoder = types.SimpleNamespace(tokenizer=tokenizer)
  sides, copies = (chosen.pairs.sentences_a, chosen.pairs.sentences_b), chosen.dupe_factor
  return LabelledPairs(encoder, *sides, chosen.targets, max_seq_length, dupe_factor=copies, random=chosen.random)


def test_order_labels_and_masks_of_num_examples(facts, tokenizer):
  """Pair i of the file has i + 1 words and the label i / 4; without a label the published code has -10 / 5."""
  for case in facts["num_examples"]:
    words = [" ".join(["a"] * (i + 1)) for i in range(10)]
    pairs = SentencePairs(words, words, np.arange(10) / 4)
    task = TaskData(find_task("sts-b"), {"train": pairs, "test": pairs}, "facts.json")
    chosen = training_pairs(task, **case["flags"])
    order = []
    for a, b, target in rows_of(source_of(chosen, tokenizer, 16), tokenizer):
      assert len(a.split()) == len(b.split()) and a.count("[MASK]") == b.count("[MASK]")
      order.append([len(a.split()) - 2, -2.0 if np.isnan(target) else target, a.count("[MASK]")])
    expected = [[words, np.float32(label), masks] for words, label, masks in case["order"]]
    if case["flags"]["num_examples"] == 0:
      # The published code keeps the labels in the records, and multiplies their loss by 0.
      assert all(label == -2.0 for _, label, _ in order)
      order, expected = ([[row[0], row[2]] for row in rows] for rows in (order, expected))
    assert order == expected, case["flags"]


def test_a_sentence_without_words_cannot_be_masked(tokenizer):
  pairs = SentencePairs(["a dog", "a cat"], ["a man", " "], [1.0, 2.0])
  task = TaskData(find_task("sts-b"), {"train": pairs, "test": pairs}, "here")
  assert len(source_of(training_pairs(task), tokenizer)) == 2
  with pytest.raises(TrainingError, match=r"dupe_factor=2: training pair [12] has a sentence without words") as error:
    source_of(training_pairs(task, dupe_factor=2), tokenizer)
  assert error.value.argument == "dupe_factor"
