"""evaluation/task_scores.py: names of methods."""

from bert_flow_tf.evaluation.task_scores import method_names


def test_names_that_repeat_get_numbers():
  assert method_names(["sn", "flow", "none", "sn"]) == ["sn_1", "with_flow", "none", "sn_2"]
  assert method_names(iter(["flow", "flow"])) == ["with_flow_1", "with_flow_2"]
