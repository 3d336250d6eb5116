"""Normalizers and splitters of a tokenizer.json as TensorFlow graphs, with the words of `tokenizers`.

When the graph is made, `tokenizers` is asked about each character, so that neither its Unicode version nor the
server's matters.
"""

import functools
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tokenizers
from tokenizers import normalizers

from bert_flow_tf.encoder.graph.replacements import Replacements, all_characters, charsmap_of
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

Step = Callable[[tf.Tensor], tf.Tensor]

# A byte that UTF-8 does not have. The patterns of words match no such byte.
SEPARATOR = b"\xff"
_SPACE = r"\s"
# The mark of the highest combining class.
_LARGE_MARK = "\u0345"


class NoGraphForm(EncoderError):
  """A tokenizer that cannot be computed in a TensorFlow graph."""

  def __init__(self, reason: str) -> None:
    super().__init__(f"the tokenizer has no form as a TensorFlow graph: {reason}; use ids in place of text")


@functools.cache
def _class_of(expression: str) -> str:
  """Returns the inside of an RE2 class of the characters that `tokenizers` matches with an expression."""
  characters = all_characters()
  removing = normalizers.Replace(tokenizers.Regex(expression), "")
  kept = set(map(ord, removing.normalize_str("".join(characters))))
  return class_of_codes([ord(character) for character in characters if ord(character) not in kept])


def class_of_codes(codes: list[int]) -> str:
  """Returns sorted code points as the inside of an RE2 class."""
  codes_of = np.array(codes)
  ends = np.flatnonzero(np.diff(codes_of) != 1)
  firsts, lasts = codes_of[np.append(0, ends + 1)], codes_of[np.append(ends, -1)]
  return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in zip(firsts, lasts, strict=True))


def normalizer_of(definition: Json | None) -> list[Step]:
  """Returns the steps, string [n] -> string [n], of the normalizer of a tokenizer.json."""
  if definition is None:
    return []
  kind = definition["type"]
  if kind == "Sequence":
    steps: list[Step] = []
    for part in definition["normalizers"]:
      steps += normalizer_of(part)
    return steps
  if kind in ("NFC", "NFD", "NFKC", "NFKD"):
    return [functools.partial(_unicode_form, form=kind)]
  if kind in ("Lowercase", "StripAccents", "Nmt"):
    single = getattr(normalizers, kind)().normalize_str
    changed = {character: single(character) for character in all_characters()}
    return [Replacements({key: value for key, value in changed.items() if key != value})]
  if kind == "Precompiled":
    return [Replacements(charsmap_of(definition["precompiled_charsmap"]), graphemes=True)]
  if kind == "Strip":
    ends = [end for side, end in (("strip_left", r"\A{}+"), ("strip_right", r"{}+\z")) if definition[side]]
    space = f"[{_class_of(_SPACE)}]"
    return [functools.partial(_replace, pattern=end.format(space), rewrite="") for end in ends]
  if kind == "Replace":
    pattern = definition["pattern"].get("Regex")
    if pattern is None:
      pattern = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", definition["pattern"]["String"])
    elif pattern != " {2,}":
      raise NoGraphForm(f"its normalizer replaces the pattern {pattern!r}")
    return [functools.partial(_replace, pattern=pattern, rewrite=definition["content"].replace("\\", r"\\"))]
  raise NoGraphForm(f"its normalizer is {kind}")


def splitter_of(definition: Json | None) -> list[Step]:
  """Returns steps, string [n] -> string [n], that put separators between words, as the pre_tokenizer does."""
  definition = definition or {}
  kind = definition.get("type")
  if kind == "ByteLevel":
    steps: list[Step] = []
    if definition["add_prefix_space"]:
      steps.append(functools.partial(_replace, pattern=r"\A([^ ])", rewrite=r" \1"))
    if definition["use_regex"]:
      steps.append(_byte_level)
    return steps
  if kind == "Metaspace":
    return _metaspace(definition, ())
  if kind == "Sequence":
    parts = definition["pretokenizers"]
    if len(parts) == 1:
      return splitter_of(parts[0])
    if [part["type"] for part in parts] == ["WhitespaceSplit", "Metaspace"]:
      space = _class_of(_SPACE)
      return _metaspace(parts[1], (space, rf"(?:\A[{space}]*|[{space}]+)"))
    kind = " + ".join([part["type"] for part in parts])
  raise NoGraphForm(f"its pre_tokenizer is {kind}")


