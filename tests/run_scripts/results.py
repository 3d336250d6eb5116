"""Readers of the files that a run writes."""

import csv
import json


def read_json(file):
  """Returns the file's value; NaN and Infinity are not allowed in JSON."""

  def no_constants(name):
    raise AssertionError(f"{name} is not JSON")

  return json.loads(file.read_text(encoding="utf-8"), parse_constant=no_constants)


def read_predictions(folder):
  """Returns {column: values} of test_results.tsv."""
  with open(folder / "test_results.tsv", encoding="utf-8", newline="") as file:
    header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
  return dict(zip(header, zip(*rows, strict=True), strict=True))
