"""An index of vectors against all cosines, through kills, damage and new shards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

from bert_flow_tf.errors import CalibrationError, ConfigError, DataError, EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import owned
from bert_flow_tf.vectors.inverted_lists import InvertedLists
from bert_flow_tf.vectors.sentence_index import SentenceIndex, index_vectors
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.corpus.toy import Model
from tests.testing import REPO, edit_json, rejected
from tests.vectors.toy_folder import FORMATS, SENTENCES, Wide, content_of, embed, needs_faiss
from tests.vectors.toy_rows import ROUNDING, all_cosines


@needs_faiss
@pytest.mark.parametrize("output", FORMATS)
def test_an_index_finds_what_all_cosines_find(tmp_path, output):
  folder = tmp_path / "vectors"
  expected = embed(folder, output=output)
  index = index_vectors(str(folder))
  queries = np.random.default_rng(0).uniform(size=[20, 4]) * 2**32
  cosines = all_cosines(queries, expected)
  scores, rows = index.search(queries, 5)
  np.testing.assert_allclose(scores, np.take_along_axis(cosines, rows, axis=1), atol=ROUNDING)
  assert np.mean(scores >= -np.sort(-cosines, axis=1)[:, 4:5] - ROUNDING) > 0.9 and index.recall > 0.9
  before = content_of(folder)
  assert len(index_vectors(str(folder))) == 250 and content_of(folder) == before


@needs_faiss
def test_new_shards_are_added_without_a_rebuild(tmp_path):
  expected = embed(tmp_path / "vectors/b")
  index_vectors(str(tmp_path / "vectors"))
  before = content_of(tmp_path / "vectors/index")
  more = embed(tmp_path / "vectors/a", [f"another {number}" for number in range(70)])
  changed = content_of(tmp_path / "vectors")
  with rejected(ConfigError, "vectors", match="older than its shards .2 of 7 are not in it.; bert-flow index"):
    SentenceIndex.load(tmp_path / "vectors")
  assert content_of(tmp_path / "vectors") == changed
  index = index_vectors(str(tmp_path / "vectors"))
  after = content_of(tmp_path / "vectors/index")
  assert (
    all(after[path] == before[path] for path in before if path.name != "index.json") and len(after) == len(before) + 2
  )
  _, rows = index.search(np.concatenate([more, expected]), 1)
  assert rows[:, 0].tolist() == list(range(320))
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  assert vectors.id_of(69) == "a/70" and vectors.id_of(70) == "b/1"
  # A run that is gone leaves the index, too.
  shutil.rmtree(tmp_path / "vectors/a")
  with rejected(ConfigError, "vectors", match="some that are gone"):
    SentenceIndex.load(tmp_path / "vectors")
  assert len(index_vectors(str(tmp_path / "vectors"))) == 250
  assert content_of(tmp_path / "vectors/index").keys() == before.keys()


_KILLED = """
import os, signal, sys
from bert_flow_tf.vectors.sentence_index import index_vectors
from bert_flow_tf.vectors.inverted_lists import InvertedLists
codes, calls = InvertedLists.codes, []
def killed(lists, rows):
  calls.append(0)
  if len(calls) == 3:
    os.kill(os.getpid(), signal.SIGKILL)
  return codes(lists, rows)
