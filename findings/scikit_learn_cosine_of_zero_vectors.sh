#!/usr/bin/env bash
# Guess: paired_cosine_distances(X, Y) is the diagonal of cosine_distances(X, Y).
# Truth: not where a row is zero. cosine_distances calls a zero vector and any other 1 apart (similarity 0), and
#        paired_cosine_distances 0.5; two zero vectors are 0 apart for the paired function (similarity 1), and for the
#        other one 1 apart between two arrays but 0 on the diagonal of an array with itself.
# Why it matters: sentence pairs are scored with the paired function. A text without any known word has a zero vector in
#        many encoders: such a pair gets similarity 0.5 instead of 0, and its rank in Spearman's correlation moves.
# Versions: scikit-learn 1.9.1, NumPy 2.4.6. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6

venv/bin/python > seen.txt << 'END'
import numpy as np
import sklearn
from sklearn.metrics.pairwise import cosine_distances, paired_cosine_distances

print("scikit-learn", sklearn.__version__)
zero = np.zeros((1, 2))
other = np.array([[3.0, 4.0]])
print("zero and other: paired", paired_cosine_distances(zero, other)[0], "all pairs", cosine_distances(zero, other)[0, 0])
print("zero and zero: paired", paired_cosine_distances(zero, zero)[0], "all pairs", cosine_distances(zero, zero.copy())[0, 0])
print("zero and itself:", cosine_distances(zero)[0, 0])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "scikit_learn_cosine_of_zero_vectors.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
scikit-learn 1.9.1
zero and other: paired 0.5 all pairs 1.0
zero and zero: paired 0.0 all pairs 1.0
zero and itself: 0.0
END
