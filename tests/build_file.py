"""BUILD, a Starlark program that Python can run, as data."""

import dataclasses
import functools
import re

from tests.testing import REPO


@dataclasses.dataclass(frozen=True)
class Target:
  """A rule of BUILD; paths from the top, dependencies by name."""

  kind: str
  name: str
  srcs: tuple[str, ...]
  data: tuple[str, ...]
  deps: tuple[str, ...]


def _glob(include, exclude=(), **unused):
  paths = set()
  for patterns, change in ((include, paths.update), (exclude, paths.difference_update)):
    for pattern in patterns:
      # Bazel's "a/**" is every file below a, Python's every folder.
      change(REPO.glob(re.sub(r"\*\*$", "**/*", pattern)))
  return sorted(path.relative_to(REPO).as_posix() for path in paths if path.is_file())


@functools.cache
def read_build():
  """Returns BUILD's table PARTS, {part: parts that it may import}, and its targets."""
  targets = []

  def rule(kind, name, srcs=(), data=(), deps=(), **unused):
    targets.append(Target(kind, name, tuple(srcs), tuple(data), tuple(label.removeprefix(":") for label in deps)))

  scope = {kind: functools.partial(rule, kind) for kind in ("py_library", "py_binary", "py_test")}
  scope.update(glob=_glob, package=lambda **unused: None)
  exec(compile((REPO / "BUILD").read_text(encoding="utf-8"), "BUILD", "exec"), scope)
  return scope["PARTS"], tuple(targets)
