"""run_scripts/run_siamese.py: what it leaves behind, that a frozen encoder is frozen, and what it refuses."""

import re

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.identity import check_encoder
from bert_flow_tf.evaluation.similarity import cosine_similarity
from bert_flow_tf.training.objectives import SoftmaxObjective
from tests.run_scripts import siamese_cases
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import read_json

pytestmark = pytest.mark.slow
COMMAND_LINES = siamese_cases


def rows(file):
  """{column: values} of a TSV."""
  header, *lines = (line.split("\t") for line in file.read_text().splitlines())
  return dict(zip(header, zip(*lines, strict=True), strict=True))


def test_good_command_lines(ran):
  check_succeeded(ran[1], siamese_cases.good(ran[0]))


def test_what_is_refused_is_refused_in_one_line(ran):
  folder, found = ran
  check_rejected(found, siamese_cases.cases(folder))
  expected = {"sick", "frozen", "joint", "nothing", "union", "subsets"}
  assert {path.name for path in (folder / "exp").iterdir()} == expected


def test_eval_results_of_tasks_made_of_subsets(ran):
  for name, task in (("union", "STS-12-16"), ("subsets", "STS-13")):
    lines = (ran[0] / f"exp/{name}/eval_results.txt").read_text().splitlines()
    values = {key: float(value) for key, value in (line.split(" = ") for line in lines)}
    pairs = load_task(task, ran[0] / "data").splits["test"]
    encoder = SentenceEncoder.from_pretrained(ran[0] / "model")
    a, b = (encoder.encode(list(side), max_seq_length=16) for side in (pairs.sentences_a, pairs.sentences_b))
    cosines, scored = cosine_similarity(a, b), ~np.isnan(pairs.scores)
    # Pearson's: most words are unknown to this encoder, and which of two like cosines is the larger, rounding decides.
    expected = stats.pearsonr(cosines[scored], pairs.scores[scored]).statistic
    assert values["eval_pearsonr"] == pytest.approx(expected, abs=1e-3) and -1 < values["eval_spearmanr"] < 1


def test_labels(ran):
  """Saved encoder and classifier give the predictions, and the figures follow from those."""
  folder = ran[0] / "exp/sick"
  results = read_json(folder / "results.json")
  encoder = SentenceEncoder.from_pretrained(folder / "encoder")
  classifier = SoftmaxObjective.load(folder / "classifier")
  columns = rows(folder / "test_results.tsv")
  a, b = (encoder.encode(columns[side], max_seq_length=16) for side in ("sentence1", "sentence2"))
  logits = np.hstack([a, b, np.abs(a - b)]) @ classifier.output_weights.numpy().T
  probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
  labels = np.array(["contradiction", "entailment", "neutral"])
  found = np.stack([np.array(columns[f"p_{label}"], float) for label in labels], axis=1)
  np.testing.assert_allclose(found, probabilities, atol=1e-5)
  assert columns["predicted"] == tuple(labels[found.argmax(axis=1)])
  right = np.mean(np.array(columns["predicted"]) == np.array(columns["gold"]))
  majority = max(columns["gold"].count(label) for label in labels) / siamese_cases.PAIRS
  test = results["results"]["test"]
  assert (test["accuracy"], test["majority"]) == (pytest.approx(100 * right), pytest.approx(100 * majority))
  values = dict(line.split(" = ") for line in (folder / "eval_results.txt").read_text().splitlines())
  assert float(values["eval_accuracy"]) == pytest.approx(right)
  with np.load(folder / "test_embeddings.npz") as pooled:
    np.testing.assert_allclose(pooled["a"], a, atol=1e-5)
    np.testing.assert_allclose(pooled["b"], b, atol=1e-5)
  training = read_json(folder / "training.json")
  assert (training["steps"], training["labelled"], training["unlabelled"]) == (5, 40, 0)
  assert training["encoder_sha256"] == encoder.weights_checksum != training["encoder_sha256_before"]
  assert re.search(r"trained 5 steps of 8 pairs, [0-9.]+ s a step, peak memory [0-9.]+ GiB", ran[1]["sick"]["stdout"])


def test_evaluated_again_from_what_was_saved(ran):
  folder, found = ran

  def tables(name):
    lines = found[name]["stdout"].splitlines()
    return [line for line in lines if not line.startswith(("seconds:", "trained"))]

  assert len(tables("sick")) == 4 and tables("sick again") == tables("sick")
  full = rows(folder / "exp/sick/full_results.tsv")
  assert len(full["index"]) == 3 * siamese_cases.PAIRS
  one, other = (tables(name)[2].split() for name in ("joint", "joint again"))
  assert one[0] == other[0] == "dev"


def test_frozen_encoder_is_frozen(ran):
  """Not a bit of its weights changes while a flow is fitted, and no encoder is saved beside the flow."""
  folder, _ = ran
  encoder = SentenceEncoder.from_pretrained(folder / "model")
  training, results = (read_json(folder / "exp/frozen" / name) for name in ("training.json", "results.json"))
  assert training["frozen"] and training["encoder_sha256"] == encoder.weights_checksum
  assert results["encoder"]["weights_sha256"] == encoder.weights_checksum
  assert (training["steps"], training["labelled"], training["unlabelled"]) == (15, 0, 3 * siamese_cases.PAIRS)
  assert not (folder / "exp/frozen/encoder").exists()
  flow = load_calibration(folder / "exp/frozen/flow")
  check_encoder(flow, encoder.identity("avg-first-last", 16), encoder.dim("avg-first-last"), "flow")
  stsb = (folder / "data/STS/STSBenchmark/sts-test.csv").read_text().splitlines()
  gold, a, b = zip(*(line.split("\t")[4:] for line in stsb), strict=True)
  sides = [encoder.encode(list(side), max_seq_length=16) for side in (a, b)]
  for method, (u, v) in {"without_flow": sides, "with_flow": [flow.transform(side) for side in sides]}.items():
    cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    expected = 100 * stats.spearmanr(cosines, np.array(gold, float))[0]
    assert results["results"]["test"][method]["spearman"] == pytest.approx(expected, abs=0.5)


def test_some_labels_train_encoder_and_flow_together(ran):
  folder = ran[0] / "exp/joint"
  training = read_json(folder / "training.json")
  assert (training["planned_steps"], training["labelled"], training["unlabelled"]) == (5, 20, 20)
  assert training["best_on_dev"]["step"] % 2 == 0
  encoder = SentenceEncoder.from_pretrained(folder / "encoder", precision="bfloat16")
  assert encoder.weights_checksum == training["encoder_sha256"] != training["encoder_sha256_before"]
  flow = load_calibration(folder / "flow")
  assert flow.dim == 4 and flow.encoder["name"] == str(folder / "encoder")
  check_encoder(flow, encoder.identity("avg-first-last", 16, 4), 4, "flow")
  columns = rows(folder / "dev_results.tsv")
  assert list(columns) == ["index", "gold", "without_flow", "with_flow", "sentence1", "sentence2"]
  with np.load(folder / "dev_embeddings.npz") as pooled:
    u, v = pooled["a"], pooled["b"]
  cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
  np.testing.assert_allclose(np.array(columns["with_flow"], float), cosines, atol=1e-4)