InvertedLists.codes = killed
index_vectors(sys.argv[1])
"""


@needs_faiss
def test_a_killed_run_resumes(tmp_path):
  folder = tmp_path / "vectors"
  expected = embed(folder)
  environment = {**os.environ, "PYTHONPATH": str(REPO), "OMP_DISPLAY_ENV": "verbose"}
  environment.pop("OMP_WAIT_POLICY", None)
  done = subprocess.run([sys.executable, "-c", _KILLED, str(folder)], env=environment, check=False, capture_output=True)
  assert done.returncode == -signal.SIGKILL, done.stderr
  # FAISS's threads leave their CPUs to others while they wait.
  assert b"GOMP_SPINCOUNT = '0'" in done.stderr or sys.platform != "linux"
  with rejected(ConfigError, "vectors", match="no complete index"):
    SentenceIndex.load(folder)
  before = {path: value for path, value in content_of(folder / "index").items() if path.suffix == ".codes"}
  assert len(before) == 2
  index = index_vectors(str(folder))
  after = content_of(folder / "index")
  assert all(after[path] == value for path, value in before.items())
  assert index.search(expected, 1).rows[:, 0].tolist() == list(range(250))


@needs_faiss
def test_a_full_disk_leaves_what_was_indexed(tmp_path, monkeypatch):
  folder = tmp_path / "vectors"
  embed(folder)
  sync, calls = os.fsync, []

  def full(handle):
    calls.append(handle)
    if len(calls) == 6:
      raise OSError(28, "No space left on device")
    return sync(handle)

  with monkeypatch.context() as patch:
    patch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
      index_vectors(str(folder))
  assert not [path for path in (folder / "index").iterdir() if path.name.startswith(".")]
  assert len(index_vectors(str(folder))) == 250


@needs_faiss
def test_damage_is_one_sentence(tmp_path):
  folder = tmp_path / "vectors"
  embed(folder)
  index_vectors(str(folder))
  for name in ("centroids.faiss", "00001.codes", "index.json"):
    path = folder / "index" / name
    good = path.read_bytes()
    path.write_bytes(good[:-9] + b"9" + good[-8:])
    for call in (SentenceIndex.load, index_vectors):
      if call is SentenceIndex.load or name != "00001.codes":
        with rejected(DataError, "vectors", match=f"{name}: damaged .*delete .*index"):
          call(str(folder))
    path.write_bytes(good)
  shard = folder / "shard-00002-of-00005.npy"
  good = shard.read_bytes()
  shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
  shutil.rmtree(folder / "index")
  with rejected(DataError, "vectors", match="shard-00002-of-00005.npy: damaged"):
    index_vectors(str(folder))


@needs_faiss
def test_an_index_of_another_encoder_is_kept(tmp_path):
  folder = tmp_path / "vectors"
  embed(folder)
  index_vectors(str(folder))
  manifest = json.loads((folder / "manifest.json").read_text())
  manifest["settings"]["embedder"]["weights"] = "other"
  edit_json(folder / "manifest.json", settings=manifest["settings"], sha256=None)
  before = content_of(folder)
  with rejected(EncoderError, "vectors", match="of another encoder or calibration; delete it"):
    index_vectors(str(folder))
  assert content_of(folder) == before


@needs_faiss
def test_in_memory(tmp_path):
  rows = np.random.default_rng(0).normal(size=[400, 6])
  index = SentenceIndex.build(rows[:300])
  index.add(rows[300:])
  assert len(index) == 400 and index.search(rows, 1).rows[:, 0].tolist() == list(range(400))
  assert index.search(rows[7], 400).rows.shape == (1, 400)
  index.save(tmp_path / "saved")
  loaded = SentenceIndex.load(tmp_path / "saved")
  np.testing.assert_array_equal(loaded.search(rows, 3).rows, index.search(rows, 3).rows)
  assert loaded.recall == index.recall
  loaded.add(rows[:5])
  loaded.save(tmp_path / "saved")
  assert len(SentenceIndex.load(tmp_path / "saved")) == 405
  SentenceIndex.build(rows[:1]).save(tmp_path / "one")
  assert SentenceIndex.load(tmp_path / "one").search(rows[0], 3).rows.tolist() == [[0]]
  (tmp_path / "other").mkdir()
  (tmp_path / "other/notes.txt").write_text("mine")
  with rejected(ConfigError, "folder", match="other files than an index"):
    index.save(tmp_path / "other")
  assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]
  for call, error, argument in [
    (lambda: index.search(rows[:, :5]), CalibrationError, "query_embeddings"),
    (lambda: index.search(rows, 0), ConfigError, "top_k"),
    (lambda: index.add(rows[:, :5]), CalibrationError, "embeddings"),
    (lambda: SentenceIndex.build(rows[:0]), ConfigError, "embeddings"),
    (lambda: SentenceIndex.load(tmp_path / "other"), ConfigError, "vectors"),
  ]:
    with rejected(error, argument):
      call()


@needs_faiss
def test_an_index_of_either_kind_is_made_again_as_the_error_says(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  rows = np.random.default_rng(0).normal(size=[300, 6])
  SentenceIndex.build(rows).save("saved")
  shutil.rmtree("saved/index")
  with rejected(ConfigError, "vectors", match=r"no complete index in it; SentenceIndex\.build.* makes it") as raised:
    SentenceIndex.load("saved")
  way = str(raised.value).split("; ")[1].removesuffix(" makes it")
  eval(way, {"SentenceIndex": SentenceIndex, "np": np, "model": None})
  assert SentenceIndex.load("saved").search(rows, 1).rows[:, 0].tolist() == list(range(300))
  embed(tmp_path / "vectors")
  with rejected(ConfigError, "vectors", match="no complete index in it; bert-flow index vectors makes it"):
    SentenceIndex.load("vectors")


@needs_faiss
def test_a_model_searches_its_own_index():
  import bert_flow_tf

  model = bert_flow_tf.SentenceModel.from_pretrained("static:mini")
  texts = ["A man is eating.", "Dogs run in the park.", "Prices rose in May."]
  index = SentenceIndex.build(model.encode(texts), model)
  found = bert_flow_tf.search(model, "A dog runs.", index, top_k=2)
  np.testing.assert_array_equal(found.rows, bert_flow_tf.search(model, "A dog runs.", texts, top_k=2).rows)
  model.fit(texts * 20, calibration="mean")
  with rejected(EncoderError, "vectors", match="another encoder or calibration.*calibration_sha256"):
    bert_flow_tf.search(model, "A dog runs.", index)


@needs_faiss
def test_two_runs_do_not_write_one_index(tmp_path):
  folder = tmp_path / "vectors"
  embed(folder)
  index_vectors(str(folder))
  before = content_of(folder)
  with owned(folder / "index", "vectors"), rejected(ConfigError, "vectors", match="another run"):
    index_vectors(str(folder))
  assert content_of(folder) == before


def test_a_damaged_index_with_right_checksums_is_one_sentence(tmp_path):
  """As another program, or a hand, may write it."""
  rows = np.random.default_rng(0).normal(size=[300, 4]).astype(np.float32)
  SentenceIndex.build(rows).save(tmp_path / "whole")
  state = json.loads((tmp_path / "whole/index/index.json").read_text())
  code = (tmp_path / "whole/index/00000.codes").read_bytes()
  damages = {
    "vectors.npy": [rows[:200], rows[:, :3], rows.reshape(300, 2, 2), rows.astype(object), rows.astype(str)],
    "index/00000.codes": [code[:-1], b"\xff" + code[1:], b""],
    "index/centroids.faiss": [b"", b"IwSq" + bytes(40), b"not an index"],
  }
  for name, contents in damages.items():
    for content in contents:
      folder = shutil.copytree(tmp_path / "whole", tmp_path / "damaged", dirs_exist_ok=True)
      if isinstance(content, np.ndarray):
        np.save(folder / name, content)
      else:
        (folder / name).write_bytes(content)
      part = state["parts"][0] | {"sha256": checksums.of_file(folder / "index/00000.codes")}
      values = state | {"parts": [part], "centroids": checksums.of_file(folder / "index/centroids.faiss")}
      (folder / "index/index.json").write_text(json.dumps(checksums.sealed(values)))
      with pytest.raises(DataError, match=name.rpartition("/")[2]) as error:
        SentenceIndex.load(folder)
      assert "\n" not in str(error.value)
  # A name outside the folder would be deleted, when its vectors are gone.
  shutil.copytree(tmp_path / "whole", tmp_path / "damaged", dirs_exist_ok=True)
  values = state | {"parts": [state["parts"][0] | {"codes": "../../other.codes"}]}
  (tmp_path / "damaged/index/index.json").write_text(json.dumps(checksums.sealed(values)))
  with rejected(DataError, "vectors"):
    SentenceIndex.load(tmp_path / "damaged")


@needs_faiss
@pytest.mark.parametrize("keep", [-1, 0.5, 0])
def test_cut_vectors_are_no_index(tmp_path, keep):
  SentenceIndex.build(np.random.default_rng(0).normal(size=[60, 4])).save(tmp_path)
  content = (tmp_path / "vectors.npy").read_bytes()
  (tmp_path / "vectors.npy").write_bytes(content[: keep if keep < 0 else int(len(content) * keep)])
  with pytest.raises(DataError, match=r"vectors\.npy"):
    SentenceIndex.load(tmp_path)


@needs_faiss
def test_a_run_in_place_of_another_is_indexed_anew(tmp_path):
  """Its codes are written over no other's, and what was measured before does not stay."""
  folder = tmp_path / "vectors"
  embed(folder / "a", SENTENCES[:50])
  kept = embed(folder / "b", [f"kept {number}" for number in range(60)])
  index_vectors(str(folder))
  shutil.rmtree(folder / "a")
  added = embed(folder / "c", [f"added {number}" for number in range(70)])
  index = index_vectors(str(folder))
  assert index.search(np.concatenate([kept, added]), 1).rows[:, 0].tolist() == list(range(130))
  codes = [part["codes"] for part in json.loads((folder / "index/index.json").read_text())["parts"]]
  assert len(set(codes)) == len(codes) == len(list((folder / "index").glob("*.codes")))


