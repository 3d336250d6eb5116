"""BUILD against the tree: every file in one target, every `deps` what the files import; and Bazel loads it."""

import ast
import dataclasses
import functools
import re
import shutil
import subprocess

import pytest

from tests.imports import PROJECT, imports_of, is_in, module_of, parents, public_names, read_sources
from tests.testing import REPO

# Has no files: its `deps` are where the public names of bert_flow_tf are.
FACE = "bert_flow_tf"
# What in a test's text shows that it belongs in a list of BUILD, and what that list gives its target.
LISTS = {
  "SLOW": (r"pytest\.mark\.slow", lambda target: "slow" in target.tags),
  "READ_TREE": (r"\bREPO\b|\bread_sources\b", lambda target: ":tree" in target.data),
}


@dataclasses.dataclass(frozen=True)
class Target:
  """One rule of BUILD: paths from the top, dependencies by name."""

  kind: str
  name: str
  srcs: tuple[str, ...] = ()
  data: tuple[str, ...] = ()
  deps: tuple[str, ...] = ()
  main: str | None = None
  tags: tuple[str, ...] = ()

  @property
  def files(self):
    """{"srcs", "data"} -> the files this target holds; a test's data and the file that starts it are held by others."""
    if self.kind == "py_test":
      return {"srcs": [path for path in self.srcs if path != self.main], "data": []}
    return {"srcs": self.srcs, "data": self.data} if self.kind != "filegroup" else {"srcs": [], "data": []}


def _glob(include, exclude=(), **unused):
  include, exclude = ({path for pattern in patterns for path in REPO.glob(pattern)} for patterns in (include, exclude))
  return sorted(path.relative_to(REPO).as_posix() for path in include - exclude if path.is_file())


@functools.cache
def read_build():
  """The targets of BUILD, a Starlark program that Python can run: its rules note how they are called."""
  targets = []
  fields = {field.name for field in dataclasses.fields(Target)}

  def rule(kind, **arguments):
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    arguments["deps"] = tuple(label.removeprefix(":") for label in arguments.get("deps", ()))
    targets.append(Target(kind, **{name: value for name, value in arguments.items() if name in fields}))

  scope = {kind: functools.partial(rule, kind) for kind in ("py_library", "py_binary", "py_test", "filegroup")}
  scope.update(glob=_glob, package=lambda **unused: None)
  exec(compile((REPO / "BUILD").read_text(encoding="utf-8"), "BUILD", "exec"), scope)
  return tuple(targets)


def _tree_files():
  # `exp` is where a run from inside run_scripts/ leaves its results.
  found = [path for folder in PROJECT for path in (REPO / folder).rglob("*") if path.is_file()]
  return sorted(path.relative_to(REPO).as_posix() for path in found if not {"__pycache__", "exp"} & set(path.parts))


def _labels(names):
  return "[" + ", ".join(f'":{name}"' for name in sorted(names)) + "]"


def _needed(path, sources, target_of):
  """The targets of what a file imports, of the packages above that and of those above the file itself."""
  file_of = {module_of(found): found for found in sources}
  named = [one.module for one in imports_of(path, sources) if one.module and is_in(one.module, PROJECT)]
  above = [package for module in [module_of(path), *named] for package in parents(module)]
  found = {target_of.get(file_of.get(module)) for module in [*named, *above]}
  return found - {None, target_of.get(path)}


def _misheld(listed, targets, expected):
  """What of the `expected` files is in the `srcs` or `data` of no target or of two, and what is not there."""
  holders = {path: [] for path in expected}
  for target in targets:
    for path in target.files[listed]:
      holders.setdefault(path, []).append(f":{target.name}")
  for path, names in holders.items():
    if not (REPO / path).is_file() and path not in expected:
      yield f"{path}: in {listed} of {', '.join(names)}, but not there"
    elif len(names) != 1:
      yield f"{path}: expected in {listed} of one target, found {', '.join(names) or 'none'}"


def problems(targets, sources, files):
  """Where BUILD and the tree differ, one line each.

  Args:
    targets: what BUILD says.
    sources: {path: text} of the project's Python files.
    files: every file that belongs in a target.
  """
  wrong = [
    *_misheld("srcs", targets, [path for path in files if path.endswith(".py")]),
    *_misheld("data", targets, [path for path in files if not path.endswith(".py")]),
  ]
  target_of = {path: target.name for target in targets for path in target.files["srcs"]}
  file_of = {module_of(path): path for path in sources}
  for target in targets:
    held = [path for path in target.files["srcs"] if path in sources]
    needed = set().union(*(_needed(path, sources, target_of) for path in held))
    if target.name == FACE:
      modules = ["bert_flow_tf", *public_names(sources).values()]
      needed = {target_of.get(file_of.get(module)) for module in modules} - {None}
    if needed != set(target.deps):
      wrong.append(f":{target.name}: the imports need deps = {_labels(needed)}, found {_labels(target.deps)}")
    for name, (sign, is_listed) in LISTS.items() if target.kind == "py_test" else ():
      belongs = any(re.search(sign, sources[path]) for path in held)
      if belongs != is_listed(target):
        wrong.append(f":{target.name}: {'belongs' if belongs else 'does not belong'} in {name}")
  for path in sources:
    if path.endswith("_test.py") and path not in target_of:
      wrong.append(f'a row for TESTS: "{path}": {_labels(_needed(path, sources, target_of) - {"testing"})},')
  return wrong


