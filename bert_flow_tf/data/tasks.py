"""The registry of tasks, `find_task` and `load_task`. A row of TASKS is a task."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from bert_flow_tf.data import custom, nli, semeval, stsb
from bert_flow_tf.data.files.input_format import MAX_RECORD_BYTES, record_limit
from bert_flow_tf.data.loading import Parts, load_tables, load_years, table_parts
from bert_flow_tf.data.pairs import SPLITS
from bert_flow_tf.data.table import Gold, TaskTable
from bert_flow_tf.data.task import BINARY, CLASSES, SIMILARITY, Paths, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, setting

_FOLDER = pathlib.Path(__file__).parent
KINDS = (SIMILARITY, BINARY, CLASSES)
# Kinds whose gold can be compared with a similarity.
SCORED = (SIMILARITY, BINARY)


def _table_task(
  name: str,
  description: str,
  table: TaskTable | Parts,
  eval_split: str = "test",
  published: Parts | None = None,
  **fields: Any,
) -> TaskSpec:
  """Returns the row of a task of a `TaskTable`, or of parts of tables; `published`: the parts of the published code."""
  if isinstance(table, TaskTable):
    parts, fields["table"] = table_parts(table), table
  else:
    parts = table
  load = functools.partial(load_tables, parts, published or parts)
  return TaskSpec(name, description, load, eval_split=eval_split, **fields)


def _glue_task(name: str, description: str, gold: Gold, eval_split: str = "dev", **fields: Any) -> TaskSpec:
  """Returns the row of a binary task of GLUE, of which only `eval_split` is required; `fields` are its table's."""
  regression = f"{name}-Regression"  # as the published code calls it
  defaults = {"hidden": {"test.tsv": (1, 2)}, "tfds": f"glue/{name.lower()}", "required": (eval_split,)}
  fields = {**defaults, "other_folders": (regression,), **fields}
  table = TaskTable(name, gold, **fields)
  positive = next(label for label, value in (table.tfds_labels or gold.labels).items() if value == 1)
  return _table_task(
    name, description, table, eval_split, kind=BINARY, aliases=(regression.lower(),), positive=positive
  )


def _nli_task(name: str, description: str, table: TaskTable | Parts, **fields: Any) -> TaskSpec:
  """Returns the row of a task whose gold is a class of entailment."""
  return _table_task(name, description, table, kind=CLASSES, labels=semeval.LABELS, **fields)


def _sts_task(name: str, description: str, years: tuple[semeval.Year, ...]) -> TaskSpec:
  """Returns the row of a task of STS-12 to STS-16, or of their union."""
  return TaskSpec(
    name=name,
    aliases=(name.lower().replace("sts-", "sts"),),
    description=description,
    load=functools.partial(load_years, years),
    scale=semeval.SCALE,
    one_file_for_all_splits=True,
  )


def _packaged_task(name: str, files: dict[str, str], description: str) -> TaskSpec:
  """Returns the row of a task in the package, {split: file}; it needs no paths."""

  def load(spec: TaskSpec, paths: Paths) -> TaskData:
    del paths
    splits = {}
    for split, file in files.items():
      splits[split], _ = custom.read_custom_pairs(_FOLDER / file)
    return TaskData(spec, splits, f"the {name.replace('-', ' ')} that comes with bert_flow_tf")

  return TaskSpec(name, description, load, scale=semeval.SCALE, packaged=True, num_train_epochs=None)


