"""Settings of an encoder and the identity that holds them: values that decide an embedding, and damaged values."""

import pytest

from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity, read_identity
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, EncoderError
from tests.testing import rejected

VALUES = {
  "name": "mini",
  "weights_sha256": "a" * 64,
  "tokenizer_sha256": "b" * 64,
  "pooling": ["mean", 1, 4],
  "architecture": {"num_attention_heads": 4},
  "token_weights_sha256": None,
  **EncoderSettings.of(sentence_embedding_type="avg-first-last", max_seq_length=64).saved(),
}
IDENTITY = EncoderIdentity.from_dict(VALUES, "here")


@pytest.mark.parametrize(
  ("change", "expected"),
  [
    ({"name": "/a/copy", "sentence_embedding_type": "avg-last-2"}, []),
    ({"weights_sha256": "c" * 64}, ["weights_sha256 aaaaaaaaaaaa..., now cccccccccccc..."]),
    ({"tokenizer_sha256": "c"}, ["tokenizer_sha256 bbbbbbbbbbbb..., now c"]),
    ({"pooling": ["mean", 4]}, ["pooling ['mean', 1, 4], now ['mean', 4]"]),
    ({"max_seq_length": 32, "low_dim": 8}, ["low_dim none, now 8", "max_seq_length 64, now 32"]),
    ({"precision": "bfloat16"}, ["precision float32, now bfloat16"]),
    ({"architecture": {}}, ["architecture.num_attention_heads 4, now none"]),
    ({"token_weights": "idf-1"}, ["token_weights none, now idf-1"]),
    ({"frequency_corpus": "a.txt", "revision": "v1", "max_input_chars_per_word": 7}, []),
  ],
)
def test_differences(change, expected):
  other = EncoderIdentity.from_dict({**VALUES, **change}, "here")
  assert IDENTITY.differences(other) == expected
  if expected:
    with pytest.raises(EncoderError) as error:
      IDENTITY.check_same(other, "folder=exp/flow", "folder")
    assert error.value.argument == "folder" and all(part in str(error.value) for part in expected)
    assert str(error.value).endswith(f"model={IDENTITY.name}, or allow_other_encoder=True")
  else:
    IDENTITY.check_same(other, "exp/flow")


@pytest.mark.parametrize("name", ["max_seq_length", "low_dim", "name", "pooling", "precision"])
def test_damaged_identity(name):
  others = {key: value for key, value in VALUES.items() if key != name}
  for damaged in (others, others | {name: 1.5}):
    with pytest.raises(EncoderError, match=name):
      EncoderIdentity.from_dict(damaged, "here")


def test_vectors_from_elsewhere():
  vectors = VectorsIdentity("GloVe, 300 dimensions")
  assert read_identity(vectors.to_dict(), "here") == vectors
  assert vectors.differences(VectorsIdentity("fastText")) and not vectors.differences(vectors)
  with rejected(EncoderError, None, f"cannot be compared with embeddings of '{IDENTITY.name}'.*allow_other_encoder"):
    vectors.check_same(IDENTITY, "here")
  assert read_identity(None, "here") is None
  with pytest.raises(EncoderError):
    read_identity({}, "here")


def test_what_is_no_setting():
  with pytest.raises(TypeError, match="cashe_dir"):
    EncoderSettings.of("mini", cashe_dir="x")
  with rejected(ConfigError, "precision"):
    EncoderSettings.of("mini", precision="float64")
  with rejected(ConfigError, "low_dim"):
    EncoderSettings(low_dim=-2)
