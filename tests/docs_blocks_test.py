"""Every bash and Python block of the pages: run as a reader would, and its output compared with the page's.

The blocks of a page run in their order, in a folder that looks like the repository's root; the Python blocks share a
session. `NOT_RUN` has the commands that cannot be run here, `AS_READ` what a reader puts in place of a placeholder.
"""

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.pages import check_output, commands, read_blocks
from tests.testing import REPO, SHARED, is_openvino_limited, reserved_ports

# (pattern of pages' names, pattern of a command or Python block, why it is not run)
NOT_RUN = (
  ("", r"\bpip\b|\bpip-audit\b|-m venv\b|\bactivate$", "needs a package index; the tests' environment takes its place"),
  ("", r"-m pytest\b|\.ci/run", "these are the tests"),
  ("", r"\bdocker run\b", "needs Docker; `tests/serving/stand_in.py` answers in its place"),
  (
    "docs/embedding.md",
    "dask (scheduler|worker)|DaskRunner|apache_beam|PortableRunner",
    "clusters: `tools.soak.cluster`",
  ),
  ("docs/embedding.md", "spark-submit", "a cluster: `tests/examples/spark_embed_test.py`"),
  ("tools/soak/README.md", r"-m tools\.soak", "kills and damage for minutes to hours, partly as root"),
  ("", "^model_version_policy|^@inproceedings", "a setting of the server, and a citation"),
  ("docs/api.md", r"import mteb\b", "needs PyTorch, and a download"),
  ("docs/serving.md", "tf2onnx|--format=onnx", "needs tf2onnx; tests/serving runs it where it is installed"),
  ("docs/results.md", "", "minutes to hours; tests/tables/ computes such tables on small sets"),
  (
    "",
    r"--benchmark=(tasks|encoder|static|serving|duplicates|hybrid)|--baseline=",
    "minutes; tests/benchmarks/ runs the parts",
  ),
  ("docs/benchmarks.md", r"million\.txt|index vectors|--vectors=vectors", "a million sentences"),
  ("docs/benchmarks.md", "tools.precisions", "minutes; tests/tools/precisions_test.py has its parts"),
  ("docs/static.md", "static_tables", "minutes; tests/tools/static_tables_test.py has its parts"),
  ("docs/static.md", "static:minishlab", "needs a download; tests/encoder/other/static_model_test.py writes folders"),
  ("docs/encoders.md", "saved_model:", "needs a SavedModel; tests/encoder/other/saved_model_test.py writes some"),
  ("docs/tables.md", "saved_model:", "as above"),
  (
    "docs/retrieval.md",
    "retrieval_tables|--beir=|model2vec",
    "minutes; tests/tools/retrieval_tables_test.py has its parts",
  ),
  ("docs/encoders.md", "hub/pair", "a pair of TensorFlow Hub: tests/encoder/checkpoints/model_garden_test.py runs it"),
  ("docs/tables.md", "--table=all", "hours; the tables are run by themselves"),
)
# {page: {pattern: the text that a reader puts in its place}}; also DATA, FOLDER, and the ports of a server.
_SHORT = " --num_train_steps=4 --num_warmup_steps=1 --hidden_size=16 --num_hidden_layers=1 --num_attention_heads=2"
_TOKENIZER = 'keras_hub.models.BertTokenizer("bert_flow_tf/encoder/pretrained/mini/vocab.txt", lowercase=True)'
AS_READ = {
  "docs/api.md": {r"exp/stsb/whitening-64": "exp/NAME/flow"},
  "docs/benchmarks.md": {
    "--benchmark=step": r"\g<0> --dim=8 --steps=30",
    "--benchmark=(step|training_step|startup)": r"\g<0> --repeats=1 --training_steps=1",
  },
  # The encoder of these tests has a narrow cone.
  "docs/embedding.md": {"dedupe --vectors=vectors": r"\g<0> --allow_unrelated"},
  "docs/distributed.md": {
    "# on the first": "& first=$!",
    "# on the second": "&& wait $first",
    "HOST0:23456": "localhost:8500",
    "HOST1:23456": "localhost:8501",
  },
  "docs/fine_tuning.md": {
    "60108": "24",
    r"exp/NAME": "exp/exp_t_STS-B_ep_1.00_lr_5.00e-05_e_avg-last-2_f_11_1.00e-03_allsplits",
  },
  "docs/flow.md": {
    r"BertBackbone\.from_preset\(.*\)": "BertBackbone(8192, 2, 2, 16, 32, max_sequence_length=64)",
    r'Preprocessor\.from_preset\("\w+"': f"Preprocessor({_TOKENIZER}",
  },
  "examples/pretrain_bert/README.md": {"--output_dir=my_bert": rf"\g<0>{_SHORT}"},
  "docs/reproduction.md": {r"--task=STS-B": r"\g<0> --data_dir=DATA"},
  "docs/tables.md": {
    "bert-flow table": r"\g<0> --data_dir=DATA --train_batch_size=8 --flow_model_config=small.json",
    "bert-flow table(?!.*--model=)": r"\g<0> --model=base",
    "--table=(beyond,gains,ablation|choice)": r"\g<0> --task=STS-B,STS-12",
    "FOLDER": "large",
  },
  "bert_flow_tf/encoder/pretrained/mini/README.md": {"--output_dir=mini": rf"\g<0>{_SHORT}"},
}
# Code that runs before the blocks of a page, which start from a saved calibration or an export.
_FITTED = """
from bert_flow_tf import SentenceModel, export_model, load_task

fitted = SentenceModel.from_pretrained("base").fit(load_task("sample").splits["dev"], "whitening-4")
fitted.save("exp/NAME/flow")
"""
BEFORE = {"docs/embedding.md": _FITTED + 'export_model(fitted, "served")', "docs/api.md": _FITTED}
# Pages with outputs of real data sets.
NEEDS_DATA = ("docs/calibrations.md",)

