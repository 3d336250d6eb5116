"""evaluation/task_scores.py: names of methods, and the warning of a calibration that hurts."""

from bert_flow_tf.evaluation.task_scores import method_names, say


def test_names_that_repeat_get_numbers():
  assert method_names(["sn", "flow", "none", "sn"]) == ["sn_1", "with_flow", "none", "sn_2"]
  assert method_names(iter(["flow", "flow"])) == ["with_flow_1", "with_flow_2"]


def test_a_gain_whose_interval_is_below_0(caplog, capsys):
  gain = {"gain": -2.0, "low": -3.0, "level": 0.95, "reason": None, "metric": "spearman", "over": "without_flow"}
  say({}, {"test": {"with_flow": {**gain, "high": -1.0}, "sn": {**gain, "high": 0.1}}}, {})
  assert "-3.00 to -1.00" in capsys.readouterr().out
  assert [r.getMessage().split(":")[0] for r in caplog.records if r.levelname == "WARNING"] == [
    "the flow makes Spearman worse on test"
  ]
