"""The files of STS-12 to STS-16, the SemEval tasks: which there are, where they lie, and reading them.

A task's pairs are the annotated ones, as SentEval's: STS-15 and STS-16 have many lines without gold, which neither
the fit nor the evaluation sees.
"""

import dataclasses

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import read_sts
from bert_flow_tf.data.sources import first_with
from bert_flow_tf.errors import DataError

SCALE = (0.0, 5.0)
# In the archive of 2016 the files begin with STS2016.
_PREFIXES = ("STS", "STS2016")


@dataclasses.dataclass(frozen=True)
class Year:
  """One of the tasks.

  Attributes:
    name: the task's name here.
    config: the name of our TFDS builder's configuration.
    url: the organisers' archive; the addresses, and the folder inside, as SentEval and many others use them.
    inside: the archive's folder of files.
    size: pairs with gold over all subsets.
    subsets: NAME in STS.input.NAME.txt, in SentEval's order. STS-13 is without SMT, whose text was never free.
  """

  name: str
  config: str
  url: str
  inside: str
  size: int
  subsets: tuple[str, ...]

  @property
  def folder(self) -> str:
    """Where SentEval's download puts the files, below data_dir."""
    return f"STS/{self.config.upper()}-en-test"

  @property
  def archive(self) -> str:
    """The file name of the organisers' archive."""
    return self.url.rsplit("/", 1)[1]

  @property
  def places(self) -> tuple[str, ...]:
    """Where the files may lie, as `first_with` takes it: unpacked by SentEval or by hand, or in the archive."""
    packed = (f"{self.archive}!{self.inside}", f"STS/{self.archive}!{self.inside}")
    return (self.folder, self.folder.removeprefix("STS/"), self.inside, *packed)


_WIKI = "http://ixa2.si.ehu.es/stswiki/images"
YEARS = (
  Year(
    "STS-12",
    "sts12",
    f"{_WIKI}/4/40/STS2012-en-test.zip",
    "test-gold",
    3108,
    ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
  ),
  Year("STS-13", "sts13", f"{_WIKI}/2/2f/STS2013-en-test.zip", "test-gs", 1500, ("FNWN", "headlines", "OnWN")),
  Year(
    "STS-14",
    "sts14",
    f"{_WIKI}/8/8c/STS2014-en-test.zip",
    "sts-en-test-gs-2014",
    3750,
    ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
  ),
  Year(
    "STS-15",
    "sts15",
    f"{_WIKI}/d/da/STS2015-en-test.zip",
    "test_evaluation_task2a",
    3000,
    ("answers-forums", "answers-students", "belief", "headlines", "images"),
  ),
  Year(
    "STS-16",
    "sts16",
    f"{_WIKI}/9/98/STS2016-en-test.zip",
    "sts2016-english-with-gs-v1.0",
    1186,
    ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
  ),
)


def read_year(root: str, year: Year) -> tuple[SentencePairs, str] | None:
  """Reads the pairs with gold that lie somewhere below a folder, unpacked or in the organisers' archive.

  Returns:
    The pairs and where they came from; None where there is no such file.

  Raises:
    DataError: a file of the task is missing beside others, or malformed.
  """
  for prefix in _PREFIXES:
    folder = first_with(root, year.places, f"{prefix}.input.{year.subsets[0]}.txt")
    if folder is not None:
      break
  else:
    return None
  parts, unannotated = {}, 0
  for subset in year.subsets:
    found = read_sts(folder / f"{prefix}.input.{subset}.txt", folder / f"{prefix}.gs.{subset}.txt", SCALE)
    parts[subset] = found.with_gold()
    unannotated += len(found) - len(parts[subset])
    if not len(parts[subset]):
      raise DataError(f"{folder / f'{prefix}.gs.{subset}.txt'} has no score: no pair of {subset} can be evaluated")
  pairs = SentencePairs.join(parts)
  official = "" if len(pairs) == year.size else f" (the task has {year.size})"
  without = f", {unannotated} without gold left out" if unannotated else ""
  return pairs, f"{year.name}'s files in {folder}: {len(pairs)} pairs{official}{without}"
