#!/usr/bin/env bash
# Guess: an index with dtype="i8" rounds what is added, so whole numbers up to 127 stay as they are; uint8 vectors are
#        converted or rejected.
# Truth: float vectors are first scaled to length 127, in an index of squared distances as well, so the length is lost and
#        distances are between directions. The same numbers as an int8 array are kept. A uint8 array is stored as zeros.
# Why it matters: embeddings quantized to int8 must be passed as np.int8, never as float32 or uint8 with the same numbers.
# Versions: usearch 2.26.6, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check usearch==2.26.6 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import numpy as np
import usearch
from usearch.index import Index

print("usearch", usearch.__version__)
vectors = np.array([[10, 20, 30, 40], [1, 2, 3, 4]])
for kind in (np.int8, np.float32, np.uint8):
  index = Index(ndim=4, metric="l2sq", dtype="i8")
  index.add(np.arange(2), vectors.astype(kind))
  print(f"{np.dtype(kind)}: stored", index.get(0).tolist(), index.get(1).tolist())
index = Index(ndim=4, metric="l2sq", dtype="i8")
index.add(np.arange(2), vectors.astype(np.float32))
print("squared distance of the two as float32:", index.search(vectors[1].astype(np.float32), 2).distances.tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "usearch_int8_vectors.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
usearch 2.26.6
int8: stored [10, 20, 30, 40] [1, 2, 3, 4]
float32: stored [23, 46, 69, 92] [23, 46, 69, 92]
uint8: stored [0, 0, 0, 0] [0, 0, 0, 0]
squared distance of the two as float32: [0.0, 0.0]
END
