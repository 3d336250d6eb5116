"""The files of SICK: which there are, where they lie, and reading them."""

from bert_flow_tf.data.lines import read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import ScoreOf, read_table
from bert_flow_tf.data.sources import first_with

FOLDER = "SICK"
SCALE = (1.0, 5.0)
SIZES = {"train": 4500, "dev": 500, "test": 4927}
FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
# The SemEval task's own archives, one a file.
URLS = {
  split: f"http://alt.qcri.org/semeval2014/task1/data/uploads/{file.lower().removesuffix('.txt')}.zip"
  for split, file in FILES.items()
}

_SENTENCES = ("sentence_A", "sentence_B")


def read_file(root: str, split: str, score: tuple[str, ScoreOf] | None = None) -> SentencePairs | None:
  """Reads the file of one split below a folder, unpacked or in its archive; None where it is not there.

  Args:
    root: the folder.
    split: train, dev or test.
    score: column of the gold and what makes a number of a field; relatedness from 1 to 5 if None.

  Raises:
    DataError: the file is malformed.
  """
  archive = URLS[split].rsplit("/", 1)[1]
  folder = first_with(root, (FOLDER, "", f"{archive}!", f"{FOLDER}/{archive}!"), FILES[split])
  if folder is None:
    return None
  return read_table(folder / FILES[split], _SENTENCES, score or ("relatedness_score", _relatedness))[0]


def _relatedness(field, path, number):
  return read_number(field, SCALE, path, number)
