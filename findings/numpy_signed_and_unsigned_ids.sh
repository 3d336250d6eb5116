#!/usr/bin/env bash
# Guess: NumPy's set functions agree with each other: ids that setdiff1d calls different are not in the intersection.
# Truth: for an int64 and a uint64 array, isin and setdiff1d compare exactly, but intersect1d and union1d first make float64
#        of both, so neighbors above 2**53 become one id. pandas.concat of the two columns is float64 as well.
# Why it matters: row ids are often int64 in one file and unsigned 64-bit hashes in the other; an overlap that is looked
#        for with intersect1d finds rows that are not shared.
# Versions: NumPy 2.4.6, pandas 3.1.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 pandas==3.1.1

venv/bin/python > seen.txt << 'END'
import numpy as np
import pandas as pd

print("NumPy", np.__version__, "pandas", pd.__version__)
ours = np.array([2**62 + 1], np.int64)
theirs = np.array([2**62], np.uint64)
print("isin", np.isin(ours, theirs), "setdiff1d", np.setdiff1d(ours, theirs))
shared = np.intersect1d(ours, theirs)
print("intersect1d", shared, shared.dtype)
print("union1d holds", len(np.union1d(ours, theirs)))
both = pd.concat([pd.Series(ours), pd.Series(theirs)])
print("pandas.concat", both.dtype, "different ids:", both.nunique())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "numpy_signed_and_unsigned_ids.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
NumPy 2.4.6 pandas 3.1.1
isin [False] setdiff1d [4611686018427387905]
intersect1d [4.61168602e+18] float64
union1d holds 1
pandas.concat float64 different ids: 1
END
