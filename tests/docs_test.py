"""README and docs/: links and flags are those of the code. `docs_blocks_test` runs the blocks."""

import json
import re
import subprocess
import sys

import pytest

from tests.testing import REPO

_FOLDERS = (
  "",
  "docs/",
  "examples/pretrain_bert/",
  "tools/soak/",
  *(f"bert_flow_tf/{name}/" for name in ("data/sample", "data/hard_sample", "encoder/pretrained/mini")),
)
_PAGES = sorted(page for folder in _FOLDERS for page in REPO.glob(f"{folder}*.md"))
# Prints {runner: names of its flags}. `console` defines a runner's flags and starts it; here it does not start.
_LIST_FLAGS = """
import importlib, json, sys
from absl import flags
import run_scripts.runner
run_scripts.runner.run = lambda *unused, **others: None
names = {}
for runner in sys.argv[1:]:
  module = importlib.import_module(runner)
  before = set(flags.FLAGS)
  module.console()
  names[runner] = sorted(set(flags.FLAGS) - before)
  for name in names[runner]:
    delattr(flags.FLAGS, name)
print(json.dumps(names))
"""


def _python(code, *arguments, cwd=REPO):
  command = [sys.executable, "-c", code, *arguments]
  done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
  assert done.returncode == 0, done.stderr[-4000:]
  return done.stdout


@pytest.fixture(scope="module")
def flag_names():
  """Returns {runner: set of the names of its flags}."""
  runners = [path.stem for path in (REPO / "run_scripts").glob("*.py") if "def console(" in path.read_text()]
  modules = [*(f"run_scripts.{runner}" for runner in runners), "benchmarks.run"]
  names = json.loads(_python(_LIST_FLAGS, *modules).splitlines()[-1])
  return {
    module.split(".")[1]: {*of_runner, *(f"no{name}" for name in of_runner), "help"}
    for module, of_runner in names.items()
  }


def _commands(page):
  """Returns (runner, names of the flags) of each command in the page's code blocks."""
  blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
  lines = "".join(blocks).replace("\\\n", " ").splitlines()
  commands = []
  for line in lines:
    script = re.search(r"run_scripts/(\w+)\.(?:py|sh)", line)
    if script:
      runner = {"run_two_machines": "run_flow", "train_siamese": "run_siamese"}.get(script[1], script[1])
      commands.append((runner, re.findall(r"--(\w+)", line[script.end() :].partition(" #")[0])))
  return commands


def test_readme_fits_on_a_page():
  assert len((REPO / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_links_lead_to_files(page):
  links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
  assert [link for link in links if not (page.parent / link).exists()] == []


def test_git_ignores_folders_that_the_commands_write():
  text = "".join(page.read_text(encoding="utf-8") for page in _PAGES)
  written = re.findall(r"--(?:exp|out)\w*(?:_dir|put|_checkpoint)=(\w+)|\.save\(\"(\w+)\"\)", text)
  ignored = [line.strip("/") for line in (REPO / ".gitignore").read_text(encoding="utf-8").splitlines()]
  assert {"".join(groups) for groups in written} - {"FOLDER", "BACK"} <= set(ignored)


@pytest.mark.slow
def test_commands_have_flags_of_their_runner(flag_names):
  unknown = [
    (page.name, runner, name)
    for page in _PAGES
    for runner, names in _commands(page)
    for name in names
    if name not in flag_names[runner]
  ]
  assert unknown == []


@pytest.mark.slow
def test_flags_in_the_text_exist(flag_names):
  every_name = set().union(*flag_names.values())
  unknown = [
    (page.name, name)
    for page in _PAGES
    for name in re.findall(r"`--(\w+)", page.read_text(encoding="utf-8"))
    if name not in every_name
  ]
  assert unknown == []