TASKS = (
  # The paper's sets of sentence pairs with a similarity score.
  TaskSpec(
    "STS-B",
    "STS benchmark: 8628 pairs in train, dev and test",
    stsb.load_stsb,
    scale=semeval.SCALE,
    aliases=("stsb",),
  ),
  _table_task(
    "SICK-R",
    "relatedness of SICK: 9927 pairs in train, dev and test",
    semeval.SICK_R,
    scale=semeval.SCALE,
    aliases=("sickr", "sick"),
  ),
  _sts_task("STS-12", "SemEval 2012: 3108 pairs in 5 subsets", semeval.YEARS[:1]),
  _sts_task("STS-13", "SemEval 2013: 1500 pairs in 3 subsets", semeval.YEARS[1:2]),
  _sts_task("STS-14", "SemEval 2014: 3750 pairs in 6 subsets", semeval.YEARS[2:3]),
  _sts_task("STS-15", "SemEval 2015: 3000 pairs in 5 subsets", semeval.YEARS[3:4]),
  _sts_task("STS-16", "SemEval 2016: 1186 pairs in 5 subsets", semeval.YEARS[4:]),
  _sts_task("STS-12-16", "union of STS-12 to STS-16: 12544 pairs", semeval.YEARS),
  # Binary tasks of GLUE.
  _glue_task(
    "QNLI",
    "does a sentence answer a question? 5463 pairs in dev",
    Gold("label", {"entailment": 1.0, "not_entailment": 0.0}),
    columns=("question", "sentence"),
    tfds_columns=("question", "sentence", "label"),
  ),
  _glue_task(
    "MRPC",
    "are two sentences paraphrases? 5801 pairs in train, dev and test",
    Gold("Quality", {"1": 1.0, "0": 0.0}),
    eval_split="test",
    columns=("#1 String", "#2 String"),
    places=(3, 4, 0),
    # The second names are GLUE's. Its script leaves the corpus's own test file, with labels, in the same folder.
    files={
      "train": ("msr-para-train.tsv", "train.tsv"),
      "dev": ("msr-para-val.tsv", "dev.tsv"),
      "test": ("msr-para-test.tsv", "msr_paraphrase_test.txt", "test.tsv"),
    },
    hidden={"test.tsv": (3, 4)},
    tfds_labels={"equivalent": 1.0, "not_equivalent": 0.0},
    # TFDS 4.9 (text/glue.py) makes MRPC from three files.
    tfds_urls=(
      "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_train.txt",
      "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_test.txt",
      "https://firebasestorage.googleapis.com/v0/b/mtl-sentence-representations.appspot.com/o/data%2Fmrpc_dev_ids.tsv"
      "?alt=media&token=ec5c0836-31d5-48f4-b431-7480817f1adc",
    ),
  ),
  _glue_task(
    "QQP",
    "are two questions duplicates? 40430 pairs in dev",
    Gold("is_duplicate", {"1": 1.0, "0": 0.0}),
    columns=("question1", "question2"),
    places=(3, 4, 5),
    tfds_columns=("question1", "question2", "label"),
    tfds_labels={"duplicate": 1.0, "not_duplicate": 0.0},
  ),
  _glue_task(
    "RTE",
    "does a text entail a sentence? 277 pairs in dev",
    Gold("label", {"entailment": 1.0, "not_entailment": 0.0}),
  ),
  _packaged_task(
    "sample",
    {split: f"sample/{split}.tsv" for split in SPLITS},
    "1600 pairs in the package, to try the program without a download",
  ),
  _packaged_task(
    "hard-sample",
    {"test": "hard_sample/sample.tsv"},
    "360 pairs in the package, hard on purpose: shared words, another meaning",
  ),
  # A user's own file.
  TaskSpec(
    name="custom",
    description="your own file, the path in data_dir: sentences, pairs, or pairs with a score",
    load=custom.load_custom,
    # Replaced by "test" if the file has scores.
    eval_split=None,
    num_train_epochs=None,
  ),
  # Classes of entailment, for the siamese runner.
  _nli_task(
    "ALLNLI",
    "SNLI and MNLI: about 960000 labeled pairs in train, MNLI's dev",
    nli.ALLNLI_PARTS,
    eval_split="dev",
    published=nli.ALLNLI_PUBLISHED,
  ),
  _nli_task(
    "MNLI",
    "labeled pairs; test is the mismatched half of dev",
    nli.MNLI,
    eval_split="dev",
    published=nli.MNLI_PUBLISHED,
  ),
  _nli_task("SNLI", "labeled pairs in train, dev and test", nli.SNLI),
  _nli_task(
    "SICK-E", "entailment of SICK: 9927 labeled pairs in train, dev and test", semeval.SICK_E, aliases=("sicke",)
  ),
)

