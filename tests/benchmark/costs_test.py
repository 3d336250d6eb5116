"""bert_flow_tf/benchmark/costs.py: every method is fitted, encoded, exported and asked."""

import dataclasses

import numpy as np
import pytest

from bert_flow_tf.benchmark import costs
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.flow.config import FlowConfig


@pytest.mark.slow
def test_costs_of_methods():
  """The sample's first pairs, and a small flow."""
  task = load_task("sample")
  pairs = task.splits["test"]
  few = dataclasses.replace(
    pairs, sentences_a=pairs.sentences_a[:64], sentences_b=pairs.sentences_b[:64], scores=pairs.scores[:64]
  )
  config = FlowConfig(n_levels=1, depth=1, coupling_width=8)
  methods = [costs.RECIPE, costs.Method("mix", "flow+soft-whitening", "idf"), costs.STATIC]
  result = costs.run(
    "mini", dataclasses.replace(task, splits={"test": few}), config, 1, 32, 64, 1, methods, (512, 2048)
  )
  rows = {row["method"]: row for row in result["rows"]}
  assert list(rows) == [method.name for method in methods] and result["pairs"] == 64
  assert all(np.isfinite([row[name] for name in row if name != "method"]).all() for row in rows.values())
  assert rows[costs.STATIC.name]["sentences_per_second"] > 2 * rows[costs.RECIPE.name]["sentences_per_second"]
  assert rows[costs.STATIC.name]["export_bytes"] < rows[costs.RECIPE.name]["export_bytes"]
  for memory in result["memory"]:
    first, second = memory["mib"]
    assert 100 < first < 1.5 * second and second < 1.15 * first + 50
  text = costs.to_markdown(result)
  assert text.count("\n| ") == len(methods) + 1 and "2,048" in text
