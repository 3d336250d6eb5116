"""The classes of characters are those of `tokenizers`, for every code point."""

import unicodedata

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_flow_tf.serving import unicode_classes as classes

# All but surrogates, which no UTF-8 holds; joined in rows, since a call costs more than its characters.
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def normalized(**steps):
  """What BertNormalizer makes of each character between two letters; {code: text}."""
  off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
  normalizer = BertNormalizer(**{**off, **steps})
  found = {}
  for start in range(0, len(CODES), 4096):
    chosen = CODES[start : start + 4096]
    parts = normalizer.normalize_str("q".join(chr(code) for code in chosen)).split("q")
    # The letter q itself splits once more: then one by one.
    if len(parts) != len(chosen):
      parts = [normalizer.normalize_str(f"x{chr(code)}x")[1:-1] for code in chosen]
    found.update(zip(chosen, parts, strict=True))
  return found


def test_cleaning():
  cleaned = normalized(clean_text=True)
  assert {code for code, text in cleaned.items() if text == ""} == classes.code_points(classes.DROPPED)
  assert {code for code, text in cleaned.items() if text == " "} == classes.code_points(classes.SPACE)


def test_ideographs():
  apart = normalized(handle_chinese_chars=True)
  found = {code for code, text in apart.items() if text == f" {chr(code)} "}
  assert found == classes.code_points(classes.IDEOGRAPHS)


def test_marks():
  stripped = normalized(strip_accents=True)
  found = {code for code, text in stripped.items() if text == ""}
  # Some are made of two marks, which NFD takes apart.
  marks = classes.code_points(classes.MARKS)
  assert found == marks
  assert all(ord(part) in marks for code in marks for part in unicodedata.normalize("NFD", chr(code)))


def test_punctuation():
  pre = BertPreTokenizer()
  found = set()
  for start in range(0, len(CODES), 4096):
    chosen = CODES[start : start + 4096]
    text = "x".join(chr(code) for code in chosen)
    words = pre.pre_tokenize_str(text)
    single = {span for word, span in words if len(word) == 1}
    # A character between two x is a word of its own if it splits them.
    found |= {code for i, code in enumerate(chosen) if (2 * i, 2 * i + 1) in single and not chr(code).isspace()}
  letters = {code for code in found if chr(code).isalnum() and chr(code).isascii()}
  assert found - letters == classes.code_points(classes.PUNCTUATION)


def test_pattern():
  assert classes.pattern("9-a 20 e0001") == r"[\x{9}-\x{a}\x{20}-\x{20}\x{e0001}-\x{e0001}]"
  assert classes.code_points("9-b 20") == {9, 10, 11, 32}
