"""Character classes against those of `tokenizers`, for every code point."""

import unicodedata

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_flow_tf.encoder import unicode_classes as classes

# All but surrogates, which UTF-8 does not have. Joined in rows, as a call costs more than its characters.
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def code_points(ranges):
  """Returns the code points of a class."""
  return {code for first, last in classes._bounds(ranges) for code in range(first, last + 1)}


def normalized(**steps):
  """Returns {code: result of BertNormalizer for the character between two letters}."""
  off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
  normalizer = BertNormalizer(**{**off, **steps})
  result = {}
  for start in range(0, len(CODES), 4096):
    chosen = CODES[start : start + 4096]
    parts = normalizer.normalize_str("q".join(chr(code) for code in chosen)).split("q")
    # A row with the letter q has more parts; its characters are normalized separately.
    if len(parts) != len(chosen):
      parts = [normalizer.normalize_str(f"x{chr(code)}x")[1:-1] for code in chosen]
    result.update(zip(chosen, parts, strict=True))
  return result


def test_cleaning():
  cleaned = normalized(clean_text=True)
  assert {code for code, text in cleaned.items() if text == ""} == code_points(classes.DROPPED)
  assert {code for code, text in cleaned.items() if text == " "} == code_points(classes.SPACE)


def test_ideographs():
  apart = normalized(handle_chinese_chars=True)
  result = {code for code, text in apart.items() if text == f" {chr(code)} "}
  assert result == code_points(classes.IDEOGRAPHS)


def test_marks():
  stripped = normalized(strip_accents=True)
  result = {code for code, text in stripped.items() if text == ""}
  # Some consist of two marks, which NFD separates.
  marks = code_points(classes.MARKS)
  assert result == marks
  assert all(ord(part) in marks for code in marks for part in unicodedata.normalize("NFD", chr(code)))


def test_punctuation():
  pre = BertPreTokenizer()
  result = set()
  for start in range(0, len(CODES), 4096):
    chosen = CODES[start : start + 4096]
    text = "x".join(chr(code) for code in chosen)
    words = pre.pre_tokenize_str(text)
    single = {span for word, span in words if len(word) == 1}
    # A character between two letters x is a word if it splits them.
    result |= {code for i, code in enumerate(chosen) if (2 * i, 2 * i + 1) in single and not chr(code).isspace()}
  letters = {code for code in result if chr(code).isalnum() and chr(code).isascii()}
  assert result - letters == code_points(classes.PUNCTUATION)


def test_pattern():
  assert classes.pattern("9-a 20 e0001") == r"[\x{9}-\x{a}\x{20}-\x{20}\x{e0001}-\x{e0001}]"
  assert code_points("9-b 20") == {9, 10, 11, 32}
