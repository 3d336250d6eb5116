#!/usr/bin/env bash
# Guess: save_model keeps float32 weights, or keeps those that float16 cannot hold, or warns.
# Truth: by default it writes float16: 1e5 becomes 65504, 1e-9 becomes 0, the shape of a model's inputs and outputs stays
#        float32, and nothing is said. compress_to_fp16=False keeps the numbers. So does model.export(format="openvino")
#        of Keras, without a flag.
# Why it matters: the matrix of a whitening divides by small deviations, and has such values; embeddings of a saved model
#        are then others than those of the model in memory.
# Versions: OpenVINO 2026.4.1, Keras 3.15.1, TensorFlow 2.21.0, SciPy 1.17.1, NumPy 2.4.6, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openvino==2026.4.1 keras==3.15.1 tensorflow==2.21.0 scipy==1.17.1 numpy==2.4.6

CI=true venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import contextlib
import sys
from importlib import metadata

import keras
import numpy as np
import openvino
from openvino import opset15

print("OpenVINO", metadata.version("openvino"), "Keras", keras.__version__)
core = openvino.Core()
ones = np.ones([1, 4], np.float32)
weights = np.diag(np.array([1, 1e5, 1e-9, 0.1], np.float32))


def answer(model):
  compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
  return [float(f"{value:.6g}") for value in compiled(ones)[0][0]]


x = opset15.parameter([1, 4], np.float32)
model = openvino.Model([opset15.matmul(x, opset15.constant(weights), False, False)], [x], "model")
print("in memory", answer(model))
openvino.save_model(model, "default.xml")
print("saved", answer("default.xml"))
openvino.save_model(model, "exact.xml", compress_to_fp16=False)
print("saved with compress_to_fp16=False", answer("exact.xml"))
inputs = keras.Input([4], batch_size=1)
dense = keras.layers.Dense(4, use_bias=False)
keras_model = keras.Model(inputs, dense(inputs))
dense.set_weights([weights])
keras_model(ones)
with contextlib.redirect_stdout(sys.stderr):
  keras_model.export("keras.xml", format="openvino", verbose=False)
print("exported by Keras", answer("keras.xml"))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "openvino_saves_weights_as_float16.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
OpenVINO 2026.4.1 Keras 3.15.1
in memory [1.0, 100000.0, 1e-09, 0.1]
saved [1.0, 65504.0, 0.0, 0.0999756]
saved with compress_to_fp16=False [1.0, 100000.0, 1e-09, 0.1]
exported by Keras [1.0, 100000.0, 1e-09, 0.1]
END
