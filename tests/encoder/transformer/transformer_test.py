"""Tests of the transformer: packed rows against padded ones, dropout, XLA, activations, pickle, random weights."""

import itertools
import math
import pickle

import numpy as np
import pytest
import tensorflow as tf
import transformers

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.transformer.activations import ACTIVATIONS as OURS
from bert_flow_tf.encoder.transformer.activations import activate
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import ATTENDED, DEFAULTS, DISTANCES, OUTER
from bert_flow_tf.encoder.transformer.transformer import Dropout, path_of_variable
from bert_flow_tf.encoder.transformer.weights import from_pytorch, name_of_path, random_transformer
from tests.encoder import tiny

SIZES = {
  "vocab_size": 40,
  "hidden_size": 12,
  "num_hidden_layers": 2,
  "num_attention_heads": 3,
  "intermediate_size": 20,
  "max_position_embeddings": 20,
  "initializer_range": 0.5,
}
IDS = tf.constant([[5, 6, 7, 8, 9, 10], [5, 11, 12, 1, 1, 1], [5, 6, 1, 1, 1, 1]])
MASK = tf.constant([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
TEXTS = ["a dog", "cats . a b", "Dog b", "[MASK] a"]


def config_of(model_type, **changes):
  """Returns small settings of an architecture, under its own keys."""
  architecture = ARCHITECTURES[model_type]
  values = {"model_type": model_type, "embedding_size": 8, "pad_token_id": 1}
  values |= {"local_attention": 2, "position_buckets": 4}  # of ModernBERT and of DeBERTa
  for name, value in (SIZES | changes).items():
    values[architecture.key(name)] = value
  return EncoderConfig(values)


@pytest.fixture(params=ARCHITECTURES)
def model(request):
  return random_transformer(config_of(request.param))


def close(actual, expected, share=2e-5):
  expected = np.asarray(expected)
  np.testing.assert_allclose(actual, expected, rtol=0, atol=share * np.abs(expected).max())


def test_padding_changes_neither_states_nor_gradients(model):
  def run(packed):
    with tf.GradientTape() as tape:
      states, pooled = model(IDS, MASK, packed=packed)
      is_token = tf.cast(MASK, tf.float32)[:, :, tf.newaxis]
      loss = tf.add_n([tf.reduce_sum(tf.sin(state) * is_token) for state in states])
      if pooled is not None:
        loss += tf.reduce_sum(tf.sin(pooled))
    gradients = tape.gradient(loss, model.weights)
    return states, pooled, [None if value is None else tf.convert_to_tensor(value) for value in gradients]

  states, pooled, gradients = run(packed=True)
  expected, expected_pooled, expected_gradients = run(packed=False)
  assert len(states) == SIZES["num_hidden_layers"] + 1
  for state, reference in zip(states, expected, strict=True):
    close(state, reference * tf.cast(MASK, tf.float32)[:, :, tf.newaxis])
  assert (pooled is None) == (expected_pooled is None) == (not model.has_pooler)
  largest = max(np.abs(value).max() for value in expected_gradients if value is not None)
  for value, reference in zip(gradients, expected_gradients, strict=True):
    assert (value is None) == (reference is None)
    if reference is not None:
      np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5 * largest)
  # A sentence alone has the same states.
  alone, _ = model(IDS[1:2, :3], MASK[1:2, :3], packed=True)
  close(alone[-1], expected[-1][1:2, :3])


def test_the_first_token_alone_has_its_state(model):
  expected, expected_pooled = model(IDS, MASK)
  states, pooled = model(IDS, MASK, packed=True, first_token=True)
  assert states[-1].shape == [3, 1, 12]
  close(states[-1][:, 0], expected[-1][:, 0])
  close(states[-2], expected[-2] * tf.cast(MASK, tf.float32)[:, :, tf.newaxis])
  if model.has_pooler:
    close(pooled, expected_pooled)


def test_rows_without_tokens_and_no_rows(model):
  states, _ = model(IDS, MASK * [[1], [0], [1]], packed=True)
  close(states[-1][2], model(IDS, MASK)[0][-1][2] * tf.cast(MASK, tf.float32)[2, :, tf.newaxis])
  assert np.isfinite(states[-1]).all() and not states[-1][1].numpy().any()
  assert model(IDS[:1], 0 * MASK[:1], packed=True)[0][-1].shape == [1, 6, 12]


# Distances at which T5's buckets begin, of 16 per direction up to distance 128: 8 of a single distance each, and from 8
# on one per factor sqrt(2) (Raffel et al. 2020, section 2.1).
BUCKET_STARTS = [*range(1, 8), *(math.ceil(8 * 2 ** (exponent / 2)) for exponent in range(8))]


def test_relative_positions_of_a_long_sentence():
  """MPNet's states of 150 tokens are those of a BERT in NumPy whose attention has a bias by bucket of distance."""
  length, config = 150, config_of("mpnet", max_position_embeddings=160, num_hidden_layers=1)
  model = random_transformer(config)
  weights = as_bert(model)
  table = weights["encoder.relative_attention_bias.weight"]
  distances = np.subtract.outer(np.arange(length), np.arange(length))
  bucket = np.searchsorted(BUCKET_STARTS, np.abs(distances), side="right") + 16 * (distances < 0)
  assert set(bucket.ravel()) == set(range(32)) - {16}
  ids = np.random.default_rng(0).integers(2, SIZES["vocab_size"], [1, length])
  states, _ = model(tf.constant(ids), tf.ones_like(ids))
  expected = tiny.numpy_bert(weights, ids, np.ones_like(ids), vars(config), table[bucket].transpose(2, 0, 1))
  close(states[-1], expected[0][-1])


def as_bert(model):
  """Returns an MPNet's weights by PyTorch's names of a BERT's: positions from 0 on, and a segment of zeros."""
  weights = {"embeddings.token_type_embeddings.weight": np.zeros([1, SIZES["hidden_size"]])}
  layers = [ARCHITECTURES[name].layers.values() for name in ("mpnet", "bert")]
  for weight in model.weights:
    path = path_of_variable(weight)
    for mpnets, berts in zip(*layers, strict=True):
      path = path.replace(f"{mpnets}/", f"{berts}/")
    weights[name_of_path(path)] = from_pytorch(path, weight.numpy())
  positions = "embeddings.position_embeddings.weight"
  weights[positions] = weights[positions][model.config.first_position :]
  return weights


@pytest.mark.packages
@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_defaults_of_config_json_are_those_of_transformers(model_type):
  architecture, theirs = ARCHITECTURES[model_type], transformers.CONFIG_MAPPING[model_type]()
  required = {architecture.key(name) for name in SIZES} - {*DEFAULTS}
  values = {"embedding_size": 8, "position_buckets": 4}  # required, too
  values |= {key: getattr(theirs, key) for key in ("model_type", *required)}
  ours = EncoderConfig(values)
  for name in DEFAULTS:
    key = architecture.key(name)
    if key and (name != "pad_token_id" or architecture.counts_from_pad):
      assert getattr(ours, name) == getattr(theirs, key), name
  everything = EncoderConfig(theirs.to_dict() | values)
  for name in architecture.attention:
    assert getattr(ours, name) == getattr(everything, name), name
  if model_type == "modernbert":
    assert ours.embedding_dropout == theirs.embedding_dropout


def test_xla_computes_padding():
  model = random_transformer(config_of("mpnet"))
  compiled = tf.function(lambda ids, mask: model(ids, mask, packed=True)[0], jit_compile=True)
  for state, reference in zip(compiled(IDS, MASK), model(IDS, MASK)[0], strict=True):
    close(state, reference)


@pytest.mark.parametrize("packed", [True, False])
def test_dropout_follows_its_seed(model, packed):
  model_type = model.config.model_type
  if model_type in ("albert", "modernbert"):  # have no dropout by default
    model = random_transformer(config_of(model_type, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2))
  one, again, other, none = (
    model(IDS, MASK, seed, packed)[0][-1].numpy() for seed in (tf.constant([1, 2]), [1, 2], tf.constant([1, 3]), None)
  )
  np.testing.assert_array_equal(one, again)
  assert np.abs(one - other).max() > 0.05 and np.abs(one - none).max() > 0.05


def test_each_place_of_each_block_has_a_mask(model):
  config = config_of(model.config.model_type, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
  dropout = Dropout(config, tf.constant([1, 2]))
  places = [place for place in (OUTER, DISTANCES) if place in config.architecture.dropouts]
  masks = {dropout(tf.ones([64, 64]), place, block).numpy().tobytes() for place in places for block in range(3)}
  assert len(masks) == 3 * len(places)
  values = dropout(tf.ones([256, 256]), OUTER).numpy()
  assert set(np.unique(values)) == {0, 2} and abs(values.mean() - 1) < 0.02
  has_attended = model.config.model_type != "distilbert"  # as in transformers
  assert bool((dropout(tf.ones([64, 64]), ATTENDED).numpy() == 0).any()) == has_attended


def erf_gelu(x):
  return x * (1 + math.erf(x / math.sqrt(2))) / 2


def tanh_gelu(x):
  return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x):
  return 1 / (1 + math.exp(-x))


ACTIVATIONS = {
  **dict.fromkeys(("gelu", "gelu_python"), erf_gelu),
  "gelu_10": lambda x: max(-10, min(10, erf_gelu(x))),
  **dict.fromkeys(("gelu_fast", "gelu_new", "gelu_pytorch_tanh"), tanh_gelu),
  "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
  "quick_gelu": lambda x: x * sigmoid(1.702 * x),
  "relu": lambda x: max(x, 0),
  "sigmoid": sigmoid,
  **dict.fromkeys(("silu", "swish"), lambda x: x * sigmoid(x)),
  "tanh": math.tanh,
}


def test_activations():
  assert set(ACTIVATIONS) == set(OURS)
  x = np.linspace(-4, 12, 50)
  for name, function in ACTIVATIONS.items():
    actual = activate(name, tf.constant(x, tf.float32))
    np.testing.assert_allclose(actual, list(map(function, x)), atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
  ("prefix", "arguments"),
  [("", {"precision": "bfloat16", "token_weights": "idf"}), ("static:", {}), ("static:", {"token_weights": "idf"})],
)
def test_a_pickled_encoder_is_the_same(tmp_path, prefix, arguments):
  folder = tiny.save_tiny(tmp_path)
  encoder = SentenceEncoder.from_pretrained(f"{prefix}{folder}", **arguments)
  before = encoder.encode(TEXTS)
  content = pickle.dumps(encoder)
  (folder / "model.safetensors").unlink()  # it needs no file
  copy = pickle.loads(content)
  np.testing.assert_array_equal(copy.encode(TEXTS), before)
  assert copy.identity() == encoder.identity()
  copy.bert.weights[0].assign_add(tf.ones_like(copy.bert.weights[0]))
  np.testing.assert_array_equal(encoder.encode(TEXTS), before)


def test_a_pickled_model_is_the_same(tmp_path):
  folder = tiny.save_tiny(tmp_path)
  sentences = [" ".join(words) for words in itertools.permutations(["a", "b", "dog", "cats", "."], 3)]
  encoder, flow = SentenceEncoder.from_pretrained(folder), Glow(FlowConfig(depth=1, n_levels=1), 12, seed=1)
  flow.initialize(tiny.embed(encoder, sentences))
  static = SentenceModel.from_pretrained(f"static:{folder}")
  for model in (SentenceModel(encoder, flow), static.fit(sentences, "whitening+characters")):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.encode(TEXTS), model.encode(TEXTS))


def test_a_pickle_of_mirrored_weights(tmp_path):
  folder = tiny.save_tiny(tmp_path)
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    encoder = SentenceEncoder.from_pretrained(folder)
  copy = pickle.loads(pickle.dumps(encoder))
  np.testing.assert_allclose(copy.encode(TEXTS, "avg"), tiny.embed(encoder, TEXTS), atol=1e-5)
