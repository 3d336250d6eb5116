#!/usr/bin/env bash
# Guess: a .keras file with a TFSMLayer either holds the SavedModel, or points to its folder and takes what is there now.
# Truth: both by halves. The graph with its constants comes from the folder, and the variables from the .keras file: after
#        another export to the same folder the loaded model is neither the old one nor the new one, without a warning.
# Why it matters: an encoder or calibration that was exported again to its path changes every Keras model around it by
#        halves. Write exports to new folders, or save only what is around the layer.
# Versions: Keras 3.15.1, TensorFlow 2.21.0, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import numpy as np
import tensorflow as tf


class Affine(tf.Module):
  def __init__(self, scale, shift):
    self.scale, self.shift = tf.Variable(scale), shift

  @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
  def __call__(self, x):
    return self.scale * x + self.shift


def export(scale, shift):
  model = Affine(scale, shift)
  tf.saved_model.save(model, "exported", signatures={"serving_default": model.__call__})


print("Keras", keras.__version__)
one = np.ones([1, 1], np.float32)
export(2.0, 10.0)
inputs = keras.Input([1])
layer = keras.layers.TFSMLayer("exported", call_endpoint="serving_default")
model = keras.Model(inputs, layer(inputs))
print("2 x + 10 at 1:", model(one)["output_0"].numpy().item())
model.save("model.keras")
export(5.0, 20.0)
served = tf.saved_model.load("exported").signatures["serving_default"](tf.constant(one))
print("the folder, exported again as 5 x + 20:", served["output_0"].numpy().item())
loaded = keras.models.load_model("model.keras", safe_mode=False)
print("model.keras:", loaded(one)["output_0"].numpy().item())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_tfsm_layer_of_a_new_export.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
Keras 3.15.1
2 x + 10 at 1: 12.0
the folder, exported again as 5 x + 20: 25.0
model.keras: 22.0
END
