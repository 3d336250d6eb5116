"""bert_flow_tf/tables/store.py: stored values are whole, or count as absent."""

import json
import math

import pytest

from bert_flow_tf.tables.store import Store

KEY = {"what": "scores", "seeds": (1, 2)}
VALUE = {"spearman": 12.5, "parts": [{"x": math.nan}, (1, math.inf)], "reason": ""}
KEPT = {"spearman": 12.5, "parts": [{"x": None}, [1, None]], "reason": ""}


def test_kept_and_found(tmp_path):
  store = Store(tmp_path / "cells")
  assert store.get(KEY) is None
  assert store.put(KEY, VALUE) == KEPT == store.get(KEY) == Store(tmp_path / "cells").get(KEY)
  assert store.get({**KEY, "seeds": (1, 3)}) is None
  assert len(list((tmp_path / "cells").iterdir())) == 1


def test_without_a_folder():
  store = Store(None)
  assert store.put(KEY, VALUE) == KEPT and store.get(KEY) is None


def test_a_float_comes_back_to_the_last_digit(tmp_path):
  value = [0.1 + 0.2, 1 / 3, -1e-300]
  Store(tmp_path).put(KEY, value)
  assert Store(tmp_path).get(KEY) == value


def change(value):
  def damage(file):
    content = json.loads(file.read_text())
    content["value"]["spearman"] = value
    file.write_text(json.dumps(content))

  return damage


@pytest.mark.parametrize(
  "damage",
  [
    lambda file: file.write_text(file.read_text()[:40]),
    lambda file: file.write_text(""),
    lambda file: file.write_text("[]"),
    lambda file: file.write_text("null"),
    lambda file: file.write_text("[" * 100000),
    lambda file: file.write_bytes(b"\xff\xfe\x00"),
    lambda file: file.write_text('{"key": {}, "value": 1, "sha256": ""}'),
    change(99.0),
    change("high"),
  ],
)
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path, damage):
  store = Store(tmp_path)
  store.put(KEY, VALUE)
  (file,) = tmp_path.iterdir()
  damage(file)
  assert store.get(KEY) is None
  store.put(KEY, VALUE)
  assert store.get(KEY) == KEPT
