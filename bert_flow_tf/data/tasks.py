"""The tasks by name: one TaskSpec row each, and `load_task`."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable

from bert_flow_tf.data import custom, glue, sick, sick_files, sts, sts_files, stsb
from bert_flow_tf.data.pairs import TaskData
from bert_flow_tf.data.readers import read_scored_tsv
from bert_flow_tf.data.sources import Loaded, Paths
from bert_flow_tf.errors import ConfigError

_SAMPLE = pathlib.Path(__file__).parent / "sample" / "sample.tsv"


@dataclasses.dataclass(frozen=True)
class TaskSpec:
  """What the program knows of a task.

  Attributes:
    name: the spelling in results and messages.
    description: one line for people.
    load: gives the splits.
    scale: the lowest and the highest gold score.
    eval_split: the split that similarities are compared with gold on; None where there is no gold.
    metric: "correlation" of similarity and gold; or "auc", where gold is 1 for a positive pair and 0 for another.
    positive: what a gold of 1 means, for "auc".
    one_file_for_all_splits: the published code reads the task's only file as train, dev and test alike.
    aliases: further spellings; upper and lower case never matter.
    num_train_epochs: passes over the pairs that fit a flow on them, unless the user says otherwise.
  """

  name: str
  description: str
  load: Callable[[Paths], Loaded]
  scale: tuple[float, float]
  eval_split: str | None
  metric: str = "correlation"
  positive: str | None = None
  one_file_for_all_splits: bool = False
  aliases: tuple[str, ...] = ()
  num_train_epochs: float = 1.0


def _load_sample(paths):
  """Reads the sample that is part of the package; the paths do not concern it."""
  del paths
  return Loaded({"test": read_scored_tsv(_SAMPLE, scale=(0.0, 5.0))}, "the sample that comes with bert_flow_tf")


def _sts_task(name, description, years):
  """The row of a SemEval task, or of several as one."""
  return TaskSpec(
    name=name,
    aliases=(name.lower().replace("sts-", "sts"),),
    description=description,
    load=functools.partial(sts.load, tuple(years)),
    scale=sts_files.SCALE,
    eval_split="test",
    one_file_for_all_splits=True,
  )


def _glue_task(task, description):
  """The row of a task of labelled pairs; also under the original's name, `qnli-regression`."""
  return TaskSpec(
    name=task.name,
    aliases=(f"{task.name.lower()}-regression",),
    description=description,
    load=functools.partial(glue.load, task),
    scale=glue.SCALE,
    eval_split=task.eval_split,
    metric="auc",
    positive=task.positive,
  )


TASKS = (
  TaskSpec(
    name="STS-B",
    aliases=("stsb",),
    description="STS benchmark: 8628 pairs in train, dev and test",
    load=stsb.load,
    scale=stsb.SCALE,
    eval_split="test",
  ),
  TaskSpec(
    name="SICK-R",
    aliases=("sickr", "sick"),
    description="relatedness of SICK: 9927 pairs in train, dev and test",
    load=sick.load,
    scale=sick_files.SCALE,
    eval_split="test",
  ),
  *(
    _sts_task(year.name, f"SemEval 20{year.name[-2:]}: {year.size} pairs in {len(year.subsets)} subsets", [year])
    for year in sts_files.YEARS
  ),
  _sts_task("STS-12-16", "STS-12 to STS-16 as one: 12544 pairs", sts_files.YEARS),
  _glue_task(glue.QNLI, "whether a sentence answers a question: 5463 pairs in dev"),
  _glue_task(glue.MRPC, "whether two sentences are paraphrases: 5801 pairs in train, dev and test"),
  _glue_task(glue.QQP, "whether two questions are duplicates: 40430 pairs in dev"),
  TaskSpec(
    name="sample",
    description="a few hundred pairs inside the package, to try the program without any download",
    load=_load_sample,
    scale=(0.0, 5.0),
    eval_split="test",
    # 360 pairs make 11 steps an epoch; 20 epochs make about as many steps as one epoch of STS-B. Chosen on 360 pairs
    # of STS-B, where the gain levels off between 10 and 40 epochs, not on the sample.
    num_train_epochs=20.0,
  ),
  TaskSpec(
    name="custom",
    description="a file of one's own, named by --data_dir: sentences, pairs, or pairs with a score",
    load=custom.load,
    scale=(0.0, 1.0),
    # With scores in the file, "test" and the scale that they have.
    eval_split=None,
  ),
)

# The paper's seven sets of sentence pairs with a similarity score, in the order of its tables.
STS_TASKS = ("STS-B", "SICK-R", *(year.name for year in sts_files.YEARS))


def find_task(name: str) -> TaskSpec:
  """Returns the task of this name or alias, in upper or lower case.

  Raises:
    ConfigError: there is no such task; the message lists those there are.
  """
  for spec in TASKS:
    if str(name).lower() in (spelling.lower() for spelling in (spec.name, *spec.aliases)):
      return spec
  raise ConfigError(f"unknown task {name!r}; allowed are {', '.join(spec.name for spec in TASKS)}")


def load_task(
  name: str,
  data_dir: str | os.PathLike | None = None,
  tfds_data_dir: str | os.PathLike | None = None,
  stsb_gold: str | os.PathLike | None = None,
) -> TaskData:
  """Loads a task's sentence pairs.

  Args:
    name: a task's name or alias.
    data_dir: folder of downloaded files, in SentEval's and GLUE's layout (for STS-B:
      STS/STSBenchmark/sts-{train,dev,test}.csv below it); for `custom` the file itself; None to take the task
      from TensorFlow Datasets. Of no concern to `sample`.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default (TFDS_DATA_DIR, ~/tensorflow_datasets).
    stsb_gold: the STS benchmark's sts-test.csv, for STS-B from TensorFlow Datasets; None to fetch it.

  Returns:
    TaskData.

  Raises:
    ConfigError: the task is unknown, or an argument is empty, missing or contradicts another.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  spec = find_task(name)
  paths = {"data_dir": data_dir, "tfds_data_dir": tfds_data_dir, "stsb_gold": stsb_gold}
  for flag, path in paths.items():
    # As from --data_dir=$UNSET; a path of "" would be the working directory.
    if path is not None and not os.fspath(path):
      raise ConfigError(f"--{flag} is empty; expected a path, or leave the flag out")
  loaded = spec.load(Paths(**{flag: path and os.path.expanduser(path) for flag, path in paths.items()}))
  spec = dataclasses.replace(spec, **loaded.spec_changes) if loaded.spec_changes else spec
  return TaskData(spec=spec, splits=loaded.splits, source=loaded.source)
