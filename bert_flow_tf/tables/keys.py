"""Fingerprints of the text and gold scores that decide a figure, for the keys of `Store`."""

import functools
import hashlib
import os

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs


@functools.lru_cache(maxsize=64)
def text_fingerprint(pairs: SentencePairs) -> str:
  """Returns the hexadecimal SHA-256 of the sentences in their order."""
  digest = hashlib.sha256()
  for sentences in (pairs.sentences_a, pairs.sentences_b):
    digest.update(b"%d;" % len(sentences))
    for sentence in sentences:
      text = sentence.encode("utf-8", "surrogatepass")
      digest.update(b"%d:" % len(text))  # with lengths, ["a", "b"] and ["ab"] differ
      digest.update(text)
  return digest.hexdigest()


@functools.lru_cache(maxsize=64)
def gold_fingerprint(pairs: SentencePairs) -> str:
  """Returns the hexadecimal SHA-256 of sentences, gold scores and subsets."""
  missing = np.isnan(pairs.scores)
  scores = np.where(missing, 0.0, pairs.scores)
  parts = [text_fingerprint(pairs), missing.tobytes().hex(), scores.tobytes().hex(), repr(pairs.subsets)]
  return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def file_fingerprint(path: str | os.PathLike) -> str:
  """Returns the hexadecimal SHA-256 of a file.

  Raises:
    OSError: it cannot be read.
  """
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
