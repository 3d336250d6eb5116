#!/usr/bin/env bash
# Guess: safetensors.numpy saves a transposed array as what it is, or rejects it, as safetensors.torch does.
# Truth: it writes the memory as it lies, under the new shape: no error, and other numbers when the file is read. The same
#        for a slice of columns. Release 0.7.0 saved the right numbers.
# Why it matters: weights of Keras and PyTorch are transposes of each other, so `save_file({"kernel": weight.T}, ...)` is the
#        obvious line. It needs np.ascontiguousarray around the array.
# Versions: safetensors 0.8.0, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

print("safetensors", safetensors.__version__)
weight = np.arange(6, dtype=np.float32).reshape(2, 3)
for name, array in ("transposed", weight.T), ("columns 0 and 2", weight[:, ::2]):
  save_file({"kernel": array}, "as_it_is.safetensors")
  save_file({"kernel": np.ascontiguousarray(array)}, "contiguous.safetensors")
  print(name, "saved:", array.tolist())
  print("  loaded:", load_file("as_it_is.safetensors")["kernel"].tolist())
  print("  loaded, contiguous:", load_file("contiguous.safetensors")["kernel"].tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "safetensors_transposed_array.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
safetensors 0.8.0
transposed saved: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
  loaded: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
  loaded, contiguous: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
columns 0 and 2 saved: [[0.0, 2.0], [3.0, 5.0]]
  loaded: [[0.0, 1.0], [2.0, 3.0]]
  loaded, contiguous: [[0.0, 2.0], [3.0, 5.0]]
END
