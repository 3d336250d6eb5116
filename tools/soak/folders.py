"""Content of the folders that the runners write: digests of results, damaged files, leftovers."""

import hashlib
import json
import pathlib
import re

import numpy as np
from safetensors.numpy import load_file

# Values that differ between two runs with the same result.
_VARYING = {"seconds", "seconds_per_step", "peak_memory_bytes", "date", "created", "run_seconds", "sha256"}
_LEFTOVER = re.compile(r".*(\.writing|\.older|_temp|\.tmp.*|\.fit)|vectors-.*")
# Events and report.html hold times. A SavedModel is compared by its variables and answers.
_NOT_COMPARED = re.compile(r"events\.out\.|report\.html|saved_model\.pb|fingerprint\.pb|tf_serving_warmup_requests")


def leftovers(folder: pathlib.Path) -> list[str]:
  """Returns the files that only a killed process leaves."""
  return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if _LEFTOVER.fullmatch(path.name))


def contents(folder: pathlib.Path) -> dict[str, str]:
  """Returns {file: digest of its content, without times}, or {file: error} for those that cannot be read.

  Of checkpoints only those count that their `checkpoint` names; of the cache, nothing.
  """
  found = {}
  for path in sorted(path for path in folder.rglob("*") if path.is_file()):
    name = path.relative_to(folder)
    if any(_LEFTOVER.fullmatch(part) for part in name.parts) or _NOT_COMPARED.match(path.name):
      continue
    if name.parts[0] == "c" or "embeddings" in name.parts:
      continue
    try:
      digest = _digest(path)
    except Exception as error:
      digest = f"damaged: {error!r}"
    if digest is not None:
      found[str(name)] = digest
  return found


def damaged(found: dict[str, str]) -> list[str]:
  """Returns the files of `contents` that cannot be read."""
  return [f"{name} {digest}" for name, digest in found.items() if digest.startswith("damaged")]


def _digest(path):
  """Returns a file's digest; None for a file that counts with another file."""
  if path.suffix == ".json":
    return _hash(json.dumps(_without_times(json.loads(path.read_text(encoding="utf-8")))).encode())
  if path.suffix == ".npz":
    parts = []
    with np.load(path) as archive:
      for name in sorted(archive.files):
        member = archive[name]  # an archive's settings are bytes, no array
        parts += [name.encode(), member if isinstance(member, bytes) else member.tobytes()]
    return _hash(*parts)
  if path.suffix == ".npy":
    return _hash(np.load(path).tobytes())
  if path.suffix == ".safetensors":
    return _hash(*(array.tobytes() for _, array in sorted(load_file(path).items())))
  if path.name == "checkpoint":
    names = re.findall(r'^all_model_checkpoint_paths: "(.*)"', path.read_text(), re.MULTILINE)
    # TensorFlow names the new checkpoint, deletes the oldest, and then names it no longer.
    names = [name for name in names if path.with_name(f"{name}.index").exists() or name == names[-1]]
    assert names, "names no checkpoint"
    return _hash(*(_checkpoint(path.parent / name) for name in names))
  if path.name == "variables.index":
    return _hash(_checkpoint(path.with_suffix("")))
  if re.search(r"ckpt-\d+\.|variables\.data", path.name):
    return None
  content = path.read_bytes()
  if path.suffix in (".md", ".tsv", ".txt", ".csv"):
    assert content.endswith(b"\n"), "ends within a line"
    content = re.sub(rb".*(seconds|[0-9]{4}-[0-9]{2}-[0-9]{2}).*", b"", content)
  return _hash(content)


def _checkpoint(prefix):
  """Returns the digest of a checkpoint's tensors."""
  import tensorflow as tf

  reader = tf.train.load_checkpoint(str(prefix))
  names = sorted(name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE"))
  arrays = (np.asarray(reader.get_tensor(name)) for name in names)
  parts = (array.tobytes() if array.dtype != object else repr(array.tolist()).encode() for array in arrays)
  return b"".join(hashlib.sha256(name.encode() + part).digest() for name, part in zip(names, parts, strict=True))


def _without_times(value):
  if isinstance(value, dict):
    return {key: _without_times(part) for key, part in value.items() if key not in _VARYING}
  return [_without_times(part) for part in value] if isinstance(value, list) else value


def _hash(*parts):
  return hashlib.sha256(b"\0".join(parts)).hexdigest()
