"""Files of a shard, which shards are finished; an output folder resumes the same run and rejects any other;
object stores."""

import json
import os

import fsspec
import numpy as np
import pytest

from bert_flow_tf.corpus import shards
from bert_flow_tf.corpus.embedding import pending, run_streaming
from bert_flow_tf.corpus.index import BadRecord, Record, ShardRecords, changed_input, find_inputs
from bert_flow_tf.corpus.shards import Manifest, ShardFolder, add_counters, with_names
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import storage
from tests.corpus import toy
from tests.testing import rejected

FORMAT = InputFormat()
SETTINGS = {"dim": 4, "input": {"kind": "text"}}
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


def begin(tmp_path, settings=None, paths=("corpus.txt",), output="out"):
  manifest = Manifest(str(tmp_path / output), settings or SETTINGS, {"versions": {}})
  with manifest.lock():
    return manifest, manifest.begin([str(tmp_path / path) for path in paths], FORMAT, 10, 1 << 20)


def test_the_same_run_resumes(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  manifest, index = begin(tmp_path)
  assert len(index.shards) == 3
  (tmp_path / "out/index.json").unlink()  # killed before it was written
  assert begin(tmp_path)[1] == index
  os.utime(tmp_path / "corpus.txt", (1, 1))
  assert begin(tmp_path)[1] == index
  folder = ShardFolder(str(tmp_path / "out"), 3, "npy", 4)
  run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS)
  manifest.write(index, {"read": 25})
  written = json.loads((tmp_path / "out/manifest.json").read_text())
  assert written["complete"] and written["counters"] == {"read": 25} and written["inputs"][0]["records"] == 25
  assert begin(tmp_path)[1] == index


def test_a_run_that_was_killed_between_its_two_files_resumes(tmp_path, monkeypatch):
  write, written = shards.write_json, []

  def write_one(folder, name, values, names=()):
    if written:
      raise KeyboardInterrupt
    written.append(name)
    write(folder, name, values, names)

  (tmp_path / "corpus.txt").write_text("a\nb\n")
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(shards, "write_json", write_one)
    begin(tmp_path)
  assert len(names(tmp_path / "out")) == 1
  _, index = begin(tmp_path)
  assert index.records == 2 and names(tmp_path / "out") == ["index.json", "manifest.json"]


def test_a_run_that_writes_nothing_leaves_no_folder(tmp_path):
  (tmp_path / "empty.txt").write_text("")
  (tmp_path / "out").mkdir()
  for output in ("below/two", "out"):
    with pytest.raises(DataError):
      begin(tmp_path, paths=("empty.txt",), output=output)
  assert sorted(os.listdir(tmp_path)) == ["empty.txt", "out"] and not os.listdir(tmp_path / "out")


def check_rejected(tmp_path, part, **arguments):
  with rejected(ConfigError, "output_dir", match=part):
    begin(tmp_path, **arguments)


def test_another_run_is_rejected(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  (tmp_path / "more.txt").write_text("x\n")
  begin(tmp_path)
  check_rejected(tmp_path, "input.kind", settings={"dim": 4, "input": {"kind": "tsv"}})
  check_rejected(tmp_path, "dim", settings={"dim": 5, "input": {"kind": "text"}})
  check_rejected(tmp_path, "new", settings={**SETTINGS, "new": 1})
  check_rejected(tmp_path, "more.txt", paths=("corpus.txt", "more.txt"))
  check_rejected(tmp_path, "corpus.txt", paths=("more.txt",))
  (tmp_path / "corpus.txt").write_text("two\n" * 25)
  os.utime(tmp_path / "corpus.txt", (1, 1))
  check_rejected(tmp_path, "corpus.txt")


def test_another_model_is_named_first():
  before, now = {"encoder": {"name": "mini"}, "calibration": {"name": "flow"}}, {"encoder": {"name": "static:mini"}}
  different = ["embedder.architecture gelu, now None", "embedder.calibration_sha256 a, now None", "dim 2, now 3"]
  assert with_names(different, before, now) == ["mini+flow, now static:mini", *different[:2]]
  assert with_names(different, now, now) == different and with_names(different[2:], before, now) == different[2:]


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("thesis.doc", "x"),
    (".lock", "x"),
    ("x.writing", "x"),
    (".shard-00000-of-00001.npy.writing", "x"),
    ("manifest.json", "{"),
    ("manifest.json", "[1]"),
    ("manifest.json", "{}"),
    ("index.json", "{}"),
  ],
)
def test_other_folders_are_rejected(tmp_path, name, text):
  toy.corpus(tmp_path, ["one"] * 5)
  (tmp_path / "out" / name).write_text(text)
  check_rejected(tmp_path, name)
  assert os.listdir(tmp_path / "out") == [name] and (tmp_path / "out" / name).read_text() == text


def test_two_runs_at_once_are_rejected(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  with Manifest(str(tmp_path / "out"), SETTINGS).lock():
    check_rejected(tmp_path, "another run uses")
  (tmp_path / "out" / ".manifest.json.writing").touch()  # from a run that was killed
  begin(tmp_path)
  assert sorted(os.listdir(tmp_path / "out")) == ["index.json", "manifest.json"]


def test_a_folder_that_cannot_be_made(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  for output in ("corpus.txt", "corpus.txt/below"):
    check_rejected(tmp_path, "cannot be created", output=output)


def test_an_object_store(tmp_path):
  """fsspec's store in memory: input, output, manifest, restart."""
  store = fsspec.filesystem("memory")
  store.pipe({"/in/b.txt": b"one\ntwo\n", "/in/a.txt": b"three\n"})
  paths = find_inputs(["memory://in/*.txt"])
  assert paths == ["memory:///in/a.txt", "memory:///in/b.txt"]
  manifest = Manifest("memory://out", {"dim": toy.DIM})
  folder = ShardFolder("memory://out", 2, "npy", toy.DIM)
  for _ in range(2):
    with manifest.lock():
      index = manifest.begin(paths, FORMAT, 2, 1 << 20)
      run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS)
    manifest.write(index, {})
    store.pipe(f"/out/{folder.name(1, 'npy')}", b"cut")
  assert changed_input(index.inputs) is None and len(pending(index, folder)[0]) == 1
  assert folder.finished(0) is not None and folder.finished(1) is None
  run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS)
  store.get("/out", str(tmp_path / "out"), recursive=True)
  ids, vectors = toy.read_npy(tmp_path / "out")
  assert ids == ["1", "2", "3"]
  np.testing.assert_array_equal(vectors, [toy.vector(sentence) for sentence in ("three", "one", "two")])
  store.pipe("/in/a.txt", b"seven\n")
  assert changed_input(index.inputs) == paths[0]
  for path in ("no-such-scheme://a/*", "s3://bucket/*"):
    with pytest.raises(ConfigError, match=path.partition("*")[0]):
      find_inputs([path])
