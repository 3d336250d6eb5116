#!/usr/bin/env bash
# Guess: h5py converts integers as NumPy does, when it writes and when it reads.
# Truth: HDF5 converts, and it clips: 200 in an int8 dataset is 127, where NumPy and zarr make -56.
#        `dataset.astype("int8")[:]` and `dataset[:].astype("int8")` differ. Ids from 2^63 on become one id.
# Why it matters: ids that are 64-bit hashes are uint64; written to an int64 dataset half of them are
#   9223372036854775807, without an error, and cannot be told apart. Quantized vectors (uint8 read as int8) differ by
#   the order of two calls.
# Versions: h5py 3.16.0, zarr 3.1.6, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check h5py==3.16.0 zarr==3.1.6 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import h5py
import numpy as np
import zarr

print("h5py", h5py.__version__, "zarr", zarr.__version__, "NumPy", np.__version__)
values = np.array([200, -200, 5])
ids = np.array([2**63 + 1, 2**63 + 2, 7], np.uint64)
with h5py.File("vectors.h5", "w") as file:
  for name, given, dtype in (("values", values, "int8"), ("ids", ids, "int64")):
    dataset = file.create_dataset(name, given.shape, dtype)
    dataset[:] = given
    array = zarr.create_array(store={}, shape=given.shape, dtype=dtype)
    array[:] = given
    print(given.tolist(), "as", dtype)
    print("  h5py", dataset[:].tolist())
    print("  zarr", array[:].tolist(), "NumPy", given.astype(dtype).tolist())
  codes = file.create_dataset("codes", data=np.array([200, 100], np.uint8))
  print("uint8 200, 100 read as int8:", codes.astype("int8")[:].tolist())
  print("  read, then converted:", codes[:].astype("int8").tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "h5py_clips_where_numpy_wraps.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
h5py 3.16.0 zarr 3.1.6 NumPy 2.4.6
[200, -200, 5] as int8
  h5py [127, -128, 5]
  zarr [-56, 56, 5] NumPy [-56, 56, 5]
[9223372036854775809, 9223372036854775810, 7] as int64
  h5py [9223372036854775807, 9223372036854775807, 7]
  zarr [-9223372036854775807, -9223372036854775806, 7] NumPy [-9223372036854775807, -9223372036854775806, 7]
uint8 200, 100 read as int8: [127, 100]
  read, then converted: [-56, 100]
END
