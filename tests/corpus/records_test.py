"""Parsing of good and bad records."""

import pytest
import tensorflow as tf

from bert_flow_tf.corpus.reading import Columns, InputFormat, Unreadable, kind_of, parse
from bert_flow_tf.data.lines import TextError


def parse_line(raw, line=5, width=None, columns=(), **fields):
  return parse(raw, line, Columns(columns, width), InputFormat(**fields))


def example(**features):
  made = {}
  for name, values in features.items():
    if isinstance(values[0] if values else b"", bytes):
      made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    elif isinstance(values[0], int):
      made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    else:
      made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
  return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString(deterministic=True)


TSV = {"kind": "tsv", "columns": (2, 0)}
RECORD = {"kind": "tfrecord", "columns": ("text", "id")}
LATIN_1 = "naïve".encode("latin-1")


@pytest.mark.parametrize(
  ("raw", "arguments", "expected"),
  [
    (b"A man.", {}, (None, "A man.")),
    ("\u2028 é\x85".encode(), {}, (None, "\u2028 é\x85")),
    (b"\xef\xbb\xbfA man.", {"line": 1}, (None, "A man.")),
    (b"\xef\xbb\xbfA man.", {"line": 2}, (None, "\ufeffA man.")),
    (b"", {}, None),
    (b" \t ", {}, None),
    (b" \t ", {"empty": "embed"}, (None, " \t ")),
    (b"7\tx\tA man.\ty", TSV, ("7", "A man.")),
    (b"7\tx\t", TSV, None),
    (b"", TSV, None),
    (b"7\tx\t", {**TSV, "empty": "embed"}, ("7", "")),
    (example(text=[b"A\nman"], id=[b"a7"]), RECORD, ("a7", "A\nman")),
    (example(text=[b"A man."], id=[-7]), RECORD, ("-7", "A man.")),
    (example(text=[b""], id=[b"a7"]), RECORD, None),
  ],
)
def test_good_records(raw, arguments, expected):
  assert parse_line(raw, **arguments) == expected


@pytest.mark.parametrize(
  ("raw", "arguments", "kind"),
  [
    (LATIN_1, {}, "not UTF-8"),
    (b"\xed\xa0\x80", {}, "not UTF-8"),  # a lone surrogate
    (b"A\0man", {}, "not text"),
    (b"A\rman", {}, "not text"),
    (Unreadable("too long", "long"), {}, "too long"),
    (b"", {"empty": "bad"}, "empty"),
    (b"7\tx", TSV, "columns"),
    (b"", {**TSV, "empty": "bad"}, "columns"),
    (b"7\tx\ty\tz", {**TSV, "width": 3}, "columns"),
    (b"7\tx", {**TSV, "width": 3}, "columns"),
    (b"\tx\ty", TSV, "bad id"),
    (b"7\tx\t ", {**TSV, "empty": "bad"}, "empty"),
    (b"\xff no message", RECORD, "no Example"),
    (b"", RECORD, "columns"),
    (example(text=[b"a", b"b"], id=[1]), RECORD, "columns"),
    (example(text=[], id=[1]), RECORD, "columns"),
    (example(text=[1], id=[1]), RECORD, "columns"),
    (example(text=[b"a"], id=[1.5]), RECORD, "columns"),
    (example(text=[b"a"]), RECORD, "columns"),
    (example(text=[LATIN_1], id=[1]), RECORD, "not UTF-8"),
    (example(text=[b"a"], id=[b"1\n2"]), RECORD, "bad id"),
  ],
)
def test_bad_records(raw, arguments, kind):
  with pytest.raises(TextError) as raised:
    parse_line(raw, **arguments)
  assert raised.value.kind == kind


def test_kinds_by_name():
  kinds = {"a.tsv": "tsv", "b/a.TSV.gz": "tsv", "a.txt": "text", "a.tfrecord": "tfrecord", "a": "text"}
  kinds |= {"a.tfrecord-00000-of-00010": "tfrecord", "d.tfrecord/a.txt": "text", "a.tfrecords.gz": "tfrecord"}
  assert {path: kind_of(path) for path in kinds} == kinds
