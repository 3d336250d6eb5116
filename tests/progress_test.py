"""progress.py: a bar on a terminal or in a notebook, plain lines in a log."""

import io

import numpy as np
import pytest
from absl import logging

import bert_flow_tf
from bert_flow_tf import progress
from bert_flow_tf.errors import ConfigError
from tests.testing import LIMIT_SECONDS, REPO, rejected


class Terminal(io.StringIO):
  def isatty(self):
    return True


@pytest.fixture
def lines(monkeypatch):
  """Returns the logged lines; each look at the clock is a second later."""
  found, now = [], iter(range(10**6))
  monkeypatch.setattr(logging, "level_info", lambda: True)
  monkeypatch.setattr(logging, "info", lambda text, *values: found.append(text % values))
  monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
  return found


def work(monkeypatch, stream, steps=25, **arguments):
  monkeypatch.setattr(progress.sys, "stderr", stream)
  with progress.Progress(steps * 2, work="fitting", unit="step", **arguments) as shown:
    for _ in range(steps - arguments.get("done", 0) // 2):
      shown.update(2, "0.5 bits/dim")
  return stream.getvalue()


def test_log_lines_every_ten_seconds_and_at_the_end(lines, monkeypatch):
  assert work(monkeypatch, io.StringIO()) == ""  # no bar
  assert lines == [f"fitting: {done} of 50 steps, 0.5 bits/dim" for done in (20, 40, 50)]


def test_a_program_that_does_not_log_gets_the_lines_on_standard_error(lines, monkeypatch):
  monkeypatch.setattr(logging, "level_info", lambda: False)
  shown = work(monkeypatch, io.StringIO())
  assert shown.splitlines() == [f"fitting: {done} of 50 steps, 0.5 bits/dim" for done in (20, 40, 50)]


def test_resumed_work_counts_what_was_done(lines, monkeypatch):
  work(monkeypatch, io.StringIO(), done=30)
  assert lines[0].startswith("fitting: 50 of 50 steps")
  bar = work(monkeypatch, Terminal(), done=48)
  assert "48/50" in bar and "50/50" in bar


def test_bar_on_a_terminal(lines, monkeypatch):
  bar = work(monkeypatch, Terminal())
  assert "fitting:" in bar and "50/50" in bar and "0.5 bits/dim" in bar
  assert not lines


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_is_shown_where_it_should_not(lines, monkeypatch, stream):
  assert work(monkeypatch, stream(), show=False) == ""
  assert not lines


def test_counted():
  numbers = [progress.counted(number, "pair") for number in (0, 1, 2, 1.0, 0.5)]
  assert numbers == ["0 pairs", "1 pair", "2 pairs", "1.0 pair", "0.5 pairs"]
  assert progress.counted(1.0, "epoch", "g") == "1 epoch" and progress.counted(1234, "row", ",") == "1,234 rows"
  assert [progress.counted(number, "query") for number in (1, 2)] == ["1 query", "2 queries"]


def test_a_bar_in_a_notebook():
  """In a kernel, whose output is no terminal; without widgets the bar is text, without a warning."""
  nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
  pytest.importorskip("ipykernel")
  code = "from bert_flow_tf.progress import Progress\nwith Progress(7, work='fitting') as bar:\n  bar.update(7)"
  notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
  nbclient.NotebookClient(notebook, timeout=LIMIT_SECONDS, resources={"metadata": {"path": str(REPO)}}).execute()
  shown = str(notebook.cells[0].outputs)
  assert "fitting" in shown and "7/7" in shown and "warning" not in shown.lower()


def test_progress_that_is_not_allowed_shows_nothing(lines, monkeypatch):
  """On a terminal and in a log, until it is allowed again."""
  monkeypatch.setattr(progress, "_is_allowed", True)
  progress.allow(False)
  assert work(monkeypatch, Terminal()) == work(monkeypatch, io.StringIO()) == "" and lines == []
  progress.allow(True)
  assert "50/50" in work(monkeypatch, Terminal())


def test_both_names_are_taken():
  """By each public function that shows progress; a caller gives one of the two."""
  functions = [
    bert_flow_tf.SentenceModel.fit,
    bert_flow_tf.SentenceModel.encode,
    bert_flow_tf.SentenceModel.similarity,
    bert_flow_tf.SentenceEncoder.encode,
    bert_flow_tf.SentenceTransformersAdapter.encode,
    bert_flow_tf.SentenceIndex.build,
    bert_flow_tf.fit_calibration,
    bert_flow_tf.near_duplicates,
    bert_flow_tf.paraphrase_mining,
    bert_flow_tf.search,
  ]
  names = {function.__qualname__ for function in functions if not hasattr(function, "__wrapped__")}
  assert not names
  rows = np.eye(3)
  assert bert_flow_tf.near_duplicates(rows, show_progress=False).tolist() == [0, 1, 2]
  with rejected(ConfigError, "show_progress"):
    bert_flow_tf.near_duplicates(rows, show_progress=False, show_progress_bar=False)

  @progress.either_name
  def shown(show_progress: bool = True) -> bool:
    return show_progress

  assert [shown(show_progress_bar=False), shown(False), shown(show_progress=False), shown()] == [False] * 3 + [True]
