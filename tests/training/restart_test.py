"""A trainer that starts again equals a new one, to the bit."""

import numpy as np
import pytest

from bert_flow_tf import Glow
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.flow.cases import cone, config


@pytest.mark.slow
@pytest.mark.parametrize(("actnorm_init", "permutation"), [("data", "random"), ("glorot", "reverse")])
def test_restart_is_a_new_flow_and_trainer(actnorm_init, permutation):
  def make(seed):
    flow = Glow(config(n_levels=1, depth=1), 8, actnorm_init, permutation, seed)
    return flow, Trainer(flow, FlowSettings(seed=seed), show_progress=False)

  flow, trainer = make(5)
  for seed, pairs in ((1, 64), (2, 96)):
    source = EmbeddingPairs(cone(pairs, 8, seed=seed), cone(pairs, 8, seed=seed + 10))
    trainer.restart(seed)
    found = trainer.fit(source)
    other, fresh = make(seed)
    expected = fresh.fit(source)
    np.testing.assert_array_equal(found.losses, expected.losses)
    assert found.initialization_rows == expected.initialization_rows
    assert flow.settings() == other.settings()
    weights, copied = other.tf1_variables(), flow.copy()
    for name, array in flow.tf1_variables().items():
      np.testing.assert_array_equal(array, weights[name], err_msg=name)
    u = cone(5, 8)
    np.testing.assert_array_equal(copied.transform(u), other.transform(u))
    before = flow.transform(u).numpy()
    copied.restart(7)
    assert copied.needs_initialization == (actnorm_init == "data")
    np.testing.assert_array_equal(flow.transform(u), before)
