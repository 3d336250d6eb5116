"""The tasks by name: one TaskSpec row each, and `load_task`."""

import dataclasses
import os
import pathlib
from collections.abc import Callable

from bert_flow_tf.data import stsb
from bert_flow_tf.data.pairs import SentencePairs, TaskData
from bert_flow_tf.data.readers import read_scored_tsv
from bert_flow_tf.errors import ConfigError

_SAMPLE = pathlib.Path(__file__).parent / "sample" / "sample.tsv"

# (data_dir, tfds_data_dir, stsb_gold) -> (splits by name, where they came from).
Loader = Callable[[str | None, str | None, str | None], tuple[dict[str, SentencePairs], str]]


@dataclasses.dataclass(frozen=True)
class TaskSpec:
  """What the program knows of a task.

  Attributes:
    name: the spelling in results and messages.
    description: one line for people.
    load: gives the splits.
    scale: the lowest and the highest gold score.
    eval_split: the split that similarities are correlated on.
    aliases: further spellings; upper and lower case never matter.
    num_train_epochs: passes over the pairs that fit a flow on them, unless the user says otherwise.
  """

  name: str
  description: str
  load: Loader
  scale: tuple[float, float]
  eval_split: str
  aliases: tuple[str, ...] = ()
  num_train_epochs: float = 1.0


def _load_sample(data_dir, tfds_data_dir, stsb_gold):
  """Reads the sample that is part of the package; the arguments do not concern it."""
  del data_dir, tfds_data_dir, stsb_gold
  return {"test": read_scored_tsv(_SAMPLE, scale=(0.0, 5.0))}, "the sample that comes with bert_flow_tf"


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
    name="sample",
    description="a few hundred pairs inside the package, to try the program without any download",
    load=_load_sample,
    scale=(0.0, 5.0),
    eval_split="test",
    # 360 pairs make 11 steps an epoch; 20 epochs make about as many steps as one epoch of STS-B. Chosen on 360 pairs
    # of STS-B, where the gain levels off between 10 and 40 epochs, not on the sample.
    num_train_epochs=20.0,
  ),
)


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
    data_dir: folder of downloaded files (for STS-B: STS/STSBenchmark/sts-{train,dev,test}.csv below it);
      None to take the task from TensorFlow Datasets. Of no concern to `sample`.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default (TFDS_DATA_DIR, ~/tensorflow_datasets).
    stsb_gold: the STS benchmark's sts-test.csv, for STS-B from TensorFlow Datasets; None to fetch it.

  Returns:
    TaskData.

  Raises:
    ConfigError: the task is unknown, or an argument is empty or contradicts another.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  spec = find_task(name)
  paths = {"data_dir": data_dir, "tfds_data_dir": tfds_data_dir, "stsb_gold": stsb_gold}
  for flag, path in paths.items():
    # As from --data_dir=$UNSET; a path of "" would be the working directory.
    if path is not None and not os.fspath(path):
      raise ConfigError(f"--{flag} is empty; expected a path, or leave the flag out")
  splits, source = spec.load(**{flag: path and os.path.expanduser(path) for flag, path in paths.items()})
  return TaskData(spec=spec, splits=splits, source=source)
