"""A flow's folder: what is written comes back, and everything else is one FlowError."""

import numpy as np
import pytest

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.glow import Glow
from tests.flow.cases import cone, config
from tests.testing import rejected, rewrite_archive


def small_flow(seed=0, **arguments):
  return Glow(config(n_levels=1, depth=1), 4, seed=seed, **arguments)


@pytest.fixture
def saved(tmp_path):
  """Returns the folder of a small initialized flow."""
  flow = small_flow()
  flow.initialize(cone(8, 4))
  flow.save(tmp_path / "flow")
  return tmp_path / "flow"


def test_state_is_kept(tmp_path):
  """New stays new, loaded stays loaded, initialized stays initialized."""
  flow = small_flow()
  flow.save(tmp_path / "new")
  assert Glow.load(tmp_path / "new").needs_initialization
  flow.load_tf1_variables(flow.tf1_variables())
  flow.save(tmp_path / "loaded")
  again = Glow.load(tmp_path / "loaded")
  assert not again.needs_initialization
  assert not again.initialized
  again.initialize(cone(8, 4))
  again.save(tmp_path / "loaded")
  assert Glow.load(tmp_path / "loaded").initialized


@pytest.mark.parametrize(
  "changes",
  [
    {"state": None},
    {"state": 7},
    {"config": None},
    {"config": {"layers": 3}},
    {"config": {"depth": 900}},
    {"config": {"coupling_width": 10**6}},
    {"dim": 10**9},
    {"dim": "4"},
    {"dim": 8},
    {"seed": -3},
    {"dtype": "float16"},
    {"color": "red"},
  ],
)
def test_settings_that_describe_no_flow(saved, changes):
  rewrite_archive(saved, "calibration", **changes)
  with rejected(FlowError, None):
    Glow.load(saved)


STEP = "revnet_0/revnet_step_0"


@pytest.mark.parametrize(
  "changes",
  [
    {f"{STEP}/actnorm/varying": None},
    {f"{STEP}/actnorm/actnorm_center/b": np.full([1, 1, 1, 4], np.nan)},
    {f"{STEP}/actnorm/varying": np.ones(5)},
    {f"{STEP}/actnorm/varying": np.full(4, np.nan)},
  ],
)
def test_weights_that_do_not_fit(saved, changes):
  rewrite_archive(saved, "calibration", changes)
  with rejected(FlowError, None):
    Glow.load(saved)


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
  flow = small_flow()
  flow.trainable_variables[0].assign(flow.trainable_variables[0] * float("nan"))
  with rejected(FlowError, None):
    flow.save(tmp_path / "flow")
  assert not list(tmp_path.iterdir())
