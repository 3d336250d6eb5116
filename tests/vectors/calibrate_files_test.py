"""Calibrations of vectors in files, against NumPy and SciPy."""

import functools
import io
import pathlib
import shutil

import numpy as np
import pytest
from scipy import linalg

from bert_flow_tf.calibration.saving import calibration_sha256, load_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.training.calibrate import fit_calibration
from bert_flow_tf.vectors import calibrate_files, vector_file
from bert_flow_tf.vectors.calibrate_files import apply_to_files, fit_files
from bert_flow_tf.vectors.vector_folder import VectorFolder, find_vector_files
from tests.testing import REPO, rejected
from tests.vectors.toy_folder import FORMATS, SENTENCES, Reader, content_of, embed

DIM = 6
SMALL = {"flow_model_config": FlowConfig(n_levels=1, depth=1, coupling_width=8), "train_batch_size": 4}


def draw(n, seed=0):
  random = np.random.default_rng(seed)
  return (random.normal(size=[n, DIM]) @ random.normal(size=[DIM, DIM]) + 3.0).astype(np.float32)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
  """Makes several parts of each file."""
  monkeypatch.setattr(vector_file, "ROWS", 7)


@pytest.fixture
def shards(tmp_path):
  """Returns a folder of .npy shards as run_embed writes them, one of them without vectors; and all rows."""
  rows, folder = draw(50), tmp_path / "shards"
  folder.mkdir()
  for number, part in enumerate(np.split(rows, [20, 20])):
    np.save(folder / f"shard-{number}.npy", part)
    (folder / f"shard-{number}.ids.txt").write_text("".join(f"{number}-{row}\n" for row in range(len(part))))
  return folder, rows


def test_whitening_is_that_of_numpy(shards, tmp_path):
  folder, rows = shards
  fitted = fit_files([str(folder)], "whitening-4", str(tmp_path / "w"), "random vectors")
  assert fitted.count == 50 and load_calibration(tmp_path / "w").encoder == {"vectors_of": "random vectors"}
  counts = apply_to_files([f"{folder}/*.npy"], str(tmp_path / "w"), str(tmp_path / "out"), "random vectors")
  assert counts == {"shard-0.npy": 20, "shard-1.npy": 0, "shard-2.npy": 30}
  values, directions = linalg.eigh(np.cov(rows.astype(np.float64).T))
  expected = (rows - rows.mean(axis=0)) @ (directions / np.sqrt(values))[:, ::-1][:, :4]
  result = np.concatenate([np.load(tmp_path / f"out/shard-{number}.npy") for number in range(3)])
  assert result.dtype == np.float32
  np.testing.assert_allclose(np.abs(result), np.abs(expected), atol=1e-3)  # a direction has no sign
  np.testing.assert_allclose(np.cov(result.T), np.eye(4), atol=1e-3)
  for number in range(3):
    name = f"shard-{number}.ids.txt"
    assert (tmp_path / "out" / name).read_text() == (folder / name).read_text()


def test_flow_of_files_is_that_of_an_array(tmp_path):
  """The arrays stay on disk; neighbors are pairs, and the last of an odd number is left out."""
  rows = draw(41)
  for number, part in enumerate(np.split(rows, [9])):
    np.save(tmp_path / f"{number}.npy", part)
  files = [str(tmp_path / f"{number}.npy") for number in range(2)]
  fit_files(files, "flow", str(tmp_path / "flow"), show_progress=False, **SMALL)
  expected = fit_calibration(rows, "flow", show_progress=False, **SMALL)
  np.testing.assert_allclose(load_calibration(tmp_path / "flow").transform(rows), expected.transform(rows), atol=1e-5)
  assert not (tmp_path / "flow.fit").exists()


def test_a_fit_that_was_killed_while_it_deleted_its_checkpoints(tmp_path, monkeypatch):
  """The same command fits again, to the same flow."""
  np.save(tmp_path / "a.npy", draw(40))
  arguments = ([str(tmp_path / "a.npy")], "flow", str(tmp_path / "flow"))
  delete = shutil.rmtree

  def killed(folder, *others, **more):
    if str(folder).endswith("flow.fit"):  # a part of the files is deleted, in any order
      for file in pathlib.Path(folder).glob("checkpoints/ckpt-*"):
        file.unlink()
      raise KeyboardInterrupt
    delete(folder, *others, **more)

  with monkeypatch.context() as patch:
    patch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
      fit_files(*arguments, show_progress=False, **SMALL)
  expected = load_calibration(tmp_path / "flow").transform(draw(40))
  fit_files(*arguments, show_progress=False, **SMALL)
  np.testing.assert_array_equal(load_calibration(tmp_path / "flow").transform(draw(40)), expected)
  assert not (tmp_path / "flow.fit").exists()