# The paper's seven sets of sentence pairs with a similarity score, in the order of its tables.
STS_TASKS = ("STS-B", "SICK-R", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16")


def task_names(kinds: Iterable[str] = SCORED) -> list[str]:
  """Returns the names of the tasks of some kinds."""
  return [spec.name for spec in TASKS if spec.kind in kinds]


def find_task(name: str, kinds: Iterable[str] = SCORED) -> TaskSpec:
  """Returns the task of some kinds with a name or alias, in any case; raises ConfigError for an unknown name."""
  for spec in TASKS:
    if spec.kind in kinds and str(name).lower() in (spec.name.lower(), *spec.aliases):
      return spec
  hint = ""
  if os.path.isfile(os.path.expanduser(str(name))):
    hint = f"; for your own file give task=custom and data_dir={name}"
  raise ConfigError(f"task={name}: expected one of {', '.join(task_names(kinds))}{hint}", argument="task")


@dataclasses.dataclass(frozen=True)
class DataSettings(Settings):
  """The task and the location of its files."""

  # An experiment's name begins with the task; the same task from another folder is the same data.
  task: str = setting("sample", f"One of {', '.join(task_names())}.", named=False, alias="task_name")
  data_dir: str | None = setting(None, "Folder of data files, or the task's folder in it: docs/data.md.", named=False)
  tfds_data_dir: str | None = setting(
    None, "Folder of TensorFlow Datasets, used if data_dir is not given.", named=False
  )
  stsb_gold: str | None = setting(
    None, "The benchmark's sts-test.csv, for STS-B from TensorFlow Datasets.", named=False
  )
  columns: tuple[str, ...] | None = setting(
    None,
    "Columns of your own file: two sentences and their score, as question1,question2,is_duplicate; two sentences; or "
    "one. Names, or in TSV and CSV numbers from 1. Default: sentence1, sentence2 and score; or sentence, or text.",
    named=False,
  )
  header: bool | None = setting(
    None, "Whether the first line of your own TSV or CSV names its columns. Default: by the names.", named=False
  )
  max_record_bytes: int = record_limit()

  @property
  def own_file(self) -> dict[str, Any]:
    """Arguments of `load_task` about the file of `custom`."""
    return {"max_record_bytes": self.max_record_bytes, "columns": self.columns, "header": self.header}


def load_task(
  name: str,
  data_dir: str | os.PathLike | None = None,
  tfds_data_dir: str | os.PathLike | None = None,
  stsb_gold: str | os.PathLike | None = None,
  kinds: Iterable[str] = SCORED,
  as_published: bool = False,
  max_record_bytes: int = MAX_RECORD_BYTES,
  columns: Sequence[str | int] | str | None = None,
  header: bool | None = None,
) -> TaskData:
  """Loads a task's sentence pairs.

  Args:
    name: a task's name or alias.
    data_dir: folder of downloaded files in the layout of SentEval or GLUE, or the task's folder in it
      (docs/data.md); for `custom` the file; None for TensorFlow Datasets. `sample` and
      `hard-sample` ignore it.
    tfds_data_dir: folder of TensorFlow Datasets; None for its default (TFDS_DATA_DIR, ~/tensorflow_datasets).
    stsb_gold: the STS benchmark's sts-test.csv, for STS-B from TensorFlow Datasets; None to download it.
    kinds: the allowed kinds of task; KINDS for all.
    as_published: whether labels are read as by the published code: every pair of a test split and of STS-12 to STS-16
      has the label 0 or contradiction in a training, and pairs of MNLI's dev split have the first annotator's label in
      place of the agreed label.
    max_record_bytes: longest line or record of the file of `custom`; a longer one is an error.
    columns: columns of the file of `custom`, as ("question1", "question2", "is_duplicate"): two sentences and their
      score, two sentences, or one. Names, or in TSV and CSV numbers from 1; or all of them with commas between. Without
      them, sentence1, sentence2 and score, or sentence, or text (docs/commands.md).
    header: whether the first line of a TSV or CSV of `custom` has the names of its columns; None: if they are known.

  Returns:
    TaskData.

  Raises:
    ConfigError: the task is unknown, or an argument is empty, missing or contradicts another.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  spec = find_task(name, kinds)
  for argument, value in (("columns", columns), ("header", header)):
    if value is not None and spec.name != "custom":
      raise ConfigError(f"{argument}: only the task custom has columns of your own, not {spec.name}", argument)
  if isinstance(columns, str):
    columns = columns.split(",")
  paths = Paths(
    data_dir, tfds_data_dir, stsb_gold, as_published, max_record_bytes, tuple(map(str, columns or ())), header
  )
  if stsb_gold is not None and spec.kind == CLASSES:
    raise ConfigError(f"stsb_gold={stsb_gold}: only STS-B uses it, {spec.name} does not", argument="stsb_gold")
  return dataclasses.replace(spec.load(spec, paths), as_published=as_published)
