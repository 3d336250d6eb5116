#!/usr/bin/env bash
# Guess: whether safetensors.numpy reads bfloat16 depends on its version, and load and load_file agree.
# Truth: load_file and safe_open read it if anything in the process has imported ml_dtypes (TensorFlow does), and raise
#        TypeError otherwise. load of the same bytes raises KeyError in any case.
# Why it matters: checkpoints of encoders are bfloat16 today; a script that reads them with NumPy works beside TensorFlow
#        and fails alone. `import ml_dtypes` first.
# Versions: safetensors 0.8.0, ml_dtypes 0.6.0, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check safetensors==0.8.0 ml_dtypes==0.6.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import json
import pathlib
import struct
from importlib import metadata

import safetensors
import safetensors.numpy

print("safetensors", metadata.version("safetensors"), "ml_dtypes", metadata.version("ml_dtypes"))
header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
header += b" " * (-len(header) % 8)
content = struct.pack("<Q", len(header)) + header + struct.pack("<2H", 0x3F80, 0x4020)
pathlib.Path("x.safetensors").write_bytes(content)


def report(name, read):
  try:
    array = read()
    print(f"  {name}: {array.dtype}", array.tolist())
  except Exception as error:
    print(f"  {name}: {type(error).__name__}")


def report_all():
  report("load_file", lambda: safetensors.numpy.load_file("x.safetensors")["x"])
  report("safe_open", lambda: safetensors.safe_open("x.safetensors", "np").get_tensor("x"))
  report("load", lambda: safetensors.numpy.load(content)["x"])


print("alone")
report_all()
import ml_dtypes  # noqa: E402, F401

print("after import ml_dtypes")
report_all()
END
cat seen.txt

diff - seen.txt << 'END' || { echo "safetensors_bfloat16_needs_an_import.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
safetensors 0.8.0 ml_dtypes 0.6.0
alone
  load_file: TypeError
  safe_open: TypeError
  load: KeyError
after import ml_dtypes
  load_file: bfloat16 [1.0, 2.5]
  safe_open: bfloat16 [1.0, 2.5]
  load: KeyError
END
