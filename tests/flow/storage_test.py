"""A flow's folder: what is written comes back, and everything else is one FlowError."""

import json
import pathlib

import numpy as np
import pytest

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow import storage
from bert_flow_tf.flow.glow import Glow
from tests.flow import cases
from tests.flow.cases import cone, config


def small_flow(seed=0, **arguments):
  return Glow(config(n_levels=1, depth=1), 4, seed=seed, **arguments)


@pytest.fixture
def saved(tmp_path):
  """Folder of a small initialised flow."""
  flow = small_flow()
  flow.initialize(cone(8, 4))
  flow.save(tmp_path / "flow")
  return tmp_path / "flow"


def rewrite(folder, **changes):
  """Changes `flow.json`; a value of None removes the key."""
  file = folder / "flow.json"
  settings = {**json.loads(file.read_text()), **changes}
  file.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))


def rewrite_weights(folder, **changes):
  """Changes `weights.npz`; a value of None removes the array. Keys have "__" for "/"."""
  with np.load(folder / "weights.npz") as archive:
    arrays = {name: archive[name] for name in archive.files if name not in changes}
  arrays.update({name.replace("__", "/"): array for name, array in changes.items()})
  np.savez(folder / "weights.npz", **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
  ("arguments", "changes"),
  [
    ({"actnorm_init": "data", "permutation": "random", "dtype": "float64"}, {"n_levels": 2}),
    ({"actnorm_init": "glorot"}, {"coupling": "affine", "activation": "gatu", "permutation": False}),
  ],
)
def test_round_trip_is_exact(tmp_path, arguments, changes):
  flow = Glow(config(depth=1, **changes), 8, seed=3, **arguments)
  if arguments["actnorm_init"] == "data":
    flow.initialize(cone(8, 8))
  cases.randomize(flow)
  flow.save(tmp_path / "a" / "flow")
  loaded = Glow.load(tmp_path / "a" / "flow")
  assert loaded.settings() == flow.settings()
  assert loaded.initialized == flow.initialized
  assert not loaded.needs_initialization
  u = cone(5, 8)
  np.testing.assert_array_equal(loaded.transform(u), flow.transform(u))
  before, after = flow.tf1_variables(), loaded.tf1_variables()
  assert before.keys() == after.keys()
  for name, array in before.items():
    np.testing.assert_array_equal(after[name], array)
    assert after[name].dtype == array.dtype


def test_state_is_kept(tmp_path):
  """New stays new, loaded stays loaded, initialised stays initialised."""
  flow = small_flow()
  flow.save(tmp_path / "new")
  assert Glow.load(tmp_path / "new").needs_initialization
  flow.load_tf1_variables(flow.tf1_variables())
  flow.save(tmp_path / "loaded")
  again = Glow.load(tmp_path / "loaded")
  assert not again.needs_initialization
  assert not again.initialized
  again.initialize(cone(8, 4))
  again.save(tmp_path / "loaded")
  assert Glow.load(tmp_path / "loaded").initialized


def test_nothing_is_left_beside(saved):
  small_flow(1).save(saved)
  assert [path.name for path in saved.parent.iterdir()] == ["flow"]
  assert sorted(path.name for path in saved.iterdir()) == ["flow.json", "weights.npz"]
  assert Glow.load(saved).seed == 1


def test_empty_folder_link_and_relative_name_are_written(tmp_path, monkeypatch):
  (tmp_path / "real").mkdir()
  (tmp_path / "link").symlink_to(tmp_path / "real")
  for _ in range(2):
    small_flow().save(tmp_path / "link")
  assert (tmp_path / "link").is_symlink()
  assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
  assert Glow.load(tmp_path / "real").dim == 4
  monkeypatch.chdir(tmp_path)
  small_flow().save("relative/")
  assert Glow.load("./relative").dim == 4


