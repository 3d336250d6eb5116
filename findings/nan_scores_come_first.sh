#!/usr/bin/env bash
# Guess: the similarity to a zero vector is NULL or 0, and in any case the last one of a ranking.
# Truth: DuckDB's cosine similarity to a zero vector is NaN, which `ORDER BY score DESC` puts first, and max and arg_max pick.
#        In Polars `max` and `arg_max` skip NaN, but `top_k` and a descending sort put it first, so max() is not top_k(1).
# Why it matters: one empty text with a zero vector becomes the best hit of every query. Leave zero vectors out, or use
#        `ORDER BY isnan(score), score DESC` and fill_nan.
# Versions: DuckDB 2.0.1, Polars 2.1.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0

venv/bin/python > seen.txt << 'END'
import duckdb
import polars as pl

print("DuckDB", duckdb.__version__, "Polars", pl.__version__)
duckdb.sql("CREATE TABLE texts AS SELECT * FROM (VALUES ('same', [1, 2]), ('empty', [0, 0]), ('other', [2, 1])) t(name, vector)")
scores = "SELECT name, array_cosine_similarity(vector::FLOAT[2], [1, 2]::FLOAT[2]) AS score FROM texts"
print("DuckDB, ORDER BY score DESC:", [name for name, _ in duckdb.sql(f"{scores} ORDER BY score DESC").fetchall()])
print("DuckDB, arg_max:", duckdb.sql(f"SELECT arg_max(name, score) FROM ({scores})").fetchall()[0][0])
print("DuckDB, isnan first:", [name for name, _ in duckdb.sql(f"{scores} ORDER BY isnan(score), score DESC").fetchall()])
table = pl.DataFrame({"name": ["same", "empty", "other"], "score": [1.0, float("nan"), 0.8]})
print("Polars, arg_max:", table["name"][table["score"].arg_max()], "max:", table["score"].max())
print("Polars, top_k:", table.top_k(1, by="score")["name"].to_list(), table["score"].top_k(1).to_list())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "nan_scores_come_first.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
DuckDB 2.0.1 Polars 2.1.0
DuckDB, ORDER BY score DESC: ['empty', 'same', 'other']
DuckDB, arg_max: empty
DuckDB, isnan first: ['same', 'other', 'empty']
Polars, arg_max: same max: 1.0
Polars, top_k: ['empty'] [nan]
END
