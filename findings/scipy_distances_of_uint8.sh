#!/usr/bin/env bash
# Guess: scipy.spatial.distance gives the same distance for integers as for the same numbers in float64.
# Truth: euclidean and cityblock subtract in the type of the vectors, so 0 - 1 is 255 in uint8. sqeuclidean and cdist, in the
#        same module, are right, and so euclidean**2 is not sqeuclidean. No warning.
# Why it matters: embeddings quantized to uint8 or int8 have such types. cdist on two rows, or astype(float), is right.
# Versions: SciPy 1.17.1, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import numpy as np
import scipy
from scipy.spatial import distance

print("SciPy", scipy.__version__)
a = np.array([0, 10], np.uint8)
b = np.array([1, 0], np.uint8)
for name in ("euclidean", "cityblock", "sqeuclidean"):
  function = getattr(distance, name)
  exact = function(a.astype(float), b.astype(float))
  print(f"{name}: uint8 {function(a, b):.2f}, float64 {exact:.2f}, cdist of uint8 {distance.cdist([a], [b], name)[0, 0]:.2f}")
c = np.array([100], np.int8)
print(f"euclidean of int8 100 and -100: {distance.euclidean(c, -c):.0f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "scipy_distances_of_uint8.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
SciPy 1.17.1
euclidean: uint8 255.20, float64 10.05, cdist of uint8 10.05
cityblock: uint8 265.00, float64 11.00, cdist of uint8 11.00
sqeuclidean: uint8 101.00, float64 101.00, cdist of uint8 101.00
euclidean of int8 100 and -100: 56
END
