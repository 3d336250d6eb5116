#!/usr/bin/env bash
# Guess: QdrantClient(":memory:") stores vectors of a collection with datatype UINT8 or FLOAT16 in that type.
# Truth: local mode ignores the datatype and keeps float32, so 3.7 stays 3.7 in a UINT8 collection, and fractions count in
#        scores. Under COSINE a vector comes back scaled to length 1, not as it was added.
# Why it matters: a test in local mode cannot show what the smaller type costs.
# Versions: qdrant-client 1.20.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check qdrant-client==1.20.0

venv/bin/python > seen.txt << 'END'
from importlib import metadata

from qdrant_client import QdrantClient, models

print("qdrant-client", metadata.version("qdrant-client"))
client = QdrantClient(":memory:")
cases = [("UINT8", "DOT", [3.7, 0.3]), ("FLOAT16", "DOT", [0.1, 2049.0]), ("FLOAT32", "COSINE", [3.0, 4.0])]
for datatype, distance, vector in cases:
  settings = models.VectorParams(size=2, distance=models.Distance[distance], datatype=models.Datatype[datatype])
  client.create_collection(datatype, vectors_config=settings)
  client.upsert(datatype, [models.PointStruct(id=1, vector=vector)])
  stored = client.retrieve(datatype, [1], with_vectors=True)[0].vector
  score = client.query_points(datatype, [1.0, 1.0]).points[0].score
  print(datatype, distance, vector, "stored", [round(value, 4) for value in stored], "score", round(score, 4))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "qdrant_local_mode_keeps_floats.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
qdrant-client 1.20.0
UINT8 DOT [3.7, 0.3] stored [3.7, 0.3] score 4.0
FLOAT16 DOT [0.1, 2049.0] stored [0.1, 2049.0] score 2049.1
FLOAT32 COSINE [3.0, 4.0] stored [0.6, 0.8] score 0.9899
END
