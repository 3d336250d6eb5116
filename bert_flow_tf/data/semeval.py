"""The data sets of SemEval: SICK, and STS-12 to STS-16, whose pairs are the annotated ones, as in SentEval."""

import dataclasses
import math
from collections.abc import Iterable

from bert_flow_tf.data.files.delimited import tab_separated
from bert_flow_tf.data.files.source import FilePath, line_error, lines
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.table import Gold, TaskTable, first_with, pairs_of
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

# The organizers of STS and STS-B, and of SICK.
STS_WIKI = "https://ixa2.si.ehu.eus/stswiki/images"
_SICK_UPLOADS = "https://alt.qcri.org/semeval2014/task1/data/uploads"

# Classes of entailment, in the order of BERT's own runner for these tasks; gold is the index.
LABELS = ("contradiction", "entailment", "neutral")

# SICK's scores are from 1 to 5; the published code divides them by 5, as it does for STS.
SCALE = (0.0, 5.0)
STS_GOLD = Gold("score", scale=SCALE)

SICK_R = TaskTable(
  name="SICK",
  gold=Gold("relatedness_score", scale=SCALE),
  columns=("sentence_A", "sentence_B"),
  places=(1, 2, 3),
  files={"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)},
  required=("train", "dev", "test"),
  other_folders=("SICK-R",),
  archives={
    "train": f"{_SICK_UPLOADS}/sick_train.zip",
    "dev": f"{_SICK_UPLOADS}/sick_trial.zip",
    "test": f"{_SICK_UPLOADS}/sick_test_annotated.zip",
  },
  published={
    "train": (4500, "cbc9b7725823b2c66b520d346ceb6bd26ca3e2f15d7dacdd83e5280ad5dc05ec"),
    "dev": (500, "c82a900f7f3ed19b648420ea1e6505d271146a50cd678bd6ac601b49da75af87"),
    "test": (4927, "76993da603610db9aff421c7cdd6f78d8fbac5de6eaac5be41d1fd6152c52915"),
  },
  tfds="sick_r",
  tfds_columns=("sentence1", "sentence2", "score"),
)
SICK_E = dataclasses.replace(
  SICK_R,
  gold=Gold("entailment_judgment", dict(zip(map(str.upper, LABELS), (0.0, 1.0, 2.0), strict=True))),
  places=(1, 2, 4),
  published={
    "train": (4500, "e2b2745cbdd1707efd964138d3a4bc32bab88f8ceaf59e43a4d2c6233cb79173"),
    "dev": (500, "ac30ff54c154bf490a17d50c9f68c71f2493dd283c6b58e8a82043849f4c2737"),
    "test": (4927, "18736625361d1a0323521437d249bd7b3871119ea90ba3cf769b4f0f9905a921"),
  },
  tfds="",
)

# Names of files begin with STS; in the archive of 2016 with STS2016.
_PREFIXES = ("STS", "STS2016")
# The published code's file of all pairs of a task.
_FULL = "full.txt"


@dataclasses.dataclass(frozen=True)
class Year:
  """Location and size of a task of STS-12 to STS-16; addresses and folders as in SentEval."""

  name: str
  url: str  # of the organizers' archive
  inside: str  # folder of the files in the archive
  size: int  # number of pairs with gold over all subsets
  digest: str  # `SentencePairs.digest` of them
  subsets: tuple[str, ...]  # NAME in STS.input.NAME.txt, in SentEval's order; STS-13 lacks SMT, whose text is not free

  @property
  def config(self) -> str:
    """Name of the configuration of `tfds_builders.SemevalSts`: "sts12"."""
    return self.name.lower().replace("-", "")

  @property
  def folder(self) -> str:
    """Folder of the files in data_dir, as in SentEval's download."""
    return f"STS/{self.config.upper()}-en-test"

  @property
  def archive(self) -> str:
    """File name of the organizers' archive."""
    return self.url.rsplit("/", 1)[1]

  @property
  def expected(self) -> str:
    """Description of the files in data_dir, for errors."""
    return f"{self.folder}/STS.{{input,gs}}.NAME.txt, {self.archive} or {self.name}/{_FULL}"

  @property
  def places(self) -> tuple[str, ...]:
    """Folders to search, in the format of `first_with`: unpacked by SentEval or by hand, or in the archive."""
    packed = f"{self.archive}!{self.inside}/"
    return (self.folder, self.folder.removeprefix("STS/"), self.inside, packed, f"STS/{packed}", "")

  @property
  def full_places(self) -> tuple[str, ...]:
    """Folders to search for full.txt."""
    names = (self.folder.removeprefix("STS/"), self.config.upper(), self.name)
    return tuple(f"STS/{name}" for name in names) + names

  # The properties below have the names of `TaskTable`'s.

  @property
  def archives(self) -> dict[str, str]:
    """Address of the organizers' archive."""
    return {"test": self.url}

  @property
  def published(self) -> dict[str, tuple[int, str]]:
    """Size and digest of the pairs with gold."""
    return {"test": (self.size, self.digest)}

  def pairs_in(self, folder: str, split: str = "test") -> SentencePairs | None:
    """Returns the pairs with gold in a folder; None if the files are missing."""
    del split
    result = read_year(folder, self)
    return result and result[0]


YEARS = (
  Year(
    "STS-12",
    f"{STS_WIKI}/4/40/STS2012-en-test.zip",
    "test-gold",
    3108,
    "7ad3d583b12eaed68a5c9a53a30ec0e4b58dbb3e7d2d66ee897bef31e2bbacd8",
    ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
  ),
  Year(
    "STS-13",
    f"{STS_WIKI}/2/2f/STS2013-en-test.zip",
    "test-gs",
    1500,
    "a9a53b5c4d4d0a60cf05cd0f2643fe6175b38933a594daf7825b0012e0d6ff11",
    ("FNWN", "headlines", "OnWN"),
  ),
  Year(
    "STS-14",
    f"{STS_WIKI}/8/8c/STS2014-en-test.zip",
    "sts-en-test-gs-2014",
    3750,
    "459bd54d06ae342c02c2bc7cc25767fbf86b08b5b912feb40cee65239da4c08b",
    ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
  ),
  Year(
    "STS-15",
    f"{STS_WIKI}/d/da/STS2015-en-test.zip",
    "test_evaluation_task2a",
    3000,
    "149d84734d718e80204ffb108537bcc4aebc3a57317c57a24595320af94852a8",
    ("answers-forums", "answers-students", "belief", "headlines", "images"),
  ),
  Year(
    "STS-16",
    f"{STS_WIKI}/9/98/STS2016-en-test.zip",
    "sts2016-english-with-gs-v1.0",
    1186,
    "f64869fcfa4efc078f6281da1278b345ee8324d2a8e76a2cbe4e5f6a99b898c2",
    ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
  ),
)


def read_year(root: str, year: Year) -> tuple[SentencePairs, str] | None:
  """Returns the pairs with gold in a folder and a description of their origin; None if the files are missing."""
  for prefix in _PREFIXES:
    folder = first_with(root, year.places, [f"{prefix}.input.{year.subsets[0]}.txt"])
    if folder is not None:
      break
  else:
    return None
  parts, unannotated = {}, 0
  for subset in year.subsets:
    gold_path = folder / f"{prefix}.gs.{subset}.txt"
    pairs = read_sts(folder / f"{prefix}.input.{subset}.txt", gold_path)
    parts[subset] = pairs.with_gold()
    unannotated += len(pairs) - len(parts[subset])
    if not len(parts[subset]):
      raise DataError(f"{gold_path} has no score, so {subset} cannot be evaluated")
  pairs = SentencePairs.join(parts)
  source = f"{year.name}'s files in {folder}: {counted(len(pairs), 'pair')}"
  if unannotated:
    source += f", {unannotated} without gold left out"
  return pairs, source


def read_sts(input_path: FilePath, gs_path: FilePath) -> SentencePairs:
  """Returns the pairs of a subset: sentences of a file, with scores on the same lines of a second file, if given."""
  sentences = _sentences(input_path)
  # An empty line at the end is a pair without gold, or belongs to empty lines at the end of the input.
  scores = [field.strip() for _, field in lines(gs_path, empty="keep")]
  if len(scores) < len(sentences) or any(scores[len(sentences) :]):
    raise DataError(f"{gs_path} has {counted(len(scores), 'line')}, {input_path} {counted(len(sentences), 'pair')}")
  return _scored(sentences, scores, gs_path)


def read_full(root: str, folders: Iterable[str]) -> tuple[SentencePairs, str] | None:
  """Returns the pairs of the published code's full.txt and their origin; None if no folder has it."""
  # A third column of numbers has the scores, empty for a pair without gold; other columns are ignored.
  folder = first_with(root, folders, [_FULL])
  if folder is None:
    return None
  path = folder / _FULL
  sentences = _sentences(path)
  scores = ["".join(fields[2:3]).strip() for fields in sentences]
  if not any(STS_GOLD.accepts(score) for score in scores):
    scores = [""] * len(sentences)
  pairs = _scored(sentences, scores, path)
  without_gold = len(pairs) - len(pairs.with_gold())
  return pairs, f"{path}: {counted(len(pairs), 'pair')}, {without_gold} without gold"


def _sentences(path: FilePath) -> list[list[str]]:
  """Returns the fields of each line, of which the first two are sentences; line i + 1 is row i."""
  rows = []
  for number, fields in tab_separated(path):
    if len(fields) < 2:
      raise line_error(path, number, "1 column, expected 2 sentences, separated by a tab")
    rows.append(fields)
  if not rows:
    raise DataError(f"{path} is empty; expected sentence pairs")
  return rows


def _scored(sentences: list[list[str]], scores: list[str], path: FilePath) -> SentencePairs:
  """Returns pairs with the scores on the lines of a file, NaN for an empty line."""
  rows = []
  for row, (a, b, *_) in enumerate(sentences):
    score = math.nan
    if scores[row]:
      score = STS_GOLD.read(scores[row], path, row + 1)
    rows.append((score, a, b))
  return pairs_of(rows, path)
