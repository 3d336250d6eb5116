"""bert_flow_tf/tables/workbench.py: scores against SciPy, each computed once, under a complete key."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import load_task
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.tables.inputs import TableInputs, target_of
from bert_flow_tf.tables.recipe import RowRecipe
from bert_flow_tf.tables.workbench import Store, load_benches
from bert_flow_tf.training.settings import FlowSettings
from tests.encoder import tiny
from tests.tables.fakes import Encoder, cosine, flow_matrix, make_bench, sides
from tests.testing import openvino_or_skip

AVG, SN, FLOW, NATSV = RowRecipe("avg"), RowRecipe("avg", "sn"), RowRecipe("avg", "flow"), RowRecipe("avg", "natsv")
KEY = {"kind": "scores", "seeds": (1, 2)}
VALUE = {"spearman": 12.5, "parts": [{"x": math.nan}, (1 / 3, math.inf)]}
KEPT = {"spearman": 12.5, "parts": [{"x": None}, [1 / 3, None]]}


def not_again():
  raise AssertionError("computed again")


def test_a_stored_value_is_not_computed_again(tmp_path):
  assert Store(tmp_path / "cells").kept(KEY, lambda: VALUE) == KEPT
  assert Store(tmp_path / "cells").kept(KEY, not_again) == KEPT
  assert Store(tmp_path / "cells").kept({**KEY, "seeds": (1, 3)}, lambda: 5) == 5


def test_another_version_computes_again(tmp_path, monkeypatch):
  Store(tmp_path).kept(KEY, lambda: 1)
  monkeypatch.setattr("bert_flow_tf.tables.workbench.__version__", "9.9")
  assert Store(tmp_path).kept(KEY, lambda: 2) == 2


@pytest.mark.parametrize("damage", [lambda text: "{}", lambda text: text[:40], lambda text: text.replace("12.5", "99")])
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path, damage):
  store = Store(tmp_path)
  store.kept(KEY, lambda: VALUE)
  (file,) = tmp_path.iterdir()
  file.write_text(damage(file.read_text()))
  assert store.kept(KEY, lambda: VALUE) == KEPT == store.kept(KEY, not_again)
  assert json.loads(file.read_text())["value"] == KEPT


def test_scores_are_those_of_scipy(data):
  bench = make_bench(data, ["STS-B"])
  splits = bench.inputs.tasks["STS-B"].splits
  a, b = sides(splits["test"], bench.encoder, "avg")
  every = np.concatenate([side for pairs in splits.values() for side in sides(pairs, bench.encoder, "avg")])
  mean, std = every.mean(axis=0), every.std(axis=0)
  expected = {
    AVG: cosine(a, b),
    SN: cosine((a - mean) / std, (b - mean) / std),
    FLOW: cosine((a - 4) @ flow_matrix(7), (b - 4) @ flow_matrix(7)),
  }
  for recipe, cosines in expected.items():
    score = 100 * stats.spearmanr(cosines, splits["test"].scores)[0]
    assert bench.score("STS-B", recipe, 7) == (pytest.approx(score, abs=1e-6), "", recipe.calibration)


def test_the_weighted_mean_of_subsets_is_the_score(data):
  bench = make_bench(data, ["STS-12"])
  pairs = bench.inputs.tasks["STS-12"].splits["test"]
  cosines = cosine(*sides(pairs, bench.encoder, "cls"))
  each, weights = [], []
  for _, start, stop in pairs.subsets:
    rows = np.flatnonzero(~np.isnan(pairs.scores[start:stop])) + start
    each.append(100 * stats.spearmanr(cosines[rows], pairs.scores[rows])[0])
    weights.append(len(rows))
  assert bench.score("STS-12", RowRecipe("cls"))[0] == pytest.approx(np.average(each, weights=weights))


def test_k_is_chosen_on_dev(data):
  """The k of the best Spearman on dev, worked out here; without a dev split there is none."""
  bench = make_bench(data, ["STS-B", "STS-12"])
  splits = bench.inputs.tasks["STS-B"].splits
  every = np.concatenate([side for pairs in splits.values() for side in sides(pairs, bench.encoder, "avg")])
  vectors = np.linalg.svd(every, full_matrices=False)[2]
  a, b = sides(splits["dev"], bench.encoder, "avg")
  scores = {}
  for k in range(1, 6):
    rest = np.eye(6) - vectors[:k].T @ vectors[:k]
    scores[k] = stats.spearmanr(cosine(a @ rest, b @ rest), splits["dev"].scores)[0]
  assert bench.score("STS-B", NATSV)[2] == f"natsv-{max(scores, key=scores.get)}"
  value, reason, _ = bench.score("STS-12", NATSV)
  assert math.isnan(value) and "STS-12 has no dev split" in reason


def test_each_fit_is_made_once(data, tmp_path):
  bench = make_bench(data, ["STS-B", "STS-12"], tmp_path)
  of_stsb = RowRecipe("avg", "flow", target_of(["STS-B"]))
  first = [bench.score(task, recipe, seed) for seed in (1, 2) for task, recipe in [("STS-B", FLOW), ("STS-B", SN)]]
  assert bench.fits == 3  # sn knows no seed
  assert bench.score("STS-B", of_stsb, 1) == first[0]  # the same flow by another name is the same cell
  bench.score("STS-12", of_stsb, 1)
  bench.sides("STS-B", FLOW, 1)
  assert bench.fits == 3 and bench.encoder.encoded < 130  # and each sentence is embedded once
  again = make_bench(data, ["STS-B", "STS-12"], tmp_path)
  assert [again.score("STS-B", FLOW, 1), again.score("STS-B", SN)] == [first[0], first[3]]
  assert again.fits == again.encoder.encoded == 0


def of(split, field):
  """A change of one split's gold or of its first sentence."""

  def change(tasks):
    task, pairs = tasks["STS-B"], tasks["STS-B"].splits[split]
    value = {"scores": pairs.scores[::-1], "sentences_a": ("another", *pairs.sentences_a[1:])}[field]
    splits = {**task.splits, split: dataclasses.replace(pairs, **{field: value})}
    return {"tasks": {"STS-B": dataclasses.replace(task, splits=splits)}}

  return change


