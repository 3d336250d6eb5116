"""Tests of ModernBERT and DeBERTa-v3: other sizes than the golden ones, forms of their files, rejections."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.transformer.blocks import modernbert
from bert_flow_tf.encoder.transformer.config import EncoderConfig, check_config
from bert_flow_tf.encoder.transformer.families.architecture import DISTANCES
from bert_flow_tf.encoder.transformer.layers import Dropout
from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from bert_flow_tf.encoder.transformer.weights import from_pytorch, name_of_path, random_transformer
from bert_flow_tf.errors import BertFlowError
from tests.encoder import tiny
from tests.encoder.transformer import numpy_newer
from tests.testing import edit_json

TEXTS = ["naïve café \u2013 東京 2024 ", "e-mail: a.b@c.de, $5.00", "x" * 300, "", "a dog and a cat " * 9]
SIZES = {"vocab_size": 90, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40}
MODERNBERT = SIZES | {
  "model_type": "modernbert",
  "num_hidden_layers": 5,
  "max_position_embeddings": 300,
  "norm_eps": 1e-5,
  "global_attn_every_n_layers": 3,
  "global_rope_theta": 160000.0,
  "local_rope_theta": 10000.0,
  "local_attention": 16,
}
DEBERTA = SIZES | {
  "model_type": "deberta-v2",
  "num_hidden_layers": 2,
  "max_position_embeddings": 512,
  "max_relative_positions": -1,
  "position_buckets": 256,
  "pos_att_type": "p2c|c2p",
  "relative_attention": True,
  "share_att_key": True,
  "norm_rel_ebd": "layer_norm",
  "position_biased_input": False,
  "type_vocab_size": 0,
  "layer_norm_eps": 1e-7,
}


def states_and_reference(values, lengths):
  """Returns the states of tokens by a random model, and by NumPy: [blocks + 1, tokens, size]."""
  config = EncoderConfig(values | {"initializer_range": 0.3})
  model = random_transformer(config, seed=1)
  rng = np.random.default_rng(0)
  for weight in model.weights:
    if len(weight.shape) == 1:
      weight.assign_add(rng.normal(0, 0.1, weight.shape))
  weights = {}
  for weight in model.weights:
    path = path_of_variable(weight)
    weights[name_of_path(path)] = from_pytorch(path, weight.numpy()).astype(np.float64)
  ids = rng.integers(0, values["vocab_size"], [len(lengths), max(lengths)])
  mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
  compute = {"modernbert": numpy_newer.modernbert, "deberta-v2": numpy_newer.deberta}[values["model_type"]]
  expected = compute(values, weights, ids, mask)
  states = np.stack(model(tf.constant(ids, tf.int32), tf.constant(mask), packed=True)[0])
  return states[:, mask > 0], expected[:, mask > 0]


@pytest.mark.parametrize(
  ("values", "lengths"),
  [
    (MODERNBERT, [70, 5, 33, 1]),
    (MODERNBERT | {"local_attention": 9, "global_attn_every_n_layers": 2, "norm_eps": 1e-3}, [130, 64]),
    (MODERNBERT | {"local_attention": 1, "num_attention_heads": 2}, [20, 3]),
    (MODERNBERT | {"local_attention": 3, "global_rope_theta": 500.0, "local_rope_theta": 20.0}, [40, 3]),
    (MODERNBERT | {"local_attention": 128, "num_hidden_layers": 4}, [300, 129]),
    (MODERNBERT | {"global_attn_every_n_layers": 1, "num_hidden_layers": 3}, [40]),
    (DEBERTA, [300, 130, 2]),
    (DEBERTA | {"position_buckets": 7, "max_relative_positions": 40, "num_attention_heads": 4}, [200, 3]),
    # These lengths have a distance whose bucket is an integer before it is rounded up, and larger distances.
    (DEBERTA | {"max_relative_positions": 200}, [260]),
    (DEBERTA | {"position_buckets": 16, "max_position_embeddings": 130, "layer_norm_eps": 1e-3}, [130, 1]),
  ],
)
def test_states_follow_the_equations(values, lengths):
  check_config(pathlib.Path("config.json"), values)
  states, expected = states_and_reference(values, lengths)
  # float32 against float64, on any CPU; a wrong distance or window differs by more than 1e-3.
  np.testing.assert_allclose(states, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("values", [MODERNBERT | {"num_hidden_layers": 2}, DEBERTA])
def test_the_first_token_alone_in_a_graph(values):
  """The text is longer than two windows; ModernBERT's last block has local attention."""
  model = random_transformer(EncoderConfig(values | {"initializer_range": 0.3}))
  spec = tf.TensorSpec([None, None], tf.int32)

  @tf.function(input_signature=[spec, spec], autograph=False)
  def first_states(ids, mask):
    return model(ids, mask, packed=True, first_token=True)[0][-1][:, 0]

  ids = tf.random.stateless_uniform([3, 77], [1, 2], 0, SIZES["vocab_size"], tf.int32)
  mask = tf.sequence_mask([77, 40, 2], 77, tf.int32)
  expected = model(ids, mask)[0][-1][:, 0]
  np.testing.assert_allclose(first_states(ids, mask), expected, atol=1e-5)


@pytest.mark.parametrize("folder", ["modernbert", "deberta-v2"], indirect=True)
def test_a_saved_encoder_names_classes_of_transformers(folder, tmp_path):
  """The class of its tokenizer, and float32 in place of the type that the weights had before."""
  edit_json(folder / "tokenizer_config.json", tokenizer_class=None)
  edit_json(folder / "config.json", dtype="bfloat16")
  save_encoder(SentenceEncoder.from_pretrained(folder), tmp_path / "saved")
  config = json.loads((tmp_path / "saved/config.json").read_text())
  assert "dtype" not in config and config["torch_dtype"] == "float32"
  tokenizer = json.loads((tmp_path / "saved/tokenizer_config.json").read_text())["tokenizer_class"]
  assert (
    tokenizer == {"modernbert": "PreTrainedTokenizerFast", "deberta-v2": "DebertaV2Tokenizer"}[config["model_type"]]
  )


