"""What the project's files import, read by ast: for build_test.py and layering_test.py."""

import ast
import dataclasses

from tests.testing import REPO

PROJECT = ("bert_flow_tf", "run_scripts", "tests")
_DYNAMIC = ("import_module", "__import__", "importorskip")


@dataclasses.dataclass(frozen=True)
class Import:
  """One imported module: in the project a module's full name, elsewhere with the name taken from it (`absl.flags`).

  `eager` is False inside a function; `module` is None where the name is made at run time.
  """

  module: str | None
  line: int
  eager: bool = True


def read_sources(*folders):
  """{path from the top: text} of the Python files in `folders`."""
  found = sorted(path for folder in folders for path in (REPO / folder).rglob("*.py"))
  return {path.relative_to(REPO).as_posix(): path.read_text(encoding="utf-8") for path in found}


def module_of(path):
  """`bert_flow_tf.flow` for `bert_flow_tf/flow/__init__.py`."""
  return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def parents(module):
  """The packages whose `__init__` an import of `module` runs first."""
  parts = module.split(".")
  return [".".join(parts[:end]) for end in range(1, len(parts))]


def is_in(name, prefixes):
  """Returns whether the dotted `name` is one of `prefixes` or below one."""
  return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def public_names(sources):
  """{name: module} that `bert_flow_tf` resolves at first use."""
  for node in ast.parse(sources["bert_flow_tf/__init__.py"]).body:
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PUBLIC":
      return ast.literal_eval(node.value)
  raise AssertionError("bert_flow_tf/__init__.py: no table _PUBLIC")


def imports_of(path, sources):
  """The imports of one file, those inside functions included.

  Args:
    path: a key of `sources`.
    sources: {path: text} of every file whose modules may be named.
  """
  modules = {module_of(found) for found in sources}
  reader = _Reader(path, modules, public_names(sources))
  reader.visit(ast.parse(sources[path], path))
  return reader.found


class _Reader(ast.NodeVisitor):
  """Collects imports; a public name of `bert_flow_tf` counts as the module that has it."""

  def __init__(self, path, modules, public):
    self.found = []
    self._path, self._modules, self._public = path, modules, public
    self._depth = 0
    self._face = set()  # names bound to the package bert_flow_tf itself

  def visit_Import(self, node):
    for alias in node.names:
      self._add(node, alias.name)
      if alias.name == "bert_flow_tf" or (alias.name.startswith("bert_flow_tf.") and not alias.asname):
        self._face.add(alias.asname or "bert_flow_tf")

  def visit_ImportFrom(self, node):
    assert node.level == 0, f"{self._path}:{node.lineno}: a relative import, expected the full name"
    for alias in node.names:
      full = f"{node.module}.{alias.name}"
      if not is_in(node.module, PROJECT) or full in self._modules:
        self._add(node, full)
      elif node.module == "bert_flow_tf" and alias.name in self._public:
        self._add(node, self._public[alias.name])
      else:
        self._add(node, node.module)

  def visit_Attribute(self, node):
    if isinstance(node.value, ast.Name) and node.value.id in self._face and node.attr in self._public:
      self._add(node, self._public[node.attr])
    self.generic_visit(node)

  def visit_Call(self, node):
    if ast.unparse(node.func).split(".")[-1] in _DYNAMIC and node.args:
      constant = isinstance(node.args[0], ast.Constant)
      self._add(node, node.args[0].value if constant else None)
    self.generic_visit(node)

  def _inside(self, node):
    self._depth += 1
    self.generic_visit(node)
    self._depth -= 1

  visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _inside

  def _add(self, node, module):
    self.found.append(Import(module, node.lineno, eager=self._depth == 0))
