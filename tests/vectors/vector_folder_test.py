"""Folders of vectors: rows, ids and keys are read; damage and wrong folders are one sentence."""

import importlib.util
import json
import shutil

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.vectors.duplicates import duplicates_of_folder
from bert_flow_tf.vectors.inverted_lists import EXACT
from bert_flow_tf.vectors.search_choice import search_of_folder
from bert_flow_tf.vectors.sentence_index import SentenceIndex, index_vectors
from bert_flow_tf.vectors.unread_keys import unread_keys
from bert_flow_tf.vectors.vector_folder import VectorFolder, find_vector_files
from tests.testing import edit_json, rejected
from tests.vectors.toy_folder import FORMATS, SENTENCES, Reader, Wide, content_of, embed


@pytest.mark.parametrize("output", FORMATS)
def test_vectors_and_ids_are_read(tmp_path, output):
  expected = embed(tmp_path / "vectors", output=output)
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  rows = np.array([249, 0, 50, 49, 120])
  np.testing.assert_allclose(
    (vectors.rows.take(rows) * expected[rows]).sum(axis=1), np.linalg.norm(expected[rows], axis=1)
  )
  blocks = [block for _, block in vectors.rows.blocks(30)]
  np.testing.assert_array_equal(np.concatenate(blocks), vectors.rows.take(np.arange(250)))
  assert [vectors.id_of(row) for row in rows.tolist()] == ["250", "1", "51", "50", "121"]


@pytest.mark.parametrize("output", FORMATS)
def test_keys_of_what_was_not_read(tmp_path, output, caplog):
  embed(tmp_path / "vectors", model=Reader(), output=output)
  keys = VectorFolder.open(str(tmp_path / "vectors")).unread_keys()
  np.testing.assert_array_equal(keys, unread_keys(Reader(), SENTENCES))
  known = [text for text in SENTENCES if text[-3] != "2" or "0" not in text]
  assert keys.min() == -1 and len(np.unique(keys)) == 1 + len(known)  # each has another number
  path = tmp_path / "vectors/shard-00004-of-00005.unread.txt"
  path.write_text(path.read_text().replace("1", "2"))
  with rejected(DataError, "vectors", match="unread.txt: damaged"):
    VectorFolder.open(str(tmp_path / "vectors")).unread_keys()
  # Folders of version 0.2 have none.
  embed(tmp_path / "old", output=output)
  for receipt in (tmp_path / "old").glob("shard-*.json"):
    edit_json(receipt, unread=None, sha256=None)
  with caplog.at_level("INFO", logger="absl"):
    assert not VectorFolder.open(str(tmp_path / "old")).unread_keys().any()
  assert "5 shards of 5 without keys" in caplog.text


@pytest.mark.parametrize("output", FORMATS)
def test_a_damaged_shard_is_neither_searched_nor_compared(tmp_path, output):
  embed(tmp_path / "vectors", output=output)
  embed(tmp_path / "others")
  folder, others = str(tmp_path / "vectors"), VectorFolder.open(str(tmp_path / "others"))
  shard = tmp_path / f"vectors/shard-00002-of-00005.{output}"
  good = shard.read_bytes()
  shard.write_bytes(good[:-20] + bytes([good[-20] ^ 1]) + good[-19:])
  vectors = VectorFolder.open(folder)
  for call, argument in [
    (lambda: search_of_folder(vectors, EXACT, 1), "vectors"),
    (lambda: duplicates_of_folder(vectors, 0.9, EXACT, False), "vectors"),
    (lambda: duplicates_of_folder(others, 0.9, EXACT, False, against=vectors), "against"),
  ]:
    with rejected(DataError, argument, match=f"{shard.name}: damaged, it does not have its checksum"):
      call()
  shard.write_bytes(good[:-1])  # cut off
  with rejected(DataError, "vectors", match=f"{shard.name}: damaged, its files are not as .* makes it again"):
    VectorFolder.open(folder)
  shard.write_bytes(good)
  if output == "npy":
    ids = shard.with_suffix(".ids.txt")
    ids.write_text(ids.read_text().replace("101", "109"))
    with rejected(DataError, "vectors", match=f"{ids.name}: damaged"):
      VectorFolder.open(folder).id_of(100)


def test_wrong_folders_are_one_sentence(tmp_path):
  folder = tmp_path / "vectors"
  embed(folder / "a")
  embed(folder / "b", encoder="other")
  embed(tmp_path / "wide/a", model=Wide())
  shutil.copytree(folder / "a", tmp_path / "wide/b")
  for name in ("records", "part", "odd"):
    shutil.copytree(folder / "a", tmp_path / name)
  settings = json.loads((tmp_path / "records/manifest.json").read_text())["settings"]
  edit_json(tmp_path / "records/manifest.json", settings=settings | {"output_format": "tfrecord"}, sha256=None)
  (tmp_path / "part/shard-00003-of-00005.json").unlink()
  (tmp_path / "empty").mkdir()
  edit_json(tmp_path / "odd/manifest.json", records=7)
  before = content_of(tmp_path)
  expected = {
    "vectors": (ConfigError, "/a and .*/b are of different encoders or calibrations .weights toy and other"),
    "wide": (ConfigError, "/a and .*/b are of different .*dimensions 8 and 4"),
    "records": (ConfigError, "shards are tfrecord; expected npy, parquet or jsonl"),
    "part": (ConfigError, "4 of 5 shards; the same bert-flow embed command"),
    "odd": (DataError, "manifest.json: damaged"),
    "absent": (ConfigError, "no such folder"),
    "empty": (ConfigError, "no manifest.json in it"),
    "gs://bucket/x": (ConfigError, "no such folder"),
  }
  for name, (error, match) in expected.items():
    path = name if "://" in name else str(tmp_path / name)
    with rejected(error, "vectors", match=match):
      VectorFolder.open(path)
  assert content_of(tmp_path) == before


