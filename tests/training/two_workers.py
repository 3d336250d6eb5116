"""Two worker processes on this machine; run as a module, a run_flow.py that does something before and pauses."""

import contextlib
import json
import os
import subprocess

import numpy as np

from tests.testing import LIMIT_SECONDS, REPO, pause_when_saved, reserved_ports


def environment(ports, index):
  """Returns the environment of a worker, on a machine without GPUs, whichever this is."""
  workers = [f"localhost:{port}" for port in ports]
  config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
  return {"TF_CONFIG": json.dumps(config), "TF_GRPC_REUSE_PORT": "1", "CUDA_VISIBLE_DEVICES": "-1"}


@contextlib.contextmanager
def started(command):
  """Starts `command(index)` as worker 0 and worker 1 on this machine; gives the two processes, ended afterwards."""
  pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
  with contextlib.ExitStack() as stack:
    ports = stack.enter_context(reserved_ports(2))
    processes = []
    for index in range(2):
      variables = {**os.environ, **environment(ports, index)}
      processes.append(subprocess.Popen(command(index), cwd=REPO, env=variables, text=True, **pipes))
      stack.callback(processes[index].kill)
    yield processes


def finish(processes):
  """Returns [(stdout, stderr, exit status)] of both."""
  outputs = []
  for process in processes:
    stdout, stderr = process.communicate(timeout=LIMIT_SECONDS)
    outputs.append((stdout, stderr, process.returncode))
  return outputs


def losses_in_events(folder):
  """Returns {step: loss} of TensorBoard's files; of a step that was made twice, the later one."""
  import tensorflow as tf

  found = {}
  for file in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime):
    for event in tf.compat.v1.train.summary_iterator(str(file)):
      for value in event.summary.value:
        found[event.step] = float(tf.make_ndarray(value.tensor))
  return found


def check_losses(found, expected):
  """Compares {step: loss} of a fit of 101 steps with the losses of one process."""
  assert list(found) == list(range(1, 102))
  # To 1e-5 at first; then a ReLU at its edge turns rounding into 5e-5.
  np.testing.assert_allclose(list(found.values())[:50], expected[:50], rtol=1e-5)
  np.testing.assert_allclose(list(found.values()), expected, rtol=5e-4)


def disagreement(strategy, index):
  """Returns the error's message if the second worker has other settings."""
  from bert_flow_tf.errors import TrainingError
  from tests.training import small

  with strategy.scope():
    flow = small.make_flow()
  try:
    small.fit(flow=flow, strategy=strategy, seed=index, flow_learning_rate=0.01 + index)
  except TrainingError as error:
    return str(error)
  return None


def main():
  """Says how workers differ that were started to different ends; then run_flow.py, paused when step 10 is saved."""
  from bert_flow_tf.training.strategies import make_strategy
  from run_scripts import run_flow

  index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
  strategy = make_strategy("multi_worker_mirrored", wait_seconds=LIMIT_SECONDS)
  print(disagreement(strategy, index), flush=True)
  pause_when_saved(2)
  run_flow.console()


if __name__ == "__main__":
  main()
