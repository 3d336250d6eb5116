"""Who may import whom: every import of the package and its runners, those inside functions included."""

import pytest

from tests.build_file import read_build
from tests.imports import imports_of, is_in, module_of, parents, read_sources

# What every part of bert_flow_tf may import.
_COMMON = ("errors", "io", "progress", "_keras2", "_version")
# {part: the parts that it may import besides itself and _COMMON}; run_scripts may import all of them.
_ARROWS = {**dict.fromkeys(("bert_flow_tf", *_COMMON), ()), **read_build()[0]}

# {package of others: where alone it may be imported}
_ONLY_IN = {
  "absl.flags": ("run_scripts",),
  "absl.app": ("run_scripts",),
  "transformers": (
    "bert_flow_tf.encoder.checkpoints",
    "bert_flow_tf.encoder.tokenizer",
  ),
  "mteb": ("bert_flow_tf.integrations",),
  "torch": ("bert_flow_tf.integrations",),
  "senteval": ("bert_flow_tf.integrations.senteval_engine",),
  "huggingface_hub": ("bert_flow_tf.encoder.hub",),
  "tensorflow_datasets": ("bert_flow_tf.data",),
  "tensorflow_probability": ("bert_flow_tf.flow",),
  "scipy": ("bert_flow_tf.calibration", "bert_flow_tf.encoder.static"),
  "tensorflow_text": ("bert_flow_tf.serving", "bert_flow_tf.corpus.models"),
  "tensorflow_serving": ("bert_flow_tf.serving",),
  "apache_beam": ("bert_flow_tf.corpus",),
  "google_crc32c": ("bert_flow_tf.corpus.reading",),
}

# Reading data and scoring predictions: no TensorFlow, nor anything at module level that brings it in.
_TENSORFLOW = ("tensorflow", "tf_keras", "keras", "tensorflow_probability", "tensorflow_datasets", "transformers")
_WITHOUT_TENSORFLOW = (
  *(f"bert_flow_tf.calibration.{module}" for module in ("combined", "interface", "linear", "moments", "names")),
  "bert_flow_tf.evaluation",
  "bert_flow_tf.runs.run_folder",
  *(f"bert_flow_tf.corpus.{module}" for module in ("beam_pipeline", "beam_running", "embedding", "index", "job")),
  *(f"bert_flow_tf.corpus.{module}" for module in ("reading", "settings", "storage")),
  *(f"bert_flow_tf.data.{module}" for module in ("custom", "glue", "lines", "nli", "sick", "semeval")),
  *(f"bert_flow_tf.data.{module}" for module in ("sources", "sts", "stsb", "task")),
  "bert_flow_tf.encoder.tokenizer_settings",
  "bert_flow_tf.integrations.inputs",
  "bert_flow_tf.integrations.senteval",
  "bert_flow_tf.data.pairs",
  "bert_flow_tf.encoder.identity",
  "bert_flow_tf.encoder.word_vectors",
  "bert_flow_tf.encoder.word_vector_file",
  "bert_flow_tf.data.readers",
  "bert_flow_tf.data.tasks",
  "bert_flow_tf.errors",
  "bert_flow_tf.io.files",
  "bert_flow_tf.io.archive",
  "bert_flow_tf.progress",
  "bert_flow_tf._keras2",
  "bert_flow_tf._version",
)
# The only file that may make up a module's name at run time: it resolves the public names.
_DYNAMIC = "bert_flow_tf"


def _part(module):
  """`flow` for `bert_flow_tf.flow.glow`, `bert_flow_tf` for the package itself."""
  return module.split(".")[1] if "." in module else module


def _broken_arrow(module, imported):
  """Why `module` may not import `imported`, a module of the project; None where it may."""
  if is_in(imported, ["tests"]):
    return "nothing but a test imports a test"
  if is_in(module, ["run_scripts"]):
    return None
  if is_in(imported, ["run_scripts"]):
    return "the library does not know its runners"
  part = _part(module)
  if part not in _ARROWS:
    return f"'{part}' is not in this test's table of parts: {', '.join(_ARROWS)}"
  allowed = (part, *_COMMON, *_ARROWS[part])
  if imported != "bert_flow_tf" and is_in(imported.removeprefix("bert_flow_tf."), allowed):
    return None
  return f"{part} may import only {', '.join(allowed)}"


