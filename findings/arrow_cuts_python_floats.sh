#!/usr/bin/env bash
# Guess: pyarrow does not put 1.7 in an int8 column unless `safe=False` says so.
# Truth: it cuts the fraction when the numbers come as Python or NumPy numbers in a list, also when they are the rows of
#        a list column: 1.7 is 1, -2.9 is -2. The same numbers as one NumPy array, as a column of a data frame, or by
#        `cast` are an error.
# Why it matters: int8 embeddings are a list<int8> column. Scaled but not rounded, they are cut toward zero, up to a
#   whole step, and a column of grades loses its halves; the check that stops it elsewhere does not run. Round first.
# Versions: pyarrow 26.0.1, NumPy 2.4.6, pandas 3.1.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import pandas as pd
import pyarrow as pa

print("pyarrow", pa.__version__)
rows = pa.list_(pa.int8(), 2)
frame = pd.DataFrame({"score": [1.7]})
cases = {
  "a list": lambda: pa.array([1.7], pa.int8()),
  "an array": lambda: pa.array(np.array([1.7]), pa.int8()),
  "a list of lists": lambda: pa.array([[1.7, -2.9]], rows),
  "a list of arrays": lambda: pa.array([np.array([1.7, -2.9], np.float32)], rows),
  "a cast of it": lambda: pa.array([[1.7, -2.9]]).cast(rows),
  "records": lambda: pa.Table.from_pylist([{"score": 1.7}], schema=pa.schema([("score", pa.int8())])).column(0),
  "a data frame": lambda: pa.Table.from_pandas(frame, schema=pa.schema([("score", pa.int8())])).column(0),
}
for name, case in cases.items():
  try:
    print(name, case().to_pylist())
  except pa.ArrowInvalid as error:
    print(name, "ArrowInvalid:", str(error).split(",")[0].strip("('"))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "arrow_cuts_python_floats.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
pyarrow 26.0.1
a list [1]
an array ArrowInvalid: Float value 1.700000 was truncated converting to int8
a list of lists [[1, -2]]
a list of arrays [[1, -2]]
a cast of it ArrowInvalid: Float value 1.700000 was truncated converting to int8
records [1]
a data frame ArrowInvalid: Float value 1.700000 was truncated converting to int8
END
