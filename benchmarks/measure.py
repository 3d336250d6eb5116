"""Measuring methods of the same work in turns."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import logging


def median(values: Iterable[float]) -> float:
  """Returns the median of at least one number."""
  return float(statistics.median(values))


def in_turns(methods: dict[Any, Callable], repeats: int) -> dict[Any, list]:
  """Calls every method once a round, so that a machine that slows down slows all of them down."""
  results = {name: [] for name in methods}
  for number in range(repeats):
    for name in list(methods)[:: -1 if number % 2 else 1]:
      gc.collect()
      results[name].append(methods[name]())
    logging.info("round %d of %d: load of the machine %.1f", number + 1, repeats, load())
  return results


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
  """Returns the median over the rounds of the ratio within a round."""
  return median(a / b for a, b in zip(numerators, denominators, strict=True))


def seconds(work: Callable) -> tuple[float, Any]:
  """Returns the wall seconds of a function without arguments, and its result."""
  start = time.perf_counter()
  result = work()
  return time.perf_counter() - start, result


def load() -> float:
  """Returns the mean number of runnable processes in the last minute; NaN on systems that do not count them."""
  return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def cores() -> int:
  """Returns the number of cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def verdict(value: float, target: float, at_most: bool = False) -> str:
  """Returns the target and whether it is met, for a cell of a table."""
  met = value <= target if at_most else value >= target
  return f"{'<=' if at_most else '>='} {target:g}: {'met' if met else 'missed'}"


def markdown_table(header: Sequence, rows: Iterable[Sequence]) -> str:
  """Returns a markdown table, its first column aligned left and the others right."""
  lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
  return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
