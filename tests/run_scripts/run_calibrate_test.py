"""run_scripts/run_calibrate.py: good and bad command lines."""

import numpy as np
import pytest

from bert_flow_tf.calibration.flow import load_calibration
from tests.run_scripts import calibrate_cases
from tests.run_scripts.command_lines import check_rejected, check_succeeded

pytestmark = pytest.mark.slow
COMMAND_LINES = calibrate_cases


def test_good_command_lines(ran):
  check_succeeded(ran[1], calibrate_cases.good(ran[0]))


def test_bad_command_lines(ran):
  check_rejected(ran[1], calibrate_cases.bad(ran[0]))
  assert not (ran[0] / "out").exists()


def test_files(ran):
  """A fit on one file, applied to another; whitened vectors have the covariance I."""
  folder, _ = ran
  whitened = np.load(folder / "new/b.npy")
  np.testing.assert_allclose(np.cov(whitened.T), np.eye(4), atol=1e-4)
  np.testing.assert_array_equal(np.load(folder / "shards/b.npy"), whitened)
  calibration = load_calibration(folder / "w")
  assert calibration.encoder == {"vectors_of": "mine"}
  np.testing.assert_array_equal(np.load(folder / "shards/a.npy"), calibration.transform(np.load(folder / "a.npy")))
  assert load_calibration(folder / "flow").dim == 6
