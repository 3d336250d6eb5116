"""report/sentences.py: tables of scores, and what is said of gains, string matches and gold."""

import dataclasses
import math
import re

import numpy as np
import pytest

from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.evaluation.metrics import Correlation
from bert_flow_tf.io.text_table import aligned_table
from bert_flow_tf.report import sentences
from bert_flow_tf.runs.run_folder import print_results
from tests.report.records import BETTER, WORSE, result_of

MATCHES = {"tf-idf of word pieces": 0.5, "characters": 0.1}


def scores_of(spearman, pearson, pairs, cosine):
  return {**dataclasses.asdict(Correlation(spearman, pearson, pairs)), "cosine_of_random_pairs": cosine}


SCORES = {
  "dev": {"without_flow": scores_of(50.084, 40, 9, 80.0), "with_flow": scores_of(67.856, 39.5, 9, 1.0)},
  "test": {"without_flow": scores_of(math.nan, math.nan, 1, 5.0), "with_flow": scores_of(3.0, 4.0, 1, 6.0)},
}


def test_rows_by_split_and_score():
  lines = aligned_table(sentences.score_rows(SCORES))
  assert set(lines[1]) == {"-", " "}
  rows = [line.split() for line in lines[2:]]
  assert lines[0].split()[-3:] == ["uncalibrated", "flow", "change"]
  assert rows[0] == ["dev", "9", "Spearman", "50.08", "67.86", "+17.77"]
  assert rows[1] == ["dev", "9", "Pearson", "40.00", "39.50", "-0.50"]
  assert rows[2][:2] == ["dev", "9"] and rows[2][-3:] == ["80.00", "1.00", "-79.00"]
  assert rows[3] == ["test", "1", "Spearman", "nan", "3.00", "+nan"]
  assert len(rows) == 6 and not any(line != line.rstrip() for line in lines)


def test_rows_by_method():
  assert sentences.scores_by_method(SCORES)[:5] == [
    ["x 100", "Spearman", "Pearson", "mean cosine of random pairs"],
    ["dev, 9 pairs"],
    ["uncalibrated", "50.08", "40.00", "80.00"],
    ["flow", "67.86", "39.50", "1.00"],
    ["change", "+17.77", "-0.50", "-79.00"],
  ]


def test_gains_and_the_string_match():
  result = result_of(*BETTER, matches=MATCHES)
  gain, over = result.gains["test"]["with_flow"], result.gains_over_match["test"]["with_flow"]
  lines = sentences.comparisons(result)
  assert lines[0] == (
    f"gain in Spearman on test: {gain['gain']:+.2f}, 95% interval {gain['low']:+.2f} to {gain['high']:+.2f}"
  )
  scores = [result.controls["test"][name]["spearman"] for name in MATCHES]
  assert lines[1].endswith(f"tf-idf of word pieces {scores[0]:.2f}, characters {scores[1]:.2f}")
  assert lines[2] == (
    f"over the string match (characters) on test: {over['gain']:+.2f}, "
    f"95% interval {over['low']:+.2f} to {over['high']:+.2f}"
  )
  assert over["low"] > 0 and len(lines) == 3  # a flow that is better needs no advice
  trained = sentences.comparisons(result_of(("before_training", 0.3), *BETTER))
  assert trained[0].startswith("gain in Spearman on test by the training: ")


@pytest.mark.parametrize(
  ("methods", "said"),
  [
    (WORSE, "better than the flow and as good as sn"),
    ((*WORSE[:2], ("sn", 0.9), ("whitening", 0.9)), "better than the flow, sn and whitening"),
    (BETTER[:1], "better than the encoder"),
    ((("without_flow", 0.05),), "as good as the encoder"),
  ],
)
def test_a_string_match_that_is_as_good_is_said_with_a_remedy(methods, said):
  line = sentences.comparisons(result_of(*methods, matches={"characters": 0.05}), "STS-B ")[-1]
  assert line.startswith(f"the string match is {said} on STS-B test: ")
  assert "trained for similarity" in line and "calibration none" in line


