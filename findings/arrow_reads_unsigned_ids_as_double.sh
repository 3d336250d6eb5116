#!/usr/bin/env bash
# Guess: pyarrow reads a column of integers above 2**63 as uint64, or as strings, or not at all.
# Truth: its readers of CSV and JSON make float64 of the column, so two ids next to each other become equal. No warning.
#        pandas, Polars and DuckDB read the same CSV file exactly.
# Why it matters: unsigned 64-bit hashes are common ids of texts. Give the type: column_types, or explicit_schema for JSON.
# Versions: pyarrow 26.0.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1

venv/bin/python > seen.txt << 'END'
import pyarrow
import pyarrow.csv
import pyarrow.json

print("pyarrow", pyarrow.__version__)
ids = [2**64 - 1, 2**64 - 2]
with open("ids.csv", "w") as file:
  file.write(f"id\n{ids[0]}\n{ids[1]}\n")
with open("ids.jsonl", "w") as file:
  file.write(f'{{"id": {ids[0]}}}\n{{"id": {ids[1]}}}\n')
exact = pyarrow.csv.ConvertOptions(column_types={"id": pyarrow.uint64()})
tables = {
  "CSV": pyarrow.csv.read_csv("ids.csv"),
  "JSON": pyarrow.json.read_json("ids.jsonl"),
  "CSV with the type": pyarrow.csv.read_csv("ids.csv", convert_options=exact),
}
for name, table in tables.items():
  column = table["id"]
  print(f"{name}: {column.type}, different ids: {len(column.unique())}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "arrow_reads_unsigned_ids_as_double.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
pyarrow 26.0.1
CSV: double, different ids: 1
JSON: double, different ids: 1
CSV with the type: uint64, different ids: 2
END
