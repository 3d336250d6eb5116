"""The fast tests of all that Keras touches, in the Keras that this process does not have."""

import pytest

from bert_flow_tf.flow.keras import IS_KERAS_3
from tests.testing import finished_python

TESTS = ["tests/flow", "tests/calibration", "tests/training", "tests/encoder/layer_test.py"]
TESTS += ["tests/encoder/layer_files_test.py"]


@pytest.mark.slow
def test_the_other_keras():
  flags = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow"]
  legacy = "1" if IS_KERAS_3 else "0"
  finished_python("-m", "pytest", *flags, *TESTS, TF_USE_LEGACY_KERAS=legacy, PYTEST_ADDOPTS="")
