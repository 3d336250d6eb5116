"""training/flow_calibration.py: the flow behind the interface of the other calibrations."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration import flow as flow_calibration
from bert_flow_tf.calibration.flow import FlowCalibration, load_calibration
from bert_flow_tf.calibration.spec import make_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, FlowError
from tests.training import small

IDENTITY = {
  "name": "mini",
  "weights_sha256": "a" * 64,
  "tokenizer_sha256": "b" * 64,
  "sentence_embedding_type": "avg-first-last",
  "pooling": ["mean", 1, 4],
  "max_seq_length": 64,
  "low_dim": None,
  "precision": "float32",
}


class Recorder:
  """Stands for a `Trainer`: what a fit does is tested with that."""

  def fit(self, source, num_train_epochs):
    positions = tf.data.Dataset.from_tensors(tf.range(len(source), dtype=tf.int64))
    self.sides = [side.numpy() for side in next(iter(source.features(positions)))]
    self.epochs = num_train_epochs


@pytest.fixture(scope="module")
def started():
  """A flow that has its initialisation, no fit."""
  flow = small.make_flow()
  flow.initialize(small.embeddings()[0])
  return FlowCalibration(flow)


def test_fit_takes_first_sentences_then_second_ones():
  recorder, sides = Recorder(), small.embeddings()
  calibration = FlowCalibration(small.make_flow(), recorder, num_train_epochs=0.15)
  assert calibration.fit(np.concatenate(sides)) is calibration and recorder.epochs == 0.15
  for found, expected in zip(recorder.sides, sides, strict=True):
    np.testing.assert_array_equal(found, expected)


def test_fit_forgets():
  """As the other methods do; what was compiled is kept."""
  one, other = (np.concatenate(small.embeddings(seed=seed)) for seed in (0, 1))
  flow = small.make_flow()
  calibration = FlowCalibration(flow, small.make_trainer(flow))
  calibration.encoder = IDENTITY
  first = calibration.fit(one).transform(one)
  with pytest.raises(ConfigError, match="make no step"):
    calibration.fit(one[:4])
  np.testing.assert_array_equal(calibration.transform(one), first)
  assert calibration.fit(other).encoder == IDENTITY
  np.testing.assert_array_equal(calibration.fit(one).transform(one), first)


def test_transform_is_the_flows(started):
  rows = small.embeddings()[1]
  latents = started.transform(rows.astype(np.float64))
  assert latents.dtype == np.float32 and latents.shape == (64, started.output_dim) == (64, started.dim)
  np.testing.assert_array_equal(latents, started.flow.transform(rows).numpy())


@pytest.mark.parametrize(
  "rows", [np.ones(8), np.ones([8, 3]), np.full([8, small.DIM], np.nan), [["a"] * small.DIM] * 8, 3.0]
)
def test_rejected_rows(rows, started):
  for call in (FlowCalibration(small.make_flow(), Recorder()).fit, started.transform):
    with pytest.raises(CalibrationError) as caught:
      call(rows)
    assert caught.value.argument == "embeddings"


def test_an_odd_number_of_rows_is_not_fitted():
  with pytest.raises(CalibrationError, match=r"2 n"):
    FlowCalibration(small.make_flow(), Recorder()).fit(np.ones([7, small.DIM]))


def test_before_any_fit(started):
  with pytest.raises(CalibrationError, match="flow is not fitted"):
    FlowCalibration(small.make_flow()).transform(small.embeddings()[0])
  with pytest.raises(CalibrationError, match="no trainer"):
    started.fit(np.concatenate(small.embeddings()))
  with pytest.raises(CalibrationError, match="flow cannot be fitted in parts"):
    started.partial_fit(small.embeddings()[0])


@pytest.mark.parametrize("rows_at_once", [7, 63, 64])
def test_pieces_are_as_one_pass(rows_at_once, monkeypatch, started):
  calibration, (rows, _) = started, small.embeddings()
  monkeypatch.setattr(flow_calibration, "_ROWS_AT_ONCE", rows_at_once)
  np.testing.assert_allclose(calibration.transform(rows), calibration.flow.transform(rows).numpy(), atol=1e-6)
  assert calibration.transform(rows[:0]).shape == (0, small.DIM)


def test_latent_that_is_not_finite(started):
  rows = small.embeddings()[0].copy()
  rows[5] = 3e38
  with pytest.raises(CalibrationError, match=r"the latent of row 5 .* is not finite"):
    started.transform(rows)


def test_saved_and_loaded_as_any(tmp_path, started):
  flow, rows = FlowCalibration(started.flow), small.embeddings()[1]
  flow.encoder = IDENTITY
  whitening = make_calibration("whitening").fit(rows)
  whitening.encoder = IDENTITY
  for calibration in (flow, whitening):
    calibration.save(tmp_path / calibration.name)
    loaded = load_calibration(tmp_path / calibration.name)
    assert type(loaded) is type(calibration) and loaded.name == calibration.name and loaded.dim == small.DIM
    assert loaded.encoder == IDENTITY
    np.testing.assert_array_equal(loaded.transform(rows), calibration.transform(rows))


def test_folder_that_holds_none(tmp_path):
  with pytest.raises(CalibrationError, match=r"no calibration\.json in it"):
    load_calibration(tmp_path)
  (tmp_path / "flow.json").write_text("{}")
  with pytest.raises(FlowError, match=r"weights\.npz"):
    load_calibration(tmp_path)


def test_identity_that_is_no_object(tmp_path, started):
  flow = started
  flow.encoder = IDENTITY
  flow.save(tmp_path / "flow")
  file = tmp_path / "flow/flow.json"
  file.write_text(json.dumps({**json.loads(file.read_text()), "encoder": "mini"}))
  with pytest.raises(FlowError, match="encoder is 'mini', expected an object"):
    load_calibration(tmp_path / "flow")
