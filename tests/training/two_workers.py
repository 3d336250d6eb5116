"""Two worker processes on this machine; run as a module, a run_flow.py that does something before."""

import json
import os
import subprocess

import numpy as np

from tests.testing import REPO, free_ports

# A worker whose peer was killed waits for heartbeats, TensorFlow's ten seconds and some.
SECONDS = 240


def start(command, **options):
  """Starts `command(index)` as worker 0 and worker 1 on this machine; returns the two processes."""
  addresses = [f"localhost:{port}" for port in free_ports(2)]
  processes = []
  for index in range(2):
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    # Workers of a machine without GPUs, whichever this is.
    environment = {**os.environ, "TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": "-1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes.append(subprocess.Popen(command(index), cwd=REPO, env=environment, **pipes, **options))
  return processes


def finish(processes):
  """Returns [(stdout, stderr, exit status)] of both, which are ended if they take too long."""
  try:
    return [(process.communicate(timeout=SECONDS), process)[0] + (process.returncode,) for process in processes]
  finally:
    for process in processes:
      process.kill()


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
  """Says how workers differ that were started to different ends, and goes on as run_flow.py with the same flags."""
  from bert_flow_tf.training.strategies import make_strategy
  from run_scripts import run_flow

  index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
  strategy = make_strategy("multi_worker_mirrored", wait_seconds=SECONDS)
  print(disagreement(strategy, index), flush=True)
  run_flow.console()


if __name__ == "__main__":
  main()
