"""Runs the examples with small arguments, in one process; prints a line of JSON for each: [name, what main returned].

python -m tests.examples.run_examples FOLDER
"""

import contextlib
import importlib.util
import json
import subprocess
import sys

from tests.testing import reserved_ports


def run(name, *arguments):
  """Runs an example as a user would; prints what it returned."""
  with contextlib.redirect_stdout(sys.stderr):
    found = importlib.import_module(f"examples.{name}").main(list(arguments))
  print(json.dumps([name, found]), flush=True)


def main(folder):
  """Runs all of them; the loop first, because it makes the logical devices, and again on one replica."""
  run("train_your_own_loop", "--replicas=2", "--steps=12", "--batch=16")
  run("train_your_own_loop", "--replicas=1", "--steps=12", "--batch=16")
  run("keras_model", "--epochs=2")
  run("fit_a_flow", "--n=1500", "--dim=8", "--epochs=12")
  if importlib.util.find_spec("transformers.models.bert.modeling_tf_bert"):  # not in transformers 5
    run("own_encoder", "--layers=1", "--steps=25", "--batch=16", f"--save={folder}/own_bert")
  run("search", "--n=2500", "--model=static:mini")


def fine_tune(folder):
  """Fine-tunes on two devices, and twice on one; TensorFlow allows a process one strategy of several CPUs alone."""
  import tensorflow as tf

  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
  arguments = ("fine_tune_bert", "--batch=16", f"--save={folder}/fine_tuned")
  run(*arguments, "--steps=20", "--devices", "CPU:0", "CPU:1")
  for _ in range(2):
    run(*arguments, "--steps=3")


def serve(folder):
  """Exports, asks the export, then a server of another process: by REST and by gRPC."""
  served = f"--export_dir={folder}/served"
  run("serve", served, "--model=static:mini", "--calibration=whitening-16")
  with reserved_ports(2) as ports:
    command = [sys.executable, "-m", "tests.serving.stand_in", f"{folder}/served", "bert_flow", *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
      assert server.stdout.readline() == "ready\n"
      run("serve", served, f"--server=localhost:{ports[0]}")
      run("serve", served, f"--server=http://localhost:{ports[1]}")
      server.stdin.close()


if __name__ == "__main__":
  {"fine_tune": fine_tune, "serve": serve}.get(sys.argv[-1], main)(sys.argv[1])
