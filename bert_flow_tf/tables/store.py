"""Finished figures on disk, so that a killed table run goes on where it was."""

import hashlib
import json
import math
import pathlib

from absl import logging

from bert_flow_tf.io import files


class Store:
  """{what decides a figure: figure}, a json file each; a damaged one counts as absent.

  Args:
    folder: where the files are; None to remember nothing.
  """

  def __init__(self, folder):
    self._folder = None if folder is None else pathlib.Path(folder)

  def get(self, key):
    """The value kept for a key (a dict of json values), or None."""
    if self._folder is None:
      return None
    try:
      found = json.loads(self._file(key).read_text(encoding="utf-8"))
      if found["key"] != plain(key):
        raise ValueError("it holds another figure")
      if found["sha256"] != _checksum(found["value"]):
        raise ValueError("its checksum does not match its content")
      return found["value"]
    except FileNotFoundError:
      return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
      logging.warning("%s is damaged (%s): computed again", self._file(key), error)
      return None

  def put(self, key, value):
    """Keeps a value for a key and returns it as `get` will: NaN has become None, tuples lists.

    Raises:
      OSError: it cannot be written.
    """
    value = plain(value)
    if self._folder is not None:
      self._folder.mkdir(parents=True, exist_ok=True)
      content = {"key": plain(key), "value": value, "sha256": _checksum(value)}
      files.write_text(self._file(key), json.dumps(content, indent=1, allow_nan=False) + "\n")
    return value

  def _file(self, key):
    return self._folder / f"{_checksum(plain(key))[:32]}.json"


def plain(value):
  """A value as json keeps it, which has no NaN and no infinity: None in their place."""
  if isinstance(value, float):
    return float(value) if math.isfinite(value) else None
  if isinstance(value, dict):
    return {str(key): plain(part) for key, part in value.items()}
  if isinstance(value, list | tuple):
    return [plain(part) for part in value]
  return value


def _checksum(value):
  return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()
