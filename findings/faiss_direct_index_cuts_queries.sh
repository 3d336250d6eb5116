#!/usr/bin/env bash
# Guess: an index of 8-bit numbers (QT_8bit_direct) compares a float query as it is, as QT_8bit and QT_fp16 do.
# Truth: for 768 dimensions the query is cut to integers as well, by the code for AVX2 and AVX-512: a query of numbers
#        below 1 has a score of 0 with all. For 767 dimensions, or without that code (FAISS_SIMD_LEVEL=NONE), it is not
#        cut. The signed type likewise.
# Why it matters: vectors in int8 or uint8 are searched with float queries, and unit vectors have no number above 1: all
#   scores are 0, and the first documents of the index win. Scale the query as the vectors, and round it.
# Versions: faiss-cpu 1.15.1, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.4.6

cat > search.py << 'END'
import sys

import faiss
import numpy as np

if len(sys.argv) == 1:
  print("FAISS", faiss.__version__)
kinds = {
  "QT_8bit_direct": faiss.ScalarQuantizer.QT_8bit_direct,
  "QT_8bit_direct_signed": faiss.ScalarQuantizer.QT_8bit_direct_signed,
  "QT_fp16": faiss.ScalarQuantizer.QT_fp16,
}
for name, kind in kinds.items():
  for size in (767, 768):
    index = faiss.IndexScalarQuantizer(size, kind, faiss.METRIC_INNER_PRODUCT)
    index.add(np.full((1, size), 100, np.float32))
    scores = [index.search(np.full((1, size), value, np.float32), 1)[0].item() / size for value in (0.5, 1.75, -0.5)]
    print(*sys.argv[1:], name, size, "dimensions, 100 times .5, 1.75, -.5:", *scores)
END
venv/bin/python search.py 2> log.txt > seen.txt || { cat log.txt >&2; exit 1; }
FAISS_SIMD_LEVEL=NONE venv/bin/python search.py "without SIMD:" 2> log.txt >> seen.txt || { cat log.txt >&2; exit 1; }
cat seen.txt

diff - seen.txt << 'END' || { echo "faiss_direct_index_cuts_queries.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
FAISS 1.15.1
QT_8bit_direct 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
QT_8bit_direct 768 dimensions, 100 times .5, 1.75, -.5: 0.0 100.0 0.0
QT_8bit_direct_signed 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
QT_8bit_direct_signed 768 dimensions, 100 times .5, 1.75, -.5: 0.0 100.0 0.0
QT_fp16 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
QT_fp16 768 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_8bit_direct 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_8bit_direct 768 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_8bit_direct_signed 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_8bit_direct_signed 768 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_fp16 767 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
without SIMD: QT_fp16 768 dimensions, 100 times .5, 1.75, -.5: 50.0 175.0 -50.0
END
