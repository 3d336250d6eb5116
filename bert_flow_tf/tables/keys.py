"""Fingerprints of the text and gold that decide a figure, for the keys of `Store`."""

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=64)
def text_fingerprint(pairs):
  """Hexadecimal sha256 of the sentences of `SentencePairs`, in their order."""
  digest = hashlib.sha256()
  for sentences in (pairs.sentences_a, pairs.sentences_b):
    digest.update(b"%d;" % len(sentences))
    for sentence in sentences:
      text = sentence.encode("utf-8", "surrogatepass")
      digest.update(b"%d:" % len(text))  # lengths: ["a", "b"] and ["ab"] differ
      digest.update(text)
  return digest.hexdigest()


@functools.lru_cache(maxsize=64)
def gold_fingerprint(pairs):
  """Hexadecimal sha256 of sentences, gold scores and subsets."""
  missing = np.isnan(pairs.scores)
  scores = np.where(missing, 0.0, pairs.scores)
  parts = [text_fingerprint(pairs), missing.tobytes().hex(), scores.tobytes().hex(), repr(pairs.subsets)]
  return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def file_fingerprint(path):
  """Hexadecimal sha256 of a file.

  Raises:
    OSError: it cannot be read.
  """
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
