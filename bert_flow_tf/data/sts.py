"""The files of STS-12 to STS-16, the SemEval tasks: names, addresses, sizes, and their reader.

Each task is a test set in subsets that are evaluated separately. Its pairs are the annotated ones, as in SentEval:
STS-15 and STS-16 have many lines without gold, which are used neither for fitting nor for evaluation.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from bert_flow_tf.data.lines import count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import is_score, pairs_of, read_sts
from bert_flow_tf.data.sources import STS_WIKI, first_with, unlike_published
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

SCALE = (0.0, 5.0)
# In the archive of 2016 the names begin with STS2016.
_PREFIXES = ("STS", "STS2016")
# The published code's file of all pairs of a task.
_FULL = "full.txt"


@dataclasses.dataclass(frozen=True)
class Year:
  """Location and size of a task.

  Attributes:
    name: the task's name.
    url: the organizers' archive; addresses and folders are those of SentEval.
    inside: folder of the files in the archive.
    size: number of pairs with gold over all subsets.
    digest: `SentencePairs.digest` of them.
    subsets: NAME in STS.input.NAME.txt, in SentEval's order. STS-13 lacks SMT, whose text is not free.
  """

  name: str
  url: str
  inside: str
  size: int
  digest: str
  subsets: tuple[str, ...]

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

  def difference(self, pairs: SentencePairs) -> str:
    """Returns `unlike_published` for the pairs with gold."""
    return unlike_published(pairs, self.name, self.size, self.digest)

  @property
  def places(self) -> tuple[str, ...]:
    """Folders to search, in the format of `first_with`: unpacked by SentEval or by hand, or in the archive."""
    packed = (f"{self.archive}!{self.inside}", f"STS/{self.archive}!{self.inside}")
    return (self.folder, self.folder.removeprefix("STS/"), self.inside, *packed, "")

  @property
  def full_places(self) -> tuple[str, ...]:
    """Folders to search for full.txt."""
    names = (self.folder.removeprefix("STS/"), self.config.upper(), self.name)
    return (*(f"STS/{name}" for name in names), *names)


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
  """Reads the pairs with gold in a folder, unpacked or in the organizers' archive.

  Returns:
    The pairs and a description of their origin; None if the files are missing.

  Raises:
    DataError: some files of the task are missing, or a file is malformed.
  """
  for prefix in _PREFIXES:
    folder = first_with(root, year.places, f"{prefix}.input.{year.subsets[0]}.txt")
    if folder is not None:
      break
  else:
    return None
  parts, unannotated = {}, 0
  for subset in year.subsets:
    gold = folder / f"{prefix}.gs.{subset}.txt"
    pairs = read_sts(folder / f"{prefix}.input.{subset}.txt", gold, SCALE)
    parts[subset] = pairs.with_gold()
    unannotated += len(pairs) - len(parts[subset])
    if not len(parts[subset]):
      raise DataError(f"{gold} has no score, so {subset} cannot be evaluated")
  pairs = SentencePairs.join(parts)
  without = f", {unannotated} without gold left out" if unannotated else ""
  return pairs, f"{year.name}'s files in {folder}: {counted(len(pairs), 'pair')}{without}"


def read_full(root: str, folders: Iterable[str]) -> tuple[SentencePairs, str] | None:
  """Reads the published code's full.txt in the first folder that has it, two tab-separated sentences per line.

  A third column of numbers has the scores, empty for a pair without gold; other columns, such as sources, are ignored.

  Returns:
    The pairs and a description of their origin; None if no folder has the file.

  Raises:
    DataError: the file is malformed.
  """
  folder = first_with(root, folders, _FULL)
  if folder is None:
    return None
  path, score_of = folder / _FULL, functools.partial(read_number, scale=SCALE)
  rows: list[Any] = []
  for number, line in lines(path):
    fields = line.split("\t")
    if len(fields) < 2:
      raise DataError(f"{path}, line {number}: 1 column, expected 2 sentences, separated by a tab")
    rows.append((number, *fields[:2], "".join(fields[2:3]).strip()))
  has_gold = any(is_score(field, score_of) for *_, field in rows)
  pairs = pairs_of([(score_of(s, path, i) if has_gold and s else math.nan, a, b) for i, a, b, s in rows], path)
  without = int(np.isnan(pairs.scores).sum())
  return pairs, f"{path}: {count(len(pairs), 'pair')}, {without} without gold"
