"""The examples run with small arguments and show what they say. One process runs them all."""

import collections
import json

import numpy as np
import pytest

from tests.testing import finished_python, tf_bert


def _run(*arguments):
  """Returns {example: what its runs returned}, of a process that prints them."""
  done = finished_python("-m", *arguments, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
  found = collections.defaultdict(list)
  found["warnings"] = [line for line in done.stderr.splitlines() if line.startswith("WARNING:absl:")]
  for line in done.stdout.splitlines():
    if line.startswith('["'):
      name, returned = json.loads(line)
      found[name].append(returned)
  return found


@pytest.fixture(scope="module")
def found(tmp_path_factory):
  return _run("tests.examples.run_examples", str(tmp_path_factory.mktemp("examples")))


@pytest.mark.slow
def test_no_example_warns(found):
  """Only a direction without variance is allowed, which the LayerNorm of a new BERT makes."""
  assert [line for line in found["warnings"] if "without variance" not in line] == []


@pytest.mark.slow
def test_own_loop_has_the_losses_of_one_replica_on_two(found):
  two, one = found["train_your_own_loop"]
  np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-4)
  assert len(one["losses"]) == 12 and one["flow"] > one["uncalibrated"] + 5


@pytest.mark.slow
def test_keras_model_learns_and_is_loaded(found):
  pytest.importorskip("tensorflow_text")
  (values,) = found["keras_model"]
  assert values["losses"][-1] < values["losses"][0] and values["difference"] < 1e-5


@pytest.mark.slow
def test_flow_of_vectors_is_denser_than_the_normal_distribution(found):
  (values,) = found["fit_a_flow"]
  assert values["log p of the flow, nats a vector"] > values["log p of the normal distribution"]
  assert values["mean cosine before"] > 0.5 > 0.2 > abs(values["mean cosine after"])
  assert abs(values["median of samples - median of vectors"]) < 0.2


@pytest.mark.slow
def test_own_encoder_learns_and_is_calibrated(found):
  tf_bert()
  (values,) = found["own_encoder"]
  assert np.mean(values["losses"][-5:]) < np.mean(values["losses"][:5])
  assert all(np.isfinite(score) for score in values["scores"].values()) and len(values["scores"]) == 3


@pytest.mark.slow
def test_fine_tuning_learns_and_its_dropout_follows_from_the_seed(tmp_path):
  two, one, again = _run("tests.examples.run_examples", str(tmp_path), "fine_tune")["fine_tune_bert"]
  assert np.mean(two["losses"][-5:]) < np.mean(two["losses"][:5]) and two["after"] > two["before"] + 3
  assert one["losses"] == again["losses"] and len(one["losses"]) == 3
  for run in (two, one, again):
    assert run["checksums"][0] == run["checksums"][1]
  assert one["checksums"] == again["checksums"] != two["checksums"]


@pytest.mark.slow
def test_search_finds_the_sentences_in_other_frames(found):
  (values,) = found["search"]
  corpus, distinct = values["corpus"], values["kept"]
  assert len(corpus) == 2500 == len(set(corpus)) and 0 < len(distinct) < len(corpus) and len(values["neighbors"]) == 3
  scores = [score for score, _, _ in values["pairs"]]
  assert scores == sorted(scores, reverse=True) and min(scores) >= 0.9
  # Most of the sentences that stand in two frames are found as near-duplicates.
  where = {sentence: row for row, sentence in enumerate(corpus)}
  framed = {(where[text[10:]], row) for text, row in where.items() if text.startswith("They say: ")}
  mined = {(i, j) for _, i, j in values["pairs"]}
  assert len(framed) > 50 and len(framed & mined) > 0.5 * len(framed)


@pytest.mark.slow
def test_serving_answers_as_python(tmp_path):
  pytest.importorskip("tensorflow_text", reason="needs the extra 'serving'")
  pytest.importorskip("tensorflow_serving", reason="needs the extra 'serving'")
  runs = _run("tests.examples.run_examples", str(tmp_path), "serve")["serve"]
  assert [run["folder"] for run in runs] == [str(tmp_path / "served/1")] * 3
  for run in runs:
    np.testing.assert_allclose(run["served"], run["python"], atol=1e-4)
