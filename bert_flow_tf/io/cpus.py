"""The CPUs that this process may use."""

import math
import os
import pathlib

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_GROUP_OF_PROCESS = pathlib.Path("/proc/self/cgroup")


def usable_cpus() -> int:
  """Returns the number of CPUs that this process may use, by its affinity and by a container's quota."""
  count = os.cpu_count() or 1
  if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
    count = len(os.sched_getaffinity(0))
  return min([count, *_quotas()])


def _quotas():
  """Returns the CPUs that control groups of Linux grant the process, as `docker run --cpus=2`."""
  found = []
  try:
    groups = [line.split(":", 2) for line in _GROUP_OF_PROCESS.read_text().splitlines()]
  except OSError:
    return found
  for _, controllers, path in groups:
    names = controllers.split(",")
    if controllers and "cpu" not in names:
      continue
    root = _CGROUPS / controllers  # version 1 has a tree for each list of controllers, version 2 one for all
    group = root / path.lstrip("/")
    # A group has no more than the groups that it is in; a container sees its own as the root.
    for folder in (group, *group.parents):
      if not folder.is_relative_to(root):
        break
      limit = _limit_of(folder)
      if limit is not None:
        found.append(limit)
  return found


def _limit_of(group: pathlib.Path) -> int | None:
  """Returns the CPUs that a control group grants, at least 1; None without a limit."""
  try:
    if (group / "cpu.max").exists():
      quota, period = (group / "cpu.max").read_text().split()
    else:
      quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
  except OSError:
    return None
  if quota == "max" or int(quota) <= 0:
    return None
  return max(1, math.ceil(int(quota) / int(period)))