@pytest.mark.parametrize("folder", ["modernbert"], indirect=True)
def test_both_forms_of_modernberts_configuration(folder):
  """The keys of the published files, and the keys of transformers 5."""
  expected = SentenceEncoder.from_pretrained(folder)
  gone = dict.fromkeys(["global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"])
  kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
  rotary = {
    "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
  }
  edit_json(folder / "config.json", layer_types=kinds, rope_parameters=rotary, **gone)
  found = SentenceEncoder.from_pretrained(folder)
  embeddings = tiny.embed(expected, TEXTS)
  np.testing.assert_array_equal(tiny.embed(found, TEXTS), embeddings)
  assert found.deciding_settings == expected.deciding_settings
  for reach, blocks in ((4, kinds), (16, kinds[:1] * 4)):
    edit_json(folder / "config.json", local_attention=reach, layer_types=blocks)
    other = SentenceEncoder.from_pretrained(folder)
    assert np.abs(tiny.embed(other, TEXTS) - embeddings).max() > 1e-3
    assert other.fingerprint(["no"], "avg") != expected.fingerprint(["no"], "avg")


@pytest.mark.parametrize("folder", ["modernbert"], indirect=True)
def test_weights_below_the_name_of_the_model(folder):
  expected = SentenceEncoder.from_pretrained(folder).weights_checksum
  weights = load_file(folder / "model.safetensors")
  prefix = "model." if not next(iter(weights)).startswith("model.") else ""
  names = {f"{prefix}{name.removeprefix('model.')}": value for name, value in weights.items()}
  save_file(names, folder / "model.safetensors", metadata={"format": "pt"})
  assert SentenceEncoder.from_pretrained(folder).weights_checksum == expected


def test_local_attention_by_windows_equals_attention_of_all_pairs(monkeypatch):
  """Of text with and without padding, with gradients: eagerly, packed in a graph of any length, and by XLA."""
  model = random_transformer(EncoderConfig(MODERNBERT | {"num_hidden_layers": 2, "initializer_range": 0.3}))
  ids = tf.random.stateless_uniform([3, 77], [1, 2], 0, SIZES["vocab_size"], tf.int32)
  mask = tf.sequence_mask([77, 40, 2], 77, tf.int32)
  kernels = [block.projected.kernel for block in model.blocks]  # of a global and a local block

  def states(max_windows, packed, **options):
    monkeypatch.setattr(modernbert, "_MAX_WINDOWS", max_windows)

    def compute(ids, mask):
      return model(ids, mask, packed=packed)[0][-1]

    if options:
      compute = tf.function(compute, autograph=False, **options)
    with tf.GradientTape() as tape:
      last = compute(ids, mask) * tf.cast(mask, tf.float32)[:, :, tf.newaxis]
      loss = tf.reduce_sum(last**3)
    return last, tape.gradient(loss, kernels)

  expected, expected_gradients = states(100, packed=False)
  signature = [tf.TensorSpec([None, None], tf.int32)] * 2
  for packed, options in ((False, {}), (True, {"input_signature": signature}), (True, {"jit_compile": True})):
    found, gradients = states(1, packed, **options)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for gradient, reference in zip(gradients, expected_gradients, strict=True):
      np.testing.assert_allclose(gradient, reference, atol=1e-4 * np.abs(reference).max())


@pytest.mark.parametrize(
  ("folder", "values", "key"),
  [
    ("modernbert", {"mlp_bias": True}, "mlp_bias"),
    ("modernbert", {"layer_types": ["full_attention"]}, "layer_types"),
    ("modernbert", {"local_attention": 0}, "local_attention"),
    ("modernbert", {"global_rope_theta": -1.0}, "global_rope_theta"),
    (
      "modernbert",
      {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
      "rope_type of full_attention",
    ),
    ("modernbert", {"rope_parameters": {"rope_theta": 5000.0}}, "rope_parameters"),
    ("modernbert", {"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling"),
    ("modernbert", {"hidden_size": 36, "num_attention_heads": 12}, "36 dimensions of 12 heads"),
    ("deberta-v2", {"conv_kernel_size": 3}, "conv_kernel_size"),
    ("deberta-v2", {"share_att_key": None}, "share_att_key"),
    ("deberta-v2", {"position_biased_input": True}, "position_biased_input"),
    ("deberta-v2", {"pos_att_type": ["c2p"]}, "pos_att_type"),
    ("deberta-v2", {"type_vocab_size": 2}, "type_vocab_size"),
    ("deberta-v2", {"position_buckets": -1}, "position_buckets"),
    ("deberta-v2", {"max_relative_positions": 5}, "position_buckets"),
  ],
  indirect=["folder"],
)
def test_other_forms_of_the_newer_architectures_are_rejected(folder, values, key):
  edit_json(folder / "config.json", **values)
  with pytest.raises(BertFlowError, match=rf"config\.json: .*{key}"):
    SentenceEncoder.from_pretrained(folder)


def test_dropout_of_the_embeddings_of_distances():
  dropout = Dropout(EncoderConfig(DEBERTA | {"hidden_dropout_prob": 0.5}), tf.constant([1, 2]))
  masks = {dropout(tf.ones([64, 64]), DISTANCES, block).numpy().tobytes() for block in range(3)}
  assert len(masks) == 3
