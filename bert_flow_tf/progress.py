"""Progress of long work: a bar on a terminal, lines in a log."""

import sys
import time

from absl import logging
from tqdm import tqdm

LOG_SECONDS = 10


def counted(number: float, noun: str, form: str = "") -> str:
  """Returns a number and its noun for a reader: "1 epoch", "1,378 pairs".

  Args:
    number: the number.
    noun: its singular, with a regular plural.
    form: Python's format of the number.
  """
  return f"{number:{form}} {noun}{'s' * (number != 1)}"


class Progress:
  """Counter of units of work; a context manager.

  Args:
    total: number of units.
    show: False to show nothing.
    what: the work, for instance "fitting".
    unit: the unit, for instance "step".
    done: number of units that an earlier run has done.
  """

  def __init__(
    self, total: int, show: bool = True, what: str = "embedding", unit: str = "sentence", done: int = 0
  ) -> None:
    terminal = sys.stderr is not None and sys.stderr.isatty()  # None: it was closed before the start
    self._bar = tqdm(total=total, initial=done, unit=unit, desc=what, disable=not (show and terminal))
    self._lines = show and not terminal
    self._total, self._done, self._what, self._unit = total, done, what, unit
    self._last = time.monotonic()

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *unused: object) -> None:
    self._bar.close()

  def update(self, count: int, note: str = "") -> None:
    """Adds units.

    Args:
      count: number of units.
      note: shown after the count.
    """
    self._done += count
    self._bar.set_postfix_str(note, refresh=False)
    self._bar.update(count)
    now = time.monotonic()
    if self._lines and (now - self._last >= LOG_SECONDS or self._done >= self._total):
      self._last = now
      note = f", {note}" if note else ""
      logging.info("%s: %d of %s%s", self._what, self._done, counted(self._total, self._unit), note)
