"""Every bash and Python block of the pages: run as a reader would, and its output compared with the page's.

The blocks of a page run in their order, in a folder that looks like the repository's root; the Python blocks share a
session. `NOT_RUN` has the commands that cannot be run here, `AS_READ` what a reader puts in place of a placeholder.
"""

import contextlib
import json
import os
import re
import subprocess

import numpy as np
import pytest

from tests import warm_python
from tests.pages import check_output, commands, read_blocks
from tests.run_scripts import tiny_data
from tests.testing import REPO, shared

# (pattern of pages' names, pattern of a command or Python block, why it is not run)
NOT_RUN = (
  ("", r"\bpip install\b|-m venv\b|\bactivate$", "the tests run in an environment that has all packages"),
  ("docs/(?!calibrations)|^[A-Z]|bert_flow_tf", ".", "not tried yet"),
)
# {page: {pattern: what a reader puts in its place}}; DATA is the shared folder of data sets, or a small one.
AS_READ = {}
# Pages whose outputs are those of real data sets.
NEEDS_DATA = ("docs/calibrations.md",)

# Runs Python blocks, a json string a line, in one namespace; prints a line after the output of each.
_SESSION = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
  exec(json.loads(line), names)
  print("%%", flush=True)
"""


def _pages():
  done = subprocess.run(["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=True)
  return [page for page in done.stdout.split() if read_blocks(page)]


def _reason(page, text):
  """Returns the pattern of `NOT_RUN` that holds for a command or Python block, None if it is run."""
  return next((pattern for name, pattern, _ in NOT_RUN if re.search(name, page) and re.search(pattern, text)), None)


def test_each_entry_is_of_a_command():
  parts = [
    (page, part)
    for page in _pages()
    for block in read_blocks(page)
    for part in (commands(block) if block.language == "bash" else [block.text])
  ]
  used = {_reason(page, part) for page, part in parts}
  assert [pattern for _, pattern, _ in NOT_RUN if pattern not in used] == []
  for page, patterns in AS_READ.items():
    text = "\n".join(part for name, part in parts if name == page)
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == [], page


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
  """Returns the environment of a reader's shell; in the hub's cache, `mini` has the names of larger encoders."""
  folder = tmp_path_factory.mktemp("reader")
  for name in ("base", "large"):
    cached = folder / f"hub/models--bert-{name}-uncased"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs/main").write_text("1" * 40)
    (cached / "snapshots").mkdir()
    (cached / "snapshots" / ("1" * 40)).symlink_to(REPO / "bert_flow_tf/encoder/pretrained/mini")
  (folder / "bin").mkdir()
  settings = {"HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
  settings |= {"PYTHONPATH": str(REPO), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
  with warm_python.install(folder / "bin", settings):
    yield {**os.environ, **settings}


class Reader:
  """Runs the blocks of a page in a folder."""

  def __init__(self, home, environment):
    self._home, self._environment, self._session = home, environment, None
    (home / "run_scripts").symlink_to(REPO / "run_scripts")
    (home / ".venv").mkdir()
    (home / ".venv/bin").symlink_to(environment["PATH"].partition(":")[0])

  def bash(self, text):
    """Runs commands and returns what they print."""
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=self._home, env=self._environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout

  def python(self, text):
    """Runs code in the page's session and returns what it prints."""
    if self._session is None:
      with open(self._home.parent / "stderr", "w") as stderr:
        self._session = subprocess.Popen(
          ["python", "-c", _SESSION],
          cwd=self._home,
          env=self._environment,
          executable=f"{self._home}/.venv/bin/python",
          text=True,
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE,
          stderr=stderr,
        )
    print(json.dumps(text), file=self._session.stdin, flush=True)
    printed = ""
    while not printed.endswith("%%\n"):
      line = self._session.stdout.readline()
      assert line, f"{text}\n{printed}{(self._home.parent / 'stderr').read_text()[-4000:]}"
      printed += line
    return printed.removesuffix("%%\n")

  def close(self):
    """Ends the session."""
    if self._session is not None:
      self._session.stdin.close()
      self._session.stdout.close()
      self._session.wait()


def _write_inputs(home):
  """Writes the files that readers bring: vectors and text."""
  rng = np.random.default_rng(0)
  for name in ("a", "b", "words", "last"):
    np.save(home / f"{name}.npy", rng.normal(size=[600, 8]).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("page", _pages())
def test_blocks_run_and_print_their_output(page, environment, tmp_path):
  data = shared("data") if page in NEEDS_DATA else tiny_data.write(tmp_path / "data")
  home = tmp_path / "bert-flow"
  home.mkdir()
  _write_inputs(home)
  with contextlib.closing(Reader(home, environment)) as reader:
    for block in read_blocks(page):
      parts = commands(block) if block.language == "bash" else [block.text] * (block.language == "python")
      text = "\n".join(part for part in parts if _reason(page, part) is None)
      for pattern, value in {**AS_READ.get(page, {}), r"\bDATA\b": str(data)}.items():
        text = re.sub(pattern, value, text)
      printed = getattr(reader, block.language)(text) if text else ""
      if block.output and text:
        check_output(printed, block.output)
