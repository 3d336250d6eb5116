"""files.py: incomplete files of killed processes, two writers, JSON of others, and a folder with two runs."""

import errno
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


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_incomplete_files_and_folders_of_killed_processes_are_overwritten(tmp_path):
  (tmp_path / ".a.json.writing").write_text("longer than the new content")
  (tmp_path / ".flow.writing/variables").mkdir(parents=True)
  (tmp_path / ".flow.writing/weights").write_text("old")
  others = [".b.json.writing", "a.json.writing", ".lock"]
  for name in others:
    (tmp_path / name).touch()
  files.write_text(tmp_path / "a.json", "new")
  with files.replaced_folder(tmp_path / "flow") as folder:
    (folder / "flow.json").write_text("{}")
  assert names(tmp_path) == sorted([*others, "a.json", "flow"])
  assert (tmp_path / "a.json").read_text() == "new" and names(tmp_path / "flow") == ["flow.json"]


def test_a_folder_whose_replacement_was_killed_is_back(tmp_path):
  (tmp_path / ".flow.writing").mkdir()
  (tmp_path / ".flow.older").mkdir()
  (tmp_path / ".flow.older/weights").write_text("old")
  with pytest.raises(ValueError, match="stopped"), files.replaced_folder(tmp_path / "flow"):
    raise ValueError("stopped")
  assert names(tmp_path) == ["flow"] and (tmp_path / "flow/weights").read_text() == "old"


IN_TWO_PROCESSES = """
import pathlib, sys
from bert_flow_tf.io import files
folder, text = pathlib.Path(sys.argv[1]), sys.argv[2]
for _ in range(100):
  files.write_text(folder / "a.txt", text * 20_000)
"""


def test_two_writers_do_not_mix(tmp_path):
  """The second writer waits for the first one, and the file has the content of one of them."""
  environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(files.__file__).parents[2])}
  writers = []
  for text in ("1", "22"):
    writers.append(subprocess.Popen([sys.executable, "-c", IN_TWO_PROCESSES, tmp_path, text], env=environment))
  assert [writer.wait() for writer in writers] == [0, 0]
  assert (tmp_path / "a.txt").read_text() in ("1" * 20_000, "22" * 20_000)
  assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_content(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"absent/a\.json'$"):  # not the temporary name
    files.write_text(tmp_path / "absent/a.json", "")
  with pytest.raises(OSError, match=r"full\.json'$"), files.writing(tmp_path / "full.json"):
    raise OSError(errno.ENOSPC, "No space left on device")
  files.write_text(tmp_path / "a.json", "old")
  with files.replaced_folder(tmp_path / "flow") as folder:
    (folder / "weights").write_text("old")
  with pytest.raises(ValueError, match="stopped"), files.writing(tmp_path / "a.json") as file:
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


def test_an_owned_folder_that_stays_empty_is_removed(tmp_path):
  with pytest.raises(ValueError, match="rejected"), owned(tmp_path / "exp/run", "exp_name"):
    raise ValueError("rejected")
  assert not names(tmp_path)
  (tmp_path / "file").touch()
  with rejected(ConfigError, "exp_name"), owned(tmp_path / "file/run", "exp_name"):
    pass


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


@pytest.mark.parametrize("path", [None, 5, b"folder", ["folder"]])
def test_what_is_no_path(path):
  for check in (files.check_path, files.check_new_folder):
    with rejected(ConfigError, "folder", match="expected a path, as a str or a pathlib.Path"):
      check(path, "folder")
