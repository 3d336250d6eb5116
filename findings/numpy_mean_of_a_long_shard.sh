#!/usr/bin/env bash
# Guess: NumPy's float32 mean of many rows is right to some six digits, as it adds in pairs.
# Truth: it adds in pairs along a row only. Over the rows it adds one after the other: of 2^24 rows (mean .1, deviation
#        .02) the mean is .1085, and the deviation is wrong as well. A single column is right, and so is the transposed
#        array. scikit-learn's PCA inherits it, StandardScaler does not.
# Why it matters: centering or whitening a collection of tens of millions of embeddings removes another vector than the
#   mean. How far it is off depends on the dimension: .302 for a mean of .3, .754 for .7, right to four digits for .5.
#   `mean(axis=0, dtype="float64")` is right.
# Versions: NumPy 2.4.6, scikit-learn 1.9.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 scikit-learn==1.9.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import sklearn
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

print("NumPy", np.__version__, "scikit-learn", sklearn.__version__)
rows = np.random.default_rng(0).normal(0.1, 0.02, (2**24, 2)).astype(np.float32)
for n in (2**20, 2**24):
  part = rows[:n]
  print(
    f"{n} rows: mean {part.mean(axis=0)[0]:.4f} in float64 {part.mean(axis=0, dtype=np.float64)[0]:.4f}",
    f"one column {part[:, 0].mean():.4f} transposed {part.T.copy().mean(axis=1)[0]:.4f}",
    f"std {part.std(axis=0)[0]:.4f} in float64 {part.std(axis=0, dtype=np.float64)[0]:.4f}",
  )
pca = PCA(2, svd_solver="covariance_eigh").fit(rows)
print(f"PCA's mean {pca.mean_[0]:.4f} StandardScaler's {StandardScaler().fit(rows).mean_[0]:.4f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "numpy_mean_of_a_long_shard.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
NumPy 2.4.6 scikit-learn 1.9.1
1048576 rows: mean 0.1000 in float64 0.1000 one column 0.1000 transposed 0.1000 std 0.0200 in float64 0.0200
16777216 rows: mean 0.1085 in float64 0.1000 one column 0.1000 transposed 0.1000 std 0.0214 in float64 0.0200
PCA's mean 0.1085 StandardScaler's 0.1000
END
