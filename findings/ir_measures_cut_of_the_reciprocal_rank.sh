#!/usr/bin/env bash
# Guess: in ir_measures, RR@10 of a run with fewer than ten documents equals RR, and one call takes one order of ties.
# Truth: RR and AP take trec_eval's order of equal scores, falling ids; RR@10 comes from another program, which takes the
#        rising ones. With equal scores, RR@10 is 1.0 where RR of the same three documents is 0.33. No warning.
# Why it matters: MRR@10 is the usual measure of MS MARCO, and scores of few digits or of copies are often equal. Make the
#        scores of a run distinct before it is measured.
# Versions: ir_measures 0.4.3, pytrec-eval-terrier 0.5.11. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ir_measures==0.4.3 pytrec-eval-terrier==0.5.11

venv/bin/python > seen.txt << 'END'
import importlib.metadata

import ir_measures
from ir_measures import AP, RR

for package in ("ir_measures", "pytrec-eval-terrier"):
  print(package, importlib.metadata.version(package))
judged = {"question": {"a": 1}}
for name, scores in (("equal scores", [1.0, 1.0, 1.0]), ("distinct scores", [1.0, 2.0, 3.0])):
  run = {"question": dict(zip("abc", scores))}
  found = ir_measures.calc_aggregate([RR, RR @ 10, AP], judged, run)
  print(f"{name}: RR {found[RR]:.2f}, RR@10 {found[RR @ 10]:.2f}, AP {found[AP]:.2f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "ir_measures_cut_of_the_reciprocal_rank.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
ir_measures 0.4.3
pytrec-eval-terrier 0.5.11
equal scores: RR 0.33, RR@10 1.00, AP 0.33
distinct scores: RR 0.33, RR@10 0.33, AP 0.33
END
