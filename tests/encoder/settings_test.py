"""settings.py: a field is a flag, a keyword and a part of the identity, without another list of names."""

import dataclasses

import pytest

from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.settings import COMPUTING, LOADING, NAME, POOLING, EncoderSettings, keyword_of
from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags

FIELDS = {field.name: field for field in dataclasses.fields(EncoderSettings)}
IDENTITY = EncoderIdentity("mini", "a", "b", ("mean", 1), {}, EncoderSettings())


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_known_everywhere(name):
  metadata = FIELDS[name].metadata
  assert metadata["part"] in (NAME, LOADING, POOLING, COMPUTING) and metadata["help"]
  assert (name in common_flags.encoder_flags()) == metadata.get("flag", True)
  decides_how = metadata["part"] in (LOADING, POOLING)
  saved = decides_how and metadata.get("saved", True)
  keyword = keyword_of(FIELDS[name])
  assert (keyword in IDENTITY.to_dict()) == saved
  assert (keyword in IDENTITY.deciding()) == (saved and metadata.get("decides", True))
  if decides_how:
    assert EncoderSettings.of(**{keyword: FIELDS[name].default}) == EncoderSettings()


def test_what_is_no_setting():
  with pytest.raises(TypeError, match="cashe_dir"):
    EncoderSettings.of("mini", cashe_dir="x")
  with pytest.raises(ConfigError, match="precision=float64"):
    EncoderSettings.of("mini", precision="float64")
  with pytest.raises(ConfigError, match="low_dim=-2"):
    EncoderSettings(low_dim=-2)