@pytest.mark.parametrize("content", ["notes.txt", "weights.npz", "flow.json/file", "file itself"])
def test_foreign_folders_are_refused_and_kept(tmp_path, content):
  folder = tmp_path / "flow"
  file = folder if content == "file itself" else folder / content
  file.parent.mkdir(parents=True, exist_ok=True)
  file.write_text("mine")
  with pytest.raises(FlowError, match="not a flow; choose another folder"):
    small_flow().save(folder)
  assert file.read_text() == "mine"
  assert [path.name for path in tmp_path.iterdir()] == ["flow"]


def test_other_files_beside_a_flow_are_not_deleted(saved):
  (saved / "notes.txt").write_text("mine")
  with pytest.raises(FlowError, match=r"notes\.txt"):
    small_flow(1).save(saved)
  assert (saved / "notes.txt").read_text() == "mine"
  assert Glow.load(saved).seed == 0


def test_below_a_file_is_refused(tmp_path):
  (tmp_path / "file").write_text("mine")
  with pytest.raises(FlowError, match="cannot be written"):
    small_flow().save(tmp_path / "file" / "flow")


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_replacement_keeps_the_older_flow(saved, monkeypatch, failing):
  """The disk refuses the first or the second of the two renames."""
  calls = []
  rename = pathlib.Path.rename

  def refuse(self, target):
    calls.append(target)
    if len(calls) == failing:
      raise OSError("disk says no")
    return rename(self, target)

  monkeypatch.setattr(pathlib.Path, "rename", refuse)
  with pytest.raises(FlowError, match="disk says no"):
    small_flow(1).save(saved)
  monkeypatch.undo()
  assert calls
  assert Glow.load(saved).seed == 0
  assert [path.name for path in saved.parent.iterdir()] == ["flow"]


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
  def full(*args, **kwargs):
    raise OSError("no space left on device")

  monkeypatch.setattr(np, "savez", full)
  with pytest.raises(FlowError, match="no space left"):
    small_flow().save(tmp_path / "flow")
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["flow.json", "weights.npz", "all"])
def test_missing_files_are_named(saved, missing):
  for name in ("flow.json", "weights.npz") if missing == "all" else (missing,):
    (saved / name).unlink()
  with pytest.raises(FlowError, match="no flow.json" if missing == "all" else f"no {missing}"):
    Glow.load(saved)
  with pytest.raises(FlowError, match="no such folder"):
    Glow.load(saved.parent / "absent")


@pytest.mark.parametrize(
  "text",
  [
    "",
    "{",
    "[]",
    "3",
    "null",
    '"flow"',
    "{}",
    '{"format_version": 1}',
    "\x00\x01",
    '{"format_version": 1, "state": 2}',
  ],
)
def test_garbage_settings(saved, text):
  (saved / "flow.json").write_text(text)
  with pytest.raises(FlowError, match="flow folder"):
    Glow.load(saved)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"format_version": 2}, "format 2, this version reads 1"),
    ({"format_version": 2, "state": None, "config": None}, "format 2, this version reads 1"),
    ({"format_version": "1"}, "format '1', this version reads 1"),
    ({"format_version": None}, "flow folder"),
    ({"state": None}, "flow folder"),
    ({"state": "done"}, "flow folder"),
    ({"state": 7}, "flow folder"),
    ({"state": [2]}, "flow folder"),
    ({"config": None}, "flow folder"),
    ({"config": [1]}, "expected an object"),
    ({"config": {"n_levels": 0}}, "n_levels=0"),
    ({"config": {"layers": 3}}, "unknown key layers"),
    ({"dim": None}, "dim"),
    ({"dim": "4"}, "dim=4"),
    ({"dim": 5}, "dim=5"),
    ({"dim": 8}, "expected"),
    ({"seed": -3}, "seed=-3"),
    ({"seed": "x"}, "seed=x"),
    ({"dtype": "float16"}, "dtype=float16"),
    ({"dtype": ["float32"]}, "dtype="),
    ({"actnorm_init": "zeros"}, "actnorm_init=zeros"),
    ({"permutation": "shuffle"}, "permutation=shuffle"),
    ({"colour": "red"}, "colour"),
  ],
)
def test_settings_that_describe_no_flow(saved, changes, message):
  rewrite(saved, **changes)
  with pytest.raises(FlowError, match=message) as caught:
    Glow.load(saved)
  assert "\n" not in str(caught.value)


