"""An output folder resumes the same run and rejects any other."""

import json
import os

import pytest

from bert_flow_tf.corpus.embedding import run_streaming
from bert_flow_tf.corpus.reading import InputFormat
from bert_flow_tf.corpus.shards import Manifest, ShardFolder
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import files
from tests.corpus import toy

FORMAT = InputFormat()
SETTINGS = {"dim": 4, "input": {"kind": "text"}}


def begin(tmp_path, settings=None, paths=("corpus.txt",), output="out"):
  manifest = Manifest(str(tmp_path / output), settings or SETTINGS, {"versions": {}})
  manifest.check()
  with manifest.lock():
    return manifest, manifest.begin([str(tmp_path / path) for path in paths], FORMAT, 10, 1 << 20, False)


def test_the_same_run_resumes(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  manifest, index = begin(tmp_path)
  assert len(index.shards) == 3
  os.utime(tmp_path / "corpus.txt", (1, 1))
  assert begin(tmp_path)[1] == index
  folder = ShardFolder(str(tmp_path / "out"), 3, "npy", 4)
  run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS, show_progress=False)
  manifest.write(index, {"read": 25})
  written = json.loads((tmp_path / "out/manifest.json").read_text())
  assert written["complete"] and written["counters"] == {"read": 25} and written["inputs"][0]["records"] == 25
  assert begin(tmp_path)[1] == index


def test_a_run_that_writes_nothing_leaves_no_folder(tmp_path):
  (tmp_path / "empty.txt").write_text("")
  (tmp_path / "out").mkdir()
  for output in ("below/two", "out"):
    with pytest.raises(DataError):
      begin(tmp_path, paths=("empty.txt",), output=output)
  assert sorted(os.listdir(tmp_path)) == ["empty.txt", "out"] and not os.listdir(tmp_path / "out")


def check_rejected(tmp_path, part=".", **arguments):
  with pytest.raises(ConfigError, match=part) as raised:
    begin(tmp_path, **arguments)
  assert raised.value.argument == "output_dir"


def test_another_run_is_rejected(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  (tmp_path / "more.txt").write_text("x\n")
  begin(tmp_path)
  check_rejected(tmp_path, "input.kind", settings={"dim": 4, "input": {"kind": "tsv"}})
  check_rejected(tmp_path, "dim 4, now 5", settings={"dim": 5, "input": {"kind": "text"}})
  check_rejected(tmp_path, "new None, now 1", settings={**SETTINGS, "new": 1})
  check_rejected(tmp_path, "more.txt", paths=("corpus.txt", "more.txt"))
  check_rejected(tmp_path, "corpus.txt", paths=("more.txt",))
  (tmp_path / "corpus.txt").write_text("two\n" * 25)
  os.utime(tmp_path / "corpus.txt", (1, 1))
  check_rejected(tmp_path, "corpus.txt")


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("thesis.doc", "x"),
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
  assert os.listdir(tmp_path / "out") == [name]


def test_a_damaged_index(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  index = begin(tmp_path)[1]
  for text in ("[" * 100_000, "{}", '{"inputs": [], "shards": [1]}', '{"inputs": [{}], "shards": []}'):
    (tmp_path / "out/index.json").write_text(text)
    check_rejected(tmp_path, "index.json")
  (tmp_path / "out/index.json").unlink()  # killed before it was written
  assert begin(tmp_path)[1] == index


def test_two_runs_at_once_are_rejected(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  (
    tmp_path / f"out/.shard-00000-of-00001.npy.{files.HOST}.4194304.abcd1234.writing"
  ).touch()  # of a process that was killed
  with Manifest(str(tmp_path / "out"), SETTINGS).lock():
    assert not os.listdir(tmp_path / "out")
    (
      tmp_path / f"out/.shard-00000-of-00001.npy.{files.HOST}.4194304.abcd1234.writing"
    ).touch()  # of a worker that dies meanwhile
    (tmp_path / "out/kept").touch()
    check_rejected(tmp_path)
  (tmp_path / "out/kept").unlink()
  assert not os.listdir(tmp_path / "out")
  running = (
    tmp_path / f"out/.shard-00000-of-00001.npy.{files.HOST}.{os.getpid()}.abcd1234.writing"
  )  # of a worker of a killed run
  running.touch()
  begin(tmp_path)
  assert running.exists()


@pytest.mark.parametrize("name", [".lock", "x.writing", ".shard-00000-of-00001.npy.writing"])
def test_files_of_others_are_rejected_and_stay(tmp_path, name):
  toy.corpus(tmp_path, ["one"] * 5)
  (tmp_path / "out" / name).write_text("kept")
  check_rejected(tmp_path, name)
  assert (tmp_path / "out" / name).read_text() == "kept"


def test_a_folder_that_cannot_be_made(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  for output in ("corpus.txt", "corpus.txt/below"):
    check_rejected(tmp_path, output=output)
