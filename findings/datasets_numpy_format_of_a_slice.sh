#!/usr/bin/env bash
# Guess: `with_format("numpy")` keeps the types of the columns, and ds[0]["id"] equals ds[:]["id"][0].
# Truth: one row keeps the column's types. A slice gives int64 and float32 whatever the column is: an unsigned id from 2**63 up
#        turns negative, float64 loses digits, and float16 and int8 grow. No warning.
# Why it matters: 64-bit hashes as ids, and scores in float64, come back as other numbers from a batch than from a row.
# Versions: datasets 5.2.0, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import datasets
import numpy as np

print("datasets", datasets.__version__)
columns = {"id": np.array([2**63 + 5], np.uint64), "score": np.array([0.1]), "half": np.array([0.5], np.float16)}
dataset = datasets.Dataset.from_dict(columns).with_format("numpy")
print({name: feature.dtype for name, feature in dataset.features.items()})
row, rows = dataset[0], dataset[:]
for name in columns:
  print(f"{name}: row {row[name].dtype} {row[name]}, slice {rows[name].dtype} {rows[name][0]}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "datasets_numpy_format_of_a_slice.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
datasets 5.2.0
{'id': 'uint64', 'score': 'float64', 'half': 'float16'}
id: row uint64 9223372036854775813, slice int64 -9223372036854775803
score: row float64 0.1, slice float32 0.10000000149011612
half: row float16 0.5, slice float32 0.5
END
