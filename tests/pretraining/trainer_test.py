"""training/pretraining.py and encoder/masked_lm.py on a tiny BERT."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.errors import ConfigError, EncoderError, TrainingError
from bert_flow_tf.pretraining.masked_lm import MaskedLanguageModel
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.training.optimizer import WarmUpLinearDecay
from tests.encoder.tiny import VOCABULARY
from tests.pretraining.cases import SIZES, STEPS, batches, make, of_two_replicas
from tests.training.interrupting import Interrupt


def weights(model):
  return [tf.convert_to_tensor(weight).numpy() for weight in model.model.weights]


@pytest.fixture(scope="module")
def whole():
  """A training without a break: model and losses."""
  model, trainer = make()
  return model, trainer.train(batches())


@pytest.fixture(scope="module")
def plain():
  """The same without dropout."""
  model, trainer = make(dropout=0.0)
  return model, trainer.train(batches())


def test_losses_are_transformers_own():
  """Of the whole vocabulary at every place, by transformers; -100 is what it leaves out."""
  model = MaskedLanguageModel(SIZES, 0.0)
  batch = batches()(0)
  found = model.losses(*map(tf.constant, (batch.ids, batch.mask, batch.positions, batch.labels)))
  labels = np.full(batch.ids.shape, -100)
  labels[tuple(batch.positions.T)] = batch.labels
  expected = model.model(batch.ids, attention_mask=batch.mask, labels=labels).loss
  np.testing.assert_allclose(np.mean(found), np.mean(expected), rtol=1e-5)


def test_rate_rises_and_falls():
  rate = WarmUpLinearDecay(2.0, 10, 4, from_peak=True)
  found = [float(rate(step)) for step in range(10)]
  np.testing.assert_allclose(found, [0.5, 1, 1.5, 2, 2, 10 / 6, 8 / 6, 1, 4 / 6, 2 / 6], rtol=1e-6)
  assert float(WarmUpLinearDecay(2.0, 10, 0, from_peak=True)(0)) == 2.0


def test_first_step_is_adams():
  """In NumPy: clipped to norm 1, no bias correction, decay of matrices alone, the rate of the first step."""
  model, trainer = make(dropout=0.0, num_train_steps=2, num_warmup_steps=1)
  variables = model.trainable_variables
  before = [variable.numpy() for variable in variables]
  batch = batches()(0)
  with tf.GradientTape() as tape:
    losses = model.losses(*map(tf.constant, (batch.ids, batch.mask, batch.positions, batch.labels)))
    loss = tf.reduce_mean(losses)
  gradients = [tf.convert_to_tensor(one).numpy().astype(np.float64) for one in tape.gradient(loss, variables)]
  norm = np.sqrt(sum(np.sum(one**2) for one in gradients))
  found = []

  def stop_after_one(step):
    if step == 1:
      found.extend(variable.numpy() for variable in variables)
    return batches()(0)

  assert trainer.train(stop_after_one)[0] == pytest.approx(float(loss), rel=1e-6)
  for variable, old, new, gradient in zip(variables, before, found, gradients, strict=True):
    gradient = gradient / max(norm, 1.0)
    update = 0.1 * gradient / (np.sqrt(0.001 * gradient**2) + 1e-6)
    if "LayerNorm" not in variable.name and "bias" not in variable.name:
      update = update + 0.01 * old
    np.testing.assert_allclose(new, old - 0.01 * update, atol=2e-5, err_msg=variable.name)


def test_loss_falls(whole, plain):
  for _, losses in (whole, plain):
    assert abs(losses[0] - np.log(len(VOCABULARY))) < 0.3 and losses[-10:].mean() < losses[:5].mean() - 0.4
  assert (whole[1] != plain[1]).any()


@pytest.mark.slow
def test_resumed_training_is_the_same_to_the_bit(whole, tmp_path):
  """With dropout; the weights that the second process starts with come from the checkpoint."""

  def stopping(step):
    if step == 17:
      raise Interrupt
    return batches()(step)

  _, trainer = make(tmp_path)
  with pytest.raises(Interrupt):
    trainer.train(stopping)
  model, trainer = make(tmp_path, model_seed=1)
  seen = []
  losses = trainer.train(lambda step: seen.append(step) or batches()(step))
  assert seen[0] == 15
  np.testing.assert_array_equal(losses, whole[1])
  for found, expected in zip(weights(model), weights(whole[0]), strict=True):
    np.testing.assert_array_equal(found, expected)
  with pytest.raises(TrainingError, match=r"belongs to another fit \(learning_rate 0\.01, now 0\.02\)"):
    make(tmp_path, learning_rate=0.02)[1].train(batches())


@pytest.mark.slow
def test_two_replicas_are_one(plain):
  """Up to float rounding, without dropout, whose masks are a replica's own."""
  found = of_two_replicas()
  np.testing.assert_allclose(found["losses"], plain[1], rtol=1e-3)
  for (first, second), expected in zip(found["weights"], weights(plain[0]), strict=True):
    assert first == second
    np.testing.assert_allclose(first, expected, atol=2e-2)


def test_non_finite_loss_stops(tmp_path):
  _, trainer = make(tmp_path, learning_rate=1e38)
  with pytest.raises(TrainingError, match=r"loss is (nan|inf) at step [0-9]+; the checkpoint .* lower learning_rate"):
    trainer.train(batches())


@pytest.mark.slow
def test_mixed_precision(plain):
  """Near float32, and the weights stay float32."""
  model, trainer = make(dropout=0.0, precision="mixed_float16")
  losses = trainer.train(batches())
  assert {weight.dtype for weight in model.trainable_variables} == {tf.float32}
  np.testing.assert_allclose(losses, plain[1], rtol=0.05)
  assert (losses != plain[1]).any()


@pytest.mark.parametrize(
  ("argument", "value"),
  [
    ("num_train_steps", 0),
    ("train_batch_size", 0),
    ("learning_rate", float("nan")),
    ("num_warmup_steps", 40),
    ("weight_decay", -1.0),
    ("num_attention_heads", 3),
  ],
)
def test_rejected_settings(argument, value):
  with pytest.raises(ConfigError) as raised:
    PretrainingSettings(**{"num_train_steps": STEPS, "num_warmup_steps": 3, argument: value})
  assert raised.value.argument == argument


@pytest.mark.parametrize("weights_dtype", ["float32", "float16"])
def test_the_folder_is_an_encoder(whole, tmp_path, weights_dtype):
  """Its hidden states are the trained model's; halves are rounded once."""
  model, _ = whole
  model.save(tmp_path / "made", VOCABULARY, True, "card\n", weights_dtype)
  model.save(tmp_path / "made", VOCABULARY, True, "card\n", weights_dtype)  # over an older one
  assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]
  encoder = SentenceEncoder.from_pretrained(str(tmp_path / "made"))
  (ids,) = encoder.tokenizer(["a dog."], 16)
  states, _ = encoder.bert(ids[np.newaxis], np.ones([1, len(ids)], np.int32))
  expected = model.model.bert(ids[np.newaxis]).last_hidden_state
  np.testing.assert_allclose(states[-1], expected, atol=1e-6 if weights_dtype == "float32" else 5e-3)
  assert encoder.bert.config.hidden_dropout_prob == 0.1 and not encoder.bert.has_pooler
  (tmp_path / "taken").mkdir()
  (tmp_path / "taken/notes.txt").write_text("mine")
  with pytest.raises(EncoderError, match="not an encoder saved here"):
    model.save(tmp_path / "taken", VOCABULARY, True, "card\n")
