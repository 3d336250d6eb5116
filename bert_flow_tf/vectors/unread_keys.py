"""Keys of what an embedding does not say about its text: its numbers, and the parts that the encoder does not read.

Texts with different keys are no near-duplicates, whatever their cosine.
"""

import hashlib
import re
from typing import Any

import numpy as np

from bert_flow_tf.vectors.unit_rows import CHUNK

# Keys of numbers and unread parts: of a text without any, and of one of which nothing is known; others are positive.
READ, UNKNOWN = 0, -1
# Words, of which Chinese, Japanese and Korean have no letters; marks at their end are of the sentence.
_WORD = re.compile(r"[^\s\u2e80-\ud7ff\uf900-\ufaff]+")
_AT_END = ".,;:!?)]}\"'\u2026\uff0c\uff1b\uff1a\uff01\uff1f\uff09"
_MINUS = ("-", "\u2013", "\u2212")


def unread_keys(model: Any, texts: list[str]) -> np.ndarray:
  """Returns keys of the numbers of texts and of the parts that a model does not read, int64 [n]; equal for equal ones.

  READ without both, UNKNOWN for a text of which the model knows nothing. A model without `unread`, as None or one of
  another package, counts as reading all.
  """
  reads_all = not hasattr(model, "unread")
  keys = np.full(len(texts), READ)
  for start in range(0, len(texts), CHUNK):  # as many tokens in memory as while they are embedded
    chunk = texts[start : start + CHUNK]
    parts = [""] * len(chunk) if reads_all else model.unread(chunk)
    maybe_unknown = []
    for row, part in enumerate(parts, start):
      different = " ".join([*_numbers_of(texts[row]), part])
      if different:
        digest = hashlib.sha256(different.encode("utf-8", "surrogatepass")).digest()
        keys[row] = 1 + int.from_bytes(digest[:7], "little")
      if part or not any(map(str.isalnum, texts[row])):  # unknown punctuation is no part
        maybe_unknown.append(row)
    if reads_all:
      continue
    is_known = model.knows([texts[row] for row in maybe_unknown])
    keys[np.array(maybe_unknown, np.int64)[~is_known]] = UNKNOWN
  return keys


def _numbers_of(text: str) -> list[str]:
  """Returns the words of a text that have a digit: "4711", "3-5", "$.5", "10k", "- 5"."""
  if not any(map(str.isdigit, text)):
    return []
  words = _WORD.findall(text.casefold())
  found = []
  for place, word in enumerate(words):
    if any(map(str.isdigit, word)):
      sign = "- " if place and words[place - 1] in _MINUS else ""
      found.append(sign + word.rstrip(_AT_END))
  return found
