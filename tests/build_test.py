"""BUILD against the tree: every tracked file in a library, every test in a test target."""

import ast
import subprocess

import pytest

from tests.build_file import read_build
from tests.testing import REPO


def _tracked(*folders):
  """Paths of the files that git tracks in `folders`; what a run left behind is none of them."""
  if not (REPO / ".git").exists():
    pytest.skip("the project is not a git checkout: git says which files belong to it")
  command = ["git", "ls-files", "-z", "--", *folders]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=True)
  return [path for path in done.stdout.split("\0") if path and (REPO / path).is_file()]


def test_every_file_is_in_one_library():
  _, targets = read_build()
  held = [path for target in targets if target.kind == "py_library" for path in target.srcs + target.data]
  counts = {path: held.count(path) for path in _tracked("bert_flow_tf", "run_scripts")}
  assert {path: count for path, count in counts.items() if count != 1} == {}


def test_every_test_is_in_one_target():
  _, targets = read_build()
  held = [path for target in targets if target.kind == "py_test" for path in target.srcs]
  counts = {path: held.count(path) for path in _tracked("tests") if path.endswith("_test.py")}
  assert {path: count for path, count in counts.items() if count != 1} == {}


def test_every_runner_is_a_binary():
  _, targets = read_build()
  runners = {f"run_scripts/{target.name}.py" for target in targets if target.kind == "py_binary"}
  found = {path for path in _tracked("run_scripts") if 'if __name__ == "__main__"' in (REPO / path).read_text()}
  assert runners == found


def test_the_package_ships_the_data_that_build_lists():
  setup = ast.parse((REPO / "setup.py").read_text(encoding="utf-8"))
  (package_data,) = [
    node.value for node in ast.walk(setup) if isinstance(node, ast.keyword) and node.arg == "package_data"
  ]
  shipped = {
    path.relative_to(REPO).as_posix()
    for package, patterns in ast.literal_eval(package_data).items()
    for pattern in patterns
    for path in (REPO / package.replace(".", "/")).glob(pattern)
  }
  assert shipped == {path for path in _tracked("bert_flow_tf", "run_scripts") if not path.endswith(".py")}
