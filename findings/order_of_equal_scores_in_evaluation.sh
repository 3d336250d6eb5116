#!/usr/bin/env bash
# Guess: programs that evaluate rankings keep the given order of documents with equal scores, or at least agree.
# Truth: pytrec_eval orders them by document id as text, descending, and compares scores in float32, so 0.9000000010 equals 0.9.
#        ranx sorts with an unstable sort: two documents keep their order; 17 are reversed, with some out of place.
# Why it matters: scores in float16 or of duplicated texts tie often, and the reciprocal rank of one run is 1 or 1/2 depending
#        on the program and on the names of the documents.
# Versions: pytrec-eval-terrier 0.5.11, ranx 0.3.21. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pytrec-eval-terrier==0.5.11 ranx==0.3.21

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
from importlib import metadata

import pytrec_eval
import ranx

print("pytrec-eval-terrier", metadata.version("pytrec-eval-terrier"), "ranx", metadata.version("ranx"))


def by_pytrec_eval(relevant, run):
  evaluator = pytrec_eval.RelevanceEvaluator({"q": {relevant: 1}}, {"recip_rank"})
  return round(1 / evaluator.evaluate({"q": run})["q"]["recip_rank"])


def by_ranx(relevant, run):
  return round(1 / ranx.evaluate(ranx.Qrels({"q": {relevant: 1}}), ranx.Run({"q": run}), "mrr"))


for documents in (["a", "b"], ["b", "a"], ["9", "10"], [f"d{number:02}" for number in range(10, 27)]):
  run = dict.fromkeys(documents, 1.0)
  for function in (by_pytrec_eval, by_ranx):
    print(" ".join(documents), function.__name__, [function(document, run) for document in documents])
print("0.9000000010 and 0.9: rank of the first by pytrec_eval", by_pytrec_eval("a", {"a": 0.9000000010, "b": 0.9}))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "order_of_equal_scores_in_evaluation.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
pytrec-eval-terrier 0.5.11 ranx 0.3.21
a b by_pytrec_eval [2, 1]
a b by_ranx [1, 2]
b a by_pytrec_eval [1, 2]
b a by_ranx [1, 2]
9 10 by_pytrec_eval [1, 2]
9 10 by_ranx [1, 2]
d10 d11 d12 d13 d14 d15 d16 d17 d18 d19 d20 d21 d22 d23 d24 d25 d26 by_pytrec_eval [17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
d10 d11 d12 d13 d14 d15 d16 d17 d18 d19 d20 d21 d22 d23 d24 d25 d26 by_ranx [16, 15, 14, 13, 12, 11, 10, 17, 9, 7, 6, 5, 4, 3, 2, 1, 8]
0.9000000010 and 0.9: rank of the first by pytrec_eval 2
END
