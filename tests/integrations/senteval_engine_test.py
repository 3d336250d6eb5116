"""integrations/senteval_engine.py with a package of SentEval's interface."""

import sys
import zlib

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.integrations.senteval_engine import find_senteval
from tests.integrations import senteval_checkout
from tests.run_scripts import tiny_data
from tests.testing import rejected


def embed(sentences):
  """Returns sums of random vectors, one per word: float32 [n, 16]."""
  words = [[np.random.default_rng(zlib.crc32(word.encode())).normal(size=16) for word in s.split()] for s in sentences]
  return np.array([np.sum(vectors, axis=0) for vectors in words], np.float32)


def cosines(pairs):
  a, b = (embed(side).astype(np.float64) for side in (pairs.sentences_a, pairs.sentences_b))
  return np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture
def checkout(tmp_path):
  """Writes a checkout; its package is forgotten after the test."""
  yield senteval_checkout.write(tmp_path, tiny_data.write(tmp_path / "files"))
  for name in [name for name in sys.modules if name.split(".")[0] == "senteval"]:
    del sys.modules[name]


def evaluate(engine, task):
  return engine.evaluate(task, SentEvalAdapter(embed))


def test_subsets_are_averaged_as_senteval_does(checkout):
  """SciPy computes the expected scores from the pairs of this package's reader."""
  pairs = load_task("STS-12", checkout / "files").splits["test"]
  similarities = cosines(pairs)
  expected = {}
  for subset in pairs.subsets:
    part = slice(subset.start, subset.stop)
    expected[subset.name] = 100 * stats.spearmanr(similarities[part], pairs.scores[part])[0]
  (found,) = evaluate(find_senteval(str(checkout), 4, trusted=True), "STS12").values()
  assert found["spearman_mean"] == pytest.approx(np.mean(list(expected.values())), abs=1e-3)
  assert found["pairs"] == len(pairs)
  scores = {name: subset["spearman"] for name, subset in found["subsets"].items()}
  assert scores == pytest.approx(expected, abs=1e-3)


def test_every_kind_of_result(checkout):
  engine = find_senteval(str(checkout), 4, trusted=True)
  assert engine.name == f"SentEval in {checkout / 'senteval'}" and str(checkout) not in sys.path
  trained = {"spearman": 50.0, "pearson": 25.0, "pairs": 4, "reason": ""}
  assert evaluate(engine, "STSBenchmark") == {"STSBenchmark test, trained": trained}
  assert evaluate(engine, "MRPC") == {"MRPC test": {"accuracy": 72.5, "f1": 81.0, "pairs": 9, "reason": ""}}
  assert evaluate(engine, "SICKRelatedness")["SICKRelatedness dev"]["spearman"] == 75.0
  for task in ("SST2", "Broken"):
    with rejected(ConfigError, "senteval_tasks"):
      evaluate(engine, task)


def test_tasks(checkout):
  engine = find_senteval(str(checkout), 4, trusted=True)
  assert engine.tasks([" MRPC"]) == ["MRPC"]
  assert len(engine.tasks(None)) == 7
  for names in (["TREC"], ["STS12", "STS12"]):
    with rejected(ConfigError, "senteval_tasks"):
      engine.tasks(names)


def test_without_data(checkout):
  (checkout / "data/downstream").unlink()
  with rejected(ConfigError, "senteval"):
    find_senteval(str(checkout), 4, trusted=True)
  (checkout / "data/downstream/STS/STS13-en-test").mkdir(parents=True)
  engine = find_senteval(str(checkout), 4, trusted=True)
  assert engine.tasks(None) == ["STS13"]
  (checkout / "data/downstream/STS/STS13-en-test").rmdir()
  with rejected(ConfigError, "senteval"):
    engine.tasks(None)


def test_code_of_a_checkout_runs_only_if_it_is_trusted(checkout):
  for name in ("__init__.py", "engine.py"):
    (checkout / "senteval" / name).write_text(f"open({str(checkout / 'ran')!r}, 'w')\n")
  with rejected(ConfigError, "senteval_trusted"):
    find_senteval(str(checkout), 4)
  assert not (checkout / "ran").exists()


def test_senteval_that_cannot_be_imported(checkout):
  with rejected(ConfigError, "senteval"):  # the data alone, and no package is installed
    find_senteval(str(checkout / "data"), 4)
  (checkout / "senteval/engine.py").write_text("import a_package_that_is_not_there\n")
  with rejected(ConfigError, "senteval"):
    find_senteval(str(checkout), 4, trusted=True)
