"""Assignment of records to shards, and reading these in any order, against reading the files as a whole."""

import dataclasses
import gzip
import json
import os

import numpy as np
import pytest

from bert_flow_tf.corpus.shard_plan import ShardPlan, ShardReader, changed_input, find_inputs, plan_shards
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.data.files.parquet import ParquetReader
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import rejected


def build(paths, input_format=None, records=10, size=1 << 20):
  return plan_shards([str(path) for path in paths], input_format or InputFormat(), records, size)


@pytest.fixture
def files(tmp_path):
  """Files with 0 to 40 lines, some gzipped, and all lines as (path, number, text)."""
  rng = np.random.default_rng(0)
  paths, lines = [], []
  for i, count in enumerate([7, 0, 40, 1, 0, 13, 30]):
    path = tmp_path / (f"{i}.txt.gz" if i % 3 == 2 else f"{i}.txt")
    texts = ["é" * rng.integers(1, 20) + str(j) for j in range(count)]
    data = "\n".join(texts).encode() + b"\n" * (i % 2 and count > 0)  # the last line may lack its line feed
    path.write_bytes(gzip.compress(data) if i % 3 == 2 else data)
    paths.append(path)
    lines += [(str(path), j + 1, text) for j, text in enumerate(texts)]
  return paths, lines