STEP = "revnet_0__revnet_step_0"


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({f"{STEP}__actnorm__actnorm_center__b": None}, "missing: revnet_0/revnet_step_0/actnorm/actnorm_center/b"),
    ({f"{STEP}__actnorm__varying": None}, "missing: revnet_0/revnet_step_0/actnorm/varying"),
    ({"other": np.zeros(2)}, "unknown: other"),
    ({f"{STEP}__actnorm__actnorm_center__b": np.zeros([1, 1, 1, 5])}, "shape"),
    ({f"{STEP}__actnorm__actnorm_center__b": np.full([1, 1, 1, 4], np.nan)}, "not finite"),
    ({f"{STEP}__actnorm__actnorm_center__b": np.full([1, 1, 1, 4], "a")}, "not finite numbers"),
    ({f"{STEP}__actnorm__varying": np.ones(5)}, "shape"),
    ({f"{STEP}__actnorm__varying": np.full(4, np.nan)}, "not finite"),
    ({f"{STEP}__actnorm__varying": np.full(4, "x")}, "not finite"),
    ({f"{STEP}__additive__nn__conv_block__1_1__actnorm__varying": np.ones([])}, "shape"),
    ({f"{STEP}__invertible__w": np.ones([4, 4])}, "not a permutation"),
    ({f"{STEP}__actnorm__actnorm_center__b": np.array([None, {}], object)}, "damaged"),
  ],
)
def test_weights_that_do_not_fit(saved, changes, message):
  """The last one is pickled: reading it could run anything, so it is not read."""
  rewrite_weights(saved, **changes)
  with pytest.raises(FlowError, match=message):
    Glow.load(saved)


class _Explodes:
  def __reduce__(self):
    return (pytest.fail, ("a pickle was executed",))


def test_compressed_arrays_are_not_unpacked(saved):
  """Some kilobytes of them can be gigabytes."""
  with np.load(saved / "weights.npz") as archive:
    np.savez_compressed(saved / "weights.npz", **{name: archive[name] for name in archive.files})
  with pytest.raises(FlowError, match="compressed arrays"):
    Glow.load(saved)


def test_pickles_are_never_executed(saved):
  for content in (np.array([_Explodes()], object), np.array(_Explodes(), object)):
    rewrite_weights(saved, other=content)
    with pytest.raises(FlowError, match="damaged"):
      Glow.load(saved)
  np.save(saved / "bare.npy", np.array([_Explodes()], object), allow_pickle=True)
  (saved / "bare.npy").rename(saved / "weights.npz")
  with pytest.raises(FlowError, match="damaged"):
    Glow.load(saved)


def test_damaged_weights_are_one_error(saved):
  file = saved / "weights.npz"
  whole = file.read_bytes()
  rng = np.random.default_rng(0)
  np.save(saved / "bare.npy", np.zeros(3))
  bare = (saved / "bare.npy").read_bytes()
  for content in (
    b"",
    b"garbage",
    b"PK\x03\x04",
    b"\x80\x04N.",
    bare,
    whole[:-1],
    whole[: len(whole) // 2],
    whole[10:],
  ):
    file.write_bytes(content)
    with pytest.raises(FlowError, match="damaged"):
      storage.FLOW_FOLDER.read(saved)
  refused = 0
  for position in rng.integers(len(whole), size=150):
    damaged = bytearray(whole)
    damaged[position] ^= 1 << rng.integers(8)
    file.write_bytes(damaged)
    try:
      storage.FLOW_FOLDER.read(saved)
    except FlowError:
      refused += 1
  assert refused > 75  # the rest hit bytes that mean nothing, dates for instance


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
  flow = small_flow()
  flow.trainable_variables[0].assign(flow.trainable_variables[0] * float("nan"))
  with pytest.raises(FlowError, match="is not finite"):
    flow.save(tmp_path / "flow")
  assert not list(tmp_path.iterdir())
