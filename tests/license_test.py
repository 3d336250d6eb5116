"""REUSE.toml: the license of every file that setup.py packages."""

import ast
import pathlib
import tomllib

from tests.testing import REPO

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


def test_other_files_of_the_package_are_python():
  files, _ = _packaged()
  folders = [REPO / "bert_flow_tf", REPO / "run_scripts"]
  found = [path.relative_to(REPO) for folder in folders for path in folder.rglob("*") if path.is_file()]
  others = [path for path in found if path not in files and "__pycache__" not in path.parts]
  assert [path for path in others if path.suffix != ".py"] == []


def test_notice_names_what_came_from_elsewhere():
  text = (REPO / "NOTICE").read_text(encoding="utf-8")
  entry = next(entry for entry in _ANNOTATIONS if "Google" in str(entry["SPDX-FileCopyrightText"]))
  assert all(pattern in text and pathlib.Path(REPO, pattern).is_file() for pattern in _patterns(entry))
