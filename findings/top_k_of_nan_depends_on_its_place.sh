#!/usr/bin/env bash
# Guess: top_k has one rule for NaN: always first, or always last.
# Truth: TensorFlow's depends on where NaN stands: among the first k scores it is the highest, behind them it is never
#        found. With jit_compile=True it is always the highest. Keras's ops.top_k follows TensorFlow; ONNX Runtime's
#        TopK has it always the highest, so a converted search answers otherwise.
# Why it matters: the score of an empty text can be NaN; whether it heads the answers depends on its row.
# Versions: TensorFlow 2.21.0, Keras 3.15.1, ONNX Runtime 1.32.0, onnx 1.23.2, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

print("TensorFlow", tf.__version__, "Keras", keras.__version__, "ONNX Runtime", onnxruntime.__version__)


def tensorflow_top(scores):
  return tf.math.top_k(scores, 2).indices


node = helper.make_node("TopK", ["scores", "k"], ["values", "indices"])
graph = helper.make_graph(
  [node],
  "top",
  [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [4])],
  [helper.make_tensor_value_info("indices", TensorProto.INT64, [2])],
  [numpy_helper.from_array(np.array([2]), "k")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
compiled = tf.function(tensorflow_top, jit_compile=True)
for scores in ([0.1, np.nan, 0.5, 0.9], [0.1, 0.5, 0.9, np.nan]):
  scores = np.array(scores, np.float32)
  print("rows of the best 2 of", scores.tolist())
  print("  TensorFlow", tensorflow_top(scores).numpy().tolist(), "compiled", compiled(scores).numpy().tolist())
  print("  Keras", np.array(keras.ops.top_k(scores, 2)[1]).tolist(), "ONNX Runtime", session.run(None, {"scores": scores})[0].tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "top_k_of_nan_depends_on_its_place.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
TensorFlow 2.21.0 Keras 3.15.1 ONNX Runtime 1.32.0
rows of the best 2 of [0.10000000149011612, nan, 0.5, 0.8999999761581421]
  TensorFlow [1, 3] compiled [1, 3]
  Keras [1, 3] ONNX Runtime [1, 3]
rows of the best 2 of [0.10000000149011612, 0.5, 0.8999999761581421, nan]
  TensorFlow [2, 1] compiled [3, 2]
  Keras [2, 1] ONNX Runtime [3, 2]
END
