#!/usr/bin/env bash
# Guess: `mean` and `std` of a float16 array are equally good, as they go over the same numbers.
# Truth: `mean` adds in float32. `std` and `var` compute their own mean, in float16: over the rows for a mean of .5 its
#        sum stops growing at some 4,000 rows, and the deviation is from a wrong center, with no warning. Of 100,000
#        numbers it is infinite. pandas is right for these rows, and gives 0 for 100,000 numbers.
# Why it matters: the standard deviation of each dimension (standardizing, whitening, drift of a collection) of a
#   float16 shard, and that of scores. `std(axis=0, dtype="float32")` is right.
# Versions: NumPy 2.4.6, pandas 3.1.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 pandas==3.1.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import pandas as pd

print("NumPy", np.__version__, "pandas", pd.__version__)
rows = np.random.default_rng(0).normal(0.5, 0.1, (20000, 3)).astype(np.float16)
for n in (1000, 4000, 8000, 20000):
  part = rows[:n]
  wide = part.std(axis=0, dtype=np.float32)[0]
  pandas = pd.DataFrame(part).std().iloc[0]
  mean, std = part.mean(axis=0)[0], part.std(axis=0)[0]
  print(n, f"rows: mean {mean:.2f} std {std:.2f} in float32 {wide:.2f} pandas {pandas:.2f}")
scores = np.tile(np.array([0.5, 1], np.float16), 50000)
wide = scores.std(dtype=np.float32)
pandas = pd.Series(scores).std()
print("100000 scores: mean", scores.mean(), "std", scores.std(), f"in float32 {wide:.2f} pandas {pandas:.2f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "numpy_std_of_float16.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
NumPy 2.4.6 pandas 3.1.1
1000 rows: mean 0.49 std 0.10 in float32 0.10 pandas 0.10
4000 rows: mean 0.50 std 0.10 in float32 0.10 pandas 0.10
8000 rows: mean 0.50 std 0.22 in float32 0.10 pandas 0.10
20000 rows: mean 0.50 std 0.23 in float32 0.10 pandas 0.10
100000 scores: mean 0.75 std inf in float32 0.25 pandas 0.00
END
