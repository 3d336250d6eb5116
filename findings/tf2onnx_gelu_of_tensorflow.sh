#!/usr/bin/env bash
# Guess: BERT's activation, tf.nn.gelu, converts to ONNX; if an operation could not, the conversion would fail.
# Truth: the exact form is made of Erfc, which ONNX lacks. tf2onnx logs it, writes a file with an operation Erfc, says
#        "Successfully converted" and exits with 0; ONNX Runtime rejects the file. Keras's gelu is the same. The form
#        with tf.math.erf converts, and so does the approximation by tanh, which is another function.
# Why it matters: an export looks finished until somebody loads it. Load and run each file once before it is published.
# Versions: tf2onnx 1.17.0, TensorFlow 2.21.0, onnx 1.23.2, ONNX Runtime 1.32.0. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tf2onnx==1.17.0 tensorflow==2.21.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import subprocess
import sys

import onnx
import onnxruntime
import tensorflow as tf
import tf2onnx

print("tf2onnx", tf2onnx.__version__, "TensorFlow", tf.__version__, "ONNX Runtime", onnxruntime.__version__)


def exact(x):
  return tf.nn.gelu(x)


def by_tanh(x):
  return tf.nn.gelu(x, approximate=True)


def by_erf(x):
  return 0.5 * x * (1.0 + tf.math.erf(x * 0.5**0.5))


for function in (exact, by_tanh, by_erf):
  module = tf.Module()
  module.activate = tf.function(function, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
  tf.saved_model.save(module, "saved", signatures=module.activate)
  command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", "saved", "--output", "gelu.onnx"]
  done = subprocess.run(command, capture_output=True, text=True)
  print(f"{function.__name__}: exit status {done.returncode},", "success:", "Successfully converted" in done.stderr, end=", ")
  print("Erfc in the file:", "Erfc" in [node.op_type for node in onnx.load("gelu.onnx").graph.node])
  try:
    onnxruntime.InferenceSession("gelu.onnx", providers=["CPUExecutionProvider"])
    print("  ONNX Runtime loads it")
  except Exception as error:
    print("  ONNX Runtime:", type(error).__name__)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tf2onnx_gelu_of_tensorflow.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
tf2onnx 1.17.0 TensorFlow 2.21.0 ONNX Runtime 1.32.0
exact: exit status 0, success: True, Erfc in the file: True
  ONNX Runtime: InvalidGraph
by_tanh: exit status 0, success: True, Erfc in the file: False
  ONNX Runtime loads it
by_erf: exit status 0, success: True, Erfc in the file: False
  ONNX Runtime loads it
END
