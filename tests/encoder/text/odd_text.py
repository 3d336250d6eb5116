"""Odd strings: all planes of Unicode, controls, emoji, long runs without blanks, mixed scripts, blanks, marks."""

import random

EMOJI = ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "❤️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☺", "™", "®", "\u200d", "\ufe0f"]
MARKS = "\u0301\u0300\u0308\u0327\u0345\u0323\u0302\u093f\u200d\u0483\u20e3\ufe0f\u3099\u0600\u0340\u0344"
BLANKS = " \t\r\n\x0b\x0c\x85\xa0\u1680\u2003\u2028\u3000\u200b\u2581_\x00\x1f\x7f\ufeff\ufffd\ue000"
PUNCTUATION = ".,;:!?'\"`«»-…()[]{}<>/\\|@#$%^&*+=~§¶\u2019\u2013\u2014"
PARTS = "'s 't 're 'LL `` '' don't I'm <s> </s> <unk> [MASK] <pad> ▁ Ġ ##s".split()  # noqa: SIM905
# First and last code points: letters and numbers of many scripts, symbols, compatibility characters, emoji.
SCRIPTS = """
  41-5a 61-7a 30-39 c0-24f 370-3ff 400-52f 590-6ff 900-97f e00-e7f 1100-11ff 1e00-1fff 2000-23ff 3040-33ff 4e00-9ffe
  ac00-d7a3 f900-fb4f fb50-fdff fe00-ffff 1d400-1d7ff 1f000-1faff 2f800-2fa1f
"""
RANGES = [[int(code, 16) for code in part.split("-")] for part in SCRIPTS.split()]
WORDS = """
  the of and to in a is that for it was on are as with his they be at one have this from by hot word but what some
  İstanbul Straße ÅNGSTRÖM \ufb01ne naïve \u039f\u0394\u039f\u03a3 Быстрая лиса 東京 한국어 2024 3.14 $5 running
""".split()  # noqa: SIM905


def odd_texts(n, seed=0):
  """Returns n odd strings."""
  rng = random.Random(seed)
  texts = ["", " ", "\u0301", "a" * 3000, "x- " * 500, "字" * 500, "😀" * 200 + "abc", "ab" * 1500]
  while len(texts) < n:
    glue = rng.choice(["", "", " "])
    texts.append(glue.join([_part(rng) for _ in range(rng.randrange(1, 12))]))
  return texts[:n]


def _part(rng):
  """Returns a run of a character, letters of a script, a letter with marks, blanks, a word, ..."""
  kind = rng.randrange(9)
  if kind == 0:
    return rng.choice([_character(rng), rng.choice("abex-.= "), rng.choice(BLANKS)]) * rng.randrange(1, 40)
  if kind == 1:
    codes = rng.choice(RANGES)
    return "".join([chr(rng.randint(*codes)) for _ in range(rng.randrange(1, 12))])
  if kind == 2:
    return rng.choice([*"aeoA한©か\u0600", _character(rng)]) + "".join(rng.choices(MARKS, k=rng.randrange(1, 4)))
  choices = {3: BLANKS, 4: PUNCTUATION, 5: PARTS, 6: EMOJI}.get(kind, WORDS)
  return "".join(rng.choices(choices, k=rng.randrange(1, 3)))


def _character(rng):
  """Returns a character of a script, or of any plane."""
  codes = rng.choice([*RANGES, (0, 0x7F), (0x20, 0xD7FF), (0xE000, 0x10FFFF)])
  return chr(rng.randint(*codes))
