#!/usr/bin/env bash
# Guess: DuckDB rounds halves to integers in one way.
# Truth: a cast rounds DOUBLE to the even number (2.5 is 2), but DECIMAL and text away from zero (3), and so does
#        `round`, for DOUBLE as well. 2.5 in a query is DECIMAL: a test with a written number shows another rule than
#        the column has.
# Why it matters: gold scores have halves (2.5 of 5), and grades for a ranking are their integers; int8 codes are
#   rounded numbers. The same scores have other grades as DOUBLE than as DECIMAL or text. Name the rule: `round` or
#   `round_even`.
# Versions: DuckDB 2.0.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import duckdb

print("DuckDB", duckdb.__version__)
query = """
  select x, x::INTEGER, x::FLOAT::INTEGER, x::DECIMAL(3, 1)::INTEGER, x::VARCHAR::INTEGER, round(x)::INTEGER,
    round_even(x, 0)::INTEGER
  from (values (0.5::DOUBLE), (2.5), (-2.5)) numbers(x)
"""
print("DOUBLE, as INTEGER, by FLOAT, by DECIMAL, by VARCHAR, round, round_even")
for row in duckdb.sql(query).fetchall():
  print(row)
print("written in the query:", duckdb.sql("select typeof(2.5), 2.5::INTEGER, [0.5, 2.5]::TINYINT[]").fetchall()[0])
print("of a DOUBLE[]:", duckdb.sql("select [0.5, 2.5]::DOUBLE[]::TINYINT[]").fetchall()[0][0])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "duckdb_rounds_by_type.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
DuckDB 2.0.1
DOUBLE, as INTEGER, by FLOAT, by DECIMAL, by VARCHAR, round, round_even
(0.5, 0, 0, 1, 1, 1, 0)
(2.5, 2, 2, 3, 3, 3, 2)
(-2.5, -2, -2, -3, -3, -3, -2)
written in the query: ('DECIMAL(2,1)', 3, [1, 3])
of a DOUBLE[]: [0, 2]
END
