"""bert_flow_tf/calibration/flow.py: the flow behind the interface of the other calibrations."""

import json

import numpy as np
import pytest

from bert_flow_tf.calibration import flow as flow_calibration
from bert_flow_tf.calibration.combined import Mix
from bert_flow_tf.calibration.flow import FlowCalibration, calibration_sha256, load_calibration, saved_calibrations
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import CalibrationError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.folders import CALIBRATION_FILES, OLDER_FLOW_FILES, FolderFormat
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


@pytest.fixture(scope="module")
def started():
  """Returns a flow that is initialized, but not fitted."""
  flow = small.make_flow()
  flow.initialize(small.embeddings()[0])
  return FlowCalibration(flow)


def test_transform_is_the_flows(started):
  rows = small.embeddings()[1]
  latents = started.transform(rows.astype(np.float64))
  assert latents.dtype == np.float32 and latents.shape == (64, started.output_dim) == (64, started.dim)
  np.testing.assert_array_equal(latents, started.flow.transform(rows).numpy())


@pytest.mark.parametrize(
  "rows", [np.ones(8), np.ones([8, 3]), np.full([8, small.DIM], np.nan), [["a"] * small.DIM] * 8, 3.0]
)
def test_rejected_rows(rows, started):
  with pytest.raises(CalibrationError) as caught:
    started.transform(rows)
  assert caught.value.argument == "embeddings"


def test_not_fitted(started):
  with pytest.raises(CalibrationError, match="flow is not fitted"):
    FlowCalibration(small.make_flow()).transform(small.embeddings()[0])
  with pytest.raises(CalibrationError, match="fit_calibration"):
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
  with pytest.raises(CalibrationError, match=r"calibration\.json"):
    load_calibration(tmp_path)
  (tmp_path / "flow.json").write_text("{}")
  with pytest.raises(CalibrationError, match=r"weights\.npz"):
    load_calibration(tmp_path)


@pytest.mark.parametrize("shares", [(), (0.5, 0.5)])
def test_folder_of_an_earlier_version(tmp_path, started, shares):
  """It is loaded, has the checksum of the new one, and is replaced as a whole."""
  dim = small.DIM * max(len(shares), 1)
  flow = FlowCalibration(started.flow, Mix(shares, np.zeros(dim), np.ones(len(shares))) if shares else None)
  FolderFormat("flow", *OLDER_FLOW_FILES, FlowError, "Glow.save").write(tmp_path / "older/flow", *flow.contents())
  flow.save(tmp_path / "flow")
  assert calibration_sha256(tmp_path / "older/flow") == calibration_sha256(tmp_path / "flow")
  assert saved_calibrations(tmp_path / "older") == ["flow"]
  rows = np.tile(small.embeddings()[1], max(len(shares), 1))
  for load in (load_calibration, FlowCalibration.load):
    np.testing.assert_array_equal(load(tmp_path / "older/flow").transform(rows), flow.transform(rows))
  flow.save(tmp_path / "older/flow")
  assert sorted(file.name for file in (tmp_path / "older/flow").iterdir()) == sorted(CALIBRATION_FILES)


def test_another_calibrations_folder_is_named(tmp_path):
  make_calibration("sn").fit(small.embeddings()[1]).save(tmp_path / "sn")
  for load in (Glow.load, FlowCalibration.load):
    with pytest.raises(FlowError, match="another calibration than a flow; load it with load_calibration"):
      load(tmp_path / "sn")


def test_identity_that_is_no_object(tmp_path, started):
  flow = started
  flow.encoder = IDENTITY
  flow.save(tmp_path / "flow")
  file = tmp_path / "flow/calibration.json"
  file.write_text(json.dumps({**json.loads(file.read_text()), "encoder": "mini", "sha256": {}}))
  with pytest.raises(FlowError, match="encoder is 'mini', expected an object"):
    load_calibration(tmp_path / "flow")
