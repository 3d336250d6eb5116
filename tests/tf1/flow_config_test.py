"""A flow's configuration inferred from the original's variables: those of the golden files, and wrong ones."""

import json

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.tf1.flow_config import check_config, infer_config
from tests.flow.cases import config
from tests.testing import golden_files

FILES = golden_files("flow")
STEP = "revnet_0/revnet_step_0"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_golden_files(file):
  with np.load(file) as archive:
    variables = {key.removeprefix("initial/"): archive[key] for key in archive.files if key.startswith("initial/")}
    expected, dim = json.loads(str(archive["config"])), archive["a"].shape[1]
  inferred = infer_config(variables)
  check_config(FlowConfig.from_dict(expected), inferred.config)
  assert (inferred.dim, inferred.permutation) == (dim, "reverse")
  flow = Glow(inferred.config, inferred.dim, "glorot", inferred.permutation)
  flow.load_tf1_variables(variables)
  for key, array in flow.tf1_variables().items():
    assert array.tobytes() == variables[key].tobytes(), key


@pytest.fixture
def variables():
  return Glow(config(), 8, permutation="random", seed=4).tf1_variables()


def test_random_permutation_and_other_depth(variables):
  inferred = infer_config(variables)
  assert (inferred.config, inferred.dim, inferred.permutation) == (config(), 8, "random")
  check_config(config(coupling_dropout=0.5), inferred.config)
  with pytest.raises(ConfigError) as raised:
    check_config(config(coupling_width=7, n_levels=3), inferred.config)
  assert raised.value.argument == "flow_model_config"


@pytest.mark.parametrize(
  "changes",
  [
    {"revnet_2": 0},
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
    infer_config(changed)


def test_no_variables():
  with pytest.raises(FlowError):
    infer_config({})
