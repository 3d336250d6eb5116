"""The files of SICK: names, addresses, sizes, and their reader."""

import functools

from bert_flow_tf.data.lines import read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import ScoreOf, left_out, read_table
from bert_flow_tf.data.sources import SICK_UPLOADS, first_with, unlike_published

# SICK's scores are from 1 to 5; the published code divides them by 5, as those of STS.
SCALE = (0.0, 5.0)
SIZES = {"train": 4500, "dev": 500, "test": 4927}
# {gold: {split: `SentencePairs.digest`}}
DIGESTS = {
  "relatedness_score": {
    "train": "cbc9b7725823b2c66b520d346ceb6bd26ca3e2f15d7dacdd83e5280ad5dc05ec",
    "dev": "c82a900f7f3ed19b648420ea1e6505d271146a50cd678bd6ac601b49da75af87",
    "test": "76993da603610db9aff421c7cdd6f78d8fbac5de6eaac5be41d1fd6152c52915",
  },
  "entailment_judgment": {
    "train": "e2b2745cbdd1707efd964138d3a4bc32bab88f8ceaf59e43a4d2c6233cb79173",
    "dev": "ac30ff54c154bf490a17d50c9f68c71f2493dd283c6b58e8a82043849f4c2737",
    "test": "18736625361d1a0323521437d249bd7b3871119ea90ba3cf769b4f0f9905a921",
  },
}
FOLDER = "SICK"
FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
# The archives of the SemEval task, one per file.
URLS = {split: f"{SICK_UPLOADS}/{file.lower().removesuffix('.txt')}.zip" for split, file in FILES.items()}
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


def difference(pairs: SentencePairs, split: str, gold: str = RELATEDNESS[0]) -> str:
  """Returns `unlike_published` for a split with a column of gold."""
  return unlike_published(pairs, f"SICK's {split} split", SIZES[split], DIGESTS[gold][split])