def _misplaced(module, imported):
  """Why `module` may not import `imported`, a package of others; None where it may."""
  for package, places in _ONLY_IN.items():
    if is_in(imported, [package]) and not is_in(module, places):
      return f"{package} is imported only in {', '.join(places)}"
  if is_in(imported, ["tensorflow", "tf_keras", "keras"]) and is_in(module, _WITHOUT_TENSORFLOW):
    return f"{module} works without TensorFlow"
  return None


def _cycle(graph):
  """The modules of one cycle of `graph`, the first again at the end; None where there is none."""
  done = set()

  def search(module, path):
    if module in path:
      return [*path[path.index(module) :], module]
    if module in done:
      return None
    found = next(filter(None, (search(after, [*path, module]) for after in sorted(graph[module]))), None)
    done.add(module)
    return found

  return next(filter(None, (search(module, []) for module in sorted(graph))), None)


def _brings_in(module, eager, path=()):
  """The imports at module level that lead from `module` to TensorFlow; None where none does."""
  for imported in sorted(eager[module]):
    if is_in(imported, _TENSORFLOW):
      return [*path, module, imported]
    if imported in eager and imported not in path:
      found = _brings_in(imported, eager, (*path, module))
      if found:
        return found
  return None


def broken_rules(sources):
  """Returns the imports in {path: text} that break a rule, one line each."""
  broken, graph, eager = [], {}, {}
  for path in sources:
    module = module_of(path)
    found = imports_of(path, sources)
    graph[module], eager[module] = set(), set(parents(module))
    for one in found:
      where = f"{path}:{one.line}"
      if one.module is None:
        if module != _DYNAMIC:
          broken.append(f"{where}: a module named at run time, which this test cannot follow")
        continue
      ours = is_in(one.module, ["bert_flow_tf", "run_scripts", "tests"])
      reason = _broken_arrow(module, one.module) if ours else _misplaced(module, one.module)
      if reason:
        broken.append(f"{where}: imports {one.module}: {reason}")
      if ours:
        graph[module].add(one.module)
      if one.eager:
        eager[module].update([one.module, *parents(one.module)])
  graph = {module: imported & graph.keys() for module, imported in graph.items()}
  cycle = _cycle(graph)
  if cycle:
    broken.append(f"a cycle: {' -> '.join(cycle)}")
  for module in eager:
    chain = _brings_in(module, eager) if is_in(module, _WITHOUT_TENSORFLOW) else None
    if chain:
      broken.append(f"an import of {module} brings in TensorFlow: {' -> '.join(chain)}")
  return broken


def test_the_imports_keep_the_law():
  sources = read_sources("bert_flow_tf", "run_scripts")
  assert len(sources) > 30
  assert broken_rules(sources) == []


@pytest.mark.parametrize(
  ("path", "text", "expected"),
  [
    ("flow/new.py", "def f():\n  import bert_flow_tf.data.pairs", "flow may import only"),
    ("flow/new.py", "from bert_flow_tf import SentenceEncoder", "imports bert_flow_tf.encoder.sentence_encoder"),
    ("flow/new.py", "import bert_flow_tf as b\nb.load_task", "imports bert_flow_tf.data.tasks"),
    ("flow/new.py", "import importlib\nimportlib.import_module('bert_flow_tf.data')", "flow may import only"),
    ("flow/new.py", "import importlib\nimportlib.import_module(name)", "named at run time"),
    ("data/new.py", "from run_scripts import common_flags", "does not know its runners"),
    ("novelty/new.py", "import bert_flow_tf.errors", "table of parts"),
    ("encoder/new.py", "import transformers.utils", "transformers is imported only in"),
    ("data/stsb.py", "import tensorflow as tf", "data.tasks brings in TensorFlow"),
    ("flow/layer.py", "from bert_flow_tf.flow import glow", "a cycle: "),
    ("serving/export.py", "from bert_flow_tf import Glow\nfrom bert_flow_tf.encoder import bert", None),
    ("calibration/whitening.py", "import scipy.linalg\nfrom bert_flow_tf.errors import ConfigError", None),
  ],
)
def test_a_new_arrow_is_found(path, text, expected):
  broken = broken_rules({**read_sources("bert_flow_tf", "run_scripts"), f"bert_flow_tf/{path}": text})
  assert any(expected in line for line in broken) if expected else broken == [], broken
