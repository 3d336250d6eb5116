"""Makefile, hooks and workflows have the commands and versions of .ci/run, README and setup.py."""

import re

import pytest

from tests.testing import REPO


def _text(path):
  return (REPO / path).read_text(encoding="utf-8")


def _targets():
  """Returns {target: its command} of the Makefile."""
  return dict(re.findall(r"^(\w+): ; (.+)$", _text("Makefile"), re.MULTILINE))


def test_the_makefile_has_the_commands_of_ci():
  targets = _targets()
  readme = re.search(r"<!-- test command -->\n```bash\n(.+)\n```", _text("README.md"))[1]
  assert readme.startswith(targets["install"].replace(",docs", "")) and readme.endswith(targets["test"])
  assert targets["slow"] == f"{targets['test']} -m ''" and "PYTEST_ADDOPTS=\"-m ''\"" in _text(".ci/run")
  lines = _text(".ci/run").splitlines()
  assert [part for part in targets["lint"].split(" && ") if part not in lines] == []
  assert any(line.startswith(targets["docs"]) for line in lines)
  assert set(targets) == set(re.search(r"^\.PHONY: (.+)$", _text("Makefile"), re.MULTILINE)[1].split())


@pytest.mark.parametrize("name", ["notebook", "table", "soak"])
def test_what_the_makefile_starts_exists(name):
  started = re.search(r"python (?:-m )?(\S+)", _targets()[name])[1]
  assert (REPO / started).is_file() or (REPO / (started.replace(".", "/") + ".py")).is_file()


def test_hooks_have_the_versions_of_setup():
  requirements = re.findall(r'"((?:ruff|mypy)==[^"]+)"', _text("setup.py"))
  pinned = set(re.findall(r"(?:ruff|mypy)==[\d.*]+", _text(".pre-commit-config.yaml")))
  assert pinned == set(requirements) and len(pinned) == 2


def test_workflows_run_the_pythons_of_setup():
  lower, upper = re.search(r'python_requires=">=3\.(\d+),<3\.(\d+)"', _text("setup.py")).groups()
  expected = str([f"3.{minor}" for minor in range(int(lower), int(upper))]).replace("'", '"')
  for workflow in ("tests", "publish"):
    assert f"python: {expected}" in _text(f".github/workflows/{workflow}.yml")
