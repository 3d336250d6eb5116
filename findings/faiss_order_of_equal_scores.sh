#!/usr/bin/env bash
# Guess: among equal scores IndexFlatIP returns the lowest ids, the lowest first, as IndexFlatL2 does.
# Truth: it picks the lowest ids, but returns them from the highest to the lowest; IndexFlatL2 from the lowest. IVF likewise.
# Why it matters: texts that occur twice have equal scores. For vectors of length 1 the two indexes should give one ranking,
#        but the first hit differs, and so do recall at 1 and any comparison of rankings line by line.
# Versions: faiss-cpu 1.15.1, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import faiss
import numpy as np

print("FAISS", faiss.__version__)
rows = np.repeat(np.array([[1, 0]], np.float32), 30, axis=0)
indexes = {
  "IndexFlatIP": faiss.IndexFlatIP(2),
  "IndexFlatL2": faiss.IndexFlatL2(2),
  "IVF1,Flat, inner product": faiss.index_factory(2, "IVF1,Flat", faiss.METRIC_INNER_PRODUCT),
  "IVF1,Flat, L2": faiss.index_factory(2, "IVF1,Flat", faiss.METRIC_L2),
}
for name, index in indexes.items():
  index.train(rows)
  index.add(rows)
  print(name, index.search(rows[:1], 5)[1][0].tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "faiss_order_of_equal_scores.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
FAISS 1.15.1
IndexFlatIP [4, 3, 2, 1, 0]
IndexFlatL2 [0, 1, 2, 3, 4]
IVF1,Flat, inner product [4, 3, 2, 1, 0]
IVF1,Flat, L2 [0, 1, 2, 3, 4]
END