def split(texts: tf.Tensor) -> tf.RaggedTensor:
  """Texts with separators string [n] -> words string [n, (words)], none empty."""
  words = tf.strings.split(texts, SEPARATOR)
  return tf.ragged.boolean_mask(words, tf.strings.length(words) > 0)


def _replace(texts, pattern, rewrite):
  return tf.strings.regex_replace(texts, pattern, rewrite)


def _byte_level(texts):
  """Separates the words of GPT-2's pattern."""
  space, letter, number = _class_of(_SPACE), _class_of(r"\p{L}"), _class_of(r"\p{N}")
  # RE2 does not look ahead: the last of several blanks before a word is cut off first.
  texts = _replace(texts, f"([{space}]+)([{space}][^{space}])", rb"\1" + SEPARATOR + rb"\2")
  words = f"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[{number}]+| ?[^{space}{letter}{number}]+|[{space}]+"
  return _replace(texts, f"({words})", rb"\1" + SEPARATOR)


def _metaspace(definition: Json, split_at: tuple[str, ...]) -> list[Step]:
  """Returns steps; `split_at` are the characters of a class that separate words, and a pattern of a word's start."""
  blank, scheme = definition["replacement"], definition["prepend_scheme"]
  if scheme not in ("always", "never"):
    raise NoGraphForm(f"its Metaspace has prepend_scheme={scheme}")
  steps: list[Step] = []
  space, start = "", r"\A"
  if split_at:
    space, start = split_at
  else:
    steps.append(functools.partial(_replace, pattern=" ", rewrite=blank))
  if scheme == "always":
    prepended = SEPARATOR + blank.encode() + rb"\1"
    steps.append(functools.partial(_replace, pattern=f"{start}([^{space}{blank}])", rewrite=prepended))
  if split_at:
    steps.append(functools.partial(_replace, pattern=f"[{space}]+", rewrite=SEPARATOR))
  if definition["split"]:
    steps.append(functools.partial(_replace, pattern=blank, rewrite=SEPARATOR + blank.encode()))
  return steps


def _unicode_form(texts, form):
  """Returns texts in NFC, NFD, NFKC or NFKD; characters that are newer than the form in `tokenizers` stay."""
  import tensorflow_text as text

  newer = f"([{_newer(form)}])"

  def apart():
    parts = tf.strings.split(_replace(texts, newer, SEPARATOR + rb"\1" + SEPARATOR), SEPARATOR)
    flat = parts.flat_values
    flat = tf.where(tf.strings.regex_full_match(flat, newer), flat, text.normalize_utf8(flat, form))
    return tf.strings.reduce_join(parts.with_flat_values(flat), axis=1)

  has_newer = tf.reduce_any(tf.strings.regex_full_match(texts, f"(?s:.*){newer}(?s:.*)"))
  return tf.cond(has_newer, apart, lambda: text.normalize_utf8(texts, form))


@functools.cache
def _newer(form: str) -> str:
  """Returns the inside of an RE2 class of the characters that TF Text decomposes or reorders, `tokenizers` does not."""
  import tensorflow_text as text

  form = form.replace("C", "D")
  characters = all_characters()
  with tf.init_scope():
    actual = text.normalize_utf8([_LARGE_MARK + character for character in characters], form).numpy()
    alone = text.normalize_utf8(characters, "NFD").numpy()
  apply = getattr(normalizers, form)().normalize_str
  codes = {0x10FFFF}
  for character, result, decomposed in zip(characters, actual, alone, strict=True):
    if apply(_LARGE_MARK + character) != result.decode():
      codes |= {ord(character), ord(decomposed.decode()[0])}
  return class_of_codes(sorted(codes))
