#!/usr/bin/env bash
# Guess: a search with a limit of at least the number of rows returns every row; `_distance` for "dot" is -dot.
# Truth: with "cosine" rows whose vector is zero are left out without a word, and a query vector of zeros finds nothing at all.
#        For "dot" `_distance` is 1 - dot, which is negative for long vectors.
# Why it matters: an empty text, or one without a known word, has a zero vector in many encoders: it disappears from results,
#        and counts of hits differ between metrics.
# Versions: lancedb 0.40.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lancedb==0.40.0

venv/bin/python > seen.txt << 'END'
import lancedb

print("lancedb", lancedb.__version__)
rows = [{"id": 0, "vector": [0.0, 0.0]}, {"id": 1, "vector": [1.0, 0.0]}, {"id": 2, "vector": [3.0, 4.0]}]
table = lancedb.connect("folder").create_table("texts", rows)
for metric in ("l2", "cosine", "dot"):
  for query in ([1.0, 0.0], [0.0, 0.0]):
    hits = table.search(query).distance_type(metric).limit(10).to_list()
    print(metric, query, {hit["id"]: round(hit["_distance"], 4) for hit in hits})
END
cat seen.txt

diff - seen.txt << 'END' || { echo "lancedb_zero_vectors.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
lancedb 0.40.0
l2 [1.0, 0.0] {1: 0.0, 0: 1.0, 2: 20.0}
l2 [0.0, 0.0] {0: 0.0, 1: 1.0, 2: 25.0}
cosine [1.0, 0.0] {1: 0.0, 2: 0.4}
cosine [0.0, 0.0] {}
dot [1.0, 0.0] {2: -2.0, 1: 0.0, 0: 1.0}
dot [0.0, 0.0] {0: 1.0, 1: 1.0, 2: 1.0}
END
