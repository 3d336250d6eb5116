"""A flow's configuration, told from the original's variables: the golden files' real names, and hostile ones."""

import json

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.tf1.flow_config import check_config, read_config
from tests.flow.cases import config
from tests.testing import SHARED, shared

FILES = sorted(path.name for path in SHARED.glob("golden/*.npz")) or ["l2_d3_w32_dim64.npz"]
STEP = "revnet_0/revnet_step_0"


@pytest.mark.parametrize("name", FILES)
def test_golden_files_tell_their_configuration(name):
  with np.load(shared("golden") / name) as archive:
    variables = {key.removeprefix("initial/"): archive[key] for key in archive.files if key.startswith("initial/")}
    expected, dim = json.loads(str(archive["config"])), archive["a"].shape[1]
  found = read_config(variables)
  check_config(found.config, FlowConfig.from_dict(expected))
  assert (found.dim, found.permutation) == (dim, "reverse")
  flow = Glow(found.config, found.dim, "glorot", found.permutation)
  flow.load_tf1_variables(variables)
  for key, array in flow.tf1_variables().items():
    assert array.tobytes() == variables[key].tobytes(), key


@pytest.fixture
def variables():
  return Glow(config(), 8, permutation="random", seed=4).tf1_variables()


def test_random_permutation_and_other_depth(variables):
  found = read_config(variables)
  assert (found.config, found.dim, found.permutation) == (config(), 8, "random")
  check_config(found.config, config(coupling_dropout=0.5))
  with pytest.raises(ConfigError, match="coupling_width 7 there, 5 in the checkpoint, n_levels 3 there, 2 in the"):
    check_config(found.config, config(coupling_width=7, n_levels=3))


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"revnet_2": 0}, "unknown: bert/flow/revnet_2; expected names such as"),
    ({"revnet_01/revnet_step_0/x": 0}, "unknown: bert/flow/revnet_01/revnet_step_0/x"),
    (
      {"revnet_3/revnet_step_0/x": 0},
      r"missing: bert/flow/revnet_2/revnet_step_0/\.\.\., bert/flow/revnet_2/revnet_step_1",
    ),
    ({"revnet_9999/revnet_step_9999/x": 0}, "missing: "),
    ({f"{STEP}/actnorm/actnorm_center/b": None}, "missing: bert/flow/revnet_0/revnet_step_0/actnorm/actnorm_center/b"),
    ({f"{STEP}/actnorm/actnorm_center/b": np.zeros([1, 1, 1, 16])}, "1_1/W has shape"),
    ({f"{STEP}/actnorm/actnorm_center/b": np.zeros(8)}, r"has shape \(8,\), expected \[1, 1, 1, \.\.\.\]"),
    ({f"{STEP}/additive/nn/conv_block/1_1/W": np.zeros([1, 1, 4, 0])}, "has shape"),
    ({f"{STEP}/invertible/w": None}, "missing: bert/flow/revnet_0/revnet_step_0/invertible/w"),
    ({f"{STEP}/invertible/w": np.zeros([8, 7])}, "invertible/w is not square"),
  ],
)
def test_what_is_no_flow(variables, changes, message):
  variables = {**variables, **{name: np.asarray(array) for name, array in changes.items() if array is not None}}
  variables = {name: array for name, array in variables.items() if changes.get(name, 0) is not None}
  with pytest.raises(FlowError, match=message):
    read_config(variables)


def test_nothing_at_all():
  with pytest.raises(FlowError, match="missing: all"):
    read_config({})
