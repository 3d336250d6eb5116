#!/usr/bin/env bash
# Guess: an assignment of more rows than an array has places for is an error in zarr, as in NumPy and h5py.
# Truth: rows past the end are dropped without an error: of three rows assigned to 2:5 of an array of four, two are
#        written; of three assigned to 4:7, none. The shape of the rows is compared with the slice as written, not with
#        what is left of it.
# Why it matters: embeddings are written shard after shard to an array made for a counted corpus. Where the count was
#   too low (a blank line, a header, a changed file), the last texts have no vectors, and nothing says so. `append`
#   grows the array.
# Versions: zarr 3.1.6, h5py 3.16.0, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check zarr==3.1.6 h5py==3.16.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import h5py
import numpy as np
import zarr

print("zarr", zarr.__version__, "h5py", h5py.__version__, "NumPy", np.__version__)
rows = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
with h5py.File("vectors.h5", "w") as file:
  for start in (2, 4):
    arrays = {
      "zarr": zarr.create_array(store={}, shape=(4, 2), dtype="float32"),
      "h5py": file.create_dataset(f"rows{start}", (4, 2), "float32"),
      "NumPy": np.zeros((4, 2), np.float32),
    }
    for name, array in arrays.items():
      try:
        array[start : start + 3] = rows
        print(name, f"{start}:{start + 3} of 4:", array[:].tolist())
      except (TypeError, ValueError) as error:
        print(name, f"{start}:{start + 3} of 4:", type(error).__name__)
array = zarr.create_array(store={}, shape=(4, 2), dtype="float32")
array.append(rows)
print("zarr, append:", array.shape)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "zarr_drops_rows_beyond_the_end.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
zarr 3.1.6 h5py 3.16.0 NumPy 2.4.6
zarr 2:5 of 4: [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]
h5py 2:5 of 4: TypeError
NumPy 2:5 of 4: ValueError
zarr 4:7 of 4: [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
h5py 4:7 of 4: TypeError
NumPy 4:7 of 4: ValueError
zarr, append: (7, 2)
END
