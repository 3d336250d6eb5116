#!/usr/bin/env bash
# Guess: gelu(x) of one framework is one function.
# Truth: keras.ops.gelu is the tanh approximation by default; keras.activations.gelu, the activation "gelu" and tf.nn.gelu
#        are the exact form.
# Why it matters: a block written with keras.ops gives other states than the layer "gelu" with the same weights, by 1e-4 per
#        layer, which no test of shapes or of rough agreement shows. Write `approximate=` out.
# Versions: Keras 3.15.1, TensorFlow 2.21.0, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0 numpy==2.4.6

KERAS_BACKEND=tensorflow venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import math

import keras
import tensorflow as tf

print("Keras", keras.__version__, "TensorFlow", tf.__version__)
x = tf.constant([1.0])
exact = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
approximate = 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (1 + 0.044715)))
functions = {"keras.ops.gelu": keras.ops.gelu, "keras.activations.gelu": keras.activations.gelu, "tf.nn.gelu": tf.nn.gelu}
functions['keras.layers.Activation("gelu")'] = keras.layers.Activation("gelu")
for name, function in functions.items():
  value = float(function(x)[0])
  print(name, "exact" if abs(value - exact) < 1e-5 else "tanh" if abs(value - approximate) < 1e-5 else value)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_two_defaults_of_gelu.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
Keras 3.15.1 TensorFlow 2.21.0
keras.ops.gelu tanh
keras.activations.gelu exact
tf.nn.gelu exact
keras.layers.Activation("gelu") exact
END
