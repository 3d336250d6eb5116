"""Progress of long work: a bar on a terminal or in a notebook, lines in a log."""

import functools
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from absl import logging
from tqdm import tqdm

from bert_flow_tf.errors import ConfigError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

LOG_SECONDS = 10
_NAMES = ("show_progress", "show_progress_bar")
_is_allowed = True


def allow(allowed: bool) -> None:
  """Allows or hides all progress of this process, whatever its callers ask for."""
  global _is_allowed
  _is_allowed = allowed


def either_name(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
  """Lets callers name the argument show_progress or show_progress_bar, whichever of the two the function has."""
  names = inspect.signature(function).parameters
  (own,) = (name for name in _NAMES if name in names)
  (other,) = (name for name in _NAMES if name not in names)

  @functools.wraps(function)
  def renamed(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
    if other in named and own in named:
      raise ConfigError(f"{other}: is {own}, which is given, too; leave one out", other)
    if other in named:
      named[own] = named.pop(other)
    return function(*arguments, **named)

  return renamed


def counted(number: float, noun: str, form: str = "") -> str:
  """Returns a number in a format and its noun: "1 epoch", "1,378 pairs", "2 queries"."""
  if number != 1 and noun.endswith("y"):
    noun = noun[:-1] + "ie"
  plural = "" if number == 1 else "s"
  return f"{number:{form}} {noun}{plural}"


def listed(names: Sequence[str]) -> str:
  """Returns names as a sentence lists them: "a", "a and b", "a, b and c"."""
  *first, last = names
  if not first:
    return last
  return f"{', '.join(first)} and {last}"


def _is_notebook():
  """Returns whether this is the process of a notebook, whose output is no terminal."""
  return type(sys.stderr).__module__.startswith("ipykernel.")


def _bar_class():
  """Returns tqdm's class of progress bars; in a notebook, the class that draws widgets."""
  if not _is_notebook():
    return tqdm
  with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="IProgress not found")  # without widgets, a bar is text
    from tqdm.auto import tqdm as bar_of_notebook

  return bar_of_notebook


class Progress:
  """Counter of units of work, `done` of which an earlier run has done; a context manager."""

  def __init__(
    self, total: int, show: bool = True, work: str = "embedding", unit: str = "sentence", done: int = 0
  ) -> None:
    show = show and _is_allowed
    # It is None if it was closed before the start.
    watched = sys.stderr is not None and (sys.stderr.isatty() or _is_notebook())
    self._bar = _bar_class()(total=total, initial=done, unit=unit, desc=work, disable=not (show and watched))
    self._lines = show and not watched
    self._total, self._done, self._work, self._unit = total, done, work, unit
    self._last = time.monotonic()

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *unused: object) -> None:
    self._bar.close()

  def update(self, count: int, note: str = "") -> None:
    """Adds units; the note is shown after the count."""
    self._done += count
    self._bar.set_postfix_str(note, refresh=False)
    self._bar.update(count)
    now = time.monotonic()
    if self._lines and (now - self._last >= LOG_SECONDS or self._done >= self._total):
      self._last = now
      total = counted(self._total, self._unit)
      if note:
        total = f"{total}, {note}"
      line = f"{self._work}: {self._done} of {total}"
      if logging.level_info():
        logging.info("%s", line)
      elif sys.stderr is not None:  # a program that does not log
        print(line, file=sys.stderr)
