#!/usr/bin/env bash
# Guess: `column.values` of a slice of a fixed-size list column holds the slice's numbers, one row per embedding.
# Truth: it holds the numbers of the whole column, from its first row on. `flatten()` respects the slice, but leaves out
#        rows that are null, whose numbers `values` has (as null). Neither alone gives one row per embedding.
# Why it matters: `np.reshape(slice.values, (-1, dim))` is the usual way from Arrow to a matrix of embeddings; the first rows of
#        the file take the place of the slice's rows. Use flatten(), after a check that null_count is zero.
# Versions: pyarrow 26.0.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1

venv/bin/python > seen.txt << 'END'
import pyarrow as pa

print("pyarrow", pa.__version__)
embeddings = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
part = embeddings.slice(2)
print("slice", part.to_pylist())
print("values", part.values.to_pylist())
print("flatten", part.flatten().to_pylist())
missing = pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32(), 2))
print("with a null row: values", missing.values.to_pylist(), "flatten", missing.flatten().to_pylist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "arrow_values_of_a_slice.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
pyarrow 26.0.1
slice [[5.0, 6.0]]
values [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
flatten [5.0, 6.0]
with a null row: values [1.0, 2.0, None, None, 5.0, 6.0] flatten [1.0, 2.0, 5.0, 6.0]
END
