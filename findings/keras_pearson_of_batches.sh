#!/usr/bin/env bash
# Guess: keras.metrics.PearsonCorrelation gives the correlation of all pairs that it saw, in whatever batches and shape.
# Truth: it is the mean of the batches' correlations: other batches, another score. For predictions of shape [batch, 1], the
#        output of a Dense(1), it correlates along the last axis, of size 1, and is NaN; axis=0 mends only that.
# Why it matters: scores of semantic textual similarity are correlations over a whole test set. Collect predictions, then
#        use scipy.stats.
# Versions: Keras 3.15.1, TensorFlow 2.21.0, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import numpy as np

print("Keras", keras.__version__)
gold = np.array([0, 1, 2, 3, 10, 11, 12, 13], np.float32)
scores = np.array([3, 2, 1, 0, 13, 12, 11, 10], np.float32)
print(f"all pairs: {np.corrcoef(gold, scores)[0, 1]:.3f}")
for size in (8, 4):
  metric = keras.metrics.PearsonCorrelation()
  for first in range(0, 8, size):
    metric.update_state(gold[first : first + size], scores[first : first + size])
  print(f"batches of {size}: {float(metric.result()):.3f}")
for axis in (-1, 0):
  metric = keras.metrics.PearsonCorrelation(axis=axis)
  metric.update_state(gold[:, None], scores[:, None])
  print(f"shape [8, 1], axis {axis}: {float(metric.result()):.3f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_pearson_of_batches.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
Keras 3.15.1
all pairs: 0.905
batches of 8: 0.905
batches of 4: -1.000
shape [8, 1], axis -1: nan
shape [8, 1], axis 0: 0.905
END
