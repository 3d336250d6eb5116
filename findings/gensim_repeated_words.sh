#!/usr/bin/env bash
# Guess: of a word that a vector file holds twice gensim keeps the first, and the table has one row per word.
# Truth: it keeps the first, but the table stays as long as the header says: for each repeated word there is a row of
#        zeros at the end, whose word is None. It counts in `len` and in the mean, and `most_similar` gives it, with
#        NaN. A file saved from it cannot be read.
# Why it matters: merged vocabularies (two spellings made one, several languages in one file) repeat words. Who reads
#   `vectors` for a mean, a whitening or an index has rows that are no words. `vectors[:len(key_to_index)]` are those of
#   the words.
# Versions: gensim 4.4.0, NumPy 2.4.6. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check gensim==4.4.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import gensim
from gensim.models import KeyedVectors

print("gensim", gensim.__version__)
with open("words.vec", "w") as file:
  file.write("4 2\na 1 2\na 3 4\nb 5 6\nc 7 9\n")
words = KeyedVectors.load_word2vec_format("words.vec")
print("words", words.index_to_key, "len", len(words), "key_to_index", words.key_to_index)
print("vectors", words.vectors.tolist(), "mean", words.vectors.mean(axis=0).tolist())
print("most similar to a:", [word for word, _ in words.most_similar("a")], "last score", words.most_similar("a")[-1][1])
words.save_word2vec_format("saved.vec")
try:
  print(KeyedVectors.load_word2vec_format("saved.vec").index_to_key)
except EOFError as error:
  print("saved and read again: EOFError:", error)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "gensim_repeated_words.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
gensim 4.4.0
words ['a', 'b', 'c', None] len 4 key_to_index {'a': 0, 'b': 1, 'c': 2}
vectors [[1.0, 2.0], [5.0, 6.0], [7.0, 9.0], [0.0, 0.0]] mean [3.25, 4.25]
most similar to a: ['c', 'b', None] last score nan
saved and read again: EOFError: unexpected end of input; is count incorrect or file otherwise damaged?
END
