"""Where SNLI and MNLI are: files in GLUE's layout, and TensorFlow Datasets."""

import dataclasses
from collections.abc import Mapping

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SPLITS

# Some lines are cut short in the files that go round.
INCOMPLETE_LINES_ALLOWED = 0.001


@dataclasses.dataclass(frozen=True)
class NliSet:
  """One data set.

  Attributes:
    name: what messages call it.
    files: {split: file below data_dir}.
    tfds: its name in TensorFlow Datasets.
    url: what TensorFlow Datasets downloads.
    tfds_splits: {split: its name there}.
  """

  name: str
  files: Mapping[str, str]
  tfds: str
  url: str
  tfds_splits: Mapping[str, str]

  def prepare(self, tfds_data_dir, expected):
    """Its builder, the data prepared.

    Args:
      tfds_data_dir: TensorFlow Datasets' folder; None for its default.
      expected: files that a data_dir in its place would have to hold, for messages.

    Raises:
      DataError: it cannot be downloaded or prepared.
    """
    offline = f"offline, pass --data_dir=FOLDER that holds {expected}, in GLUE's layout"
    return tfds_source.prepared(self.name, self.tfds, tfds_data_dir, offline, urls=lambda _: [self.url])


SNLI = NliSet(
  "SNLI",
  {split: f"SNLI/{split}.tsv" for split in SPLITS},
  "snli",
  "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
  {"train": "train", "dev": "validation", "test": "test"},
)
# GLUE hides the labels of MNLI's test files: the mismatched half of dev stands for test here.
MNLI = NliSet(
  "MNLI",
  {"train": "MNLI/train.tsv", "dev": "MNLI/dev_matched.tsv", "test": "MNLI/dev_mismatched.tsv"},
  "multi_nli",
  "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
  {"train": "train", "dev": "validation_matched", "test": "validation_mismatched"},
)
