#!/usr/bin/env bash
# Guess: BM25Okapi replaces negative weights of frequent words by a small positive one, so a matching document scores above
#        one that does not match.
# Truth: the replacement is 0.25 times the mean weight, which is negative itself in a small collection of similar documents:
#        documents with the word then score below those without. A word in just half of the documents weighs nothing, so
#        in a collection of two documents no query that tells them apart has any score.
# Why it matters: hybrid search adds lexical scores to cosines, and small collections are what one tries first.
# Versions: rank-bm25 0.2.2. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check rank-bm25==0.2.2

venv/bin/python > seen.txt << 'END'
from importlib import metadata

from rank_bm25 import BM25Okapi

print("rank-bm25", metadata.version("rank-bm25"))
collections = [
  (["red car", "red car", "red car", "bus"], "red"),
  (["the cat sat", "the dog ran"], "cat"),
]
for documents, query in collections:
  index = BM25Okapi([document.split() for document in documents])
  scores = [round(float(score), 4) for score in index.get_scores([query])]
  print(f"{query!r}:", list(zip(documents, scores, strict=True)))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "rank_bm25_negative_scores.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
rank-bm25 0.2.2
'red': [('red car', -0.0663), ('red car', -0.0663), ('red car', -0.0663), ('bus', 0.0)]
'cat': [('the cat sat', 0.0), ('the dog ran', 0.0)]
END
