"""Two ways of doing the same work, measured in turns: what the parts of `run_benchmark.py` share."""

import gc
import os
import statistics
import time

from absl import logging


def median(values):
  """Median of a non-empty sequence of numbers, a float."""
  return float(statistics.median(values))


def in_turns(ways, repeats):
  """Calls every way once a round, so that a machine that slows down slows all of them down.

  Args:
    ways: {name: function without arguments}.
    repeats: rounds; every second one goes through the ways backwards, so that none profits from its place.

  Returns:
    {name: list of what the function returned, one a round}.
  """
  found = {name: [] for name in ways}
  for number in range(repeats):
    names = list(ways)[:: -1 if number % 2 else 1]
    for name in names:
      gc.collect()
      found[name].append(ways[name]())
    logging.info("round %d of %d: load of the machine %.1f", number + 1, repeats, load())
  return found


def median_ratio(numerators, denominators):
  """Median over the rounds of the ratio within a round, a float."""
  return median(a / b for a, b in zip(numerators, denominators, strict=True))


def seconds(work):
  """Wall seconds of a function without arguments, and what it returned."""
  start = time.perf_counter()
  result = work()
  return time.perf_counter() - start, result


def load():
  """Processes that wanted a core in the last minute, NaN where the system does not count them."""
  return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def cores():
  """Cores that this process may run on."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def verdict(value, target, at_most=False):
  """The target and whether it is met, for a cell of a table."""
  met = value <= target if at_most else value >= target
  return f"{'<=' if at_most else '>='} {target:g}: {'met' if met else 'missed'}"


def markdown_table(header, rows):
  """A markdown table: numbers to the right, the first column to the left."""
  lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
  return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
