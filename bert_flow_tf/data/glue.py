"""QNLI, MRPC and QQP: pairs labeled 0 or 1, from GLUE's files or from TFDS."""

import dataclasses

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.lines import count
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import label_reader, read_table
from bert_flow_tf.data.sources import required_folder
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError

# Some lines of GLUE's train.tsv of QNLI and QQP are incomplete; the published code and TFDS leave them out.
_INCOMPLETE_LINES_ALLOWED = 0.001


@dataclasses.dataclass(frozen=True)
class GlueTask:
  """Location and labels of a task.

  Attributes:
    name: the task's name.
    config: its name in TFDS, after "glue/".
    files: {split: file}, in the folder data_dir/name.
    columns: names of the two columns of sentences and of the label in the files.
    text: names of the sentences in TFDS.
    labels: {label in the files: 1.0 for a positive pair, else 0.0}.
    positive: the positive label in TFDS.
    eval_split: the evaluated split of the files, which must have labels.
    hidden: splits whose labels GLUE hides; their files have no label column.
    tfds_eval_split: the evaluated split in TFDS, which hides more labels.
    urls: addresses that TFDS downloads from; empty for the configuration's data_url.
  """

  name: str
  config: str
  files: dict[str, str]
  columns: tuple[str, str, str]
  text: tuple[str, str]
  labels: dict[str, float]
  positive: str
  eval_split: str
  hidden: tuple[str, ...]
  tfds_eval_split: str = "dev"
  urls: tuple[str, ...] = ()

  @property
  def expected(self) -> str:
    """Description of the files below data_dir, for errors."""
    return f"{self.name}/{{{','.join(self.files.values())}}}"


_GLUE_FILES = {split: f"{split}.tsv" for split in ("train", "dev", "test")}
QNLI = GlueTask(
  name="QNLI",
  config="qnli",
  files=_GLUE_FILES,
  columns=("question", "sentence", "label"),
  text=("question", "sentence"),
  labels={"entailment": 1.0, "not_entailment": 0.0},
  positive="entailment",
  eval_split="dev",
  hidden=("test",),
)
QQP = GlueTask(
  name="QQP",
  config="qqp",
  files=_GLUE_FILES,
  columns=("question1", "question2", "is_duplicate"),
  text=("question1", "question2"),
  labels={"1": 1.0, "0": 0.0},
  positive="duplicate",
  eval_split="dev",
  hidden=("test",),
)
MRPC = GlueTask(
  name="MRPC",
  config="mrpc",
  files={"train": "msr-para-train.tsv", "dev": "msr-para-val.tsv", "test": "msr-para-test.tsv"},
  columns=("#1 String", "#2 String", "Quality"),
  text=("sentence1", "sentence2"),
  labels={"1": 1.0, "0": 0.0},
  positive="equivalent",
  eval_split="test",
  hidden=(),
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
  return _load_files(task, paths.data_dir) if paths.data_dir is not None else _load_tfds(task, paths.tfds_data_dir)


def _load_files(task: GlueTask, data_dir: str) -> Loaded:
  """Reads the files below data_dir; only the evaluated split is required."""
  folder = required_folder(data_dir, task.name, [task.files[task.eval_split]], task.expected)
  splits, notes = {}, []
  for split, file in task.files.items():
    if not (folder / file).exists():
      notes.append(f"without {file}, which is not there")
      continue
    score = None if split in task.hidden else (task.columns[2], label_reader(task.labels))
    splits[split], broken = read_table(folder / file, task.columns[:2], score, _INCOMPLETE_LINES_ALLOWED)
    if broken:
      notes.append(f"{count(broken, 'malformed line')} of {file} left out")
  return Loaded(splits, ", ".join([f"{task.name}'s files in {folder}", *notes]))


def _load_tfds(task: GlueTask, tfds_data_dir: str | None) -> Loaded:
  """Loads train, dev and test from TensorFlow Datasets, with NaN for a hidden label."""
  urls = {"urls": lambda builder: task.urls} if task.urls else {}
  builder = tfds_source.prepared(task.name, f"glue/{task.config}", tfds_data_dir, task.expected, **urls)
  positive = builder.info.features["label"].str2int(task.positive)
  splits = {}
  for split, stored in tfds_source.SPLITS.items():
    a, b, labels = tfds_source.read_split(builder, stored, task.text, "label")
    hidden = np.flatnonzero(labels < 0)
    if split == task.tfds_eval_split and hidden.size:
      raise DataError(
        f"glue/{task.config}, {stored} split, row {hidden[0] + 1}: the label is {labels[hidden[0]]}, which GLUE "
        "uses for hidden labels; the split cannot be evaluated"
      )
    splits[split] = SentencePairs(a, b, np.where(labels < 0, np.nan, labels == positive))
  return Loaded(splits, tfds_source.source_of(builder), {"eval_split": task.tfds_eval_split})
