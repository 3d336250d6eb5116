"""QNLI, MRPC and QQP: pairs labeled 0 or 1, from GLUE's files or from TFDS."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import label_reader, left_out, read_table
from bert_flow_tf.data.sources import first_with, missing_file
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError


@dataclasses.dataclass(frozen=True)
class GlueTask:
  """Location and labels of a task.

  Attributes:
    name: the task's name.
    config: its name in TFDS, after "glue/".
    files: {split: file}, in the folder data_dir/name or in data_dir itself.
    columns: names of the two columns of sentences and of the label in the files.
    places: their positions in the published code.
    text: names of the sentences in TFDS.
    labels: {label in the files: 1.0 for a positive pair, else 0.0}.
    positive: the positive label in TFDS.
    eval_split: the evaluated split; dev if its labels are hidden.
    test_places: positions of the sentences in test.tsv, if they are others.
    other_files: {split: files that are read if the one in `files` is missing}.
    urls: addresses that TFDS downloads from; empty for the configuration's data_url.
  """

  name: str
  config: str
  files: dict[str, str]
  columns: tuple[str, str, str]
  places: tuple[int, int, int]
  text: tuple[str, str]
  labels: dict[str, float]
  positive: str
  eval_split: str
  test_places: tuple[int, ...] = ()
  other_files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
  urls: tuple[str, ...] = ()

  @property
  def expected(self) -> str:
    """Description of the files below data_dir, for errors."""
    return f"{self.name}/{{{','.join(self.files.values())}}}"

  @property
  def folders(self) -> tuple[str, ...]:
    """Folders to search: the task's in GLUE's layout, under its published name too, or data_dir itself."""
    return (self.name, f"{self.name}-Regression", "")

  def names(self, split: str) -> tuple[str, ...]:
    """Returns the names of a split's file; the first that exists is read."""
    return (self.files[split], *self.other_files.get(split, ()))


# GLUE's file of test, whose labels it hides.
_HIDDEN_FILE = "test.tsv"
_GLUE_FILES = {split: f"{split}.tsv" for split in SPLITS}
QNLI = GlueTask(
  name="QNLI",
  config="qnli",
  files=_GLUE_FILES,
  columns=("question", "sentence", "label"),
  places=(1, 2, -1),
  text=("question", "sentence"),
  labels={"entailment": 1.0, "not_entailment": 0.0},
  positive="entailment",
  eval_split="dev",
)
QQP = GlueTask(
  name="QQP",
  config="qqp",
  files=_GLUE_FILES,
  columns=("question1", "question2", "is_duplicate"),
  places=(3, 4, 5),
  text=("question1", "question2"),
  labels={"1": 1.0, "0": 0.0},
  positive="duplicate",
  eval_split="dev",
  test_places=(1, 2),
)
MRPC = GlueTask(
  name="MRPC",
  config="mrpc",
  files={"train": "msr-para-train.tsv", "dev": "msr-para-val.tsv", "test": "msr-para-test.tsv"},
  columns=("#1 String", "#2 String", "Quality"),
  places=(3, 4, 0),
  text=("sentence1", "sentence2"),
  labels={"1": 1.0, "0": 0.0},
  positive="equivalent",
  eval_split="test",
  # GLUE's files. Its script leaves the corpus's own test file, with labels, in the same folder.
  other_files={"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("msr_paraphrase_test.txt", _HIDDEN_FILE)},
  # As in TFDS 4.9, text/glue.py: MRPC consists of three files.
  urls=(
    "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_train.txt",
    "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_test.txt",
    "https://firebasestorage.googleapis.com/v0/b/mtl-sentence-representations.appspot.com/o/data%2Fmrpc_dev_ids.tsv"
    "?alt=media&token=ec5c0836-31d5-48f4-b431-7480817f1adc",
  ),
)


def load(task: GlueTask, paths: Paths) -> Loaded:
  """Loads the splits that exist, with gold 0 or 1, or without gold if GLUE hides the labels.

  Raises:
    DataError: a file is malformed, the evaluated split is missing, or the data cannot be downloaded.
  """
  if paths.data_dir is not None:
    splits, source = _load_files(task, paths.data_dir)
  else:
    splits, source = _load_tfds(task, paths.tfds_data_dir)
  if _is_hidden(splits[task.eval_split]) and "dev" in splits:
    return Loaded(splits, f"{source}, evaluated on dev, because {task.eval_split} has no gold", {"eval_split": "dev"})
  return Loaded(splits, source)


def _is_hidden(pairs: SentencePairs) -> bool:
  return bool(np.isnan(pairs.scores).all())


def _load_files(task: GlueTask, data_dir: str) -> tuple[dict[str, SentencePairs], str]:
  """Reads the files below data_dir; only the evaluated split is required."""
  folder = first_with(data_dir, task.folders, *task.names(task.eval_split))
  if folder is None:
    raise missing_file(data_dir, task.name, task.files[task.eval_split], task.expected)
  score = (task.columns[2], label_reader(task.labels))
  splits, notes = {}, [f"{task.name}'s files in {folder}"]
  for split in task.files:
    file = next((name for name in task.names(split) if (folder / name).exists()), None)
    if file is None:
      notes.append(f"without {task.files[split]}, which is missing")
      continue
    hidden = file == _HIDDEN_FILE
    places = (hidden and task.test_places) or task.places
    splits[split], number = read_table(folder / file, task.columns[:2], score, places, hidden)
    notes += left_out(number, file)
  return splits, ", ".join(notes)


def _load_tfds(task: GlueTask, tfds_data_dir: str | None) -> tuple[dict[str, SentencePairs], str]:
  """Loads train, dev and test from TensorFlow Datasets, with NaN for a hidden label."""
  urls = {"urls": lambda builder: task.urls} if task.urls else {}
  builder = tfds_source.prepared(task.name, f"glue/{task.config}", tfds_data_dir, task.expected, **urls)
  positive = builder.info.features["label"].str2int(task.positive)
  splits = {}
  for split, stored in tfds_source.SPLITS.items():
    a, b, labels = tfds_source.read_split(builder, stored, task.text, "label")
    hidden = np.flatnonzero(labels < 0)
    if split == "dev" and hidden.size:
      raise DataError(
        f"glue/{task.config}, {stored} split, row {hidden[0] + 1}: the label is {labels[hidden[0]]}, which GLUE "
        "uses for hidden labels; the split cannot be evaluated"
      )
    splits[split] = SentencePairs(a, b, np.where(labels < 0, np.nan, labels == positive))
  return splits, tfds_source.source_of(builder)