def test_build_says_what_is_in_the_tree():
  assert "\n".join(problems(read_build(), read_sources(*PROJECT), _tree_files())) == ""


def test_the_package_ships_the_data_that_build_lists():
  setup = ast.parse((REPO / "setup.py").read_text(encoding="utf-8"))
  (package_data,) = [
    node.value for node in ast.walk(setup) if isinstance(node, ast.keyword) and node.arg == "package_data"
  ]
  patterns = {package.replace(".", "/"): found for package, found in ast.literal_eval(package_data).items()}
  shipped = _glob([f"{folder}/{pattern}" for folder, found in patterns.items() for pattern in found])
  assert shipped == sorted(
    path for target in read_build() for path in target.data if path.startswith(("bert_flow_tf/", "run_"))
  )


@pytest.mark.parametrize(
  ("name", "changes", "expected"),
  [
    ("training", {"deps": ("base",)}, '":data", ":encoder", ":flow"], found [":base"]'),
    ("flow", {"deps": ("base", "encoder")}, 'flow: the imports need deps = [":base"], found [":base", ":encoder"]'),
    ("run_flow", {"deps": ("base", "common_flags", "data", "evaluation", "flow", "training")}, '":sentence_encoder"'),
    ("bert_flow_tf", {"deps": ("base", "data")}, ":bert_flow_tf: the imports need deps"),
    ("tests/layering_test", {"deps": ()}, 'the imports need deps = [":testing"], found []'),
    ("sentence_encoder", {"srcs": ()}, "sentence_encoder.py: expected in srcs of one target, found none"),
    (
      "common_flags",
      {"srcs": ("run_scripts/lost.py",)},
      "run_scripts/lost.py: in srcs of :common_flags, but not there",
    ),
    ("base", {"srcs": ("bert_flow_tf/flow/glow.py",)}, "glow.py: expected in srcs of one target, found :base, :flow"),
    ("encoder", {"data": ()}, "mini/vocab.txt: expected in data of one target, found none"),
    ("tests/build_test", {"data": ()}, "belongs in READ_TREE"),
    ("tests/layering_test", {"tags": ("slow",)}, "does not belong in SLOW"),
  ],
)
def test_a_difference_is_found(name, changes, expected):
  changed = [dataclasses.replace(target, **changes) if target.name == name else target for target in read_build()]
  assert changed != list(read_build())
  wrong = problems(changed, read_sources(*PROJECT), _tree_files())
  assert any(expected in line for line in wrong), wrong


@pytest.mark.parametrize(
  ("path", "text", "expected"),
  [
    (
      "bert_flow_tf/flow/layer.py",
      "def f():\n  from bert_flow_tf.encoder import bert",
      ':flow: the imports need deps = [":base", ":encoder"], found [":base"]',
    ),
    ("run_scripts/new.py", "", "run_scripts/new.py: expected in srcs of one target, found none"),
    ("bert_flow_tf/flow/config/new.json", "{}", "new.json: expected in data of one target, found none"),
    ("tests/new_test.py", "from bert_flow_tf import Glow", 'a row for TESTS: "tests/new_test.py": [":base", ":flow"],'),
  ],
)
def test_a_change_of_the_tree_is_found(path, text, expected):
  wrong = problems(read_build(), {**read_sources(*PROJECT), path: text}, sorted({*_tree_files(), path}))
  assert any(expected in line for line in wrong), wrong


def test_bazel_lists_the_same_targets(tmp_path):
  """Loads BUILD and no more: nothing is fetched or built, and no server stays behind."""
  bazel = shutil.which("bazel")
  if bazel is None:
    pytest.skip("there is no bazel on PATH")
  version = subprocess.run(
    [bazel, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
  ).stdout
  if re.search(r"\b([7-9]|\d\d+)\.\d+\.\d+", version):
    pytest.skip(f"{version.strip()} fetches rules to load a BUILD, earlier ones and Debian's do not")
  command = [bazel, "--batch", "--nohome_rc", f"--output_user_root={tmp_path}"]
  command += ["query", "//...", "--output=label_kind"]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300, check=False)
  assert done.returncode == 0, done.stderr
  listed = {tuple(line.split(" rule //:")) for line in done.stdout.splitlines()}
  assert listed == {(target.kind, target.name) for target in read_build()}
