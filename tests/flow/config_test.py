"""`FlowConfig`: the published files load, and errors name unsupported keys."""

import json

import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig, packaged_configs
from tests.testing import rejected

# The contents of the published files: config_l2_d3_w16 has width 32.
PUBLISHED = {
  "config_l2_d2_w32": (2, 2, 32),
  "config_l2_d3_w16": (2, 3, 32),
  "config_l2_d3_w32": (2, 3, 32),
  "config_l3_d2_w32": (3, 2, 32),
  "config_l3_d3_w16": (3, 3, 16),
  "config_l3_d3_w32": (3, 3, 32),
}


def test_published_configurations():
  assert packaged_configs() == sorted(PUBLISHED)
  for name, (n_levels, depth, width) in PUBLISHED.items():
    expected = FlowConfig(n_levels=n_levels, depth=depth, coupling_width=width)
    assert FlowConfig.from_json_file(name) == expected
    assert FlowConfig.from_json_file(f"{name}.json") == expected
  assert FlowConfig.from_json_file("config_l2_d3_w32") == FlowConfig()


def test_dict_round_trip(tmp_path):
  config = FlowConfig(coupling="affine", activation="gatu", permutation=False, coupling_dropout=0.25, depth=1)
  assert FlowConfig.from_dict(config.to_dict()) == config
  (tmp_path / "mine.json").write_text(json.dumps(config.to_dict()))
  assert FlowConfig.from_json_file(tmp_path / "mine.json") == config
  assert FlowConfig.from_json_file(str(tmp_path / "mine.json")) == config
  assert FlowConfig.from_dict({}) == FlowConfig()


@pytest.mark.parametrize(
  ("key", "value"),
  [
    ("latent_architecture", "iaf"),
    ("activation", "gelu"),
    ("coupling", "spline"),
    ("top_prior", "learned"),
    ("permutation", 1),
    ("use_fp16", True),
    ("coupling_width", 0),
    ("coupling_width", True),
    ("n_levels", None),
    ("depth", 10**7),
    ("coupling_dropout", 1.0),
    ("coupling_dropout", -0.1),
    ("coupling_dropout", True),
  ],
)
def test_unsupported_values_are_named(key, value):
  with rejected(ConfigError, key):
    FlowConfig.from_dict({key: value})


def test_unknown_keys_are_rejected():
  with rejected(ConfigError, None):
    FlowConfig.from_dict({"depht": 3, "width": 16, 3: 1, "depth": 3})


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe{}", b'{"depth": 0}', b'{"depth": 3} x'])
def test_bad_files_are_rejected(tmp_path, content):
  (tmp_path / "bad.json").write_bytes(content)
  with rejected(ConfigError, "flow_model_config"):
    FlowConfig.from_json_file(tmp_path / "bad.json")


@pytest.mark.parametrize("path", ["config_l9_d9_w9", "nowhere/config_l2_d3_w32", "", ".", "../config_l2_d3_w32.json"])
def test_absent_files_are_rejected(path, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with rejected(ConfigError, "flow_model_config"):
    FlowConfig.from_json_file(path)


def test_a_file_here_goes_before_a_packaged_one(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "config_l2_d3_w32").write_text('{"depth": 1}')
  assert FlowConfig.from_json_file("config_l2_d3_w32").depth == 1
