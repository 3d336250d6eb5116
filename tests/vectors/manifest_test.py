"""Differences of two manifests."""

from bert_flow_tf.vectors.manifest import with_names


def test_another_model_is_named_first():
  before, now = {"encoder": {"name": "mini"}, "calibration": {"name": "flow"}}, {"encoder": {"name": "static:mini"}}
  different = ["embedder.architecture gelu, now none", "embedder.calibration_sha256 a, now none", "dim 2, now 3"]
  assert with_names(different, before, now) == ["mini+flow, now static:mini", *different[:2]]
  assert with_names(different, now, now) == different and with_names(different[2:], before, now) == different[2:]
