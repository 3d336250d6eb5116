#!/usr/bin/env bash
# Guess: a converted graph divides integers as TensorFlow does: -4 // 3 is -2, and -4 % 3 is 2.
# Truth: tf2onnx writes Div of ONNX, which rounds towards zero: -1, and a remainder of -1. Only floats are floored.
# Why it matters: signed hashes of words or character n-grams become rows of a table by `%`; half of them become
#        negative, other rows than in training, without an error. Use hashes without a sign.
# Versions: tf2onnx 1.17.0, TensorFlow 2.21.0, onnx 1.23.2, ONNX Runtime 1.32.0. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tf2onnx==1.17.0 tensorflow==2.21.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx

print("tf2onnx", tf2onnx.__version__, "TensorFlow", tf.__version__, "ONNX Runtime", onnxruntime.__version__)


def divide(x):
  return x // 3, x % 3


for dtype in (tf.int32, tf.int64, tf.float32):
  function = tf.function(divide, input_signature=[tf.TensorSpec([None], dtype, name="x")])
  model, _ = tf2onnx.convert.from_function(function, input_signature=function.input_signature)
  session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
  values = np.array([-4, 4], dtype.as_numpy_dtype)
  print(dtype.name, "-4 and 4, divided by 3: quotients and remainders")
  print("  TensorFlow  ", [result.numpy().tolist() for result in function(values)])
  print("  ONNX Runtime", [result.tolist() for result in session.run(None, {"x": values})])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tf2onnx_division_of_negative_integers.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
tf2onnx 1.17.0 TensorFlow 2.21.0 ONNX Runtime 1.32.0
int32 -4 and 4, divided by 3: quotients and remainders
  TensorFlow   [[-2, 1], [2, 1]]
  ONNX Runtime [[-1, 1], [-1, 1]]
int64 -4 and 4, divided by 3: quotients and remainders
  TensorFlow   [[-2, 1], [2, 1]]
  ONNX Runtime [[-1, 1], [-1, 1]]
float32 -4 and 4, divided by 3: quotients and remainders
  TensorFlow   [[-2.0, 1.0], [2.0, 1.0]]
  ONNX Runtime [[-2.0, 1.0], [2.0, 1.0]]
END
