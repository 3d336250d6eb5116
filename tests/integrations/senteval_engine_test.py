"""integrations/senteval_engine.py: SentEval's definitions on small files, and a package of SentEval's interface."""

import sys
import zlib

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.integrations.senteval_engine import OwnEngine, opened_engine
from tests.run_scripts import tiny_data
from tests.testing import rejected

# SentEval's interface as its README describes it.
PACKAGE = """
import os
import numpy as np
from scipy.stats import pearsonr, spearmanr

class SE:
  def __init__(self, params, batcher, prepare=None):
    self.params, self.batcher, self.prepare = params, batcher, prepare
    self.list_tasks = ["STS12", "STSBenchmark", "SICKRelatedness", "MRPC", "SST2", "Broken"]

  def eval(self, name):
    folder = os.path.join(self.params["task_path"], "downstream", "STS", "STS12-en-test")
    if name == "STSBenchmark":
      return {"devpearson": 0.5, "pearson": 0.25, "spearman": np.float64(0.5), "mse": 1.0, "ndev": 3, "ntest": 4}
    if name == "MRPC":
      return {"devacc": 71.0, "acc": 72.5, "f1": 81.0, "ndev": 3, "ntest": 9}
    if name == "SICKRelatedness":
      part = {"pearson": (0.5, 0.0), "spearman": (0.75, 0.0), "nsamples": 7}
      return {"train": part, "dev": part, "test": part, "all": {"pearson": {}, "spearman": {}}}
    if name == "SST2":
      assert False, "torch.cuda required for Relatedness"
    if name == "Broken":
      return {"nothing": 1}
    found, data = {}, {}
    for part in sorted(file[10:-4] for file in os.listdir(folder) if "input" in file):
      with open(os.path.join(folder, f"STS.input.{part}.txt")) as file:
        pairs = [line.rstrip("\\n").split("\\t") for line in file]
      with open(os.path.join(folder, f"STS.gs.{part}.txt")) as file:
        gold = file.read().split("\\n")
      kept = [i for i, score in enumerate(gold) if score and i < len(pairs)]
      sides = [np.array([pairs[i][side].split() for i in kept], dtype=object) for side in (0, 1)]
      data[part] = (sides, [float(gold[i]) for i in kept])
    self.prepare(self.params, [s for sides, _ in data.values() for side in sides for s in side])
    for part, (sides, gold) in data.items():
      size, cosines = self.params["batch_size"], []
      for start in range(0, len(gold), size):
        a, b = (self.batcher(self.params, side[start:start + size]) for side in sides)
        cosines += [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in zip(a, b)]
      found[part] = {"pearson": pearsonr(cosines, gold), "spearman": spearmanr(cosines, gold), "nsamples": len(gold)}
    means = {
      key: {"mean": np.mean([p[key][0] for p in found.values()]),
            "wmean": np.average([p[key][0] for p in found.values()], weights=[p["nsamples"] for p in found.values()])}
      for key in ("pearson", "spearman")
    }
    return {**found, "all": means}
"""


def embed(sentences):
  """Sums of random vectors, one a word: float32 [n, 16]."""
  words = [[np.random.default_rng(zlib.crc32(word.encode())).normal(size=16) for word in s.split()] for s in sentences]
  return np.array([np.sum(vectors, axis=0) for vectors in words], np.float32)


def cosines(pairs):
  a, b = (embed(side).astype(np.float64) for side in pairs)
  return np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return tiny_data.write(tmp_path_factory.mktemp("senteval"))


@pytest.fixture
def package(tmp_path, data):
  """Makes a checkout: the package and data/downstream; it is forgotten after the test."""
  (tmp_path / "senteval").mkdir()
  (tmp_path / "senteval/__init__.py").write_text("")
  (tmp_path / "senteval/engine.py").write_text(PACKAGE)
  (tmp_path / "data").mkdir()
  (tmp_path / "data/downstream").symlink_to(data)
  yield tmp_path
  for name in [name for name in sys.modules if name.split(".")[0] == "senteval"]:
    del sys.modules[name]


def evaluate(engine, task):
  return engine.evaluate(task, SentEvalAdapter(embed))


