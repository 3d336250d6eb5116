#!/usr/bin/env bash
# Guess: GlobalAveragePooling1D of a row whose tokens are all masked is zero, and a mask that masks nothing changes nothing.
# Truth: such a row is NaN. In mixed_float16 a mean of 200 over 600 tokens is infinity with a mask, since the sum is
#        float16, and 200 without one, or in mixed_bfloat16.
# Why it matters: an empty text, or one of removed words alone, has no tokens to average. NaN then spreads
#        into every mean, loss and sorted list.
# Versions: Keras 3.15.1, TensorFlow 2.21.0, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import numpy as np

print("Keras", keras.__version__)
tokens = np.ones([2, 3, 2], np.float32)
mask = np.array([[True, True, False], [False, False, False]])
print("2 of 3 tokens, and none:", np.array(keras.layers.GlobalAveragePooling1D()(tokens, mask=mask)).tolist())
states = np.full([1, 600, 1], 200, np.float32)
for policy in ("float32", "mixed_float16", "mixed_bfloat16"):
  pooling = keras.layers.GlobalAveragePooling1D(dtype=policy)
  for name, mask in (("no mask", None), ("a mask of ones", np.ones([1, 600], bool))):
    mean = keras.ops.cast(pooling(states, mask=mask), "float32")
    print(f"600 times 200, {policy}, {name}:", np.array(mean).item())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_average_of_a_masked_row.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
Keras 3.15.1
2 of 3 tokens, and none: [[1.0, 1.0], [nan, nan]]
600 times 200, float32, no mask: 200.0
600 times 200, float32, a mask of ones: 200.0
600 times 200, mixed_float16, no mask: 200.0
600 times 200, mixed_float16, a mask of ones: inf
600 times 200, mixed_bfloat16, no mask: 200.0
600 times 200, mixed_bfloat16, a mask of ones: 200.0
END
