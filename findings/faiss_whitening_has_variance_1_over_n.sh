#!/usr/bin/env bash
# Guess: PCAMatrix with eigen_power=-0.5, FAISS's whitening, gives features of variance 1.
# Truth: the variance is 1/n for n training vectors, since the covariance is not divided by n. The scale of the result depends
#        on how many vectors were used to train it: ten times the vectors, a tenth of the variance.
# Why it matters: cosine similarities are as they should be, but distances, radii and thresholds are not those of whitening as
#        scikit-learn or the BERT-whitening paper have it. Multiply by the square root of n.
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
for n in (100, 1000):
  rows = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
  whitening = faiss.PCAMatrix(4, 4, -0.5)
  whitening.train(rows)
  variances = whitening.apply(rows).var(axis=0)
  print(f"trained on {n} rows: variances", [f"{variance:.4f}" for variance in variances])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "faiss_whitening_has_variance_1_over_n.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
FAISS 1.15.1
trained on 100 rows: variances ['0.0100', '0.0100', '0.0100', '0.0100']
trained on 1000 rows: variances ['0.0010', '0.0010', '0.0010', '0.0010']
END
