"""Computed results on disk, so that a run that was stopped resumes."""

import hashlib
import json
import math
import os
import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.io import files


class Store:
  """JSON files of results, each under a key that holds everything that decides the result.

  A damaged file, as a crashed machine leaves it, counts as absent.

  Args:
    folder: folder of the files; None to store nothing.
  """

  def __init__(self, folder: str | os.PathLike | None) -> None:
    self._folder = None if folder is None else pathlib.Path(folder)

  def get(self, key: dict[str, Any]) -> Any:
    """Returns the value of a key (a dict of JSON values), or None."""
    if self._folder is None:
      return None
    try:
      content = files.read_json(self._file(key))
      if content["key"] != plain(key) or content["sha256"] != _checksum(content["value"]):
        raise ValueError("the checksum or the key does not match")
      return content["value"]
    except FileNotFoundError:
      return None
    except (OSError, ValueError, KeyError, TypeError) as error:
      logging.warning("%s is damaged (%s): it is computed again", self._file(key), error)
      return None

  def put(self, key: dict[str, Any], value: Any) -> Any:
    """Stores a value and returns it as `get` does: None for NaN, lists for tuples.

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


def plain(value: Any) -> Any:
  """Returns JSON values: None for NaN and infinity, which JSON does not have, and lists for tuples."""
  if isinstance(value, float):
    return float(value) if math.isfinite(value) else None
  if isinstance(value, dict):
    return {str(key): plain(part) for key, part in value.items()}
  if isinstance(value, list | tuple):
    return [plain(part) for part in value]
  return value


def _checksum(value):
  return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()
