"""files.py: what killed processes leave, files of others, JSON of others, and a folder with two runs."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io import files
from bert_flow_tf.io.files import owned
from tests.testing import rejected

# A process number that no process has: the largest one of Linux, which is given last.
DEAD = 4194304
HERE = f"{files.HOST}.{DEAD}.abcd1234"


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_only_leftovers_of_dead_processes_are_deleted(tmp_path):
  mine = [f".a.json.{HERE}.writing", f".flow.{HERE}.older"]
  others = [
    f".b.json.{HERE}.writing",  # of another file
    f".a.json.{files.HOST}.{os.getppid()}.abcd1234.writing",  # of a process that runs
    f".a.json.another-host.{DEAD}.abcd1234.writing",  # of a host whose processes nobody here knows
    ".a.json.writing",
    "a.writing",
    f"a.json.{HERE}.writing",
    ".lock",
  ]
  for name in (mine[0], *others):
    (tmp_path / name).write_text("kept")
  (tmp_path / mine[1]).mkdir()
  files.write_text(tmp_path / "a.json", "new")
  with files.replaced_folder(tmp_path / "flow") as folder:
    (folder / "flow.json").write_text("{}")
  assert names(tmp_path) == sorted([*others, "a.json", "flow"])
  files.clear_leftovers(tmp_path)
  assert names(tmp_path) == sorted([*others[1:], "a.json", "flow"])


def test_a_folder_whose_replacement_was_killed_is_back(tmp_path):
  older, newer = (tmp_path / f".flow.{HERE}.{ending}" for ending in ("older", "writing"))
  older.mkdir()
  newer.mkdir()
  (older / "weights").write_text("old")
  files.clear_leftovers(tmp_path)
  assert names(tmp_path) == ["flow"] and (tmp_path / "flow/weights").read_text() == "old"


def test_an_error_leaves_the_old_content(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"absent/a\.json'$"):  # not the temporary name
    files.write_text(tmp_path / "absent/a.json", "")
  files.write_text(tmp_path / "a.json", "old")
  with files.replaced_folder(tmp_path / "flow") as folder:
    (folder / "weights").write_text("old")
  with pytest.raises(ValueError, match="stopped"), files.writing(tmp_path / "a.json") as file:
    assert f".a.json.{files.HOST}.{os.getpid()}." in file.name  # as clear_leftovers takes it
    file.write(b"new")
    raise ValueError("stopped")
  with pytest.raises(ValueError, match="stopped"), files.replaced_folder(tmp_path / "flow") as folder:
    (folder / "weights").write_text("new")
    raise ValueError("stopped")
  assert (tmp_path / "a.json").read_text() == "old" and (tmp_path / "flow/weights").read_text() == "old"
  assert names(tmp_path) == ["a.json", "flow"]


def test_permissions_are_those_of_other_new_files(tmp_path):
  files.write_text(tmp_path / "ours", "")
  with files.replaced_folder(tmp_path / "our_folder"):
    pass
  (tmp_path / "other").touch()
  (tmp_path / "other_folder").mkdir()
  modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
  assert modes["ours"] == modes["other"] and modes["our_folder"] == modes["other_folder"]
  (tmp_path / "ours").chmod(0o600)  # of a file that is replaced they stay
  files.write_text(tmp_path / "ours", "new")
  assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o600


def test_a_folder_has_one_owner_until_its_process_ends(tmp_path):
  folder = tmp_path / "exp/run"
  hold = "import sys\nfrom bert_flow_tf.io.files import owned\n"
  hold += "with owned(sys.argv[1], 'exp_name'):\n  print('held', flush=True)\n  sys.stdin.read()"
  environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(files.__file__).parents[2])}
  command = [sys.executable, "-c", hold, str(folder)]
  pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
  with subprocess.Popen(command, **pipes, env=environment, text=True) as holder:
    assert holder.stdout.readline() == "held\n"
    with rejected(ConfigError, "exp_name"), owned(folder, "exp_name"):
      pass
    holder.kill()
  with owned(folder, "exp_name"):
    (folder / "results.json").touch()
  assert names(folder) == ["results.json"]


def test_a_moved_folder_is_noticed(tmp_path):
  """Another run may own the path by now."""
  with owned(tmp_path / "run", "exp_name"):
    files.check_owned()
    # The first owner is still known after a second one was rejected.
    with rejected(ConfigError, "exp_name"), owned(tmp_path / "run", "exp_name"):
      pass
    (tmp_path / "run").rename(tmp_path / "moved")
    for again in (False, True):
      if again:
        (tmp_path / "run").mkdir()
      with rejected(ConfigError, "exp_name"):
        files.check_owned()
  # A parent may even be a file by now.
  with rejected(ConfigError, "exp_name"), owned(tmp_path / "parent/run", "exp_name"):
    (tmp_path / "parent").rename(tmp_path / "old")
    (tmp_path / "parent").touch()
    files.check_owned()
  files.check_owned()
  assert names(tmp_path / "run") == []


def test_an_owned_folder_that_stays_empty_is_removed(tmp_path):
  with pytest.raises(ValueError, match="rejected"), owned(tmp_path / "exp/run", "exp_name"):
    raise ValueError("rejected")
  assert not names(tmp_path)
  (tmp_path / "file").touch()
  with rejected(ConfigError, "exp_name"), owned(tmp_path / "file/run", "exp_name"):
    pass


def test_what_a_killed_process_left_is_deleted_before_its_parent_waits_for_it(tmp_path):
  process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
  left = tmp_path / f".a.npy.{files.HOST}.{process.pid}.abcd1234.writing"
  left.touch()
  files.clear_leftovers(tmp_path)
  assert left.exists()
  process.kill()
  os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still known to the system
  files.clear_leftovers(tmp_path)
  assert not left.exists()
  process.communicate()


@pytest.mark.parametrize(
  "text",
  ["[NaN]", "[-Infinity]", "[1e999]", "[1" + "0" * 400 + "]", "[\xff", "", "{"],
)
def test_json_of_anyone_is_read_or_a_value_error(text):
  with pytest.raises(ValueError):
    files.parse_json(text.encode("latin-1"))


def test_json_numbers_are_read_as_they_are():
  text = b"[0, -3, 1000000000000000019884624838656, 1e-400, 0.1, 1E5]"  # the third is tokenizers' model_max_length
  assert files.parse_json(text) == [0, -3, 1000000000000000019884624838656, 0.0, 0.1, 100000.0]
  assert [type(value) for value in files.parse_json(b"[1, 1.0]")] == [int, float]
