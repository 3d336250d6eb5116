#!/usr/bin/env bash
# Guess: a sum of 768 ones is 768 in bfloat16 and in float16, along any axis; if not, then in both or in neither.
# Truth: NumPy adds bfloat16 in bfloat16, one number after the other, so the sum stops at 256 and the mean of ones is 0.33.
#        The product `ones @ ones` is 768. float16 is added in pairs along the last axis, but not along the first one,
#        where a sum of 4,000 ones stops at 2048.
# Why it matters: mean pooling is a sum along an axis. Vectors in half precision are summed in float32: `sum(dtype="float32")`.
# Versions: NumPy 2.4.6, ml_dtypes 0.6.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.6.0

venv/bin/python > seen.txt << 'END'
import ml_dtypes
import numpy as np

print("NumPy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
ones = np.ones(768, ml_dtypes.bfloat16)
print("bfloat16, 768 ones: sum", ones.sum(), "mean", ones.mean(), "product", ones @ ones)
print("bfloat16, summed in float32:", ones.sum(dtype=np.float32))
ones = np.ones(4000, np.float16)
print("float16, 4000 ones: along the last axis", float(ones.sum()), "along the first", float(ones[:, None].repeat(2, 1).sum(0)[0]))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "numpy_half_precision_sums.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
NumPy 2.4.6 ml_dtypes 0.6.0
bfloat16, 768 ones: sum 256 mean 0.333984 product 768.0
bfloat16, summed in float32: 768.0
float16, 4000 ones: along the last axis 4000.0 along the first 2048.0
END
