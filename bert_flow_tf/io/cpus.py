"""The CPUs that this process may use."""

import os


def usable_cpus() -> int:
  """Returns the number of CPUs that this process may use."""
  if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
