"""SNLI and MNLI: pairs labeled contradiction, entailment or neutral."""

import dataclasses
import math

from bert_flow_tf.data.loading import Parts, table_parts
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.data.table import Gold, TaskTable

# The paper's settings of a flow that is fitted on these sentences.
LEARNING_RATE = 2e-5
NUM_TRAIN_EPOCHS = 0.15

# The label of a pair whose annotators did not agree is "-".
_LABELS = dict(zip((*LABELS, "-"), (0.0, 1.0, 2.0, math.nan), strict=True))
_TFDS_COLUMNS = ("premise", "hypothesis", "label")

SNLI = TaskTable(
  name="SNLI",
  gold=Gold("gold_label", _LABELS),
  places=(7, 8, -1),
  tfds="snli",
  tfds_columns=_TFDS_COLUMNS,
  tfds_urls=("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
)
# GLUE hides the labels of MNLI's test files, so the mismatched half of dev is used as test if it exists.
MNLI = TaskTable(
  name="MNLI",
  gold=Gold("gold_label", _LABELS),
  places=(8, 9, -1),
  files={"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("dev_mismatched.tsv", "test_matched.tsv")},
  hidden={"test_matched.tsv": (8, 9)},
  tfds="multi_nli",
  tfds_columns=_TFDS_COLUMNS,
  tfds_splits={"train": "train", "dev": "validation_matched", "test": "validation_mismatched"},
  tfds_urls=("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",),
)
# The sentences of "flow (NLI)" in the paper. The published code trains on all of SNLI.
CORPUS: Parts = {"train": ((MNLI, "train"), (SNLI, "train"), (SNLI, "dev"), (SNLI, "test"))}
ALLNLI_PARTS: Parts = {"train": CORPUS["train"], "dev": ((MNLI, "dev"),)}

# The published code reads the first annotator's label in MNLI's dev split, and the test file of GLUE. Each pair of a
# test split counts as a contradiction, even if the split is used for training.
_MNLI_PUBLISHED = dataclasses.replace(MNLI, places=(8, 9, 10), files=dict(MNLI.files) | {"test": ("test_matched.tsv",)})
_MNLI_DEV = dataclasses.replace(_MNLI_PUBLISHED, gold=Gold("label1", _LABELS))
_SNLI_TEST = dataclasses.replace(SNLI, gold=Gold("gold_label", dict.fromkeys(_LABELS, 0.0)))
MNLI_PUBLISHED: Parts = table_parts(_MNLI_PUBLISHED) | {"dev": ((_MNLI_DEV, "dev"),)}
ALLNLI_PUBLISHED: Parts = {
  "train": ((_MNLI_PUBLISHED, "train"), (SNLI, "train"), (SNLI, "dev"), (_SNLI_TEST, "test")),
  "dev": ((_MNLI_DEV, "dev"),),
  "test": ((_MNLI_PUBLISHED, "test"),),  # which a training on all splits reads, too
}
