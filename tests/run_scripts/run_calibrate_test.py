"""run_scripts/run_calibrate.py: right and wrong command lines."""

import numpy as np
import pytest

from bert_flow_tf.calibration.saving import load_calibration
from tests.run_scripts.command_lines import check_rejected, check_succeeded

pytestmark = pytest.mark.slow
RUNNER = "calibrate"


def prepare(folder):
  rows = np.random.default_rng(0).normal(size=[40, 6]).astype(np.float32)
  broken = rows.copy()
  broken[5, 2] = np.nan
  arrays = {
    "a": rows,
    "b": rows[::-1],
    "nan": broken,
    "one": rows[:1],
    "no": rows[:0],
    "narrow": rows[:, :3],
    "q": rows[:35] + 2,
  }
  for name, array in arrays.items():
    np.save(folder / f"{name}.npy", array)
  (folder / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 8}')


def right(folder):
  return {
    "fit": [f"--vectors={folder}/a.npy", "--calibration=whitening-4", f"--output={folder}/w", "--vectors_of=mine"],
    "apply": [f"--vectors={folder}/b.npy", f"--calibration_folder={folder}/w", f"--output={folder}/new/b.npy"],
    "fit a flow": [
      *(f"--vectors={folder}/[ab].npy", "--calibration=flow", f"--output={folder}/flow"),
      *(f"--flow_model_config={folder}/small.json", "--train_batch_size=4"),
    ],
    "fit with queries": [
      f"--input={folder}/a.npy",
      f"--queries={folder}/q.npy",
      "--calibration=sn",
      f"--output={folder}/q",
    ],
    "apply to queries": [
      f"--input={folder}/q.npy",
      f"--flow_folder={folder}/q",
      "--role=query",
      f"--output={folder}/q1.npy",
    ],
    "apply to shards": [
      f"--vectors={folder}/[ab].npy",
      f"--calibration_folder={folder}/w",
      f"--output={folder}/shards",
    ],
    "again": [f"--vectors={folder}/[ab].npy", f"--calibration_folder={folder}/w", f"--output={folder}/shards"],
  }


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER)
  assert ran[1]["again"]["stdout"].endswith("shards: 0 vectors in 0 files, 2 files finished before\n")
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
  np.testing.assert_allclose(np.load(folder / "q1.npy").mean(axis=0), 0, atol=1e-6)