def test_folders_inside_a_folder_are_read(tmp_path):
  """The folder itself is the first; an index of it alone is older than its vectors."""
  folder = tmp_path / "vectors"
  expected = [embed(folder, SENTENCES[:60])]
  if importlib.util.find_spec("faiss"):
    index_vectors(str(folder), show_progress_bar=False)
  expected += [embed(folder / "2026/may", SENTENCES[60:70]), embed(folder / "more", SENTENCES[70:140])]
  vectors = VectorFolder.open(str(folder))
  ids = ["1", "60", "2026/may/1", "2026/may/10", "more/1", "more/70"]
  assert [vectors.id_of(row) for row in (0, 59, 60, 69, 70, 139)] == ids
  assert vectors.id_of(69, with_run=False) == "10" and vectors.id_of_several_runs() == "1"
  assert VectorFolder.open(str(folder / "more")).id_of_several_runs() is None
  units = np.concatenate(expected) / np.linalg.norm(np.concatenate(expected), axis=1, keepdims=True)
  np.testing.assert_allclose(vectors.rows.take(np.arange(140)), units, atol=1e-6)
  hits = search_of_folder(vectors, EXACT, 1).search(units[[65, 130]], 1)
  assert hits.rows.ravel().tolist() == [65, 130]
  assert sum(map(len, find_vector_files([str(folder)]))) == 140
  if importlib.util.find_spec("faiss"):
    with rejected(
      ConfigError, "vectors", match="older than its shards .3 of 5 are not in it.; bert-flow index .* adds"
    ):
      SentenceIndex.load(str(folder))
    assert len(index_vectors(str(folder), show_progress_bar=False)) == 140
  # Links are followed; vectors are not compared with themselves.
  (tmp_path / "links").mkdir()
  (tmp_path / "links/more").symlink_to(folder / "more")
  assert len(VectorFolder.open(str(tmp_path / "links")).rows) == 70
  with rejected(ConfigError, "against", match="holds .*/more, which is compared with it"):
    duplicates_of_folder(VectorFolder.open(str(folder / "more")), 0.9, EXACT, False, against=vectors)
  embed(tmp_path / "other", encoder="other")
  shutil.move(tmp_path / "other", folder / "other")
  with rejected(ConfigError, "vectors", match="different encoders .*; move .*/vectors/other out of the other"):
    VectorFolder.open(str(folder))


def test_a_manifest_counts_no_further_than_its_files(tmp_path):
  """A billion shards took minutes."""
  embed(tmp_path / "vectors", SENTENCES[:9])
  edit_json(tmp_path / "vectors/manifest.json", shards=10**9, sha256=None)
  with rejected(ConfigError, "vectors", match="0 of 1000000000 shards"):
    VectorFolder.open(str(tmp_path / "vectors"))


def test_vectors_with_nan_are_named(tmp_path):
  embed(tmp_path / "vectors")
  rows = np.load(tmp_path / "vectors/shard-00001-of-00005.npy")
  rows[7, 2] = np.nan
  np.save(tmp_path / "vectors/shard-00001-of-00005.npy", rows)
  with rejected(DataError, "vectors", match="shard-00001-of-00005.npy, row 7 .*NaN"):
    list(VectorFolder.open(str(tmp_path / "vectors")).rows.blocks())


def test_hidden_folders_and_manifests_of_other_programs_are_passed_over(tmp_path, caplog):
  embed(tmp_path / "project/monday", SENTENCES[:60])
  embed(tmp_path / "project/monday/tuesday", SENTENCES[:70])
  folder = str(tmp_path / "project")
  shutil.copytree(tmp_path / "project/monday", tmp_path / "project/.ipynb_checkpoints")
  shutil.copytree(tmp_path / "project/monday", tmp_path / "project/monday/.copy")
  foreign = tmp_path / "project/node_modules/package/manifest.json"
  foreign.parent.mkdir(parents=True)
  for content in ('{"name": "app"}', '[{"format_version": 1}]'):
    foreign.write_text(content)
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
      assert len(VectorFolder.open(folder).rows) == 130
    assert f"{foreign}: is of another program" in caplog.text
    assert sum(map(len, find_vector_files([folder]))) == 130
  # A hidden folder that is named is read; a damaged manifest, and another program's in the named folder, are errors.
  assert len(VectorFolder.open(str(tmp_path / "project/.ipynb_checkpoints")).rows) == 130
  foreign.unlink()
  path = tmp_path / "project/monday/manifest.json"
  whole = path.read_text()
  for content, name in ((whole[:-9], "project"), ('{"name": "app"}', "project/monday")):
    path.write_text(content)
    match = "monday/manifest.json: damaged, or of another program.* delete this folder, and the same bert-flow embed"
    with rejected(DataError, "vectors", match=match):
      VectorFolder.open(str(tmp_path / name))


def test_a_list_in_place_of_one_file_is_told_how_to_be_given(tmp_path):
  for name in ("a", "b"):
    np.save(tmp_path / f"{name}.npy", np.eye(3, dtype=np.float32))
  names = f"{tmp_path}/a.npy,{tmp_path}/b.npy"
  with rejected(ConfigError, "vectors", match=f"no such .npy file; several are a list of the flag: --input={names}$"):
    find_vector_files([names])
  with rejected(ConfigError, "vectors", match=r"no such \.npy file$"):
    find_vector_files([f"{names},{tmp_path}/c.npy"])
