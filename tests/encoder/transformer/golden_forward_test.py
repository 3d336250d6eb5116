"""Every published `sentence_embedding_type`, with and without flow and low_dim, as the original's code computed it."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.checkpoints import tf1_names
from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.testing import golden_files

(FILE,) = [file for file in golden_files("siamese") if file.stem == "forward"]
with np.load(FILE) as archive:
  DATA = {key: archive[key] for key in archive.files}
OUTPUTS = json.loads(str(DATA["outputs"]))
LAYERS = 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, engine):
  config = json.loads(str(DATA["bert_config"]))
  assert config["num_hidden_layers"] == LAYERS
  variables = {name: DATA[f"initial/{name}"] for name in tf1_names.bert_shapes(config)}
  words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(config["vocab_size"] - 5))]
  folder = tf1_files.write_google(tmp_path_factory.mktemp("golden") / "bert", variables, config, words)
  return SentenceEncoder.from_pretrained(str(folder), engine=engine)


@pytest.fixture(scope="module")
def flow():
  flow = Glow(FlowConfig.from_dict(json.loads(str(DATA["flow_config"]))), 32, "glorot")
  prefix = f"initial/{tf1_names.FLOW}"
  flow.load_tf1_variables({key.removeprefix(prefix): v for key, v in DATA.items() if key.startswith(prefix)})
  return flow


def assert_close(actual, expected):
  assert actual.shape == expected.shape and actual.dtype == np.float32
  assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def both(key):
  """Returns the arrays of the first side, then the arrays of the second side."""
  return np.concatenate([DATA[f"{key}_a"], DATA[f"{key}_b"]])


@pytest.fixture(scope="module")
def bits(flow):
  return tf.function(flow.bits_per_dim, [tf.TensorSpec([None, 32])], autograph=False)


@pytest.mark.parametrize("pooling", dict.fromkeys(output.split("/")[0] for output in OUTPUTS))
def test_embedding(encoder, flow, bits, pooling):
  ids, mask = (both(f"input_{name}").astype(np.int32) for name in ("ids", "mask"))
  u = tiny.embed_padded(encoder, ids, mask, pooling)
  for parts in itertools.product(("", "/flow"), ("", "/low_dim_8")):
    key, low_dim = pooling + "".join(parts), 8 if parts[1] else None
    model = SentenceModel(
      encoder, flow if parts[0] else None, sentence_embedding_type=pooling, max_seq_length=16, low_dim=low_dim
    )
    assert model.dim == u.shape[1] == 32 and model.output_dim == (low_dim or 32)
    assert_close(model.transform(u), both(f"{key}/embedding"))
    if parts[0]:
      assert_close(bits(u).numpy(), both(f"{key}/flow_example_loss"))
