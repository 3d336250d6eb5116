#!/usr/bin/env bash
# Guess: tf.math.l2_normalize gives rows of length 1 in float16 too, and zeros for a row of zeros: that is what epsilon is for.
# Truth: its epsilon of 1e-12 is 0 in float16, so zeros become NaN and small rows infinity. The sum of squares
#        overflows from a length of 256 on, and such a row becomes zeros. In bfloat16 it is right, but segment_sum and
#        segment_mean, which pool ragged tokens, stop adding at 256 there, while reduce_sum does not.
# Why it matters: half precision halves the memory of embeddings; normalize and pool them in float32.
# Versions: TensorFlow 2.21.0, on a CPU. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import tensorflow as tf

print("TensorFlow", tf.__version__)
for row in ([0.0, 0.0], [1e-4, 0.0], [200.0, 200.0]):
  for kind in (tf.float32, tf.float16, tf.bfloat16):
    unit = tf.math.l2_normalize(tf.constant(row, kind))
    print(row, kind.name, [round(value, 2) for value in tf.cast(unit, tf.float32).numpy().tolist()])
ones = tf.ones([768], tf.bfloat16)
segment = tf.zeros([768], tf.int32)
print("768 ones, bfloat16: reduce_sum", tf.reduce_sum(ones).numpy(), "segment_sum", tf.math.segment_sum(ones, segment).numpy()[0])
print("their segment_mean:", tf.math.segment_mean(ones, segment).numpy()[0])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tf_unit_rows_in_half_precision.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
TensorFlow 2.21.0
[0.0, 0.0] float32 [0.0, 0.0]
[0.0, 0.0] float16 [nan, nan]
[0.0, 0.0] bfloat16 [0.0, 0.0]
[0.0001, 0.0] float32 [1.0, 0.0]
[0.0001, 0.0] float16 [inf, nan]
[0.0001, 0.0] bfloat16 [1.0, 0.0]
[200.0, 200.0] float32 [0.71, 0.71]
[200.0, 200.0] float16 [0.0, 0.0]
[200.0, 200.0] bfloat16 [0.71, 0.71]
768 ones, bfloat16: reduce_sum 768 segment_sum 256
their segment_mean: 0.333984
END
