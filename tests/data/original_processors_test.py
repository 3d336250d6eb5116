"""Tasks and training pairs against the published runner's own processors and records (golden_siamese/facts.json)."""

import json
import types
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import training_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import KINDS, find_task, load_task
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.optimizer import num_steps, num_warmup_steps
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from tests.testing import rejected, shared


@pytest.fixture(scope="module")
def facts():
  return json.loads(shared("golden_siamese/facts.json").read_text())


@pytest.fixture(scope="module")
def tokenizer(facts, tmp_path_factory):
  vocab_file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
  vocab_file.write_text("".join(f"{piece}\n" for piece in facts["vocabulary"]))
  return SentenceTokenizer(vocab_file)


# {processor: names of its task}
PROCESSORS = {
  "StsbProcessor": ("STS-B", "sts-b"),
  "SickRProcessor": ("SICK-R", "sick-r"),
  "Sts_12_16_Processor": ("sts-12", "STS-12", "sts-16", "sts-12-16"),
  "QqpProcessor": ("QQP", "qqp"),
  "MrpcRegressionProcessor": ("MRPC-Regression", "mrpc-regression"),
  "QnliRegressionProcessor": ("QNLI-Regression", "qnli-regression"),
  "MnliProcessor": ("MNLI", "mnli"),
  "SnliTrainProcessor": ("SNLI",),
  "SnliDevTestProcessor": ("SNLI",),
}


WHOLE_RECORD = "one whole record (max_seq_length 8)"


def write(folder, files):
  folder.mkdir(parents=True, exist_ok=True)
  for name, text in files.items():
    (folder / name).write_text(text)
  return folder


def label_of(label, task, labels):
  """Returns the number of a label in facts.json, unscaled."""
  return float(labels.index(label)) if task.labels else float(label)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_texts_labels_and_order_of_the_processors(facts, tmp_path, processor):
  expected = facts["processors"][processor]
  folder = write(tmp_path / "GLUE/task", expected["files"])
  for name, trailing in ((name, slash) for name in PROCESSORS[processor] for slash in ("", "/")):
    task, plain = (load_task(name, f"{folder}{trailing}", kinds=KINDS, as_published=p) for p in (True, False))
    for split in ("train", "dev", "test"):
      assert set(expected[split]["opened"]) <= set(expected["files"])
      examples = [(a, b, label_of(label, task, expected["labels"])) for _, a, b, label in expected[split]["examples"]]
      pairs = training_pairs(task, [split])
      scale = 1.0 if task.labels else task.spec.scale[1]
      rows = zip(pairs.pairs.sentences_a, pairs.pairs.sentences_b, scale * pairs.targets, strict=True)
      order = list(range(len(examples)))
      Random(1234).shuffle(order)
      assert list(rows) == [examples[i] for i in order]
      assert list(task.split(split).sentences_a) == [a for a, _, _ in examples]
      assert plain.split(split).sentences_a == task.split(split).sentences_a
      if task.labels:
        assert task.labels == tuple(expected["labels"])


def test_labels_of_the_files_by_default(facts, tmp_path):
  """Returns the labels that the published code does not read, and none where a file has none."""
  labels = {
    "StsbProcessor": [None] * 3,
    "SickRProcessor": [2.6, 4.0],
    "Sts_12_16_Processor": [0.0, 5.0, 2.6],
    "QqpProcessor": [None] * 2,
    "QnliRegressionProcessor": [None] * 2,
    "MnliProcessor": [None] * 2,
    "SnliDevTestProcessor": [1.0, 2.0],
  }
  for processor, expected in labels.items():
    folder = write(tmp_path / processor, facts["processors"][processor]["files"])
    task = load_task(PROCESSORS[processor][0], folder, kinds=KINDS)
    scores = [None if np.isnan(score) else score for score in task.split("test").scores]
    assert scores == expected, processor
  mnli = load_task("MNLI", tmp_path / "MnliProcessor", kinds=KINDS)
  assert mnli.splits["dev"].scores.tolist() == [1.0, 2.0, 0.0]  # gold_label, the last column


def test_records(facts, tokenizer, tmp_path):
  """Compares tokens, masks, scaled labels and order with the record files that the published `main` wrote."""
  processors = {name.lower(): processor for processor, names in PROCESSORS.items() for name in names}
  for case, record in facts["records"].items():
    if case == WHOLE_RECORD:
      continue
    flags = dict(record["flags"])
    name = flags.pop("task_name")
    if name == "ALLNLI":
      write(tmp_path / case / "MNLI", facts["processors"]["MnliProcessor"]["files"])
      write(tmp_path / case / "SNLI", facts["processors"]["SnliDevTestProcessor"]["files"])
      folder = tmp_path / case / "ALLNLI"
    else:
      folder = write(tmp_path / case, facts["processors"][processors[name.lower()]]["files"])
    task = load_task(name, folder, kinds=KINDS, as_published=True)
    batch, length = flags.pop("train_batch_size"), flags.pop("max_seq_length")
    training = training_pairs(task, use_full=flags.pop("use_full_for_training", 0) == 1, **flags)
    (rows,) = (rows for file, rows in record.items() if file.endswith(".tf_record"))
    source = source_of(training, tokenizer, length)
    assert rows_of(source, tokenizer) == [[row["a"], row["b"], np.float32(row["label_ids"])] for row in rows], case
    steps = num_steps(source.num_pairs, batch, 3.0)
    model_fn = record["model_fn"]
    warmup_steps = num_warmup_steps(steps, 0.1)
    assert (steps, warmup_steps) == (model_fn["num_train_steps"], model_fn["num_warmup_steps"]), case


