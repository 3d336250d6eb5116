#!/usr/bin/env bash
# Guess: `get_mean_vector` gives the mean of words that `n_similarity` compares.
# Truth: `n_similarity` averages the vectors as they are, `get_mean_vector` (and `most_similar`) those scaled to length
#        1. The cosine of two `get_mean_vector` is another number than `n_similarity` of the same words; with
#        pre_normalize=False it is the same.
# Why it matters: a sentence as the mean of its words is the usual baseline. Trained vectors differ in length, by the
#   frequency of a word among others: the means weight words differently, and results of the two cannot be compared.
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
words = KeyedVectors(2)
words.add_vectors(["the", "cat", "dog"], np.array([[9, 0], [0, 1], [1, 1]], np.float32))


def cosine(a, b):
  return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


first, second = ["the", "cat"], ["dog"]
print(f"n_similarity {words.n_similarity(first, second):.3f}")
for choice in ({}, {"pre_normalize": False}):
  means = [words.get_mean_vector(each, **choice) for each in (first, second)]
  print("get_mean_vector", choice, np.round(means[0], 3).tolist(), f"cosine {cosine(*means):.3f}")
print("most_similar of both", f"{dict(words.most_similar(positive=first))['dog']:.3f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "gensim_two_means_of_words.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
gensim 4.4.0
n_similarity 0.781
get_mean_vector {} [0.5, 0.5] cosine 1.000
get_mean_vector {'pre_normalize': False} [4.5, 0.5] cosine 0.781
most_similar of both 1.000
END
