"""Settings of the data: the task, its files, and the sentences that a calibration is fitted on."""

import dataclasses

from bert_flow_tf.data.tasks import task_names
from bert_flow_tf.io.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class DataSettings(Settings):
  """The task and the location of its files."""

  # An experiment's name begins with the task; the same task from another folder is the same data.
  task: str = setting("sample", f"One of {', '.join(task_names())}.", named=False, alias="task_name")
  data_dir: str | None = setting(
    None, "Folder of data files, or the task's own folder in it: docs/reproduction.md, section Data.", named=False
  )
  tfds_data_dir: str | None = setting(
    None, "Folder of TensorFlow Datasets, used if data_dir is not given.", named=False
  )
  stsb_gold: str | None = setting(
    None, "The benchmark's sts-test.csv, for STS-B from TensorFlow Datasets.", named=False
  )


@dataclasses.dataclass(frozen=True)
class CorpusSettings(Settings):
  """Sentences that a calibration is fitted on."""

  flow_corpus: str | None = setting(
    None,
    "Sentences that the calibrations are fitted on: target (all sentences of the task), train (its train split), nli "
    "(SNLI and MNLI, from data_dir or TensorFlow Datasets), or a text file or TSV. Default: target, or train if "
    "use_full_for_training is 0.",
  )
  use_full_for_training: bool | None = setting(
    None,
    "1: fit on train, dev and test sentences as the published code, which reads the one file of each of STS-12 to "
    "STS-16 as all three and so uses every pair three times. 0: fit on train alone. Default: flow_corpus decides.",
  )