# {change: ({argument of make_bench: value} of the tasks, the recipes that it decides)}
ALL = [AVG, SN, NATSV, FLOW]
CHANGES = {
  "nothing": (lambda tasks: {}, []),
  "weights": (lambda tasks: {"encoder": Encoder("v")}, ALL),
  "max_seq_length": (lambda tasks: {"embedding": EncoderSettings(max_seq_length=3)}, ALL),
  "batch size": (lambda tasks: {"embedding": EncoderSettings(predict_batch_size=3)}, []),
  "gold of test": (of("test", "scores"), ALL),
  "gold of dev": (of("dev", "scores"), [NATSV]),
  "gold of train": (of("train", "scores"), []),
  "text of test": (of("test", "sentences_a"), ALL),
  "text of train": (of("train", "sentences_a"), [SN, NATSV, FLOW]),
  "flags of the flow": (lambda tasks: {"flow": FlowSettings(permutation="random")}, [FLOW]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_key_has_what_decides_a_score_and_no_more(data, tmp_path, change):
  first = make_bench(data, ["STS-B"], tmp_path)
  for recipe in ALL:
    first.score("STS-B", recipe)
  arguments, decided = CHANGES[change]
  second = make_bench(data, ["STS-B"], tmp_path, **arguments(first.inputs.tasks))
  missed = []
  for recipe in ALL:
    before = len(list(tmp_path.iterdir()))
    second.score("STS-B", recipe)
    missed += [recipe] * (len(list(tmp_path.iterdir())) > before)
  assert missed == decided


def test_pooling_seed_and_split_are_in_the_key(data, tmp_path):
  bench = make_bench(data, ["STS-B"], tmp_path)
  for recipe, seed in [(AVG, 0), (AVG, 1), (RowRecipe("cls"), 0), (FLOW, 0), (FLOW, 1)]:
    bench.score("STS-B", recipe, seed)
  assert len(list(tmp_path.iterdir())) == 4
  bench.cosines("STS-B", FLOW, 0, "dev")
  assert len(list(tmp_path.iterdir())) == 5


def test_no_gold_is_no_score(data):
  task = make_bench(data, ["STS-B"]).inputs.tasks["STS-B"]
  test = task.splits["test"]
  without = SentencePairs(test.sentences_a, test.sentences_b, np.full(len(test), np.nan))
  tasks = {"STS-B": dataclasses.replace(task, splits={"test": without})}
  value, reason, _ = make_bench(data, [], tasks=tasks).score("STS-B", AVG)
  assert np.isnan(value) and reason == "the test split has no gold scores"


def test_a_static_encoder_has_one_embedding(tmp_path):
  inputs = TableInputs({"STS-B": load_task("sample")}, DataSettings(), EncoderSettings(), FlowSettings())
  (bench,) = load_benches(["static:mini"], inputs, Store(tmp_path))
  assert bench.only_embedding == "word-rows" and math.isfinite(bench.score("STS-B", RowRecipe(bench.only_embedding))[0])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "openvino"])
def test_a_recipe_in_int8_is_the_encoder_in_int8(tmp_path, engine):
  if engine == "openvino":
    openvino_or_skip()
  folder = str(tiny.save_tiny(tmp_path / "tiny"))
  benches = []
  for precision, by in (("float32", "tensorflow"), ("int8", engine)):
    settings = EncoderSettings(max_seq_length=16, precision=precision, engine=by)
    inputs = TableInputs({"STS-B": load_task("sample")}, DataSettings(), settings, FlowSettings())
    benches += load_benches([folder], inputs, Store(tmp_path / precision))
  bench, whole = benches
  recipe = RowRecipe("avg", precision="int8", engine=engine)
  (cosines, _), (expected, _) = bench.cosines("STS-B", recipe), whole.cosines("STS-B", AVG)
  np.testing.assert_array_equal(cosines, expected)
  assert not np.array_equal(cosines, bench.cosines("STS-B", AVG)[0])
