#!/usr/bin/env bash
# Guess: model2vec writes modules.json for sentence-transformers, so both give the same vector for a text.
# Truth: sentence-transformers counts each unknown word with the row of [UNK], and model2vec leaves unknown words out: texts
#        of unknown words alone are all equal in one and zeros in the other. A table of int8 is for model2vec alone; the
#        other raises an error, and without `normalize` model2vec's vectors have other lengths than before, 63.5 here for 0.5.
# Why it matters: an index that one program made is asked by the other, and near-duplicates differ.
# Versions: model2vec 0.10.0, sentence-transformers 6.2.0, torch 2.13.0, tokenizers 0.23.3, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check model2vec==0.10.0 sentence-transformers==6.2.0 torch==2.13.0 tokenizers==0.23.3 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
from importlib import metadata

import numpy as np
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers

print("model2vec", metadata.version("model2vec"), "sentence-transformers", metadata.version("sentence-transformers"))
words = ["[UNK]", "[PAD]", "cat", "dog"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
StaticModel(np.eye(4, dtype=np.float32), tokenizer).save_pretrained("folder")
static = StaticModel.from_pretrained("folder")
transformer = SentenceTransformer("folder", device="cpu")
for text in ("cat dog", "cat zebra", "zebra"):
  print(f"{text}: model2vec {static.encode(text).tolist()}, sentence-transformers {transformer.encode(text).tolist()}")
small = StaticModel.from_pretrained("folder", quantize_to="int8")
small.save_pretrained("int8")
print("int8, cat dog: model2vec", small.encode("cat dog").tolist(), end=", ")
try:
  print("sentence-transformers", SentenceTransformer("int8", device="cpu").encode("cat dog").tolist())
except Exception as error:
  print("sentence-transformers", type(error).__name__)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "static_folder_in_two_programs.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
model2vec 0.10.0 sentence-transformers 6.2.0
cat dog: model2vec [0.0, 0.0, 0.5, 0.5], sentence-transformers [0.0, 0.0, 0.5, 0.5]
cat zebra: model2vec [0.0, 0.0, 1.0, 0.0], sentence-transformers [0.5, 0.0, 0.5, 0.0]
zebra: model2vec [0.0, 0.0, 0.0, 0.0], sentence-transformers [1.0, 0.0, 0.0, 0.0]
int8, cat dog: model2vec [0.0, 0.0, 63.5, 63.5], sentence-transformers RuntimeError
END
