#!/usr/bin/env bash
# Guess: SemHash.self_deduplicate(threshold=t) takes records with a similarity of at least t as duplicates, with any backend.
# Truth: it depends on the backend. With the default, usearch, the similarity must be above t; with "basic" it may be t. So
#        threshold=1.0 finds only equal strings by default, and also equal vectors with "basic".
# Why it matters: texts that differ in a blank have one vector, and threshold=1.0 keeps both; numbers of duplicates differ
#        from those of programs that take "at least the threshold".
# Versions: semhash 0.5.0, vicinity 0.4.6, usearch 2.26.6, model2vec 0.10.0, tokenizers 0.23.3, NumPy 2.4.6.
# Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check semhash==0.5.0 vicinity==0.4.6 usearch==2.26.6 model2vec==0.10.0 \
  tokenizers==0.23.3 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
from importlib import metadata

import numpy as np
from model2vec import StaticModel
from semhash import SemHash
from tokenizers import Tokenizer, models, pre_tokenizers

print("semhash", metadata.version("semhash"))
words = ["[UNK]", "a", "cat", "dog", "bird"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = StaticModel(np.eye(len(words), dtype=np.float32), tokenizer, normalize=True)
# The cosine of the first two is exactly 1/2, that of the other two exactly 1.
for records, thresholds in ((["cat", "a cat dog bird"], (0.49, 0.5, 0.51)), (["cat", "cat "], (0.99, 1.0))):
  for backend in ("usearch", "basic"):
    for threshold in thresholds:
      found = SemHash.from_records(records, model=model, ann_backend=backend).self_deduplicate(threshold=threshold)
      print(records, backend, threshold, "keeps", len(found.selected))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "semhash_threshold_is_strict.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
semhash 0.5.0
['cat', 'a cat dog bird'] usearch 0.49 keeps 1
['cat', 'a cat dog bird'] usearch 0.5 keeps 2
['cat', 'a cat dog bird'] usearch 0.51 keeps 2
['cat', 'a cat dog bird'] basic 0.49 keeps 1
['cat', 'a cat dog bird'] basic 0.5 keeps 1
['cat', 'a cat dog bird'] basic 0.51 keeps 2
['cat', 'cat '] usearch 0.99 keeps 1
['cat', 'cat '] usearch 1.0 keeps 2
['cat', 'cat '] basic 0.99 keeps 1
['cat', 'cat '] basic 1.0 keeps 1
END
