"""BUILD, setup.py, REUSE.toml and NOTICE against the tree and each other."""

import ast
import functools
import pathlib
import re
import subprocess
import tomllib

import pytest

from tests.testing import REPO


def _glob(include, exclude=(), **unused):
  paths = set()
  for patterns, change in ((include, paths.update), (exclude, paths.difference_update)):
    for pattern in patterns:
      # Bazel's "a/**" is every file below a, Python's every folder.
      change(REPO.glob(re.sub(r"\*\*$", "**/*", pattern)))
  return sorted(path.relative_to(REPO).as_posix() for path in paths if path.is_file())


@functools.cache
def read_build():
  """Returns BUILD's tables, {name: value}, and its targets, (kind, name, files) each.

  BUILD is a Starlark program that Python can run.
  """
  targets = []

  def rule(kind, name, srcs=(), data=(), **unused):
    targets.append((kind, name, [*srcs, *data]))

  scope = {kind: functools.partial(rule, kind) for kind in ("py_library", "py_binary", "py_test")}
  scope.update(glob=_glob, package=lambda **unused: None)
  exec(compile((REPO / "BUILD").read_text(encoding="utf-8"), "BUILD", "exec"), scope)
  return scope, targets


def _tracked(*folders):
  """Paths of the files that git tracks in `folders`, without files that a run left behind."""
  if not (REPO / ".git").exists():
    pytest.skip("the project is not a git checkout: git says which files belong to it")
  command = ["git", "ls-files", "-z", "--", *folders]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
  return [path for path in done.stdout.split("\0") if path and (REPO / path).is_file()]


@pytest.mark.parametrize(
  ("kind", "folders", "ending"),
  [("py_library", ("bert_flow_tf", "run_scripts"), ""), ("py_test", ("tests",), "_test.py")],
)
def test_every_file_is_in_one_target(kind, folders, ending):
  _, targets = read_build()
  held = [path for kind_of_target, _, files in targets if kind_of_target == kind for path in files]
  counts = {path: held.count(path) for path in _tracked(*folders) if path.endswith(ending)}
  assert {path: count for path, count in counts.items() if count != 1} == {}


def test_every_runner_is_a_binary():
  _, targets = read_build()
  runners = {f"run_scripts/{name}.py" for kind, name, _ in targets if kind == "py_binary"}
  found = {path for path in _tracked("run_scripts") if 'if __name__ == "__main__"' in (REPO / path).read_text()}
  assert runners == found


_ANNOTATIONS = tomllib.loads((REPO / "REUSE.toml").read_text(encoding="utf-8"))["annotations"]


def _patterns(annotation):
  path = annotation["path"]
  return [path] if isinstance(path, str) else path


def _packaged():
  """Returns the paths of the data files in setup.py, and of its license files."""
  setup = ast.parse((REPO / "setup.py").read_text(encoding="utf-8"))
  keywords = {node.arg: node.value for node in ast.walk(setup) if isinstance(node, ast.keyword)}
  data = ast.literal_eval(keywords["package_data"])
  folders = [(REPO / package.replace(".", "/"), patterns) for package, patterns in data.items()]
  files = [path for folder, patterns in folders for pattern in patterns for path in folder.glob(pattern)]
  return [path.relative_to(REPO) for path in files], ast.literal_eval(keywords["license_files"])


def test_the_package_ships_all_files_but_python():
  shipped = {path.as_posix() for path in _packaged()[0]}
  assert shipped == {path for path in _tracked("bert_flow_tf", "run_scripts") if not path.endswith(".py")}


def test_each_data_file_of_the_package_has_an_entry():
  everything, *entries = _ANNOTATIONS
  assert everything["path"] == "**"
  files, license_files = _packaged()
  assert len(files) > 20 and license_files == ["LICENSE", "NOTICE"]
  counts = {
    path.as_posix(): sum(path.match(pattern) for entry in entries for pattern in _patterns(entry)) for path in files
  }
  assert {path: count for path, count in counts.items() if count != 1} == {}
  patterns = [pattern for entry in entries for pattern in _patterns(entry)]
  assert [pattern for pattern in patterns if not any(path.match(pattern) for path in files)] == []
  assert {annotation["SPDX-License-Identifier"] for annotation in _ANNOTATIONS} == {"Apache-2.0"}


def test_notice_names_what_came_from_elsewhere():
  text = (REPO / "NOTICE").read_text(encoding="utf-8")
  entry = next(entry for entry in _ANNOTATIONS if "Google" in str(entry["SPDX-FileCopyrightText"]))
  assert all(pattern in text and pathlib.Path(REPO, pattern).is_file() for pattern in _patterns(entry))
