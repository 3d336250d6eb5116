"""evaluation/gains.py: the warning of a calibration that hurts."""

from bert_flow_tf.evaluation.gains import harm, say

GAIN = {"gain": -2.0, "low": -3.0, "level": 0.95, "reason": None, "metric": "spearman", "over": "without_flow"}
WORSE, UNCLEAR = {**GAIN, "high": -1.0}, {**GAIN, "high": 0.1}


def test_a_gain_whose_interval_is_below_0(caplog, capsys):
  say({}, {"test": {"with_flow": WORSE, "sn": UNCLEAR}}, {})
  assert "-3.00 to -1.00" in capsys.readouterr().out
  assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
    "the flow makes Spearman worse on test: -2.00, 95% interval -3.00 to -1.00; do without it"
  ]


def test_harm_is_by_method_and_over_the_encoder_alone():
  found = harm({"a": {"sn": WORSE, "mean": UNCLEAR}, "b": {"sn": WORSE, "mean": {**WORSE, "over": "sn"}}})
  assert list(found) == ["sn"] and [sentence.split(":")[0][-1] for sentence in found["sn"]] == ["a", "b"]
