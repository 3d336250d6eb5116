"""Damages copies of every kind of folder that is loaded, and reports the outcomes."""

import collections
import contextlib
import copy
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.io import checksums

# Outcomes. An error that is not a BertFlowError is a bug. Other numbers are a bug if the files have checksums.
REFUSED, HARMLESS, OTHER, BUG = "refused", "harmless", "other numbers", "BUG"


@dataclasses.dataclass(frozen=True)
class Case:
  """Kind of folder."""

  make: Callable[[pathlib.Path], Any]  # writes the folder, which does not exist yet
  load: Callable[[pathlib.Path], Any]  # loads the folder and returns its results, arrays in any nesting
  checked: bool = True  # whether checksums cover all that decides the result
  slow: bool = False  # whether a load takes more than a moment


def damages(folder: pathlib.Path, truncations: int, flips: int, seed: int = 0):
  """Yields (file, description, damaged bytes).

  Files cut at random places, then files with one flipped bit, then JSON that nobody would write.
  """
  rng = np.random.default_rng(seed)
  files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
  for number in range(truncations + flips):
    file = files[number % len(files)]
    whole = file.read_bytes()
    if number < truncations:
      length = int(rng.integers(len(whole)))
      yield file.relative_to(folder), f"cut to {length} of {len(whole)} bytes", whole[:length]
    else:
      position, bit = int(rng.integers(len(whole))), int(rng.integers(8))
      damaged = bytearray(whole)
      damaged[position] ^= 1 << bit
      yield file.relative_to(folder), f"bit {bit} of byte {position} flipped", bytes(damaged)
  for file in files:
    with contextlib.suppress(ValueError):
      if isinstance(values := json.loads(file.read_bytes()), dict):
        values.pop("sha256", None)
        numbers = re.sub(r"(?<=[ \[])-?[0-9][0-9.e+-]*", "NaN", json.dumps(values))
        for text in (numbers, numbers.replace("NaN", "1e999")):
          yield file.relative_to(folder), f"made {text[:40]}", text.encode()


# Values of every JSON type, of which few keys take more than one; None in place of a value removes the key.
_VALUES = ["null", "true", "-1", "1e30", '"q\\ud83d"', '["gelu"]']


def json_types(folder: pathlib.Path, keys: dict[str, list[str]] | None = None):
  """Yields (file, description, bytes) of each JSON file, in which each value is one of each type; checksums are right.

  `keys`: {name of a file: keys that it may have}.
  """
  for file in sorted(folder.rglob("*.json")):
    values = json.loads(file.read_bytes())
    places = [*_places(values), *((key,) for key in (keys or {}).get(file.name, []) if key not in values)]
    for place in places:
      for value in [*_VALUES, '{"a": {"b": [1]}}', None]:
        changed = _changed(values, place, value)
        if isinstance(changed, dict) and isinstance(changed.get("sha256"), dict) and place[0] != "sha256":
          others = {key: part for key, part in changed.items() if key != "sha256"}
          changed["sha256"]["values"] = checksums.of_values(others)
        yield file.relative_to(folder), f"{place} is {value}", json.dumps(changed).encode()


def _places(values, place=()):
  """Yields the keys that lead to each value, of a list to the first two."""
  pairs = []
  if isinstance(values, dict):
    pairs = list(values.items())
  elif isinstance(values, list):
    pairs = list(enumerate(values))[:2]
  for key, value in pairs:
    yield (*place, key)
    yield from _places(value, (*place, key))


def _changed(values, place, value):
  """Returns JSON values of which one is another."""
  values = copy.deepcopy(values)
  holder = values
  for key in place[:-1]:
    holder = holder[key]
  if value is not None:
    holder[place[-1]] = json.loads(value)
  elif isinstance(holder, list) or place[-1] in holder:
    del holder[place[-1]]
  return values


def run_types(case: Case, work: pathlib.Path, keys: dict[str, list[str]] | None = None):
  """Returns (counts of the outcomes, descriptions of the bugs) of a case, for `json_types`."""
  whole, damaged = work / "whole", work / "damaged"
  case.make(whole)
  expected = case.load(_copy(whole, damaged))
  counts, wrong = collections.Counter(), []
  for file, what, content in json_types(whole, keys):
    (damaged / file).write_bytes(content)
    outcome, detail = _outcome(case, damaged, expected)
    counts[outcome] += 1
    if outcome == BUG:
      wrong.append(f"{file}, {what}: {detail}")
    shutil.copyfile(whole / file, damaged / file)
  return counts, wrong


def run(case: Case, work: pathlib.Path, truncations: int, flips: int, seed: int = 0):
  """Returns (counts of the outcomes, descriptions of those that must not be) of a case, damaged many times."""
  whole, damaged = work / "whole", work / "damaged"
  case.make(whole)
  expected = case.load(_copy(whole, damaged))
  assert _same(case.load(_copy(whole, damaged)), expected)
  counts, wrong = collections.Counter(), []
  for file, what, content in damages(whole, truncations, flips, seed):
    _copy(whole, damaged)
    place = (damaged / file).resolve()  # a link of the hub's cache
    place.write_bytes(content)
    outcome, detail = _outcome(case, damaged, expected)
    counts[outcome] += 1
    if outcome == BUG or (outcome == OTHER and case.checked):
      wrong.append(f"{file}, {what}: {outcome}: {detail}")
  return counts, wrong


def _outcome(case, folder, expected):
  try:
    loaded = case.load(folder)
  except BertFlowError as error:
    message = str(error)
    told = "\n" not in message and len(message) < 1000 and folder.name in message
    return (REFUSED, message) if told else (BUG, f"the sentence {message!r}")
  except Exception:
    return BUG, traceback.format_exc(limit=-4)
  return (HARMLESS, "") if _same(loaded, expected) else (OTHER, "")


def _copy(whole, damaged):
  shutil.rmtree(damaged, ignore_errors=True)
  shutil.copytree(whole, damaged, symlinks=True)
  return damaged


def _same(one, other):
  if isinstance(one, dict):
    return isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
  if isinstance(one, list | tuple):
    return isinstance(other, list | tuple) and len(one) == len(other) and all(map(_same, one, other))
  return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def hub_snapshot(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
  """Writes a model's files as the hub's cache keeps them: links to files that are named by their digest."""
  snapshot = folder / "snapshots" / "main"
  snapshot.mkdir(parents=True)
  (folder / "blobs").mkdir()
  for path in sorted(source.iterdir()):
    content = path.read_bytes()
    digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # as git names it
    if path.suffix == ".safetensors":
      digest = hashlib.sha256(content).hexdigest()
    shutil.copyfile(path, folder / "blobs" / digest)
    os.symlink(f"../../blobs/{digest}", snapshot / path.name)
  return snapshot
