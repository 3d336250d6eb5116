"""What a run leaves behind, read again."""

import csv
import json


def read_json(file):
  """The file's value; NaN and Infinity, which are no json, fail."""

  def no_constants(name):
    raise AssertionError(f"{name} is no json")

  return json.loads(file.read_text(encoding="utf-8"), parse_constant=no_constants)


def read_predictions(folder):
  """{column: values} of test_results.tsv."""
  with open(folder / "test_results.tsv", encoding="utf-8", newline="") as file:
    header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
  return dict(zip(header, zip(*rows, strict=True), strict=True))
