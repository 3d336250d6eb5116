#!/usr/bin/env bash
# Guess: what gensim saves in word2vec's binary form it reads back, with any words.
# Truth: a word ends at its first space: of "new york" the word is "new", and the rest of the word is taken for numbers.
#        By the numbers it is an error about UTF-8, or none: other words and other vectors, as many as were saved. The
#        text form is an error.
# Why it matters: vectors of phrases and of whole sentences are saved under their text. Put an underscore in place of
#   the space before saving.
# Versions: gensim 4.4.0, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check gensim==4.4.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import gensim
import numpy as np
from gensim.models import KeyedVectors

print("gensim", gensim.__version__)
for words in (["a", "b", "new york"], ["new york", "a", "b"], ["a", "new york", "b"]):
  saved = KeyedVectors(2)
  saved.add_vectors(words, np.array([[1, 0], [0, 1], [3, 4]], np.float32))
  saved.save_word2vec_format("words.bin", binary=True)
  try:
    read = KeyedVectors.load_word2vec_format("words.bin", binary=True)
    print("binary:", words, "read as", read.index_to_key, "equal rows", (read.vectors == saved.vectors).all(axis=1).tolist())
  except UnicodeDecodeError:
    print("binary:", words, "UnicodeDecodeError")
saved.save_word2vec_format("words.vec")
try:
  print(KeyedVectors.load_word2vec_format("words.vec").index_to_key)
except ValueError as error:
  print("text: ValueError:", error)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "gensim_words_with_spaces.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
gensim 4.4.0
binary: ['a', 'b', 'new york'] read as ['a', 'b', 'new'] equal rows [True, True, False]
binary: ['new york', 'a', 'b'] read as ['new', '?\x00\x00\x00\x00a', 'b'] equal rows [False, True, True]
binary: ['a', 'new york', 'b'] UnicodeDecodeError
text: ValueError: could not convert string to float: 'york'
END
