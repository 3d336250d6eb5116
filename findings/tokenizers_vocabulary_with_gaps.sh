#!/usr/bin/env bash
# Guess: a token added to a vocabulary gets an id of its own: the highest one plus 1.
# Truth: it gets the number of tokens. In a vocabulary with gaps (pieces were removed, or rows are reserved) that id can belong
#        to another token: both then share an id and an embedding, and the old one cannot be decoded any more. No error.
# Why it matters: vocabularies are cut down to a language's pieces, and added tokens come next. The size of the embedding's
#        table is the highest id plus 1, not get_vocab_size().
# Versions: tokenizers 0.23.3. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tokenizers==0.23.3

venv/bin/python > seen.txt << 'END'
import tokenizers
from tokenizers import Tokenizer, models

print("tokenizers", tokenizers.__version__)
vocabulary = {"[UNK]": 0, "old": 2}
for kind in (models.WordLevel, models.WordPiece):
  tokenizer = Tokenizer(kind(vocabulary, unk_token="[UNK]"))
  size = tokenizer.get_vocab_size()
  tokenizer.add_tokens(["new"])
  old, new = tokenizer.encode("old").ids, tokenizer.encode("new").ids
  print(kind.__name__, "size", size, "old", old, "new", new, "decoded", tokenizer.decode(old))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tokenizers_vocabulary_with_gaps.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
tokenizers 0.23.3
WordLevel size 2 old [2] new [2] decoded new
WordPiece size 2 old [2] new [2] decoded new
END
