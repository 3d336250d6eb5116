#!/usr/bin/env bash
# Guess: SciPy's distances of float16 vectors are right to float16's three digits.
# Truth: `cosine` and `correlation` multiply the two squared lengths in float16, which ends at 65504. For vectors longer
#        than 16 they are 1, for a vector and itself as for a vector and its opposite, and NaN for those longer than
#        255. `cdist` computes in float64, and is right.
# Why it matters: a BERT's vectors have lengths near 16, and are often stored as float16: 1 says that a text is
#   unrelated to itself. It is no NaN that anyone would see. Convert to float32 first.
# Versions: SciPy 1.17.1, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import scipy
from scipy.spatial.distance import cdist, correlation, cosine

print("SciPy", scipy.__version__, "NumPy", np.__version__)
row = np.random.default_rng(0).normal(size=768)
row /= np.linalg.norm(row)
for length in (10, 15, 17, 100, 300):
  x = (length * row).astype(np.float16)
  for name, y in (("itself", x), ("its opposite", -x)):
    answers = cosine(x, y), correlation(x, y), cdist(x[None], y[None], "cosine")[0, 0]
    print("length", length, "with", name, "cosine {:.3f} correlation {:.3f} cdist {:.3f}".format(*answers))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "scipy_distances_of_float16.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
SciPy 1.17.1 NumPy 2.4.6
length 10 with itself cosine 0.000 correlation 0.000 cdist 0.000
length 10 with its opposite cosine 2.000 correlation 2.000 cdist 2.000
length 15 with itself cosine 0.000 correlation 0.000 cdist 0.000
length 15 with its opposite cosine 2.000 correlation 2.000 cdist 2.000
length 17 with itself cosine 1.000 correlation 1.000 cdist 0.000
length 17 with its opposite cosine 1.000 correlation 1.000 cdist 2.000
length 100 with itself cosine 1.000 correlation 1.000 cdist 0.000
length 100 with its opposite cosine 1.000 correlation 1.000 cdist 2.000
length 300 with itself cosine nan correlation nan cdist 0.000
length 300 with its opposite cosine nan correlation nan cdist 2.000
END
