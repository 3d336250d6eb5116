"""Duplicates for people: a table of the records that are left out, and counts."""

import json
from collections.abc import Callable, Sequence

import numpy as np

from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.duplicates import Duplicates

# Columns with texts and without.
_COLUMNS = ("record", "text", "original_file", "original", "original_text", "cosine", "reason")
_COLUMNS_OF_IDS = tuple(name for name in _COLUMNS if "text" not in name)


def report_table(duplicates: Duplicates, record: Callable[[int], tuple], has_texts: bool, as_json: bool) -> str:
  """Returns a line for each row that is dropped, with its original, their cosine and the reason: TSV or JSON lines.

  `record` returns file, number or id, and, if the rows have texts, the text of a row.
  """
  names = _COLUMNS if has_texts else _COLUMNS_OF_IDS
  lines = []
  for row in duplicates.dropped.tolist():
    _, *values = record(row)
    original = record(int(duplicates.originals[row]))
    cosine = round(float(duplicates.cosines[row]), 6)
    lines.append((*values, *original, cosine, duplicates.reason(row)))
  if as_json:
    return "".join(json.dumps(dict(zip(names, line, strict=True)), ensure_ascii=False) + "\n" for line in lines)
  return "".join("\t".join(" ".join(str(value).split()) for value in line) + "\n" for line in [names, *lines])


def counts_of(duplicates: Duplicates, name: str, records: int, notes: Sequence[str] = ()) -> str:
  """Returns how many of a number of records, of this `name`, are kept and left out; `notes` are further counts."""
  dropped = len(duplicates.dropped)
  counts = [f"{counted(records - dropped, name)} of {records} kept", *notes]
  if dropped:
    equal = np.count_nonzero(duplicates.is_equal)
    counts.append(f"duplicates: {equal} equal, {dropped - equal} near")
  return "; ".join(counts)
