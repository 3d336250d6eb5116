"""Artificial files and TFDS data sets of every TSV task, made from its `Table`."""

import math

import numpy as np

from bert_flow_tf.data import nli, stsb
from bert_flow_tf.data.tasks import TASKS
from tests.data.tfds_cases import write_tfds

SIZES = {"train": 6, "dev": 4, "test": 5}
# {name of the task: its table}
TABLES = {spec.name: spec.table for spec in TASKS if spec.table}
TABLES |= {"SNLI": nli.SNLI, "MNLI": nli.MNLI, "STS-B": stsb._GLUE}


def golds(table):
  """Returns (field in a file, gold) of each kind of row."""
  if table.gold.labels:
    return [(label, gold) for label, gold in table.gold.labels.items() if not math.isnan(gold)]
  return [(f"{gold:.1f}", gold) for gold in (0.5, 1.3, 2.8, 5.0)]


def rows(table, split):
  """Returns (first sentence, second sentence, gold) of the rows of a split; a quotation mark is text."""
  kinds = golds(table)
  return [(f'"{split} café {i}', f"other {split} {i}", kinds[i % len(kinds)][1]) for i in range(SIZES[split])]


def is_hidden(table, split):
  """Returns whether the first file of a split hides its gold."""
  return table.files[split][0] in table.hidden


def text(table, split, header=True, hidden=False):
  """Returns a file with the columns at their published places; `header` False for a header of other names."""
  kinds = golds(table)
  places, names = list(table.places), [*table.columns, table.gold.column]
  if hidden:
    places, names = list(table.hidden["test.tsv"]), names[:2]
  width = max(places) + 1 + (-1 in places)
  written = [[f"x{column}" for column in range(width)]]
  for i, (a, b, _) in enumerate(rows(table, split)):
    written.append(["-"] * width)
    for place, field in zip(places, (a, b, kinds[i % len(kinds)][0]), strict=False):
      written[-1][place] = field
  for place, name in zip(places, names, strict=True):
    written[0][place] = name if header else f"column {place}"
  return "".join("\t".join(row) + "\n" for row in written)


def write(folder, table, header=True, splits=tuple(SIZES)):
  """Writes the first file of each split into a folder."""
  folder.mkdir(parents=True, exist_ok=True)
  for split in splits:
    content = text(table, split, header, is_hidden(table, split))
    (folder / table.files[split][0]).write_text(content, encoding="utf-8")
  return folder


def write_to_tfds(root, table, hidden=("test",)):
  """Writes the data set in the format of TFDS, GLUE's hidden labels as -1; returns its version."""
  import tensorflow_datasets as tfds

  from bert_flow_tf.data import tfds_builders  # noqa: F401 (makes its builders known)

  first, second, gold = table.tfds_columns
  names = {value: name for name, value in (table.tfds_labels or table.gold.labels).items()}
  builder = tfds.builder(table.tfds, data_dir=root)
  splits = {}
  for split, stored in table.tfds_splits.items():
    splits[stored] = []
    for i, (a, b, value) in enumerate(rows(table, split)):
      label = -1 if split in hidden else names.get(value, value)
      example = {first: a, second: b, gold: label, "idx": i}
      splits[stored].append({key: example[key] for key in builder.info.features})
  write_tfds(root, table.tfds, str(builder.version), splits)
  return str(builder.version)


def check_pairs(pairs, table, split, gold=True):
  """Asserts that pairs are the rows of a split."""
  expected = rows(table, split)
  assert pairs.sentences_a == tuple(row[0] for row in expected)
  assert pairs.sentences_b == tuple(row[1] for row in expected)
  scores = [row[2] if gold else math.nan for row in expected]
  np.testing.assert_array_equal(pairs.scores, scores)
