"""calibration/flow.py: the flow behind the interface of the other calibrations, and files of calibrations."""

import json
import zipfile

import numpy as np
import pytest

from bert_flow_tf.calibration import step
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import calibration_sha256, load_calibration, saved_calibrations
from bert_flow_tf.errors import CalibrationError, ConfigError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.archive import FORMAT_VERSION
from tests.calibration.cases import close, cone, in_graph
from tests.flow.cases import randomize
from tests.testing import REPO, rejected, rewrite_archive
from tests.training import small

IDENTITY = {"name": "mini", "pooling": ["mean", 1, 4], "low_dim": None}


@pytest.fixture(scope="module")
def started():
  """Returns a flow that is initialized, but not fitted."""
  flow = small.make_flow()
  flow.initialize(small.embeddings()[0])
  return FlowCalibration(flow)


@pytest.mark.parametrize(
  "rows", [np.ones(8), np.ones([8, 3]), np.full([8, small.DIM], np.nan), [["a"] * small.DIM] * 8, 3.0]
)
def test_rejected_rows(rows, started):
  with rejected(CalibrationError, "embeddings"):
    started.transform(rows)


def test_not_fitted():
  with rejected(CalibrationError, None):
    FlowCalibration(small.make_flow()).transform(small.embeddings()[0])


@pytest.mark.parametrize("rows_at_once", [7, 64])
def test_pieces_are_as_one_pass(rows_at_once, monkeypatch, started):
  monkeypatch.setattr(step, "_ROWS_AT_ONCE", rows_at_once)
  rows = small.embeddings()[0]
  latents = started.transform(rows.astype(np.float64))
  assert latents.dtype == np.float32 and latents.shape == (64, started.output_dim) == (64, started.dim)
  np.testing.assert_allclose(latents, started.flow.transform(rows).numpy(), atol=1e-6)
  assert started.transform(rows[:0]).shape == (0, small.DIM)


def test_graph():
  # The comparison is in float64, so that a difference is an error and not rounding.
  flow, rows = small.make_flow(dtype="float64"), small.embeddings()[0]
  flow.initialize(rows)
  calibration = FlowCalibration(randomize(flow))
  latents = flow.transform(rows)
  bits, nats = calibration.log_prob(rows)
  expected = [latents, flow.inverse(latents), flow.bits_per_dim(rows), flow.distribution.log_prob(rows)]
  actual = [in_graph(calibration)(rows), calibration.inverse(latents), bits, nats]
  for values, of_flow in zip(actual, expected, strict=True):
    assert values.dtype == "float32"
    close(values, of_flow)
  for unfitted in (FlowCalibration(small.make_flow()), make_calibration("sn"), make_calibration("natsv").fit(rows)):
    with pytest.raises(CalibrationError):
      unfitted.check_fitted()


def test_latent_that_is_not_finite(started):
  rows = small.embeddings()[0].copy()
  rows[5] = 3e38
  with rejected(CalibrationError, "embeddings", match="row 5"):
    started.transform(rows)


def test_folder_that_holds_none_or_several(tmp_path, started):
  with rejected(CalibrationError, None):
    load_calibration(tmp_path)
  started.save(tmp_path / "flow")
  make_calibration("sn").fit(small.embeddings()[1]).save(tmp_path / "sn")
  assert saved_calibrations(tmp_path) == ["flow", "sn"] and saved_calibrations(tmp_path / "nowhere") == []
  with rejected(ConfigError, "folder"):
    load_calibration(tmp_path)
  with rejected(CalibrationError, None):
    load_calibration(tmp_path / "other")
  with rejected(FlowError, None):
    Glow.load(tmp_path / "sn")


def test_the_checksum_is_over_all_but_the_encoder(tmp_path):
  """Caches and manifests have it."""
  calibration = make_calibration("whitening-3").fit(small.embeddings()[1])
  sums = []
  for encoder, k in ((None, 3), (IDENTITY, 3), (IDENTITY, 2)):
    calibration.encoder, calibration.k = encoder, k
    calibration.save(tmp_path)
    sums.append(calibration_sha256(tmp_path))
  assert sums[0] == sums[1] != sums[2]


def test_a_flow_that_was_loaded_has_the_checksum_of_one_that_was_fitted(tmp_path):
  """As a later evaluation of siamese loads it from the checkpoint: the same weights, another state."""
  flow = small.make_flow()
  flow.initialize(small.embeddings()[0])
  sums = []
  for state in (2, 1, 0):
    flow.state.assign(state)
    FlowCalibration(flow).save(tmp_path)
    sums.append(calibration_sha256(tmp_path))
  assert sums[0] == sums[1] != sums[2]


@pytest.mark.parametrize(
  "changes",
  [{"method": value} for value in ("pca", "flow", ["sn"], "sn", None)]
  + [{"k": value} for value in ("3", -1, 50, [3], True)]
  + [{"count": value} for value in (1, None, "x", [2])]
  + [{"shares": value} for value in ([0.5, 0.5], 3, [0.3, 0.3, 0.4])]
  + [{"encoder": "mini"}, {"format_version": 2}]
  + [{"arrays": {"mean": value}} for value in (None, np.zeros([]), np.zeros(7), np.full(8, "x"))]
  + [{"arrays": {"mean": np.full(8, np.nan)}}, {"arrays": {"scatter": np.full([8, 8], np.inf)}}]
  + [{"arrays": {"scatter": value}} for value in (None, np.zeros(8), np.zeros([8, 7]), np.zeros([8, 8, 1]))],
)
def test_settings_and_arrays_that_describe_no_calibration(changes, tmp_path):
  make_calibration("whitening-3").fit(cone(40, 8)).save(tmp_path)
  rewrite_archive(tmp_path, "calibration", **changes)
  with rejected(CalibrationError, None):
    load_calibration(tmp_path)


# Files of each released `format_version` (docs/stability.md), never written again: a new number gets a new folder.
FORMATS = REPO / "tests/golden/formats"
FOLDERS = sorted(path.parent for path in FORMATS.rglob("calibration.npz"))


def test_the_number_that_is_written_has_files():
  assert {folder.parent.name for folder in FOLDERS} == {str(number + 1) for number in range(FORMAT_VERSION)}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_released_file_gives_its_embeddings(folder):
  outputs = np.load(folder.parent / "outputs.npz")
  embeddings = load_calibration(folder).transform(outputs["inputs"])
  np.testing.assert_allclose(embeddings, outputs[folder.name], rtol=1e-4, atol=1e-5)


def test_a_later_number_is_named(tmp_path):
  with (
    zipfile.ZipFile(FORMATS / "1/sn/calibration.npz") as old,
    zipfile.ZipFile(tmp_path / "calibration.npz", "w") as new,
  ):
    for name in old.namelist():
      content = old.read(name)
      if name == "settings.json":
        content = json.dumps({**json.loads(content), "format_version": FORMAT_VERSION + 1}).encode()
      new.writestr(name, content)
  with rejected(CalibrationError, None, f"format_version {FORMAT_VERSION + 1}"):
    load_calibration(tmp_path)
