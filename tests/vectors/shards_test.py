"""Files of a shard, and which shards are finished."""

import os

import numpy as np
import pytest

from bert_flow_tf.io import storage
from bert_flow_tf.vectors.shards import BadRecord, Record, ShardFolder, ShardRecords, add_counters

VECTORS = np.arange(6, dtype=np.float32).reshape(2, 3) / 7


def shard(bad=True):
  records = [Record("a", "one", "f", 1), Record("é\u2028", "two", "f", 3)]
  odd = [
    BadRecord("f\t.txt", 2, "not UTF-8", "byte 0xff"),
    BadRecord("f", 5, "columns", "2"),
    BadRecord("f", 6, "columns", "3"),
  ]
  return ShardRecords(records, odd if bad else [], skipped=4)


def names(folder):
  return sorted(os.listdir(folder))


def test_npy(tmp_path):
  folder = ShardFolder(str(tmp_path), 12, "npy", 3)
  assert folder.finished(3) is None
  counters = folder.write(3, shard(), VECTORS)
  assert names(tmp_path) == [
    "dead-letter-00003-of-00012.tsv",
    "shard-00003-of-00012.ids.txt",
    "shard-00003-of-00012.json",
    "shard-00003-of-00012.npy",
  ]
  loaded = np.load(tmp_path / "shard-00003-of-00012.npy")
  assert loaded.dtype == np.float32
  np.testing.assert_array_equal(loaded, VECTORS)
  assert (tmp_path / "shard-00003-of-00012.ids.txt").read_bytes().decode() == "a\né\u2028\n"
  lines = (tmp_path / "dead-letter-00003-of-00012.tsv").read_text().split("\n")
  assert lines == ["f\\t.txt\t2\tnot UTF-8\tbyte 0xff", "f\t5\tcolumns\t2", "f\t6\tcolumns\t3", ""]
  expected = {"read": 9, "embedded": 2, "skipped (empty)": 4, "bad": 3, "bad (not UTF-8)": 1, "bad (columns)": 2}
  assert counters == folder.finished(3) == expected
  assert add_counters([expected, expected])["bad (columns)"] == 4
  folder.write(0, ShardRecords(skipped=2), np.empty([0, 3], np.float32))
  assert np.load(tmp_path / "shard-00000-of-00012.npy").shape == (0, 3)
  assert folder.finished(0) == {"read": 2, "embedded": 0, "skipped (empty)": 2, "bad": 0}


@pytest.mark.parametrize("shards", [1, 99_999, 100_000, 100_001, 1_000_000])
def test_names_sort_like_the_numbers(shards):
  folder = ShardFolder("", shards, "npy", 3)
  numbers = sorted({0, 9_999 % shards, shards // 2, shards - 1})
  written = [folder.name(number, "npy") for number in numbers]
  assert written == sorted(written) and int(written[-1].split("-")[1]) == shards - 1


@pytest.mark.parametrize("name", ["npy", "ids.txt", "json"])
@pytest.mark.parametrize("damage", ["absent", "cut", "empty"])
def test_an_incomplete_shard_is_not_finished(tmp_path, name, damage):
  folder = ShardFolder(str(tmp_path), 1, "npy", 3)
  folder.write(0, shard(), VECTORS)
  path = tmp_path / f"shard-00000-of-00001.{name}"
  path.write_bytes(path.read_bytes()[:-3] if damage == "cut" else b"")
  if damage == "absent":
    path.unlink()
  assert folder.finished(0) is folder.finished(0, storage.sizes(str(tmp_path))) is None
  folder.write(0, shard(), VECTORS)
  assert folder.finished(0) == folder.finished(0, storage.sizes(str(tmp_path))) is not None
