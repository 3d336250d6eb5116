#!/usr/bin/env bash
# Guess: range_search(query, radius) includes the vectors at exactly the radius.
# Truth: it does not: inner products must be above the radius, and squared L2 distances below it. For equal vectors the
#        radius 0 (L2) or 1 (inner product) finds nothing, not even the vector itself. The L2 radius is a squared one.
# Why it matters: exact duplicates cannot be found with the obvious radius; programs that take "at least the threshold" and
#        FAISS disagree on pairs at the threshold.
# Versions: faiss-cpu 1.15.1, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import faiss
import numpy as np

print("FAISS", faiss.__version__)
rows = np.array([[1, 0], [0.5, 0], [3, 0]], np.float32)
query = rows[:1]
for index in (faiss.IndexFlatIP(2), faiss.IndexFlatL2(2)):
  index.add(rows)
  for radius in (0.0, 0.5, 1.0, 4.0, 4.1):
    print(type(index).__name__, radius, sorted(index.range_search(query, radius)[2].tolist()))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "faiss_range_search_is_strict.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
FAISS 1.15.1
IndexFlatIP 0.0 [0, 1, 2]
IndexFlatIP 0.5 [0, 2]
IndexFlatIP 1.0 [2]
IndexFlatIP 4.0 []
IndexFlatIP 4.1 []
IndexFlatL2 0.0 []
IndexFlatL2 0.5 [0, 1]
IndexFlatL2 1.0 [0, 1]
IndexFlatL2 4.0 [0, 1]
IndexFlatL2 4.1 [0, 1, 2]
END
