#!/usr/bin/env bash
# Guess: semantic_search gives equal scores in the order of the corpus, so that top_k cuts off the later ones.
# Truth: in no order: of 20 vectors with the score 1, top_k=3 does not give the first three, and another top_k does not
#        begin with the same ones.
# Why it matters: copies of a passage are found in an order that changes with top_k; runs, tests and the second page of
#        results do not fit together.
# Versions: sentence-transformers 6.2.0, torch 2.13.0, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check sentence-transformers==6.2.0 torch==2.13.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import sentence_transformers
import torch
from sentence_transformers import util

print("sentence-transformers", sentence_transformers.__version__)
query, corpus = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]] * 20)
found = {}
for top_k in (3, 15):
  hits = util.semantic_search(query, corpus, top_k=top_k)[0]
  print("top_k", top_k, "scores", {hit["score"] for hit in hits})
  found[top_k] = [hit["corpus_id"] for hit in hits]
  print("the first of the corpus, in its order:", found[top_k] == list(range(top_k)))
print("the longer list begins with the shorter:", found[15][:3] == found[3])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "sentence_transformers_order_of_equal_scores.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
sentence-transformers 6.2.0
top_k 3 scores {1.0}
the first of the corpus, in its order: False
top_k 15 scores {1.0}
the first of the corpus, in its order: False
the longer list begins with the shorter: False
END
