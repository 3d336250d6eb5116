#!/usr/bin/env bash
# Guess: StaticModel.encode(max_length=n) keeps the first n tokens of a text.
# Truth: it first cuts the text to n times the median length of the vocabulary's tokens, in characters, and then to n tokens.
#        A text of long words loses words, and half of a word at the end, long before it has n tokens.
# Why it matters: the default is 512 tokens, so texts of rare or long words (chemistry, German) lose their ends without a
#        warning. `max_length=None` keeps everything.
# Versions: model2vec 0.10.0, tokenizers 0.23.3, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check model2vec==0.10.0 tokenizers==0.23.3 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
from importlib import metadata

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

print("model2vec", metadata.version("model2vec"))
words = ["[UNK]", "[PAD]", "a", "cat", "internationalization"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = StaticModel(np.eye(len(words), dtype=np.float32), tokenizer, normalize=False)
print("median length", model.median_token_length)
text = "internationalization internationalization internationalization cat"
for max_length in (8, None):
  print(f"4 words, max_length={max_length}:", dict(zip(words, model.encode(text, max_length=max_length).tolist(), strict=True)))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "model2vec_truncates_by_characters.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
model2vec 0.10.0
median length 5
4 words, max_length=8: {'[UNK]': 0.0, '[PAD]': 0.0, 'a': 0.0, 'cat': 0.0, 'internationalization': 1.0}
4 words, max_length=None: {'[UNK]': 0.0, '[PAD]': 0.0, 'a': 0.0, 'cat': 0.25, 'internationalization': 0.75}
END
