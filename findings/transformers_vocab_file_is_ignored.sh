#!/usr/bin/env bash
# Guess: BertTokenizer(vocab_file=...) reads the file, as its name says, or rejects the argument.
# Truth: in transformers 5 the argument is called `vocab`; vocab_file is ignored in silence, and the tokenizer has the five
#        special tokens alone: each word is [UNK], so that all texts of one length are equal. from_pretrained(folder) and
#        a path as the first argument are right. BertTokenizerFast is the same class.
# Why it matters: embeddings, distances and duplicates are then of nothing but the number of words.
# Versions: transformers 5.24.0, tokenizers 0.23.3. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.24.0 tokenizers==0.23.3

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import pathlib

import transformers
from transformers import BertTokenizer, BertTokenizerFast

print("transformers", transformers.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "sat", "the", "dog"]
pathlib.Path("vocab.txt").write_text("\n".join(words) + "\n")
print("one class:", BertTokenizer is BertTokenizerFast)
for name, tokenizer in (
  ('BertTokenizer(vocab_file="vocab.txt")', BertTokenizer(vocab_file="vocab.txt")),
  ('BertTokenizer(vocab="vocab.txt")', BertTokenizer(vocab="vocab.txt")),
  ('BertTokenizer("vocab.txt")', BertTokenizer("vocab.txt")),
):
  print(f"{name}: {len(tokenizer)} tokens,", tokenizer.tokenize("The cat sat"), tokenizer("The cat sat").input_ids)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "transformers_vocab_file_is_ignored.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
transformers 5.24.0
one class: True
BertTokenizer(vocab_file="vocab.txt"): 5 tokens, ['[UNK]', '[UNK]', '[UNK]'] [2, 1, 1, 1, 3]
BertTokenizer(vocab="vocab.txt"): 9 tokens, ['the', 'cat', 'sat'] [2, 7, 5, 6, 3]
BertTokenizer("vocab.txt"): 9 tokens, ['the', 'cat', 'sat'] [2, 7, 5, 6, 3]
END
