"""io/experiment.py: seconds that are counted once."""

import types

import pytest

from bert_flow_tf.io import experiment


def test_seconds_of_a_block_inside_another_are_its_own(monkeypatch):
  clock = iter([0.0, 1.0, 4.0, 10.0, 20.0, 21.5])
  monkeypatch.setattr(experiment, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
  watch = experiment.Stopwatch()
  with watch.timing("fitting"), watch.timing("embedding"):
    pass
  with watch.timing("embedding"):
    pass
  assert watch.seconds == pytest.approx({"embedding": 3.0 + 1.5, "fitting": 7.0})
