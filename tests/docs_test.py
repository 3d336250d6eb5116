"""README and docs/: links, flags, files and Python in the text exist. `docs_blocks_test` runs the blocks."""

import ast
import dataclasses
import inspect
import json
import re

import pytest

import bert_flow_tf.calibration
import bert_flow_tf.flow
import bert_flow_tf.training
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.training.settings import FlowSettings
from run_scripts import bert_flow
from tests.testing import REPO, run_python

_FOLDERS = (
  "",
  "docs/",
  "examples/",
  "examples/pretrain_bert/",
  "tools/soak/",
  *(
    f"bert_flow_tf/{name}/"
    for name in ("data/sample", "data/hard_sample", "data/frequencies", "encoder/pretrained/mini")
  ),
)
_PAGES = sorted(page for folder in _FOLDERS for page in REPO.glob(f"{folder}*.md"))
# Variables of docs/api.md.
_VARIABLES = {"model": "SentenceModel", "flow": "Glow"}
# Prints {runner: names of its flags}. `console` defines a runner's flags and starts it; here it does not start.
# Flags of absl and of every runner.
_OF_ALL = ("help", "flagfile", "verbosity", "quiet")
_LIST_FLAGS = """
import importlib, json, sys
from absl import flags
import run_scripts.runner
run_scripts.runner.run = lambda *unused, **others: None
names = {}
for runner in sys.argv[1:]:
  module = importlib.import_module(runner)
  before = set(flags.FLAGS)
  module.console()
  names[runner] = sorted(set(flags.FLAGS) - before)
  for name in names[runner]:
    delattr(flags.FLAGS, name)
print(json.dumps(names))
"""


@pytest.fixture(scope="module")
def flag_names():
  """Returns {runner: set of the names of its flags}."""
  runners = [path.stem for path in (REPO / "run_scripts").glob("*.py") if "console = " in path.read_text()]
  modules = [*(f"run_scripts.{runner}" for runner in runners), "benchmarks.run"]
  names = json.loads(run_python("-c", _LIST_FLAGS, *modules).splitlines()[-1])
  return {
    module.split(".")[1]: {*of_runner, *(f"no{name}" for name in of_runner), *_OF_ALL}
    for module, of_runner in names.items()
  }


def _commands(page):
  """Returns (runner, names of the flags) of each command in the page's code blocks."""
  blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
  lines = "".join(blocks).replace("\\\n", " ").splitlines()
  commands = []
  for line in lines:
    script = re.search(r"(?:run_scripts/(\w+)\.(?:py|sh)|\bbert-flow ([\w-]+))", line)
    if script:
      name = script[1] or bert_flow.COMMANDS[script[2]][0]
      runner = {"run_two_machines": "run_flow", "train_siamese": "run_siamese"}.get(name, name)
      commands.append((runner, re.findall(r"--(\w+)", line[script.end() :].partition(" #")[0])))
  return commands


def _spans(page):
  """Returns the inline code of a page."""
  text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
  return re.findall(r"(?<!`)`([^`\n]+)`", text)


def _resolve(name, variables):
  """Returns the object of a dotted name that begins with a public one, None for other names."""
  first, *rest = name.split(".")
  first = variables.get(first, first)
  for module in (bert_flow_tf, bert_flow_tf.training):
    if first in module.__all__:
      break
  else:
    return None
  found = getattr(module, first)
  for attribute in rest:
    # An attribute of the instances stands in the class's docstring.
    if not hasattr(found, attribute) and re.search(rf"^ +{attribute}: ", found.__doc__ or "", re.MULTILINE):
      return None
    found = getattr(found, attribute)
  return found


def unknown_python(span, variables=()):
  """Returns a sentence about a public name's attribute or argument that does not exist; None if there is none."""
  settings = {field.name for part in (EncoderSettings, FlowSettings) for field in dataclasses.fields(part)}
  settings |= {"cache_dir", "revision"}  # EncoderSettings has them as model_cache_dir and model_revision
  try:
    nodes = list(ast.walk(ast.parse(span, mode="eval")))
  except SyntaxError:
    return None
  for node in nodes:
    try:
      if isinstance(node, ast.Attribute):
        _resolve(ast.unparse(node), dict(variables))
      elif isinstance(node, ast.Call) and (function := _resolve(ast.unparse(node.func), dict(variables))):
        parameters = inspect.signature(function).parameters
        takes_settings = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for keyword in node.keywords:
          known = keyword.arg is None or keyword.arg in parameters or (takes_settings and keyword.arg in settings)
          if not known:
            return f"{span}: no argument {keyword.arg}"
    except AttributeError as error:
      return f"{span}: {error}"
  return None


def test_readme_fits_on_a_page():
  assert len((REPO / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_links_lead_to_files(page):
  links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
  assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_inline_code_exists(page):
  """Python's names and arguments, and the files of the repository."""
  spans = [span for span in _spans(page) if not re.fullmatch(r"\w+\.py", span)]
  variables = _VARIABLES if page.name == "api.md" else {}
  assert [problem for span in spans if (problem := unknown_python(span, variables))] == []
  files = [span for span in spans if re.fullmatch(r"[a-z0-9_/]+/[a-z0-9_]+\.py", span)]
  assert [file for file in files if not (REPO / file).exists() and not (REPO / "bert_flow_tf" / file).exists()] == []


def test_reference_has_every_public_name():
  """The reference names what the packages export, by the module that defines it."""
  text = (REPO / "docs/reference.md").read_text(encoding="utf-8")
  expected = set()
  for package in (bert_flow_tf, bert_flow_tf.flow, bert_flow_tf.calibration, bert_flow_tf.training):
    objects = [getattr(package, name) for name in package.__all__ if name != "__version__"]
    expected |= {f"{each.__module__}.{each.__name__}" for each in objects}
  assert set(re.findall(r"^::: (\S+)$", text, re.MULTILINE)) == expected
  for name, members in re.findall(r"^::: bert_flow_tf\.\S*?(\w+)\n(?: .*\n)*? +members: \[(.*)\]$", text, re.MULTILINE):
    absent = [member for member in members.split(", ") if not hasattr(getattr(bert_flow_tf, name), member)]
    assert (name, absent) == (name, [])


@pytest.mark.slow
def test_flags_exist(flag_names):
  """Compares flags of commands with their runner's, and those in the text with all runners'."""
  every_name = set().union(*flag_names.values())
  unknown = []
  for page in _PAGES:
    if page.name == "CHANGELOG.md":  # it names flags that are gone
      continue
    names = [(name, every_name) for name in re.findall(r"`--(\w+)", page.read_text(encoding="utf-8"))]
    names += [(name, flag_names[runner]) for runner, of_command in _commands(page) for name in of_command]
    unknown += [(page.name, name) for name, known in names if name not in known]
  assert unknown == []