def test_interrupted_run_is_resumed(shards, tmp_path):
  folder, _ = shards
  for _ in range(2):
    fit_files([str(folder)], "mean", str(tmp_path / "mean"))
    (tmp_path / "mean.fit").mkdir()  # as a kill between the last two steps of a fit leaves it
  arguments = [str(folder)], str(tmp_path / "mean"), str(tmp_path / "out")
  (tmp_path / "out").mkdir()
  (tmp_path / "out/.calibrated.json.writing").write_text("{")
  apply_to_files(*arguments)
  before = (tmp_path / "out/shard-2.npy").read_bytes()
  (tmp_path / "out/shard-2.npy").unlink()
  assert apply_to_files(*arguments) == {"shard-2.npy": 30}
  assert (tmp_path / "out/shard-2.npy").read_bytes() == before and apply_to_files(*arguments) == {}
  np.save(folder / "shard-2.npy", draw(31, seed=1))
  with rejected(ConfigError, "output"):
    apply_to_files(*arguments)


@pytest.mark.parametrize("output", FORMATS)
def test_a_folder_of_embed_stays_one(tmp_path, output, monkeypatch):
  embed(tmp_path / "vectors", model=Reader(), output=output)
  source = VectorFolder.open(str(tmp_path / "vectors"))
  fitted = fit_files([source.folder], "whitening-3", str(tmp_path / "w"))
  arguments = [source.folder], str(tmp_path / "w"), str(tmp_path / "out")
  # A run that is killed before the manifest resumes.
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(calibrate_files, "_write_manifest", functools.partial(stop, KeyboardInterrupt))
    apply_to_files(*arguments)
  with rejected(ConfigError, "vectors"):
    VectorFolder.open(str(tmp_path / "out"))
  assert apply_to_files(*arguments) == {}
  found = VectorFolder.open(str(tmp_path / "out"))
  found.check()
  rows = np.concatenate([file[:] for file in source.files])
  expected = fitted.transform(rows)
  expected /= np.linalg.norm(expected, axis=1, keepdims=True)
  np.testing.assert_allclose(found.rows.take(np.arange(len(rows))), expected, atol=1e-6)
  assert [found.id_of(row) for row in range(len(rows))] == [source.id_of(row) for row in range(len(rows))]
  np.testing.assert_array_equal(found.unread_keys(), source.unread_keys())
  assert found.embedder == source.embedder | {"calibration_sha256": calibration_sha256(tmp_path / "w")}
  assert found.manifest["calibration"] == {"name": "whitening-3", "folder": str(tmp_path / "w")}
  # Calibrated again, they are of two calibrations, which no model has.
  fit_files([found.folder], "mean", str(tmp_path / "mean"))
  apply_to_files([found.folder], str(tmp_path / "mean"), str(tmp_path / "twice"))
  assert len(list((tmp_path / "twice").glob("*.npy"))) == 5
  with rejected(ConfigError, "vectors"):
    VectorFolder.open(str(tmp_path / "twice"))
  # Files of several folders are not mixed, but all are fitted on.
  embed(tmp_path / "vectors/more", SENTENCES[:60], output=output)
  with rejected(ConfigError, "vectors", match="vectors and .*vectors/more are two folders .*move the second out"):
    apply_to_files([source.folder], str(tmp_path / "w"), str(tmp_path / "mixed"))
  assert not (tmp_path / "mixed").exists()
  shutil.rmtree(tmp_path / "vectors/more")
  # A run of embed that has not ended.
  (tmp_path / "vectors/shard-00004-of-00005.json").unlink()
  with rejected(ConfigError, "vectors", "4 of 5 shards"):
    find_vector_files([source.folder])
  # The manifest of another program.
  np.save(tmp_path / "manifest.npy", rows)
  (tmp_path / "manifest.json").write_text('{"shards": 4}')
  assert [file.path.name for file in find_vector_files([str(tmp_path)])] == ["manifest.npy"]


def test_an_output_inside_its_vectors_is_rejected(tmp_path):
  """Both would be read together; a folder that is there already is resumed."""
  source, inner = tmp_path / "vectors", tmp_path / "vectors/calibrated"
  embed(source)
  embed(tmp_path / "parent/a")
  fit_files([str(source)], "mean", str(tmp_path / "mean"))
  (tmp_path / "link").symlink_to(source)
  (source / "empty").mkdir()
  before = content_of(tmp_path)
  for vectors, output in (("vectors", "vectors/calibrated"), ("vectors", "vectors/empty"), ("vectors", "link/new/c")):
    with rejected(ConfigError, "output", match=f"^output=.*{output}: is inside the vectors .*/vectors, .*outside"):
      apply_to_files([str(tmp_path / vectors)], str(tmp_path / "mean"), str(tmp_path / output))
  with rejected(ConfigError, "output", match="parent/calibrated: is inside the vectors .*/parent, "):
    apply_to_files([str(tmp_path / "parent")], str(tmp_path / "mean"), str(tmp_path / "parent/calibrated"))
  with rejected(ConfigError, "output", match="is inside .*/parent/a, which .*calibration_sha256 none and"):
    apply_to_files([str(source)], str(tmp_path / "mean"), str(tmp_path / "parent/a/calibrated"))
  assert content_of(tmp_path) == before and not inner.exists()
  # One that is there already, as 0.2 left it, would become a part; a folder of vectors resumes.
  apply_to_files([str(source)], str(tmp_path / "mean"), str(tmp_path / "outside"))
  shutil.copytree(tmp_path / "outside", inner)
  (inner / "manifest.json").unlink()
  with rejected(ConfigError, "output", match="is inside the vectors"):
    apply_to_files([str(source)], str(tmp_path / "mean"), str(inner))
  shutil.copy(tmp_path / "outside/manifest.json", inner)
  arguments = [str(source)], str(tmp_path / "mean"), str(inner)
  expected = content_of(inner)
  assert apply_to_files(*arguments) == {}
  (inner / "shard-00001-of-00005.npy").unlink()
  assert apply_to_files(*arguments) == {"shard-00001-of-00005.npy": 50}
  assert {path: content for path, (content, _) in content_of(inner).items()} == {
    path: content for path, (content, _) in expected.items()
  }
  with rejected(ConfigError, "vectors", match="move .*/vectors/calibrated out of the other"):
    fit_files([str(source)], "sn", str(tmp_path / "sn"))
  fit_files([str(tmp_path / "parent")], "sn", str(tmp_path / "sn"))
  with rejected(ConfigError, "output", match="calibrated: holds the output of other vectors or another calibration"):
    apply_to_files([str(source)], str(tmp_path / "sn"), str(inner))


