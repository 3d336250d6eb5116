"""Settings of a siamese training, and the published names of its experiments."""

import dataclasses
import json

import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings, siamese_name
from tests.testing import shared


def settings_of(cls, values):
  names = {field.name for field in dataclasses.fields(cls)}
  return cls(**{name: value for name, value in values.items() if name in names})


def test_published_names():
  cases = json.loads(shared("golden_siamese/facts.json").read_text())["experiment_names"]
  named = [case for case in cases if case["folder"] is not None and "exp_name" not in case["flags"]]
  assert len(named) >= 11
  for case in named:
    integers = ("flow", "flow_loss", "use_full_for_training")  # booleans here
    values = {name: bool(value) if name in integers else value for name, value in case["flags"].items()}
    values = {"task_name": "STS-B"} | values
    embedding, settings = (settings_of(cls, values) for cls in (SiameseEmbedding, SiameseSettings))
    assert siamese_name(values["exp_name_prefix"], values["task_name"], embedding, settings) == case["folder"]


def test_half_precision_of_a_training():
  SiameseSettings(num_examples=0, flow=True, flow_loss=True).check_training("float16")  # the encoder is frozen
  with pytest.raises(ConfigError, match="float16: small gradients underflow"):
    SiameseSettings().check_training("float16")


def test_what_settings_mean():
  assert SiameseSettings(as_published=True, flow=True).actnorm_init == "glorot"
  assert SiameseSettings(num_examples=0).frozen and not SiameseSettings(num_examples=0, l2_penalty=0.1).frozen
  assert SiameseSettings().trains and not SiameseSettings(num_train_epochs=1e-10).trains
  assert SiameseEmbedding(low_dim=0).model_arguments()["low_dim"] is None
