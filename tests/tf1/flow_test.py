"""A flow's configuration inferred from the original's variables: those of the golden files, and wrong ones."""

import json

import numpy as np
import pytest

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.tf1.flow import make_flow, start_as_published, without_scale
from bert_flow_tf.training.calibrate import fit_calibration
from tests.flow.cases import config
from tests.testing import below, golden_files

FILES = golden_files("flow")
STEP = "revnet_0/revnet_step_0"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_golden_files(file):
  with np.load(file) as archive:
    variables = below(archive, "initial")
    expected, dim = json.loads(str(archive["config"])), archive["a"].shape[1]
  flow = make_flow(variables)
  assert flow.config == FlowConfig.from_dict({**expected, "coupling_dropout": 0.0})
  assert (flow.dim, flow.permutation) == (dim, "reverse")
  for key, array in flow.tf1_variables().items():
    assert array.tobytes() == variables[key].tobytes(), key


def test_the_published_start_of_1x1_convolutions():
  """W = P L (U + diag(S)) is the rotation of uniform numbers, drawn step by step, and nothing else changes."""
  flow = Glow(FlowConfig(n_levels=2, depth=2, coupling_width=4, permutation=False), 16, "glorot", seed=3)
  before = flow.tf1_variables()
  start_as_published(flow, 1234)
  after = flow.tf1_variables()
  np.random.seed(1234)  # as the published code draws
  for step in (f"revnet_{level}/revnet_step_{depth}" for level in range(2) for depth in range(2)):
    P, L, U, sign, log_s = (after[f"{step}/invertible/{name}"] for name in ("P", "L", "U", "sign_S", "log_S"))
    lower, upper = np.tril(L, -1) + np.eye(len(L)), np.triu(U, 1) + np.diag(sign * np.exp(log_s))
    rotation, _ = np.linalg.qr(np.random.rand(*P.shape))
    np.testing.assert_allclose(P @ lower @ upper, rotation, atol=1e-5)
  for name, value in before.items():
    assert "invertible" in name or value.tobytes() == after[name].tobytes(), name


def test_the_scale_of_small_embeddings_becomes_a_part_of_the_flow():
  rows = (np.random.default_rng(0).normal(size=[64, 8]) * 1e-3 + 0.02).astype(np.float32)
  calibration = fit_calibration(rows, flow_model_config=config(), train_batch_size=8, show_progress=False)
  assert calibration.mix is not None
  np.testing.assert_allclose(without_scale(calibration).transform(rows), calibration.transform(rows), atol=1e-3)


@pytest.fixture
def variables():
  return Glow(config(), 8, permutation="random", seed=4).tf1_variables()


def test_random_permutation(variables):
  flow = make_flow(variables)
  assert (flow.config, flow.dim, flow.permutation) == (config(), 8, "random")


@pytest.mark.parametrize(
  "changes",
  [
    {"revnet_2": 0},
    {"revnet_9999/revnet_step_9999/x": 0},
    {"revnet_01/revnet_step_0/x": 0},
    {"revnet_3/revnet_step_0/x": 0},
    {f"{STEP}/actnorm/actnorm_center/b": None},
    {f"{STEP}/invertible/w": None},
  ],
  ids=lambda changes: next(iter(changes)),
)
def test_unknown_and_missing_variables(variables, changes):
  changed = {**variables, **{name: np.zeros(1) for name, value in changes.items() if value is not None}}
  for name in [name for name, value in changes.items() if value is None]:
    del changed[name]
  with pytest.raises(FlowError):
    make_flow(changed)