def test_own_engine_on_splits(data):
  with opened_engine(str(data), None, 7) as (engine, _):
    found = evaluate(engine, "STSBenchmark") | evaluate(engine, "SICKRelatedness")
  assert list(found) == [
    f"{task} {split}" for task in ("STSBenchmark", "SICKRelatedness") for split in ("train", "dev", "test")
  ]
  rows = [line.split("\t") for line in (data / "STS/STSBenchmark/sts-dev.csv").read_text().splitlines()]
  expected = stats.spearmanr(
    cosines([[row[5] for row in rows], [row[6] for row in rows]]), [float(row[4]) for row in rows]
  )[0]
  assert found["STSBenchmark dev"]["spearman"] == pytest.approx(100 * expected)


def test_senteval_in_a_checkout(package, data):
  """Its engine gives what ours does."""
  with opened_engine(str(data), None, 4) as (own, _):
    (expected,) = evaluate(own, "STS12").values()
  with opened_engine(str(package), [" MRPC"], 4, trusted=True) as (engine, names):
    assert names == ["MRPC"] and engine.name == f"SentEval in {package / 'senteval'}" and str(package) not in sys.path
    (found,) = evaluate(engine, "STS12").values()
    for key in ("spearman_mean", "spearman_wmean", "pearson_mean", "pearson_wmean"):
      assert found[key] == pytest.approx(expected[key], abs=1e-3)
    assert found["subsets"].keys() == expected["subsets"].keys() and found["pairs"] == expected["pairs"]
    for name, subset in found["subsets"].items():
      assert subset["spearman"] == pytest.approx(expected["subsets"][name]["spearman"], abs=1e-3)
    trained = {"spearman": 50.0, "pearson": 25.0, "pairs": 4, "reason": ""}
    assert evaluate(engine, "STSBenchmark") == {"STSBenchmark test, trained": trained}
    assert evaluate(engine, "MRPC") == {"MRPC test": {"accuracy": 72.5, "f1": 81.0, "pairs": 9, "reason": ""}}
    assert evaluate(engine, "SICKRelatedness")["SICKRelatedness dev"]["spearman"] == 75.0
    with pytest.raises(ConfigError, match=r"SST2.*torch\.cuda required"):
      evaluate(engine, "SST2")
    with pytest.raises(ConfigError, match="without a known score"):
      evaluate(engine, "Broken")
  with pytest.raises(ConfigError, match="senteval_tasks=TREC"), opened_engine(str(package), ["TREC"], 4, trusted=True):
    pass


def test_code_of_a_checkout_runs_only_if_it_is_trusted(package):
  for name in ("__init__.py", "engine.py"):
    (package / "senteval" / name).write_text(f"open({str(package / 'ran')!r}, 'w')\n")
  with rejected(ConfigError, "senteval_trusted", match="program code"), opened_engine(str(package), None, 4):
    pass
  assert not (package / "ran").exists()
  with opened_engine(str(package / "data"), None, 4) as (engine, _):  # the data alone needs no trust
    assert isinstance(engine, OwnEngine)


def test_a_broken_checkout_is_not_used(package):
  (package / "senteval/engine.py").write_text("import a_package_that_is_not_there\n")
  with opened_engine(str(package), None, 4, trusted=True) as (engine, _):
    assert isinstance(engine, OwnEngine)


def test_default_tasks_are_those_whose_data_exists(tmp_path):
  (tmp_path / "downstream/STS/STS13-en-test").mkdir(parents=True)
  (tmp_path / "downstream/SICK").mkdir()
  with opened_engine(str(tmp_path), None, 4) as (engine, names):
    assert names == ["STS13", "SICKRelatedness"]
    with pytest.raises(DataError, match=r"STS\.input\.FNWN"):
      evaluate(engine, "STS13")
  (tmp_path / "bare/downstream").mkdir(parents=True)
  for folder, tasks, message in (("bare", None, "none of STS/STS12"), ("", ["STS13", "STS13"], "each once")):
    with pytest.raises(ConfigError, match=message), opened_engine(str(tmp_path / folder), tasks, 4):
      pass