@pytest.mark.parametrize(("low", "high"), [(-79.0, 0.0), (-10.0, 11.0)])
def test_few_pairs_do_not_tell_that_a_string_match_is_as_good(low, high):
  result = result_of(*WORSE, matches={"characters": 0.05})
  gains = {method: {**gain, "low": -30.0, "high": -3.0} for method, gain in result.gains_over_match["test"].items()}
  gains["sn"] |= {"low": low, "high": high, "pairs": 7}
  *_, better, untold = sentences.comparisons(dataclasses.replace(result, gains_over_match={"test": gains}))
  assert better.startswith("the string match is better than the flow on test: ") and "sn" not in better
  assert untold.startswith("7 pairs of test cannot tell whether sn or the string match is better: ")
  result = result_of(*BETTER, matches={"characters": 0.1})
  same = {**result.controls["test"]["characters"], "reason": "all equal"}
  lines = sentences.comparisons(dataclasses.replace(result, controls={"test": {"characters": same}}))
  assert lines[1].endswith("characters not defined (all equal)")


def test_an_interval_of_few_pairs_is_no_verdict():
  result = result_of(*WORSE, matches={"characters": 0.05})
  gains, over = (
    {method: {**gain, "low": -3.0, "high": -1.0, "pairs": 3} for method, gain in of_split["test"].items()}
    for of_split in (result.gains, result.gains_over_match)
  )
  result = dataclasses.replace(result, gains={"test": gains}, gains_over_match={"test": over})
  line = sentences.comparisons(result)[-1]
  assert line.startswith(
    "3 pairs of test cannot tell whether the flow and sn are better than the string match or worse"
  )
  assert line.endswith(": an interval of fewer than 8 pairs says nothing; score more pairs")
  assert not sentences.warnings(result)


def test_a_gain_that_is_not_defined():
  result = result_of(*BETTER)
  gain = {**result.gains["test"]["with_flow"], "gain": math.nan, "reason": "1 scored pair"}
  line, *_ = sentences.comparisons(dataclasses.replace(result, gains={"test": {"with_flow": gain}}))
  assert line.endswith(": not defined (1 scored pair)")


def test_a_method_that_harms_is_warned_of(caplog, capsys):
  results = [result_of(*WORSE), result_of(*BETTER, ("sn", 0.1), name="SICK-R")]
  warnings = sentences.warnings(results[0], "STS-B ")
  assert list(warnings) == ["with_flow"]
  (sentence,) = warnings["with_flow"]
  assert sentence.startswith("the flow makes Spearman worse on STS-B test: -")
  print_results(results, {"fitting": 1.0}, "there")
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[:2] for line in lines[2:4]] == [["STS-B", "test"]] * 2 and "seconds: fitting 1.0" in lines
  assert lines[-1] == "page: there" and sum(line.startswith("gain in") for line in lines) == 4
  assert sentence in [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


@pytest.mark.parametrize(
  ("task", "gold", "said"),
  [
    ("STS-B", [0.2, 4.5], "from 0, nothing in common, to 5, the same meaning."),
    ("SICK-R", [1.0, 4.9], "from 1, nothing in common, to 5, the same meaning."),
    ("custom", [0.0, 5.0], "from 0, the least similar, to 5, the most similar."),
    ("custom", [-0.5, 2.25], "from -0.5, the least similar, to 2.25, the most similar."),
    ("MRPC", [0.0, 1.0], "a label, its gold: 1 ("),
  ],
)
def test_the_ends_of_gold(task, gold, said):
  result = result_of(*BETTER)
  spec = dataclasses.replace(find_task(task), eval_split="test")
  assert said in sentences.question(dataclasses.replace(result, spec=spec), np.array([*gold, np.nan]))
  assert re.match(r"How similar", sentences.question(result))
