"""An output folder goes on with the same run and refuses any other."""

import json
import os

import pytest

from bert_flow_tf.corpus.formats import InputFormat
from bert_flow_tf.corpus.manifest import Manifest
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.corpus.streaming import run_streaming
from bert_flow_tf.errors import ConfigError
from tests.corpus import toy

WANTED = InputFormat()
SETTINGS = {"dim": 4, "input": {"kind": "text"}}


def begin(tmp_path, settings=None, paths=("corpus.txt",), output="out"):
  manifest = Manifest(str(tmp_path / output), settings or SETTINGS, {"versions": {}})
  manifest.check()
  with manifest.lock():
    return manifest, manifest.begin([str(tmp_path / path) for path in paths], WANTED, 10, 1 << 20, False)


def test_the_same_run_goes_on(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  manifest, index = begin(tmp_path)
  assert len(index.shards) == 3
  os.utime(tmp_path / "corpus.txt", (1, 1))
  assert begin(tmp_path)[1] == index
  folder = ShardFolder(str(tmp_path / "out"), 3, "npy", 4)
  run_streaming(index, folder, WANTED, toy.embed, show_progress=False)
  manifest.write(index, {"read": 25})
  written = json.loads((tmp_path / "out/manifest.json").read_text())
  assert written["complete"] and written["counters"] == {"read": 25} and written["inputs"][0]["records"] == 25
  assert begin(tmp_path)[1] == index


def test_another_run_is_refused(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  (tmp_path / "more.txt").write_text("x\n")
  begin(tmp_path)
  refused = [
    ({"settings": {"dim": 4, "input": {"kind": "tsv"}}}, 'another run: input.kind "text" there, "tsv" now'),
    ({"settings": {"dim": 5, "input": {"kind": "text"}}}, "dim 4 there, 5 now"),
    ({"settings": {**SETTINGS, "new": 1}}, "new null there, 1 now"),
    ({"paths": ("corpus.txt", "more.txt")}, "more.txt"),
    ({"paths": ("more.txt",)}, "see .*corpus.txt"),
  ]
  for arguments, message in refused:
    with pytest.raises(ConfigError, match=rf"--output_dir=.*{message}.*; choose another folder"):
      begin(tmp_path, **arguments)
  (tmp_path / "corpus.txt").write_text("two\n" * 25)
  os.utime(tmp_path / "corpus.txt", (1, 1))
  with pytest.raises(ConfigError, match=r"corpus\.txt was changed since"):
    begin(tmp_path)


@pytest.mark.parametrize(
  ("name", "text", "message"),
  [
    ("thesis.doc", "x", "thesis.doc and no manifest.json"),
    ("manifest.json", "{", "manifest.json that cannot be read as json"),
    ("manifest.json", "[1]", "manifest.json that cannot be read as json"),
    ("manifest.json", "{}", "not of this program"),
    ("index.json", "{}", "index.json and no manifest.json"),
  ],
)
def test_other_folders_are_refused(tmp_path, name, text, message):
  toy.corpus(tmp_path, ["one"] * 5)
  (tmp_path / "out" / name).write_text(text)
  with pytest.raises(ConfigError, match=message):
    begin(tmp_path)
  assert os.listdir(tmp_path / "out") == [name]


def test_a_damaged_index(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  index = begin(tmp_path)[1]
  for text in ("{}", '{"inputs": [], "shards": [1]}', '{"inputs": [{}], "shards": []}'):
    (tmp_path / "out/index.json").write_text(text)
    with pytest.raises(ConfigError, match=r"index\.json that is not of this program"):
      begin(tmp_path)
  (tmp_path / "out/index.json").unlink()  # killed before it was written
  assert begin(tmp_path)[1] == index


def test_two_runs_at_once_are_refused(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  (tmp_path / "out/.shard-00000-of-00001.npy.x1.writing").touch()
  manifest = Manifest(str(tmp_path / "out"), SETTINGS)
  with manifest.lock():
    assert os.listdir(tmp_path / "out") == [".lock"]
    with pytest.raises(ConfigError, match="another run is at work there"):
      begin(tmp_path)
  begin(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
  toy.corpus(tmp_path, ["one"] * 5)
  for output in ("corpus.txt", "corpus.txt/below"):
    with pytest.raises(ConfigError, match="cannot be made"):
      begin(tmp_path, output=output)
