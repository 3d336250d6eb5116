"""Fingerprints of what decides a result (code, text, gold scores), for the keys of `Store`."""

import functools
import hashlib
import importlib.metadata
import os
import pathlib

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs

# Sources that decide a result: the parts that `tables` imports, and its own modules that compute.
_SOURCES = (
  *(f"{part}/**/*.py" for part in ("calibration", "data", "encoder", "evaluation", "flow", "training")),
  "model.py",
  *(f"tables/{module}.py" for module in ("analysis_tables", "inputs", "words", "workbench")),
)
_PACKAGES = ("tensorflow", "tf-keras", "tensorflow-probability", "transformers", "tokenizers", "numpy", "scipy")


@functools.cache
def code_fingerprint() -> str:
  """Returns the hexadecimal SHA-256 of the sources that decide a result, and the versions of the packages they use."""
  versions = [f"{package} {importlib.metadata.version(package)}" for package in _PACKAGES]
  text = "\n".join([sources_fingerprint(pathlib.Path(__file__).parent.parent), *versions])
  return hashlib.sha256(text.encode()).hexdigest()


def sources_fingerprint(package: pathlib.Path) -> str:
  """Returns the hexadecimal SHA-256 of the names and contents of the sources that decide a result.

  Args:
    package: folder of `bert_flow_tf`.
  """
  files = sorted(file for pattern in _SOURCES for file in package.glob(pattern))
  lines = [f"{file_fingerprint(file)} {file.relative_to(package).as_posix()}" for file in files]
  return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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
