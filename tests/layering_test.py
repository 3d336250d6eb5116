"""Who may import whom: every import of the package and its runners, those inside functions included."""

import ast
import collections
import graphlib
import pkgutil

import bert_flow_tf
import run_scripts
from tests.build_test import read_build
from tests.testing import REPO, finished_python

# Modules that every part of bert_flow_tf may import; BUILD's table PARTS has the other arrows.
_COMMON = ("errors", "io", "progress", "_version")
_ARROWS = {**dict.fromkeys(("bert_flow_tf", *_COMMON), ()), **read_build()[0]["PARTS"]}
# {module or folder of the encoder: its layer}; the table ENCODER has the layers, lowest first.
_ENCODER = "bert_flow_tf.encoder"
_LAYERS = {name: number for number, names in enumerate(read_build()[0]["ENCODER"]) for name in names}
# {package of others, or module of a step: where alone it may be imported}
_ONLY_IN = {
  "absl.flags": ("run_scripts",),
  "absl.app": ("run_scripts",),
  "transformers": ("bert_flow_tf.encoder.text",),
  "mteb": ("bert_flow_tf.integrations",),
  "torch": ("bert_flow_tf.integrations",),
  "senteval": ("bert_flow_tf.integrations",),
  "huggingface_hub": ("bert_flow_tf.encoder.checkpoints.source",),
  "tensorflow_datasets": ("bert_flow_tf.data",),
  "tensorflow_probability": ("bert_flow_tf.flow",),
  "tensorflow_text": (
    "bert_flow_tf.encoder.graph.normalizers",
    "bert_flow_tf.encoder.graph.tokenizer",
    "bert_flow_tf.encoder.other.saved_model",
  ),
  "tensorflow_serving": ("bert_flow_tf.serving",),
  "apache_beam": ("bert_flow_tf.corpus",),
  "openvino": ("bert_flow_tf.encoder.engines",),
  "tf2onnx": ("bert_flow_tf.serving.onnx_file",),
  "onnx": ("bert_flow_tf.serving.onnx_file",),
  "onnxruntime": ("bert_flow_tf.serving.onnx_file",),
  "bm25s": ("bert_flow_tf.vectors",),
  "faiss": ("bert_flow_tf.vectors.inverted_lists",),
  "fsspec": ("bert_flow_tf.io.storage",),
  "pyarrow": ("bert_flow_tf.data", "bert_flow_tf.vectors.shards"),
  "bert_flow_tf.calibration.characters": ("bert_flow_tf.calibration", "bert_flow_tf.model"),
  "bert_flow_tf.calibration.low_dim": ("bert_flow_tf.calibration",),
}
# Modules that import others by names in a table: of public names, of steps, of kinds of encoders, of commands.
_BY_NAME = ("bert_flow_tf", "bert_flow_tf.calibration.step", "bert_flow_tf.encoder.loading", "run_scripts.bert_flow")
# Modules that work without TensorFlow, so that a wrong command line or a file of predictions does not wait for it:
# {folder: its modules that need it}, and single modules.
_WITHOUT_TENSORFLOW = {
  "bert_flow_tf.calibration": ("flow", "function"),
  "bert_flow_tf.corpus": ("beam",),
  "bert_flow_tf.data": ("tfds_builders", "tfds_source"),
  "bert_flow_tf.data.files": (),
  "bert_flow_tf.encoder": ("encoder_graph", "layer", "user_model"),
  "bert_flow_tf.encoder.checkpoints": (),
  "bert_flow_tf.encoder.engines": (),
  "bert_flow_tf.encoder.other": ("saved_model",),
  "bert_flow_tf.encoder.text": (),
  "bert_flow_tf.encoder.transformer": ("int8", "layers", "products", "transformer"),
  "bert_flow_tf.evaluation": (),
  "bert_flow_tf.io": (),
  "bert_flow_tf.report": (),
  "bert_flow_tf.vectors": (),
  "run_scripts": (),
}
_MODULES_WITHOUT_TENSORFLOW = (
  "bert_flow_tf.integrations.senteval",
  "bert_flow_tf.model",
  "bert_flow_tf.progress",
  "bert_flow_tf.runs.eval_run",
  "bert_flow_tf.runs.run_folder",
  "bert_flow_tf.serving.client",
  "bert_flow_tf.training.calibrate",
  "bert_flow_tf.training.choice",
  "bert_flow_tf.training.devices",
  "bert_flow_tf.training.linear_fit",
)
# What each runner has.
_SHARED_NAMES = ("check_flags", "define_flags", "main")


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
    return None if module in _BY_NAME else "a module named at run time"
  for package, places in _ONLY_IN.items():
    if is_in(name, [package]) and not is_in(module, places):
      return f"{package} is imported only in {', '.join(places)}"
  if not is_in(name, ["bert_flow_tf", "run_scripts", "tests", "benchmarks", "examples", "tools"]):
    return None
  if is_in(module, ["run_scripts", "bert_flow_tf.__main__"]):  # the command, as `python -m bert_flow_tf`
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


def broken_layer(module, name):
  """Returns why a module of the encoder may not import `name`; None where it may."""
  if not is_in(module, [_ENCODER]) or not is_in(name, [_ENCODER]) or module == _ENCODER:
    return None
  room, other = (full.split(".")[2] for full in (module, name))
  for each in (room, other):
    if each not in _LAYERS:
      return f"'{each}' is not in BUILD's table ENCODER"
  if room == other or _LAYERS[other] < _LAYERS[room]:
    return None
  return f"{room} is not above {other} in BUILD's table ENCODER"


def module_of(path):
  """Returns the dotted name of a file."""
  return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def broken_rules(path, text):
  """Returns the imports of a file that break a rule, one line each."""
  module = module_of(path)
  found = []
  for line, name in imported(ast.parse(text, path)):
    for reason in (broken_rule(module, name), broken_layer(module, name)):
      if reason:
        found.append(f"{path}:{line}: imports {name}: {reason}")
  return found


def files():
  """Returns {path: text} of the Python files of the package and its runners."""
  paths = [path for folder in ("bert_flow_tf", "run_scripts") for path in sorted((REPO / folder).rglob("*.py"))]
  return {path.relative_to(REPO).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_the_imports_keep_the_law():
  texts = files()
  assert len(texts) > 30
  assert [line for path, text in texts.items() for line in broken_rules(path, text)] == []


def test_no_modules_import_each_other():
  imports = {}
  for path, text in files().items():
    imports[module_of(path)] = {name for _, name in imported(ast.parse(text, path))}
  # A name of a module is the module itself; a folder's `__init__` stands for its files, which it lists.
  graph = {}
  for module, names in imports.items():
    owners = {name if name in imports else name.rpartition(".")[0] for name in names}
    graph[module] = {owner for owner in owners if owner in imports and not is_in(module, [owner])}
  try:
    graphlib.TopologicalSorter(graph).prepare()
  except graphlib.CycleError as error:
    circle = error.args[1]
    raise AssertionError(f"a circle of imports: {' <- '.join(circle)}") from None


def test_a_public_name_of_a_module_means_one_thing():
  places = collections.defaultdict(list)
  for path, text in files().items():
    for node in ast.parse(text, path).body:
      if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
        places[node.name].append(path)
  assert len(places) > 700
  assert {name: paths for name, paths in places.items() if len(paths) > 1 and name not in _SHARED_NAMES} == {}


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
  finished_python("-c", code, *names)
