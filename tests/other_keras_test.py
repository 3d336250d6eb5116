"""The fast tests of all that Keras touches, in the Keras that this process does not have."""

import os
import subprocess
import sys

import pytest

from bert_flow_tf.flow.keras import IS_KERAS_3
from tests.testing import REPO

TESTS = ["tests/flow", "tests/calibration", "tests/training", "tests/encoder/layer_test.py"]
TESTS += ["tests/encoder/layer_files_test.py"]


@pytest.mark.slow
def test_the_other_keras():
  command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
  environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1" if IS_KERAS_3 else "0", "PYTEST_ADDOPTS": ""}
  done = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=1800, check=False)
  assert done.returncode == 0, done.stdout[-8000:]
