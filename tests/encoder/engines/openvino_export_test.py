"""Tests of encoders in files of OpenVINO: of all architectures, what the engine computes of lengths, from the mask."""

import numpy as np
import pytest
import tensorflow as tf

from tests.encoder.engines.openvino_engine_test import (
  CONFIGS,
  SIZES,
  WIDE,
  assert_near,
  make_engine,
  make_model,
  random_texts,
  states_of,
)
from tests.testing import openvino_or_skip

openvino = openvino_or_skip()

from bert_flow_tf.encoder.engines import openvino_export  # noqa: E402

# (lengths of a batch's texts, the ids at padding); the first is longer than two of ModernBERT's windows.
BATCHES = [([60, 3, 17, 1], -1), ([2, 5], 10**6), ([1], 0)]
PAD_ID = 3


def write(folder, model, longest, precision="float32"):
  """Writes a file of all hidden states side by side, 0 at padding, and of the pooled output at each position."""
  engine = make_engine(model, precision)
  encoder = engine.model_of_batches(range(model.config.num_hidden_layers + 1), True, False, longest)
  specs = [tf.TensorSpec([None, None], tf.int32, name) for name in ("ids", "mask")]
  for name in encoder.outputs:
    axes = [None] * (1 if name == "pooled_output" else 2)
    specs.append(tf.TensorSpec([*axes, model.config.hidden_size], tf.float32, name))

  def rest(ids, mask, *states):
    weights = tf.expand_dims(tf.cast(mask, tf.float32), 2)
    rows = [state if len(state.shape) == 3 else tf.expand_dims(state, 1) for state in states]
    return {"states": tf.concat([weights * state for state in rows], axis=2)}

  function = tf.function(rest, specs, autograph=False).get_concrete_function()
  joined = openvino_export.joined_model(function, encoder, PAD_ID, model.config.max_position_embeddings)
  openvino_export.write_ir(joined, folder / "model.xml", "states", encoder.runtime_options)
  return folder / "model.xml"


def run(path, ids, mask):
  """Returns the outputs of a file for ids and mask [n, seq_len]."""
  inputs = {"input_ids": ids.astype(np.int64), "attention_mask": mask.astype(np.int64)}
  return openvino_export.run_file(path, inputs)["states"]


def padded(texts, padding):
  """Returns ids, with some at padding, and mask [n, seq_len]."""
  mask = np.arange(max(map(len, texts))) < np.array([[len(text)] for text in texts])
  ids = np.full(mask.shape, padding)
  ids[mask] = np.concatenate(texts)
  return ids, mask


@pytest.mark.parametrize(("model_type", "values"), CONFIGS)
def test_states_equal_tensorflows(model_type, values, tmp_path):
  model = make_model(model_type, values)
  path = write(tmp_path, model, longest=60)
  for lengths, padding in BATCHES:
    texts = random_texts(lengths, pad_id=model.config.pad_token_id or 0)
    states, pooled, mask = states_of(model, texts)
    expected = [state[mask] for state in states]
    if pooled is not None:
      expected.append(np.repeat(pooled, lengths, axis=0))
    assert_near(run(path, *padded(texts, padding))[mask], np.concatenate(expected, axis=1))


def test_rows_without_tokens_and_tokens_without_a_position(tmp_path):
  """Nothing fails: there is no limit of a request, as a server of SavedModels has it."""
  model = make_model("roberta", SIZES | {"pad_token_id": PAD_ID})
  path = write(tmp_path, model, longest=60)
  ids, mask = padded(random_texts([5, 3, 4]), 0)
  expected = run(path, ids, mask)
  mask[1] = False
  found = run(path, ids, mask)
  np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], atol=1e-5)
  assert not found[1].any() and not run(path, ids, np.zeros_like(mask)).any()
  assert run(path, ids[:0], mask[:0]).shape == (0, *expected.shape[1:])
  ids = np.full([1, 200], 9)
  found = run(path, ids, np.ones_like(ids))
  np.testing.assert_allclose(found, run(path, ids[:, : found.shape[1]], ids[:, : found.shape[1]]), atol=1e-5)


def test_int8_is_computed_as_by_the_engine(tmp_path):
  """The file says how OpenVINO quantizes the inputs of products, of which it has another default."""
  model = make_model("bert", WIDE)
  path = write(tmp_path, model, 60, "int8")
  texts = random_texts([40, 7])
  engine = make_engine(model, "int8")
  states = engine(texts, range(3), pooled=True)
  ids, mask = padded(texts, 0)
  found = run(path, ids, mask)[mask]
  expected = np.concatenate([state[mask] for state in states.hidden_states.values()], axis=1)
  assert_near(found[:, : expected.shape[1]], expected, 1e-4)
  options = openvino.Core().read_model(path).get_rt_info(["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
  assert int(options.astype(str)) == engine._settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"]
