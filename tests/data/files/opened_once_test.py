"""A file that is read whole is opened once, whatever its kind is, and its content is not held several times."""

import gzip
import json
import lzma
import tracemalloc

import pytest

from bert_flow_tf.data.files.rows import read_pairs
from tests.testing import finished_python

TABLE = [("sentence1", "sentence2", "score"), ("A man.", "B, c.", "4"), ("D dog.", "E f.", "2")]
RECORDS = [dict(zip(TABLE[0], row, strict=True)) for row in TABLE[1:]]


def lines(separator, rows, mark='"'):
  return "".join(separator.join(f"{mark}{field}{mark}" for field in row) + "\n" for row in rows).encode()


FILES = {
  "named.tsv": lines("\t", TABLE, mark=""),
  "numbers.tsv": lines("\t", TABLE[1:], mark=""),
  "quoted.tsv": lines("\t", TABLE),
  "named.txt": lines("\t", TABLE, mark=""),
  "numbers.txt": lines("\t", TABLE[1:], mark=""),
  "named.csv": lines(",", TABLE),
  "numbers.csv": lines(",", TABLE[1:]),
  "a.jsonl": b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS),
  "named.tsv.gz": gzip.compress(lines("\t", TABLE, mark="")),
  "numbers.csv.xz": lzma.compress(lines(",", TABLE[1:])),
}
# Prints how often each file is opened for the arguments "door:file".
CODE = """
import sys
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.files.rows import read_pairs, read_table

doors = {"pairs": read_pairs, "task": read_custom_pairs, "table": lambda path: read_table(path, ["score"])}
doors["columns"] = lambda path: read_pairs(path, ["1", "2"])
doors["names"] = lambda path: read_pairs(path, ["sentence1", "sentence2"])
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
for argument in sys.argv[1:]:
  door, path = argument.split(":")
  opened.clear()
  doors[door](path)
  print(argument, opened.count(path))
"""


def test_a_file_is_opened_once(tmp_path):
  for name, content in FILES.items():
    (tmp_path / name).write_bytes(content)
  try:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "a.parquet")
  except ImportError:
    pass
  arguments = []
  for path in sorted(map(str, tmp_path.iterdir())):
    has_names = not path.partition("numbers")[1]
    is_delimited = not path.endswith((".jsonl", ".parquet"))
    doors = ["pairs", "task", "table", *["names"] * has_names, *["columns"] * is_delimited]
    arguments += [f"{door}:{path}" for door in doors]
  printed = finished_python("-c", CODE, *arguments).stdout.splitlines()
  assert printed == [f"{argument} 1" for argument in arguments]


@pytest.mark.parametrize("has_names", [True, False])
def test_a_file_is_in_memory_once_beside_its_texts(tmp_path, has_names):
  path = tmp_path / "a.tsv"
  row = "\t".join(["x" * 5000] * 2)
  path.write_text("sentence1\tsentence2\n" * has_names + f"{row}\n" * 200)
  tracemalloc.start()
  try:
    assert len(read_pairs(str(path)).texts) == 200
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert peak < 2.5 * path.stat().st_size