def test_one_whole_record(facts, tokenizer, tmp_path):
  folder = write(tmp_path, facts["processors"]["StsbProcessor"]["files"])
  source = source_of(training_pairs(load_task("STS-B", folder)), tokenizer, 8, pad_to_max=True)
  *sides, targets = next(iter(source.features(tf.data.Dataset.range(1).batch(1))))
  record = facts["records"][WHOLE_RECORD]
  assert targets.numpy().tolist() == record["label_ids"]
  for side, ids in zip("ab", sides, strict=True):
    ids, mask = (array.numpy()[0].tolist() for array in source.tokens(ids))
    assert (ids, mask) == (record[f"input_ids_{side}"], record[f"input_mask_{side}"])


def test_steps(facts):
  """Compares the numbers of steps with those that the published `main` asks the Estimator for."""
  for case in facts["steps"]:
    flags = {"train_batch_size": 32, "num_train_epochs": 3.0, "warmup_proportion": 0.1, **case["flags"]}
    sizes = {split: SentencePairs.without_gold(["a"] * n, ["a"] * n) for split, n in case["pairs"].items()}
    task = TaskData(find_task("STS-B"), sizes, "facts.json")
    wanted = {key: flags[key] for key in ("num_examples", "dupe_factor") if key in flags}
    training = training_pairs(task, use_full=flags.get("use_full_for_training") == 1, **wanted)
    expected = case["model_fn"]["num_train_steps"]
    if not expected:
      with pytest.raises(ConfigError):
        num_steps(len(training.pairs), flags["train_batch_size"], flags["num_train_epochs"])
      continue
    steps = num_steps(len(training.pairs), flags["train_batch_size"], flags["num_train_epochs"])
    warmup_steps = num_warmup_steps(steps, flags["warmup_proportion"])
    assert (steps, warmup_steps) == (expected, case["model_fn"]["num_warmup_steps"])


def rows_of(source, tokenizer):
  """Returns [tokens of a, tokens of b, target] of all rows of `LabeledPairs`, targets as float32."""
  features = next(iter(source.features(tf.data.Dataset.range(len(source)).batch(len(source)))))
  *sides, targets = (feature.numpy() for feature in features)
  texts = [[" ".join(tokenizer.vocab[i] for i in row if i >= 0) for row in side] for side in sides]
  return list(map(list, zip(*texts, targets, strict=True)))


def source_of(training, tokenizer, max_seq_length=12, **arguments):
  encoder = types.SimpleNamespace(tokenizer=tokenizer)
  arguments |= {"dupe_factor": training.dupe_factor, "random": training.random}
  return LabeledPairs(
    encoder, training.pairs.sentences_a, training.pairs.sentences_b, training.targets, max_seq_length, **arguments
  )


def test_order_labels_and_masks_of_num_examples(facts, tokenizer):
  """Pair i of the file has i + 1 words and the label i / 4; without a label the published code has -10 / 5."""
  for case in facts["num_examples"]:
    words = [" ".join(["a"] * (i + 1)) for i in range(10)]
    pairs = SentencePairs(words, words, np.arange(10) / 4)
    task = TaskData(find_task("sts-b"), {"train": pairs, "test": pairs}, "facts.json")
    training = training_pairs(task, **case["flags"])
    order = []
    for a, b, target in rows_of(source_of(training, tokenizer, 16), tokenizer):
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
  with rejected(TrainingError, "dupe_factor", match="pair [12] "):
    source_of(training_pairs(task, dupe_factor=2), tokenizer)


def test_labels_of_test_are_not_trained_on():
  """With all splits, test's pairs have no label; the published code reads them as 0."""
  pairs = {name: SentencePairs([name], [name], [5.0]) for name in ("train", "dev", "test")}
  for as_published, expected in ((False, [1.0, 1.0, np.nan]), (True, [1.0, 1.0, 0.0])):
    task = TaskData(find_task("STS-B"), pairs, "this test", as_published=as_published)
    training = training_pairs(task, use_full=True)
    targets = dict(zip(training.pairs.sentences_a, training.targets, strict=True))
    np.testing.assert_array_equal([targets[name] for name in pairs], expected)


def test_all_splits_of_a_task_with_test_alone():
  """Without labels they fit a flow; with labels the message names the flag that asks for them."""
  pairs = SentencePairs(["a", "b"], ["c", "d"], [5.0, 1.0])
  task = TaskData(find_task("STS-B"), {"test": pairs}, "this test")
  training = training_pairs(task, use_full=True, num_examples=0)
  assert sorted(training.pairs.sentences_a) == ["a", "b"] and training.labeled == 0
  with rejected(ConfigError, "use_full_for_training"):
    training_pairs(task, use_full=True)
