#!/usr/bin/env bash
# Guess: `vec_to_json` writes numbers that `vec_f32` reads back as the same vector.
# Truth: it writes six decimals, whatever the size: 1e-7 is 0.000000, and of a unit vector of 768 numbers few come back
#        equal. NaN is written as null, which vec_f32 rejects. Vectors given as JSON are read in full.
# Why it matters: exports and copies by SQL's text: exact duplicates and cosines of 1 are lost, hashes of vectors
#   change, and small numbers (a whitened or scaled embedding) vanish. Copy the blob.
# Versions: apsw 3.54.1.0, sqlite-vec 0.1.9, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check apsw==3.54.1.0 sqlite-vec==0.1.9 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import json

import apsw
import numpy as np
import sqlite_vec

connection = apsw.Connection(":memory:")
connection.enable_load_extension(True)
connection.load_extension(sqlite_vec.loadable_path())


def ask(query, value):
  return connection.execute(query, (value,)).fetchall()[0][0]


print("sqlite-vec", connection.execute("select vec_version()").fetchall()[0][0])
print("written:", ask("select vec_to_json(?)", np.array([0.1, 1e-7, 12345678], np.float32).tobytes()))
row = np.random.default_rng(0).normal(size=768)
row = (row / np.linalg.norm(row)).astype(np.float32)
back = np.frombuffer(ask("select vec_f32(vec_to_json(?))", row.tobytes()), np.float32)
equal = int((row == back).sum())
print("a unit vector of 768 numbers, written and read:", equal, f"are equal, largest difference {abs(row - back).max():.0e}")
back = np.frombuffer(ask("select vec_f32(?)", json.dumps(row.tolist())), np.float32)
print("given as JSON: all equal:", bool((row == back).all()))
text = ask("select vec_to_json(?)", np.array([np.nan, 1], np.float32).tobytes())
try:
  print(text, ask("select vec_f32(?)", text))
except apsw.SQLError as error:
  print("NaN:", text, "read: SQLError:", error)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "sqlite_vec_json_has_six_decimals.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
sqlite-vec v0.1.9
written: [0.100000,0.000000,12345678.000000]
a unit vector of 768 numbers, written and read: 2 are equal, largest difference 5e-07
given as JSON: all equal: True
NaN: [null,1.000000] read: SQLError: JSON parsing error
END
