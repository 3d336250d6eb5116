"""Who may import whom: every import of the package and its runners, those inside functions included."""

import ast
import pkgutil
import subprocess
import sys

import pytest

import bert_flow_tf
import run_scripts
from tests.build_test import read_build
from tests.testing import REPO

# What every part of bert_flow_tf may import; BUILD's table PARTS has the other arrows.
_COMMON = ("errors", "io", "progress", "_keras2", "_version")
_ARROWS = {**dict.fromkeys(("bert_flow_tf", *_COMMON), ()), **read_build()[0]}
# {package of others: where alone it may be imported}
_ONLY_IN = {
  "absl.flags": ("run_scripts",),
  "absl.app": ("run_scripts",),
  "transformers": ("bert_flow_tf.encoder",),
  "mteb": ("bert_flow_tf.integrations",),
  "torch": ("bert_flow_tf.integrations",),
  "senteval": ("bert_flow_tf.integrations",),
  "huggingface_hub": ("bert_flow_tf.encoder.source",),
  "tensorflow_datasets": ("bert_flow_tf.data",),
  "tensorflow_probability": ("bert_flow_tf.flow",),
  "tensorflow_text": (
    "bert_flow_tf.encoder.graph_text",
    "bert_flow_tf.encoder.graph_tokenizer",
    "bert_flow_tf.encoder.saved_model",
  ),
  "tensorflow_serving": ("bert_flow_tf.serving",),
  "apache_beam": ("bert_flow_tf.corpus",),
  "fsspec": ("bert_flow_tf.corpus",),
  "pyarrow": ("bert_flow_tf.corpus",),
}
# Modules that work without TensorFlow, so that a wrong command line or a file of predictions does not wait for it:
# {folder: its modules that need it}, and single modules.
_WITHOUT_TENSORFLOW = {
  "bert_flow_tf.calibration": ("flow", "graph"),
  "bert_flow_tf.data": ("pipeline", "tfds_builders", "tfds_source"),
  "bert_flow_tf.evaluation": (),
  "bert_flow_tf.io": (),
  "run_scripts": (),
}
_MODULES_WITHOUT_TENSORFLOW = (
  "bert_flow_tf.corpus.job",
  "bert_flow_tf.corpus.records",
  "bert_flow_tf.encoder.identity",
  "bert_flow_tf.encoder.word_vectors",
  "bert_flow_tf.integrations.senteval",
  "bert_flow_tf.neighbors",
  "bert_flow_tf.progress",
  "bert_flow_tf.runs.run_folder",
  "bert_flow_tf.serving.client",
)


def is_in(name, prefixes):
  """Returns whether the dotted `name` is one of `prefixes` or below one."""
  return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def imported(tree):
  """Yields (line, dotted name) of every import of a file; "?" for a module that is named at run time."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"line {node.lineno}: a relative import, expected the full name"
      yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
      constant = isinstance(node.args[0], ast.Constant)
      yield node.lineno, node.args[0].value if constant else "?"


def broken_rule(module, name):
  """Returns why `module` may not import `name`; None where it may."""
  if name == "?":
    return None if module in ("bert_flow_tf", "run_scripts.bert_flow") else "a module named at run time"
  for package, places in _ONLY_IN.items():
    if is_in(name, [package]) and not is_in(module, places):
      return f"{package} is imported only in {', '.join(places)}"
  if not is_in(name, ["bert_flow_tf", "run_scripts", "tests", "benchmarks", "examples", "tools"]):
    return None
  if is_in(module, ["run_scripts"]):
    return None if is_in(name, ["bert_flow_tf", "run_scripts"]) else "nothing but a test imports a test"
  if not is_in(name, ["bert_flow_tf"]):
    return "the library knows neither its runners nor its tests"
  part = module.split(".")[1] if "." in module else module
  if part not in _ARROWS:
    return f"'{part}' is not in BUILD's table PARTS"
  allowed = (part, *_COMMON, *_ARROWS[part])
  # A public name of bert_flow_tf hides the part that has it.
  if module != "bert_flow_tf" and not is_in(name.removeprefix("bert_flow_tf."), allowed):
    return f"{part} may import only {', '.join(allowed)}"
  return None


def broken_rules(path, text):
  """Returns the imports of a file that break a rule, one line each."""
  module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
  found = [(line, name, broken_rule(module, name)) for line, name in imported(ast.parse(text, path))]
  return [f"{path}:{line}: imports {name}: {reason}" for line, name, reason in found if reason]


def test_the_imports_keep_the_law():
  paths = [path for folder in ("bert_flow_tf", "run_scripts") for path in sorted((REPO / folder).rglob("*.py"))]
  assert len(paths) > 30
  broken = []
  for path in paths:
    broken += broken_rules(path.relative_to(REPO).as_posix(), path.read_text(encoding="utf-8"))
  assert broken == []


@pytest.mark.parametrize(
  ("path", "text", "expected"),
  [
    ("flow/new.py", "def f():\n  import bert_flow_tf.data.pairs", "flow may import only"),
    ("flow/new.py", "import importlib\nimportlib.import_module('bert_flow_tf.data')", "flow may import only"),
    ("data/new.py", "from run_scripts import common_flags", "neither its runners"),
    ("novelty/new.py", "import bert_flow_tf.errors", "table PARTS"),
    ("data/new.py", "from absl import flags", "absl.flags is imported only in"),
    ("calibration/new.py", "import scipy.linalg\nfrom bert_flow_tf.errors import ConfigError", None),
  ],
)
def test_a_new_arrow_is_found(path, text, expected):
  broken = broken_rules(f"bert_flow_tf/{path}", text)
  assert any(expected in line for line in broken) if expected else broken == [], broken


def test_an_import_does_not_bring_in_tensorflow():
  names = list(_MODULES_WITHOUT_TENSORFLOW)
  for package in (bert_flow_tf, run_scripts):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
      folder, _, module = info.name.rpartition(".")
      if module not in _WITHOUT_TENSORFLOW.get(folder, (module,)):
        names.append(info.name)
  assert len(names) > 50
  code = "import importlib, sys\nfor name in sys.argv[1:]:\n  importlib.import_module(name)\n"
  code += "  assert not {'tensorflow', 'keras', 'tf_keras', 'transformers'} & {*sys.modules}, name\n"
  done = subprocess.run([sys.executable, "-c", code, *names], cwd=REPO, capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr[-2000:]
