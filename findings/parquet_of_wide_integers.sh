#!/usr/bin/env bash
# Guess: DuckDB and Polars, which both read 20-digit ids from CSV exactly (as 128-bit integers), write them to Parquet so that
#        they stay exact, or refuse.
# Truth: DuckDB writes DOUBLE, and different ids become equal. It reads them from JSON as DOUBLE, too. Polars writes 16 bytes
#        that only Polars reads as a number: DuckDB sees a BLOB, pyarrow raises ArrowNotImplementedError.
# Why it matters: a corpus with long ids loses rows in the next join or deduplication. Cast to DECIMAL(38, 0) or VARCHAR first.
# Versions: DuckDB 2.0.1, Polars 2.1.0, pyarrow 26.0.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1

venv/bin/python > seen.txt << 'END'
import duckdb
import polars as pl
import pyarrow.parquet as pq

print("DuckDB", duckdb.__version__, "Polars", pl.__version__)
with open("ids.csv", "w") as file:
  file.write("id\n100000000000000000001\n100000000000000000002\n")
with open("ids.jsonl", "w") as file:
  file.write('{"id": 100000000000000000001}\n{"id": 100000000000000000002}\n')
duckdb.sql("COPY (FROM 'ids.csv') TO 'duckdb.parquet'")
duckdb.sql("COPY (SELECT id::DECIMAL(38, 0) AS id FROM 'ids.csv') TO 'decimal.parquet'")
for name in ("ids.csv", "ids.jsonl", "duckdb.parquet", "decimal.parquet"):
  print("DuckDB,", name, duckdb.sql(f"SELECT any_value(typeof(id)), count(DISTINCT id) FROM '{name}'").fetchall()[0])
table = pl.read_csv("ids.csv")
table.write_parquet("polars.parquet")
print("Polars, ids.csv:", table.schema["id"], "polars.parquet:", pl.read_parquet("polars.parquet").schema["id"])
print("DuckDB, polars.parquet:", duckdb.sql("SELECT any_value(typeof(id)) FROM 'polars.parquet'").fetchall()[0][0])
try:
  print("pyarrow, polars.parquet:", pq.read_table("polars.parquet").schema)
except NotImplementedError as error:
  print("pyarrow, polars.parquet:", type(error).__name__)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "parquet_of_wide_integers.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
DuckDB 2.0.1 Polars 2.1.0
DuckDB, ids.csv ('HUGEINT', 2)
DuckDB, ids.jsonl ('DOUBLE', 1)
DuckDB, duckdb.parquet ('DOUBLE', 1)
DuckDB, decimal.parquet ('DECIMAL(38,0)', 2)
Polars, ids.csv: Int128 polars.parquet: Int128
DuckDB, polars.parquet: BLOB
pyarrow, polars.parquet: ArrowNotImplementedError
END
