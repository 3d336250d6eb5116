#!/usr/bin/env bash
# Guess: LiteRT's dynamic-range quantization gives a table of embeddings a scale per row, as it gives kernels one per output.
# Truth: a table behind tf.gather gets one scale for all. If one row is long, the others lose digits: rows of a hundredth
#        of its length keep three distinct values, those of a two-thousandth become zeros.
# Why it matters: tables of word embeddings hold rows of very different lengths, the more after weights of tokens (SIF,
#        idf) were multiplied in. Frequent words vanish; cosines change without a warning.
# Versions: ai-edge-litert 2.3.0, TensorFlow 2.21.0 (the converter), on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ai-edge-litert==2.3.0 tensorflow==2.21.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
from importlib import metadata

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

print("ai-edge-litert", metadata.version("ai-edge-litert"), "TensorFlow", tf.__version__)
table = np.random.default_rng(0).normal(size=[1000, 64]).astype(np.float32)
table /= np.linalg.norm(table, axis=1, keepdims=True)
table[0] *= 100
table[1] *= 0.05


def converted(function, inputs):
  graph = tf.function(function, input_signature=inputs).get_concrete_function()
  converter = tf.lite.TFLiteConverter.from_concrete_functions([graph])
  converter.optimizations = [tf.lite.Optimize.DEFAULT]
  interpreter = Interpreter(model_content=converter.convert())
  for tensor in interpreter.get_tensor_details():
    if tensor["dtype"] == np.int8 and list(tensor["shape"]) in ([1000, 64], [64, 1000]):
      print("  scales of the weights:", len(tensor["quantization_parameters"]["scales"]))
  return interpreter


print("a table:")
lookup = converted(lambda ids: tf.gather(tf.constant(table), ids), [tf.TensorSpec([3], tf.int32)])
lookup.allocate_tensors()
lookup.set_tensor(lookup.get_input_details()[0]["index"], np.array([0, 1, 2], np.int32))
lookup.invoke()
for length, row, quantized in zip((100, 0.05, 1), table, lookup.get_tensor(lookup.get_output_details()[0]["index"])):
  print(f"  row of length {length}: {len(np.unique(quantized))} distinct values,", end=" ")
  cosine = quantized @ row / max(np.linalg.norm(quantized) * np.linalg.norm(row), 1e-9)
  print(f"cosine to itself {cosine:.2f}")
print("a kernel:")
converted(lambda x: tf.matmul(x, tf.constant(table.T.copy())), [tf.TensorSpec([1, 64], tf.float32)])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "litert_quantized_table_has_one_scale.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
ai-edge-litert 2.3.0 TensorFlow 2.21.0
a table:
  scales of the weights: 1
  row of length 100: 53 distinct values, cosine to itself 1.00
  row of length 0.05: 1 distinct values, cosine to itself 0.00
  row of length 1: 3 distinct values, cosine to itself 0.90
a kernel:
  scales of the weights: 1000
END
