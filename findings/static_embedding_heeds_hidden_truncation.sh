#!/usr/bin/env bash
# Guess: a StaticEmbedding of sentence-transformers has no limit of length: its max_seq_length is infinite.
# Truth: it switches the tokenizer's padding off, but not its truncation: a tokenizer.json that came with a transformer
#        cuts texts at that transformer's limit, often 128 tokens, while max_seq_length says inf.
# Why it matters: static embeddings are taken for long documents, whose ends are dropped without a warning. Call
#        tokenizer.no_truncation() before the module is made.
# Versions: sentence-transformers 6.2.0, torch 2.13.0, tokenizers 0.23.3, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check sentence-transformers==6.2.0 torch==2.13.0 tokenizers==0.23.3 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

print("sentence-transformers", sentence_transformers.__version__)
words = ["[UNK]", "[PAD]", "cat", "dog"]
for truncation in (None, 128):
  tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
  tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
  tokenizer.enable_padding(pad_id=1, length=256)
  if truncation:
    tokenizer.enable_truncation(truncation)
  module = StaticEmbedding(tokenizer, embedding_weights=np.eye(4, dtype=np.float32))
  model = SentenceTransformer(modules=[module], device="cpu")
  print(f"truncation {truncation}: max_seq_length {model.max_seq_length}", end=", ")
  print("200 times cat, 200 times dog:", model.encode("cat " * 200 + "dog " * 200).tolist())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "static_embedding_heeds_hidden_truncation.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
sentence-transformers 6.2.0
truncation None: max_seq_length inf, 200 times cat, 200 times dog: [0.0, 0.0, 0.5, 0.5]
truncation 128: max_seq_length inf, 200 times cat, 200 times dog: [0.0, 0.0, 1.0, 0.0]
END
