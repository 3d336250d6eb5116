#!/usr/bin/env bash
# Guess: a zero vector, whose cosine sqlite-vec gives as NULL, is last among the neighbors, or left out.
# Truth: its place depends on the order in which the vectors came. Stored before the others, zero vectors are the
#        nearest of each query, and fill its k: the equal vector is not found. Stored after them they are last.
# Why it matters: an embedding of zeros (an empty text, a text of unknown words, a failed batch) makes other texts
#   unfindable, and re-creating the table in another order changes results. Leave such rows out of the table.
# Versions: apsw 3.54.1.0, sqlite-vec 0.1.9. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check apsw==3.54.1.0 sqlite-vec==0.1.9

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import apsw
import sqlite_vec

connection = apsw.Connection(":memory:")
connection.enable_load_extension(True)
connection.load_extension(sqlite_vec.loadable_path())
print("sqlite-vec", connection.execute("select vec_version()").fetchall()[0][0])
print("the cosine distance to zeros:", connection.execute("select vec_distance_cosine('[0, 0]', '[1, 0]')").fetchall()[0][0])
vectors = {"zero 1": "[0, 0]", "zero 2": "[0, 0]", "near": "[1, 0.5]", "equal": "[1, 0]"}
for name, order in (("zeros first", list(vectors)), ("zeros last", ["near", "equal", "zero 1", "zero 2"])):
  connection.execute("drop table if exists texts")
  connection.execute("create virtual table texts using vec0(embedding float[2] distance_metric=cosine)")
  for i, key in enumerate(order):
    connection.execute("insert into texts(rowid, embedding) values (?, ?)", (i, vectors[key]))
  for k in (2, 4):
    found = connection.execute(f"select rowid from texts where embedding match '[1, 0]' and k = {k}").fetchall()
    print(f"{name}, k = {k}:", [order[row] for (row,) in found])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "sqlite_vec_zero_vectors.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
sqlite-vec v0.1.9
the cosine distance to zeros: None
zeros first, k = 2: ['zero 1', 'zero 2']
zeros first, k = 4: ['zero 1', 'zero 2', 'equal', 'near']
zeros last, k = 2: ['equal', 'near']
zeros last, k = 4: ['equal', 'near', 'zero 1', 'zero 2']
END