# Pages of a few seconds; the others are slow.
QUICK = ("bert_flow_tf/data/frequencies/README.md",)

# Runs Python blocks, a json string a line, in one namespace; prints a line after the output of each.
_SESSION = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
  exec(json.loads(line), names)
  print("%%", flush=True)
"""


def _pages():
  """Returns {page: its blocks} of all pages that git tracks; none outside a git checkout."""
  if shutil.which("git") is None:
    return {}
  done = subprocess.run(["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=False)
  return {page: blocks for page in done.stdout.split() if (blocks := read_blocks(page))}


def _texts(page, block):
  """Returns the commands, or the code, of a block that are run."""
  return [text for text in commands(block) if _reason(page, text) is None]


def _reason(page, text):
  """Returns the pattern of `NOT_RUN` that holds for a command or Python block, None if it is run."""
  return next((pattern for name, pattern, _ in NOT_RUN if re.search(name, page) and re.search(pattern, text)), None)


def test_each_block_is_run_or_listed():
  """Each block is bash, Python, an output or listed; each pattern occurs in a block."""
  found = _pages()
  if not found:
    pytest.skip("not a git checkout: git says which pages belong to the project")
  strange = [block for blocks in found.values() for block in blocks if block.language not in ("bash", "python")]
  assert [block for block in strange if _reason("", block.text) is None] == []
  texts = {page: [text for block in blocks for text in commands(block)] for page, blocks in found.items()}
  used = {_reason(page, text) for page in texts for text in texts[page]}
  assert [pattern for _, pattern, _ in NOT_RUN if pattern not in used] == []
  for page, patterns in AS_READ.items():
    assert [pattern for pattern in patterns if not re.search(pattern, "\n".join(texts[page]))] == [], page


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
  """Returns the environment of a reader's shell."""
  folder = tmp_path_factory.mktemp("reader")
  (folder / "bin").mkdir()
  settings = {"HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
  settings["TF_GRPC_REUSE_PORT"] = "1"  # the ports are reserved
  settings |= {"HOME": str(folder), "PYTHONPATH": str(REPO), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
  run = f"exec {sys.executable}"
  programs = {"python": run, "python3": run, "bert-flow": f"{run} {REPO}/run_scripts/bert_flow.py"}
  for name, command in programs.items():
    (folder / "bin" / name).write_text(f'#!/bin/sh\n{command} "$@"\n')
    (folder / "bin" / name).chmod(0o755)
  from tests import reader_files  # takes seconds

  reader_files.write_hub(folder / "hub")
  return {**os.environ, **settings}


@pytest.fixture
def ports():
  """Returns {port on the pages: port of this test}."""
  with reserved_ports(2) as ports:
    yield {"8500": str(ports[0]), "8501": str(ports[1])}


class Reader:
  """Runs the blocks of a page in a folder."""

  def __init__(self, home, environment):
    self._home, self._environment, self._session, self._server = home, environment, None, None
    for folder in ("benchmarks", "bert_flow_tf", "examples", "run_scripts"):
      (home / folder).symlink_to(REPO / folder)
    (home / ".venv").mkdir()
    (home / ".venv/bin").symlink_to(environment["PATH"].partition(":")[0])

  def bash(self, text):
    """Runs commands and returns their output."""
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=self._home, env=self._environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout

  def python(self, text):
    """Runs code in the page's session and returns its output."""
    if self._session is None:
      self._session = self._start("-c", _SESSION)
    print(json.dumps(text), file=self._session.stdin, flush=True)
    printed = ""
    while not printed.endswith("%%\n"):
      line = self._session.stdout.readline()
      assert line, f"{text}\n{printed}{(self._home.parent / 'stderr').read_text()[-4000:]}"
      printed += line
    return printed.removesuffix("%%\n")

  def serve(self, ports):
    """Starts a server of the model in the folder `served`, unless it runs."""
    if self._server is None:
      self._server = self._start("-m", "tests.serving.stand_in", "served", "bert_flow", *ports.values())
      line = self._server.stdout.readline()
      assert line == "ready\n", line + (self._home.parent / "stderr").read_text()[-4000:]

  def _start(self, *arguments):
    """Starts Python with pipes to its standard input and output."""
    with open(self._home.parent / "stderr", "a") as stderr:
      return subprocess.Popen(
        [self._home / ".venv/bin/python", *arguments],
        cwd=self._home,
        env=self._environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
      )

  def close(self):
    """Ends session and server."""
    for process in filter(None, (self._session, self._server)):
      process.stdin.close()
      process.stdout.close()
      process.wait()


# Packages of docs/other_programs.md and docs/flow.md, none of which this package needs.
_PROGRAMS = ("bertopic", "keybert", "langchain_core", "llama_index", "haystack", "chromadb", "qdrant_client", "lancedb")
_PROGRAMS += ("duckdb", "txtai", "ai_edge_litert", "keras_hub")


def _missing(text):
  """Returns the needs of a command or code that this machine lacks."""
  has_openvino = importlib.util.find_spec("openvino") is not None and not is_openvino_limited()
  needs = {str(SHARED): SHARED.exists(), "curl ": shutil.which("curl") is not None, "openvino": has_openvino}
  missing = [name for name, available in needs.items() if name in text and not available]
  for package in _PROGRAMS:
    if re.search(rf"^(from|import) {package}\b", text, re.MULTILINE) and not importlib.util.find_spec(package):
      missing.append(package)
  return missing


@pytest.mark.parametrize(
  "page",
  [
    pytest.param(page, marks=[pytest.mark.slow] * (page not in QUICK))
    for page, blocks in _pages().items()
    if any(_texts(page, block) for block in blocks)
  ],
)
def test_blocks_run_and_print_their_output(page, environment, ports, tmp_path):
  from tests import reader_files

  data = SHARED / "data" if page in NEEDS_DATA else tmp_path / "glue_data"
  home = tmp_path / "bert-flow"
  home.mkdir()
  reader_files.write(home)
  as_read = {**AS_READ.get(page, {}), r"\bDATA\b": str(data), r"\bFOLDER\b": "base", **ports}
  with contextlib.closing(Reader(home, environment)) as reader:
    if page in BEFORE:
      reader.python(BEFORE[page])
    missing = []
    for block in read_blocks(page):
      printed, texts = "", _texts(page, block)
      for serving, part in itertools.groupby(texts, lambda text: any(port in text for port in ports)):
        text = "\n".join(part)
        for pattern, value in as_read.items():
          text = re.sub(pattern, value, text)
        missing += (lacking := _missing(text))
        if lacking:
          continue
        if serving:
          reader.serve(ports)
        printed += getattr(reader, block.language)(text)
      if block.output and texts and not lacking:
        check_output(printed, block.output)
  if missing:
    pytest.skip(f"the other blocks have run; not available: {', '.join(sorted({*missing}))}")


def test_another_output_is_noticed():
  shown = "split  x 100     flow\n-----  --------  -----\n...\ntest   Spearman  57.44\nseconds: fitting 2.8"
  printed = "log\nsplit x 100 flow\n--- --- ---\ndev Spearman 1.0\ntest Spearman 57.61\nseconds: fitting 9.1\nmore"
  check_output(printed, shown)
  for part, other in (("57.61", "58.44"), ("Spearman", "Pearson"), ("x 100", "x 10"), ("test", "train")):
    with pytest.raises(AssertionError):
      check_output(printed.replace(part, other), shown)
