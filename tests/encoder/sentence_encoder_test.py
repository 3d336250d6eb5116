"""Tests of sentence_encoder.py, with the packaged model and random models."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, load_task
from bert_flow_tf.encoder.loading import load_fitted_encoder
from bert_flow_tf.encoder.text_encoder import sentences_of_step
from bert_flow_tf.encoder.transformer.transformer import checksum_of
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from tests.encoder import tiny
from tests.testing import rejected, shared

SENTENCES = [
  "A man is eating food.",
  "Two dogs run.",
  "",
  "A woman plays the guitar on a stage in front of a crowd!",
]


def test_order_duplicates_and_batches(mini):
  words = ["a", "man", "eats", "dogs", "tall", "green", "music", "9"]
  rng = np.random.default_rng(1)
  sentences = [" ".join(rng.choice(words, rng.integers(0, 30))) for _ in range(16)] + SENTENCES
  sentences = [sentences[i] for i in rng.permutation(np.repeat(np.arange(len(sentences)), 2))]
  reference = np.concatenate([mini.encode([sentence]) for sentence in sentences])
  for batch_size in (1, 7, 64, 1000):
    np.testing.assert_allclose(mini.encode(sentences, batch_size=batch_size), reference, atol=1e-5)
  embeddings = mini.encode(sentences)
  for sentence in set(sentences):
    rows = [i for i, other in enumerate(sentences) if other == sentence]
    assert (embeddings[rows] == embeddings[rows[0]]).all()  # encoded once, so exactly equal
  assert mini.encode([], "concat-top-3").shape == (0, 768)


ODD = ["", " ", "\0", "\ud83d", "😀" * 50, "[MASK] [SEP]", "a" * 10**6, "x " * 50_000, "\u202e\u200d", "漢字", "é" * 99]


def test_odd_strings_have_finite_embeddings_and_do_not_change_others(mini):
  embeddings = mini.encode([*ODD, *SENTENCES])
  assert np.isfinite(embeddings).all()
  np.testing.assert_allclose(embeddings[len(ODD) :], mini.encode(SENTENCES), atol=1e-5)


@pytest.mark.parametrize(
  ("argument", "value", "error"),
  [
    ("sentences", "one", DataError),
    ("sentences", ["a", None], DataError),
    ("sentence_embedding_type", "mean", ConfigError),
    ("sentence_embedding_type", "avg-top-5", ConfigError),
    ("sentence_embedding_type", "cls", EncoderError),
    ("max_seq_length", 129, EncoderError),
    *(("max_seq_length", value, EncoderError) for value in (2, 64.0, "64", True)),
    ("batch_size", 0, ConfigError),
  ],
)
def test_wrong_arguments(mini, argument, value, error):
  with rejected(error, argument):
    mini.encode(**{"sentences": ["a"], argument: value})


def test_infinite_embedding_names_the_sentence(tmp_path):
  weights = tiny.random_weights()
  # "dog": the sum over its dimensions overflows in LayerNorm.
  weights["bert.embeddings.word_embeddings.weight"][10] = 3e38
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path, weights))
  assert np.isfinite(encoder.encode(["cat", "a"], max_seq_length=16, cache=tmp_path / "cache")).all()
  with pytest.raises(EncoderError, match="sentence 2 "):
    encoder.encode(["cat", "a", "a dog", "cat", "a dog"], max_seq_length=16, cache=tmp_path / "cache")


def test_frozen(mini):
  """No gradient, and unchanged weights after use with dropout."""
  before = checksum_of(mini.bert.weights)
  ids, mask = tf.constant([[2, 50, 60, 3]]), tf.constant([[1, 1, 1, 1]])
  with tf.GradientTape() as tape:
    tape.watch(mini.bert.weights)
    loss = tf.reduce_sum(mini.embed_batch(ids, mask, "avg-first-last", tf.constant([0, 1])) ** 2)
  assert tape.gradient(loss, mini.bert.weights) == [None] * len(mini.bert.weights)
  mini.encode(SENTENCES)
  assert before == checksum_of(mini.bert.weights) == mini.weights_checksum
  assert before == SentenceEncoder.from_pretrained("mini").weights_checksum


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_encoder_that_is_not_frozen_follows_its_weights(tmp_path, precision):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path), precision=precision)
  before, embeddings = encoder.weights_checksum, encoder.encode(["a dog"])
  encoder.compute_in(precision, frozen=False)
  weight = encoder.bert.blocks[0].inner.kernel
  old = weight.numpy()
  weight.assign(old + 1.0)
  assert encoder.weights_checksum != before
  assert np.abs(encoder.encode(["a dog"]) - embeddings).max() > 1e-2
  weight.assign(old)
  assert encoder.weights_checksum == before
  np.testing.assert_allclose(encoder.encode(["a dog"]), embeddings, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_graph_of_one_sentence_has_the_weights_of_its_time(tmp_path, precision):
  """It holds the weights, so none is left after a change, whatever leads to it."""
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path), precision=precision)
  ids = encoder.tokenizer(["a dog"], 16)
  embed = lambda: encoder.embed_ids(ids, "avg")  # noqa: E731
  found = [embed()]
  layer = encoder.as_layer(trainable=True, sentence_embedding_type="avg")
  for weight in (
    encoder.bert.blocks[0].inner.kernel,
    encoder.bert.blocks[1].key.bias,
    encoder.bert.blocks[1].value.bias,
  ):
    weight.assign_add(tf.ones_like(weight) * 0.3)
    found.append(embed())
    np.testing.assert_allclose(found[-1], layer(tf.constant([ids[0]])), atol=1e-6)
    encoder.compute_in(precision, frozen=True)
    np.testing.assert_allclose(embed(), found[-1], atol=1e-6)
    encoder.compute_in(precision, frozen=False)
  differences = [np.abs(a - b).max() for a, b in itertools.pairwise(found)]
  assert differences[0] > 1e-2 < differences[2]
  encoder.compute_in(precision, frozen=True)
  restored = [weight.numpy() * 0.5 for weight in layer.weights]
  embed()
  layer = encoder.as_layer(trainable=True, sentence_embedding_type="avg")
  layer.set_weights(restored)
  assert np.abs(embed() - found[-1]).max() > 1e-2
  np.testing.assert_allclose(embed(), layer(tf.constant([ids[0]])), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "score"), [("avg", 37.73), ("avg-top-2", 37.83), ("avg-first-last", 40.03)])
def test_sts_benchmark(mini, pooling, score):
  """Spearman's correlation x 100 on STS-B test, as in mini's README."""
  pairs = load_task("STS-B", shared("data")).splits["test"]
  a, b = (mini.encode(side, pooling) for side in (pairs.sentences_a, pairs.sentences_b))
  assert correlation(cosine_similarity(a, b), pairs.scores).spearman == pytest.approx(score, abs=0.05)


@pytest.mark.parametrize("given", [None, False, True])
def test_accents_are_kept_if_the_user_says_so(tmp_path, given):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path), strip_accents=given)
  with_accent, without = encoder.tokenizer(["dóg", "dog"], 9)
  assert (with_accent.tolist() == without.tolist()) is (given is not False)  # an uncased model strips them
  identity = encoder.identity()
  assert identity.settings.strip_accents is given
  loaded, _ = load_fitted_encoder(identity, "here")
  assert loaded.tokenizer.checksum == encoder.tokenizer.checksum


@pytest.mark.parametrize(
  ("length", "batch_size", "on_cpu", "on_gpu"), [(8, 64, 64, 512), (24, 64, 32, 170), (64, 64, 12, 64), (1000, 4, 1, 1)]
)
def test_a_step_has_a_number_of_tokens(length, batch_size, on_cpu, on_gpu):
  assert sentences_of_step(length, batch_size, has_gpu=False) == on_cpu
  assert sentences_of_step(length, batch_size, has_gpu=True) == on_gpu


def ancestors(operations):
  """Returns the operations of a graph, and all on which they depend."""
  reached, waiting = {}, list(operations)
  while waiting:
    op = waiting.pop()
    if op.name not in reached:
      reached[op.name] = op
      waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
  return list(reached.values())


@pytest.mark.parametrize(("name", "last"), [("avg-last-1", 0), ("avg-last-last-2", 2), ("avg-first-last", 3)])
def test_one_trace_and_no_block_after_the_last_pooled_block(mini, name, last):
  function = mini._function(mini.pooling(name))
  mini.encode(SENTENCES, name, batch_size=2)
  assert mini._function(mini.pooling(name)) is function
  graph = function.graph
  # A run computes all that the outputs and the ops with side effects depend on.
  reached = ancestors([tensor.op for tensor in graph.outputs] + list(graph.control_outputs))
  # A block has six dense layers, and two products of attention; the pooled output is not among them.
  types = collections.Counter(op.type for op in reached if "MatMul" in op.type)
  blocks = last + 1
  assert types["BatchMatMulV2"] == 2 * blocks and types.total() == 8 * blocks
