"""io/forks.py: calls that would wait forever in the fork of a process that has used TensorFlow are errors."""

import os
import signal

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.training.calibrate import fit_calibration
from tests.encoder import tiny

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def status_in_a_fork(function):
  """Returns "error" if a function raises a BertFlowError in a fork, "done" if it returns, else "signal"."""
  pid = os.fork()
  if not pid:
    signal.alarm(60)  # ends a fork that waits forever
    try:
      function()
      os._exit(0)
    except BertFlowError as error:
      os._exit(1 if "spawn" in str(error) else 2)
    finally:
      os._exit(3)
  _, status = os.waitpid(pid, 0)
  return {0: "done", 1: "error"}.get(os.waitstatus_to_exitcode(status), "signal")


def test_a_model_in_a_fork(tmp_path, engine):
  folder = str(tiny.save_tiny(tmp_path / "tiny"))
  encoder = SentenceEncoder.from_pretrained(folder, engine=engine)
  encoder.encode(["cats"])
  rows = np.random.default_rng(0).normal(size=[80, 8]).astype(np.float32)
  flow = fit_calibration(rows, "flow", show_progress=False, train_batch_size=8)
  for function in (
    lambda: encoder.encode(["a dog"]),
    lambda: SentenceEncoder.from_pretrained(folder),
    lambda: SentenceModel(encoder).fit(["a dog", "cats"] * 40, "flow"),
    lambda: flow.transform(rows),
    lambda: fit_calibration(rows, "flow", train_batch_size=8),
  ):
    assert status_in_a_fork(function) == "error"
  assert encoder.encode(["a dog"]).shape == (1, 12)
