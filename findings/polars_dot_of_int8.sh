#!/usr/bin/env bash
# Guess: `dot` of int8 or uint8 columns has room, as `sum` has: both give Int64.
# Truth: the products are computed in 8 bits, where they wrap around, and the wrapped ones are added as Int64: 768 times
#        100 * 100 in int8 is 12288, not 7680000. `arr.dot`, `Series.dot` and a product with `arr.sum` alike. DuckDB's
#        list_inner_product is right.
# Why it matters: the dot product of quantized embeddings is their similarity. The dtype of the answer looks safe, and
#   no error comes; the ranking is noise. Cast to Int32 before.
# Versions: Polars 2.1.0, DuckDB 2.0.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check polars==2.1.0 duckdb==2.0.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import duckdb
import polars as pl

print("Polars", pl.__version__, "DuckDB", duckdb.__version__)
for dtype, sql, value in ((pl.Int8, "TINYINT", 100), (pl.UInt8, "UTINYINT", 200)):
  row = pl.Series("a", [[value] * 768], pl.Array(dtype, 768))
  frame = row.to_frame()
  wide = pl.col("a").cast(pl.Array(pl.Int32, 768))
  answers = frame.select(
    pl.col("a").arr.dot(pl.col("a")).alias("arr.dot"),
    (pl.col("a") * pl.col("a")).arr.sum().alias("product and arr.sum"),
    pl.col("a").arr.sum().alias("arr.sum"),
    wide.arr.dot(wide).alias("Int32's arr.dot"),
  )
  print(f"768 times {value} as {dtype}")
  for name, column in answers.to_dict().items():
    print(" ", name, column.dtype, column.item())
  print("  Series.dot", pl.Series([value] * 768, dtype=dtype).dot(pl.Series([value] * 768, dtype=dtype)))
  numbers = f"list_resize([]::{sql}[], 768, {value})"
  print("  DuckDB", duckdb.sql(f"select list_inner_product({numbers}, {numbers})").fetchall()[0][0])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "polars_dot_of_int8.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
Polars 2.1.0 DuckDB 2.0.1
768 times 100 as Int8
  arr.dot Int64 12288
  product and arr.sum Int64 12288
  arr.sum Int64 76800
  Int32's arr.dot Int32 7680000
  Series.dot 12288
  DuckDB 7680000.0
768 times 200 as UInt8
  arr.dot Int64 49152
  product and arr.sum Int64 49152
  arr.sum Int64 153600
  Int32's arr.dot Int32 30720000
  Series.dot 49152
  DuckDB 30720000.0
END
