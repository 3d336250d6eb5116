"""An output folder resumes the same run and rejects any other; object stores."""

import json
import os

import fsspec
import numpy as np
import pytest

from bert_flow_tf.corpus import resume
from bert_flow_tf.corpus.embedding import pending, run_streaming
from bert_flow_tf.corpus.resume import Manifest
from bert_flow_tf.corpus.shard_plan import changed_input, find_inputs
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.vectors.shards import ShardFolder
from tests.corpus import toy
from tests.testing import rejected

FORMAT = InputFormat()
SETTINGS = {"dim": 4, "input": {"kind": "text"}}


def begin(tmp_path, settings=None, paths=("corpus.txt",), output="out"):
  manifest = Manifest(str(tmp_path / output), settings or SETTINGS, {"versions": {}})
  with manifest.lock():
    return manifest, manifest.begin([str(tmp_path / path) for path in paths], FORMAT, 10, 1 << 20)


def test_the_same_run_resumes(tmp_path):
  toy.corpus(tmp_path, ["one"] * 25)
  manifest, plan = begin(tmp_path)
  assert len(plan.shards) == 3
  (tmp_path / "out/index.json").unlink()  # killed before it was written
  assert begin(tmp_path)[1] == plan
  os.utime(tmp_path / "corpus.txt", (1, 1))
  assert begin(tmp_path)[1] == plan
  folder = ShardFolder(str(tmp_path / "out"), 3, "npy", 4)
  run_streaming(plan, folder, FORMAT, toy.Model(), toy.SETTINGS)
  manifest.write(plan, {"read": 25})
  written = json.loads((tmp_path / "out/manifest.json").read_text())
  assert written["complete"] and written["counters"] == {"read": 25} and written["inputs"][0]["records"] == 25
  assert begin(tmp_path)[1] == plan


def test_a_run_that_was_killed_between_its_two_files_resumes(tmp_path, monkeypatch):
  write, written = resume.write_sealed, []

  def write_one(folder, name, values, names=()):
    if written:
      raise KeyboardInterrupt
    written.append(name)
    write(folder, name, values, names)

  (tmp_path / "corpus.txt").write_text("a\nb\n")
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(resume, "write_sealed", write_one)
    begin(tmp_path)
  assert len(sorted(os.listdir(tmp_path / "out"))) == 1
  _, plan = begin(tmp_path)
  assert plan.records == 2 and sorted(os.listdir(tmp_path / "out")) == ["index.json", "manifest.json"]


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
      plan = manifest.begin(paths, FORMAT, 2, 1 << 20)
      run_streaming(plan, folder, FORMAT, toy.Model(), toy.SETTINGS)
    manifest.write(plan, {})
    store.pipe(f"/out/{folder.name(1, 'npy')}", b"cut")
  assert changed_input(plan.inputs) is None and len(pending(plan, folder)[0]) == 1
  assert folder.finished(0) is not None and folder.finished(1) is None
  run_streaming(plan, folder, FORMAT, toy.Model(), toy.SETTINGS)
  store.get("/out", str(tmp_path / "out"), recursive=True)
  ids, vectors = toy.read_npy(tmp_path / "out")
  assert ids == ["1", "2", "3"]
  np.testing.assert_array_equal(vectors, [toy.vector(sentence) for sentence in ("three", "one", "two")])
  store.pipe("/in/a.txt", b"seven\n")
  assert changed_input(plan.inputs) == paths[0]
  for path in ("no-such-scheme://a/*", "s3://bucket/*"):
    with pytest.raises(ConfigError, match=path.partition("*")[0]):
      find_inputs([path])