@needs_faiss
def test_what_was_measured_is_measured_again(tmp_path, monkeypatch):
  folder = tmp_path / "vectors"
  embed(folder / "a")
  index_vectors(str(folder))
  before = json.loads((folder / "index/index.json").read_text())
  embed(folder / "b", ["one more"])

  def tune(lists, rows, lowest=None):
    lists.probes, lists.recall = 1, 0.125

  monkeypatch.setattr(InvertedLists, "tune", tune)
  assert before["recall"] != 0.125 and index_vectors(str(folder)).recall == 0.125
  index = SentenceIndex.build(np.eye(4))
  index._lists.recall = 0.5
  index.add(np.ones([1, 4]))
  assert index.recall == 0.125


@needs_faiss
def test_an_index_of_another_encoder_is_not_searched(tmp_path):
  embed(tmp_path / "vectors")
  index_vectors(str(tmp_path / "vectors"))
  shutil.move(tmp_path / "vectors/index", tmp_path / "index")
  shutil.rmtree(tmp_path / "vectors")
  for model, encoder in ((Model(), "other"), (Wide(), "toy")):
    embed(tmp_path / encoder, encoder=encoder, model=model)
    shutil.copytree(tmp_path / "index", tmp_path / encoder / "index")
    with rejected(EncoderError, "vectors", match="of another encoder or calibration; delete it"):
      SentenceIndex.load(tmp_path / encoder)
  with rejected(EncoderError, "vectors", match="4 dimensions, and .* gives 8"):
    SentenceIndex.build(np.eye(4)).check_model(types.SimpleNamespace(name="wide", output_dim=8))
