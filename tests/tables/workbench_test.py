"""bert_flow_tf/tables/workbench.py: scores against SciPy, each computed once, under a complete key."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.tables import workbench
from bert_flow_tf.tables.workbench import Recipe, headline, target_of
from bert_flow_tf.training.settings import FlowSettings
from tests.tables.fakes import Encoder, cosine, flow_matrix, make_bench, sides

SN, FLOW, NATSV = Recipe("avg", "sn"), Recipe("avg", "flow"), Recipe("avg", "natsv")


def test_figures_are_those_of_scipy(data):
  bench = make_bench(data, ["STS-B"])
  splits = bench.inputs.tasks["STS-B"].splits
  a, b = sides(splits["test"], bench.encoder, "avg")
  every = np.concatenate([side for pairs in splits.values() for side in sides(pairs, bench.encoder, "avg")])
  mean, std = every.mean(axis=0), every.std(axis=0)
  expected = {
    Recipe("avg"): cosine(a, b),
    SN: cosine((a - mean) / std, (b - mean) / std),
    FLOW: cosine((a - 4) @ flow_matrix(7), (b - 4) @ flow_matrix(7)),
  }
  for recipe, cosines in expected.items():
    scores = bench.scores("STS-B", recipe, 7)
    assert headline(scores) == (pytest.approx(100 * stats.spearmanr(cosines, splits["test"].scores)[0], abs=1e-6), "")


def test_weighted_mean_of_subsets_is_the_headline(data):
  bench = make_bench(data, ["STS-12"])
  pairs = bench.inputs.tasks["STS-12"].splits["test"]
  cosines = cosine(*sides(pairs, bench.encoder, "cls"))
  each, weights = [], []
  for _, start, stop in pairs.subsets:
    rows = np.flatnonzero(~np.isnan(pairs.scores[start:stop])) + start
    each.append(100 * stats.spearmanr(cosines[rows], pairs.scores[rows])[0])
    weights.append(len(rows))
  assert headline(bench.scores("STS-12", Recipe("cls")))[0] == pytest.approx(np.average(each, weights=weights))


def test_k_is_chosen_on_dev(data):
  """The k of the best Spearman on dev, worked out here; without a dev split there is none."""
  bench = make_bench(data, ["STS-B", "STS-12"])
  splits = bench.inputs.tasks["STS-B"].splits
  every = np.concatenate([side for pairs in splits.values() for side in sides(pairs, bench.encoder, "avg")])
  vectors = np.linalg.svd(every, full_matrices=False)[2]
  a, b = sides(splits["dev"], bench.encoder, "avg")
  figures = {}
  for k in range(1, 6):
    rest = np.eye(6) - vectors[:k].T @ vectors[:k]
    figures[k] = stats.spearmanr(cosine(a @ rest, b @ rest), splits["dev"].scores)[0]
  assert bench.scores("STS-B", NATSV)["calibration"] == f"natsv-{max(figures, key=figures.get)}"
  with pytest.raises(CalibrationError):
    bench.scores("STS-12", NATSV)


def test_each_fit_is_made_once(data, tmp_path):
  bench = make_bench(data, ["STS-B", "STS-12"], tmp_path)
  of_stsb = Recipe("avg", "flow", target_of("STS-B"))
  first = [bench.scores(task, recipe, seed) for seed in (1, 2) for task, recipe in [("STS-B", FLOW), ("STS-B", SN)]]
  assert bench.fits == 3  # sn knows no seed
  assert bench.scores("STS-B", of_stsb, 1) == first[0]  # the same flow by another name is the same cell
  bench.scores("STS-12", of_stsb, 1)
  bench.cosines("STS-B", FLOW, 1)
  assert bench.fits == 3 and bench.encoder.encoded < 130  # and each sentence is embedded once
  again = make_bench(data, ["STS-B", "STS-12"], tmp_path)
  assert [again.scores("STS-B", FLOW, 1), again.scores("STS-B", SN)] == [first[0], first[3]]
  assert again.fits == again.encoder.encoded == 0


def changed(task, split, **fields):
  splits = {**task.splits, split: dataclasses.replace(task.splits[split], **fields)}
  return dataclasses.replace(task, splits=splits)


def of(split, field):
  """A change of one split's gold or of its first sentence."""

  def change(tasks):
    pairs = tasks["STS-B"].splits[split]
    value = {"scores": pairs.scores[::-1], "sentences_a": ("another", *pairs.sentences_a[1:])}[field]
    return {"tasks": {"STS-B": changed(tasks["STS-B"], split, **{field: value})}}

  return change


# {change: ({argument of make_bench: value} of the tasks, the recipes that it decides)}
ALL = [Recipe("avg"), SN, NATSV, FLOW]
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
def test_the_key_has_what_decides_a_figure_and_no_more(data, tmp_path, change):
  first = make_bench(data, ["STS-B"], tmp_path)
  for recipe in ALL:
    first.scores("STS-B", recipe)
  arguments, decided = CHANGES[change]
  second = make_bench(data, ["STS-B"], tmp_path, **arguments(first.inputs.tasks))
  missed = []
  for recipe in ALL:
    before = len(list(tmp_path.iterdir()))
    second.scores("STS-B", recipe)
    missed += [recipe] * (len(list(tmp_path.iterdir())) > before)
  assert missed == decided


def test_other_code_computes_again(data, tmp_path, monkeypatch):
  bench = make_bench(data, ["STS-B"], tmp_path)
  bench.scores("STS-B", SN)
  monkeypatch.setattr(workbench, "code_fingerprint", lambda: "other code")
  bench.scores("STS-B", SN)
  assert len(list(tmp_path.iterdir())) == 2


def test_pooling_seed_and_split_are_in_the_key(data, tmp_path):
  bench = make_bench(data, ["STS-B"], tmp_path)
  for recipe, seed in [(Recipe("avg"), 0), (Recipe("avg"), 1), (Recipe("cls"), 0), (FLOW, 0), (FLOW, 1)]:
    bench.scores("STS-B", recipe, seed)
  assert len(list(tmp_path.iterdir())) == 4
  for split in ("dev", "test"):
    bench.remembered("cosines", lambda *what: [1.0], "STS-B", FLOW, 0, split)
  assert len(list(tmp_path.iterdir())) == 6


def test_no_gold_is_no_figure(data):
  bench = make_bench(data, ["STS-B"])
  test = bench.inputs.tasks["STS-B"].splits["test"]
  without = SentencePairs(test.sentences_a, test.sentences_b, np.full(len(test), np.nan))
  task = dataclasses.replace(bench.inputs.tasks["STS-B"], splits={"test": without})
  value, reason = headline(make_bench(data, [], tasks={"STS-B": task}).scores("STS-B", Recipe("avg")))
  assert np.isnan(value) and reason == "the test split has no gold scores"


def test_why_a_corpus_is_missing(data):
  inputs = make_bench(data, ["STS-B"]).inputs
  assert "SNLI" in inputs.why_missing("nli")
  assert inputs.why_missing("target") == inputs.why_missing(target_of("x")) == ""