@pytest.mark.parametrize(("records", "size"), [(10, 1 << 20), (1, 1 << 20), (7, 60), (1000, 1), (1000, 1 << 20)])
def test_shards_hold_each_record_once(files, records, size):
  paths, lines = files
  plan = ShardPlan.from_json(json.loads(json.dumps(dataclasses.asdict(build(paths, None, records, size)))))
  assert plan.records == len(lines) == sum(file.records for file in plan.inputs)
  assert [task.number for task in plan.shards] == list(range(len(plan.shards)))
  reader, shards = ShardReader(InputFormat()), {}
  for task in reversed(plan.shards):  # backward in gzipped files too
    assert 1 <= task.records <= records
    shards[task.number] = reader.read(task).records
    total = sum(len(record.text.encode()) + 1 for record in shards[task.number])
    assert total <= size + 1 or task.records == 1  # +1: the last line of a file may lack its line feed
    assert [record.id for record in shards[task.number]] == [
      str(task.first_record + i) for i in range(1, task.records + 1)
    ]
  reader.close()
  in_order = [record for number in sorted(shards) for record in shards[number]]
  assert [(record.path, record.line, record.text) for record in in_order] == lines
  if size > 1 << 10:
    assert len(plan.shards) == -(-len(lines) // records)
  for file in plan.inputs:
    assert file.first_record == sum(1 for path, *_ in lines if path < file.path)


def test_consecutive_shards_decode_each_row_of_parquet_once(tmp_path, monkeypatch):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  texts = [f"row {i}" for i in range(50)]
  parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
  by_name = InputFormat("parquet", "text")
  tasks = build([tmp_path / "a.parquet"], by_name, 10).shards
  begun = []
  records = ParquetReader.records
  monkeypatch.setattr(ParquetReader, "records", lambda *args: begun.append(args[2]) or records(*args))
  for order, starts in ((tasks, [1]), (tasks[1:3] + tasks[:1] + tasks[3:], [11, 1, 31])):
    reader, found = ShardReader(by_name), []
    for task in order:
      found += reader.read(task).records
    reader.close()
    assert sorted(found, key=lambda record: record.line) == sorted(found, key=lambda record: int(record.id))
    assert {record.text for record in found} == set(texts) and begun == starts
    begun.clear()


def test_columns_of_each_file(tmp_path):
  (tmp_path / "a.tsv").write_text("\ufeffid\ttext\n1\tone\n2\ttwo\n3\t\n")
  (tmp_path / "b.tsv").write_text("text\tmore\tid\nthree\tx\t4\nbad\t5\n")
  by_name = InputFormat("tsv", "text", "id", header=True)
  plan = build([tmp_path / "a.tsv", tmp_path / "b.tsv"], by_name, 2)
  reader = ShardReader(by_name)
  shards = [reader.read(task) for task in plan.shards]
  assert [(record.id, record.text, record.line) for shard in shards for record in shard.records] == [
    ("1", "one", 2),
    ("2", "two", 3),
    ("4", "three", 2),
  ]
  assert sum(shard.skipped for shard in shards) == 1
  (bad,) = [bad for shard in shards for bad in shard.bad]
  assert (bad.path, bad.line, bad.kind) == (str(tmp_path / "b.tsv"), 3, "columns")
  by_number = InputFormat("tsv", "2", None, header=True)
  assert ShardReader(by_number).read(build([tmp_path / "a.tsv"], by_number).shards[0]).records[1].text == "two"
  for header in (b"a\tb\n", b"text\ttext\tid\n", b"", b"te\xefxt\tid\n"):
    (tmp_path / "c.tsv").write_bytes(header)
    with pytest.raises(DataError, match=r"c\.tsv"):
      build([tmp_path / "c.tsv"], by_name)


def test_inputs_by_globs(tmp_path, monkeypatch):
  for name in ("b.txt", "a.txt", "c[1].txt", "d/a.txt"):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x\n")
  monkeypatch.chdir(tmp_path)
  find = lambda *patterns: [os.path.relpath(path) for path in find_inputs(patterns)]  # noqa: E731
  assert find("*.txt", f"{tmp_path}/a.txt") == ["a.txt", "b.txt", "c[1].txt"]
  assert find("b.txt", "a.txt") == ["b.txt", "a.txt"]
  assert find("c[1].txt", "**/a.txt") == ["c[1].txt", "a.txt", "d/a.txt"]
  os.mkfifo("pipe")  # is not waited for
  expected = {
    "*.gz": "no such file",
    "": "no such file",
    "d": r"a folder; .* 'd/\*\*' for",
    "pipe": "can be read only once; .* or - for",
  }
  for pattern, message in expected.items():
    with rejected(ConfigError, "input", match=message):
      find("a.txt", pattern)
  with rejected(ConfigError, "input", match=r"no such file; several are a list of the flag: --input=b\.txt,d/\*\.txt$"):
    find("b.txt,d/*.txt")  # an argument without a flag is one file
  with rejected(ConfigError, "input", match="no such file; expected files, or globs"):
    find("b.txt,e.txt")


def test_a_glob_leaves_out_hidden_files_and_markers(tmp_path, monkeypatch):
  names = ["out/part-0.json", "out/sub/part-1.json", "_data/a.json"]
  hidden = ["out/_SUCCESS", "out/.part-0.json.crc", "out/._a.json", "out/_metadata", "out/_temporary/0/part-2.json"]
  for name in [*names, *hidden]:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
  monkeypatch.chdir(tmp_path)
  find = lambda *patterns: [os.path.relpath(path) for path in find_inputs(patterns)]  # noqa: E731
  assert find("out/*") == names[:1] and find("out/**") == names[:2]
  assert find(f"file://{tmp_path}/out/*") == [f"file:{tmp_path}/out/part-0.json"]
  # What is named itself is read, and so is a folder or a mark in the glob.
  assert find("out/_SUCCESS") == ["out/_SUCCESS"] and find("_data/*") == names[2:] == find("_d*/*.json")
  assert find("out/_*") == ["out/_SUCCESS", "out/_metadata"]
  with rejected(ConfigError, "input", match="leaves out folders, and names that begin with _ or"):
    find("out/?SUCCESS")


def test_changed_files(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("one\ntwo\nthree\n")
  plan = build([path], None, 2)
  assert changed_input(plan.inputs) is None
  os.utime(path, (1, 1))  # as in a copy
  assert changed_input(plan.inputs) is None
  path.write_text("one\ntwo\nseven\n")
  os.utime(path, (1, 1))
  assert changed_input(plan.inputs) == str(path)
  path.write_text("one\ntwo\n")
  assert changed_input(plan.inputs) == str(path)
  with pytest.raises(DataError, match=str(path)):
    ShardReader(InputFormat()).read(plan.shards[1])
  path.unlink()
  assert changed_input(plan.inputs) == str(path)


def test_a_shard_is_read_again_after_an_error(tmp_path):
  """A file that was cut off and has been mended, as a network's file system can do, is read from the shard's start."""
  path = tmp_path / "a.txt"
  texts = [letter * 20_000 for letter in "abcdef"]  # more than a reader's buffer
  path.write_text("\n".join(texts) + "\n")
  plan, reader = build([path], None, 3), ShardReader(InputFormat())
  reader.read(plan.shards[0])
  content = path.read_bytes()
  os.truncate(path, 4 * 20_001)
  with pytest.raises(DataError):
    reader.read(plan.shards[1])
  with open(path, "ab") as file:
    file.write(content[4 * 20_001 :])
  assert [record.text for record in reader.read(plan.shards[1]).records] == texts[3:]
  reader.close()
