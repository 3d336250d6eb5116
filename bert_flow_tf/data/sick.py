"""The files of SICK: names, addresses, sizes, and their reader."""

import functools

from bert_flow_tf.data.lines import read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import ScoreOf, left_out, read_table
from bert_flow_tf.data.sources import first_with

# SICK's scores are from 1 to 5; the published code divides them by 5, as those of STS.
SCALE = (0.0, 5.0)
SIZES = {"train": 4500, "dev": 500, "test": 4927}
FOLDER = "SICK"
FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
# The archives of the SemEval task, one per file.
URLS = {
  split: f"http://alt.qcri.org/semeval2014/task1/data/uploads/{file.lower().removesuffix('.txt')}.zip"
  for split, file in FILES.items()
}
RELATEDNESS = ("relatedness_score", functools.partial(read_number, scale=SCALE))


def read_file(
  root: str, split: str, score: tuple[str, ScoreOf] = RELATEDNESS
) -> tuple[SentencePairs, list[str]] | None:
  """Reads the file of a split in a folder, unpacked or in its archive; returns None if it does not exist.

  Returns:
    The pairs, and notes about lines left out.

  Args:
    root: the folder.
    split: train, dev or test.
    score: name of the gold column, and the function that converts its fields.

  Raises:
    DataError: the file is malformed.
  """
  archive = URLS[split].rsplit("/", 1)[1]
  folder = first_with(root, (FOLDER, "SICK-R", "", f"{archive}!", f"{FOLDER}/{archive}!"), FILES[split])
  if folder is None:
    return None
  places = (1, 2, 3 if score is RELATEDNESS else 4)
  pairs, number = read_table(folder / FILES[split], ("sentence_A", "sentence_B"), score, places)
  return pairs, left_out(number, FILES[split])