def stop(error, *arguments):
  raise error


def test_failed_file_leaves_nothing(shards, tmp_path):
  folder, rows = shards
  fit_files([str(folder)], "mean", str(tmp_path / "mean"))
  rows[33] = np.nan
  np.save(tmp_path / "bad.npy", rows)
  with pytest.raises(DataError, match=r"bad\.npy, row 33 "):
    apply_to_files([str(tmp_path / "bad.npy")], str(tmp_path / "mean"), str(tmp_path / "out.npy"))
  assert not list(tmp_path.glob("*out*"))


def archive():
  content = io.BytesIO()
  np.savez(content, a=np.zeros([2, 2]))
  return content.getvalue()


@pytest.mark.parametrize(
  "content",
  [
    *(np.zeros(3), np.zeros([3, 0]), np.zeros([2, 2], complex), np.array([["a"]]), np.zeros([2, 2, 2])),
    *(np.array([{}], object), b"no array", archive()),
  ],
)
def test_files_of_something_else(tmp_path, content):
  if isinstance(content, bytes):
    (tmp_path / "a.npy").write_bytes(content)
  else:
    np.save(tmp_path / "a.npy", content, allow_pickle=True)
  with pytest.raises(DataError, match=r"a\.npy"):
    find_vector_files([str(tmp_path / "a.npy")])


def test_rejected_arguments(shards, tmp_path):
  folder, rows = shards
  np.save(tmp_path / "narrow.npy", rows[:, :3])
  (tmp_path / "empty").mkdir()
  out, sn, narrow = str(tmp_path / "out"), str(tmp_path / "sn"), str(tmp_path / "narrow.npy")
  fit_files([str(folder)], "sn", sn, "mine")
  characters = str(REPO / "tests/golden/models/0.1.0/soft-whitening+characters-16")
  few = [str(folder / "shard-1.npy"), str(folder / "shard-0.npy")]
  for function, arguments, error, argument in (
    (fit_files, ([str(tmp_path / "empty")], "sn", out), ConfigError, "vectors"),
    (fit_files, ([str(folder), narrow], "sn", out), DataError, None),
    (fit_files, (few, "whitening-7", out), CalibrationError, None),
    (fit_files, ([str(folder)], "sn", sn), ConfigError, "output"),
    (functools.partial(fit_files, seed=3), ([str(folder)], "sn", out), ConfigError, "seed"),
    (apply_to_files, ([str(folder)], sn, str(tmp_path)), ConfigError, "output"),
    (apply_to_files, ([str(folder)], characters, out), ConfigError, "calibration_folder"),
  ):
    with pytest.raises(error) as caught:
      function(*arguments)
    assert argument in (None, caught.value.argument)


def test_the_log_of_a_fit_says_whether_queries_took_part_and_names_zeros(shards, tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  folder, rows = shards
  queries = rows[:40] + 1
  queries[7] = 0
  np.save(tmp_path / "queries.npy", queries)
  fit_files([str(folder)], "mean", str(tmp_path / "alone"))
  assert f"fitting mean on 50 vectors of 3 files, of {rows.shape[1]} dimensions" in caplog.text
  assert "zeros" not in caplog.text
  fit_files([str(folder)], "mean", str(tmp_path / "both"), queries=[str(tmp_path / "queries.npy")])
  assert f"fitting mean on 50 vectors of 3 files and 40 queries, of {rows.shape[1]} dimensions" in caplog.text
  assert "queries: 1 row of zeros, as of texts without a known word, of 40;" in caplog.text
  caplog.clear()
  apply_to_files([str(tmp_path / "queries.npy")], str(tmp_path / "alone"), str(tmp_path / "calibrated.npy"))
  assert "queries.npy: 1 row of zeros, as of texts without a known word, of 40; calibrated, they" in caplog.text
