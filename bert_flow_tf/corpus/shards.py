"""Folder of a run: the manifest, which decides whether a run may resume, and the shards.

A shard has vectors, ids, bad records and a receipt, each an atomic file. Writing it twice gives the same files.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NoReturn

import numpy as np
from absl import logging

from bert_flow_tf.corpus.index import Index, ShardRecords, build_index, changed_input
from bert_flow_tf.data.files.input_format import JSONL, PARQUET, TFRECORD, InputFormat
from bert_flow_tf.data.files.parquet import import_parquet
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.io import checksums, files, storage
from bert_flow_tf.io.files import Json, owned
from bert_flow_tf.io.settings import differences

NPY = "npy"
# Names of the counters.
READ, EMBEDDED, SKIPPED_EMPTY, BAD = "read", "embedded", "skipped (empty)", "bad"
FORMAT_VERSION = 1
MANIFEST, INDEX = "manifest.json", "index.json"


@dataclasses.dataclass(frozen=True)
class ShardFolder:
  """Folder with a number `shards` of shards: vectors of `dim` dimensions in the format `output`."""

  folder: str
  shards: int
  output: str
  dim: int

  def name(self, number: int, ending: str, prefix: str = "shard") -> str:
    """Returns the name of a file, as shard-00000-of-00010.npy."""
    # Zero-padded: names sort like numbers.
    width = max(5, len(str(self.shards - 1)))
    return f"{prefix}-{number:0{width}d}-of-{self.shards:05d}.{ending}"

  def is_receipt(self, name: str) -> bool:
    """Returns whether a file has the name of a shard's receipt."""
    return name.startswith("shard-") and name.endswith(f"-of-{self.shards:05d}.json")

  def write(self, number: int, shard: ShardRecords, vectors: np.ndarray) -> dict[str, int]:
    """Writes a shard and its vectors, float32 [n, dim]; returns {counter: number}."""
    assert vectors.shape == (len(shard.records), self.dim) and vectors.dtype == np.float32
    ids = [record.id for record in shard.records]
    sizes = {}
    # Vectors and ids, then the bad records.
    with self._writing(self.name(number, self.output), sizes) as file:
      _WRITERS[self.output](file, ids, vectors)
    if self.output == NPY:
      with self._writing(self.name(number, "ids.txt"), sizes) as file:
        write_lines(file, ids)
    if shard.unread is not None and shard.unread.any():
      with self._writing(self.name(number, "unread.txt"), sizes) as file:
        write_lines(file, shard.unread.tolist())
    if shard.bad:
      lines = []
      for bad in shard.bad:
        lines.append("\t".join(map(_field, (bad.path, bad.line, bad.kind, bad.reason))))
      with self._writing(self.name(number, "tsv", "dead-letter"), sizes) as file:
        write_lines(file, lines)
    # The receipt is last: it says that the other files are complete if they have these sizes. Their checksums are
    # compared once, when a run resumes.
    counters = _count(shard)
    names = list(sizes) if storage.is_local(self.folder) else []
    receipt: dict[str, object] = {"counters": counters, "bytes": sizes}
    if shard.unread is not None:
      receipt["unread"] = int(np.count_nonzero(shard.unread))
    write_json(self.folder, self.name(number, "json"), receipt, names)
    return counters

  def finished(self, number: int, sizes: dict[str, int] | None = None) -> dict[str, int] | None:
    """Returns {counter: number} of a finished shard, else None; `sizes` are {name: bytes} of the folder's files."""
    name = self.name(number, "json")
    size_of = self._size if sizes is None else sizes.get
    if size_of(name) is None:
      return None
    try:
      receipt = _read_json(self.folder, name)
      counters = {str(name): int(count) for name, count in receipt["counters"].items()}
      is_whole = all(size_of(name) == size for name, size in receipt["bytes"].items())
    except (ValueError, TypeError, KeyError, AttributeError):
      return None
    return counters if is_whole else None

  def discard_damaged(self) -> list[str]:
    """Deletes the receipts of local shards with a damaged file, which are then repeated; returns their names."""
    damaged = []
    receipts = sorted(pathlib.Path(self.folder).glob("shard-*.json")) if storage.is_local(self.folder) else []
    if receipts:
      logging.info("comparing %d finished shards with their checksums", len(receipts))
    for path in receipts:
      try:
        checksums.opened(files.read_json(path), self.folder)
      except (OSError, ValueError):
        path.unlink(missing_ok=True)
        damaged.append(path.name)
    return damaged

  def _size(self, name):
    stat = storage.stat(f"{self.folder}/{name}")
    return None if stat is None else stat[0]

  @contextlib.contextmanager
  def _writing(self, name, sizes):
    """Yields a file to write to; adds its size to {name: bytes}."""
    with storage.writing(f"{self.folder}/{name}") as file:
      yield file
      sizes[name] = file.tell()


class Manifest:
  """`manifest.json` and `index.json`; `settings` are JSON values that decide vectors and files, `about` others."""

  def __init__(self, folder: str, settings: dict[str, object], about: dict[str, object] | None = None) -> None:
    self.folder = folder
    self._about = about or {}
    # Tuples become lists, as in the manifest that is read.
    self._settings = json.loads(json.dumps(settings))

  def _has_begun(self) -> bool:
    """Returns True if an earlier run has begun in the folder with the same settings, False if it is empty."""
    manifest = self._read(MANIFEST)
    if manifest is None:
      for name in sorted(storage.sizes(self.folder)):
        if name != files.temporary_name(MANIFEST):
          self._reject(f"holds {name} and no {MANIFEST}, expected an empty folder or an earlier run's output")
      return False
    if manifest.get("format_version") != FORMAT_VERSION or not isinstance(manifest.get("settings"), dict):
      self._reject(f"holds a {MANIFEST} of another program or version")
    differing = with_names(differences(manifest["settings"], self._settings), manifest, self._about)
    if differing:
      is_version = any(".versions" in difference for difference in differing)
      mend = "install the earlier version to resume, or " if is_version else ""
      self._reject(f"holds the output of another run: {'; '.join(differing)}", mend)
    return True

  def begin(self, paths: Sequence[str], input_format: InputFormat, shard_size: int, shard_bytes: int) -> Index:
    """Returns the index of an earlier run in the folder, or builds and writes it; arguments as in `build_index`."""
    values = self._read(INDEX) if self._has_begun() else None
    if values is None:
      index = build_index(paths, input_format, shard_size, shard_bytes)
      # The manifest first: a folder with an index alone would be rejected.
      self.write(index)
      write_json(self.folder, INDEX, dataclasses.asdict(index))
      return index
    try:
      index = Index.from_json(values)
    except (KeyError, TypeError):
      self._reject(f"holds a damaged {INDEX}")
    # The same input files, in the same order, with the same bytes.
    indexed = [file.path for file in index.inputs]
    if indexed != list(paths):
      gone = [f"without {path}" for path in indexed if path not in paths]
      new = [f"with {path}" for path in paths if path not in indexed]
      changes = [*gone[:1], *new[:1]] or ["in another order"]
      self._reject(f"holds the output of another run: its input files, now {' and '.join(changes)}")
    changed = changed_input(index.inputs)
    if changed is not None:
      self._reject(f"holds the output of an earlier run, and {changed} has changed since")
    return index

  def write(self, index: Index, counters: dict[str, int] | None = None) -> None:
    """Writes `manifest.json`; with the counters when all shards are finished."""
    values: dict[str, object] = {"format_version": FORMAT_VERSION, "complete": counters is not None}
    if counters is not None:
      values["counters"] = counters
    values |= {"shards": len(index.shards), "records": index.records, "settings": self._settings, **self._about}
    values["inputs"] = list(map(vars, index.inputs))
    write_json(self.folder, MANIFEST, values)

  @contextlib.contextmanager
  def lock(self) -> Iterator[None]:
    """Keeps other runs on this machine out of the folder."""
    if not storage.is_local(self.folder):
      yield
      return
    with owned(self.folder, "output_dir"):
      yield

  def _reject(self, reason: str, mend: str = "") -> NoReturn:
    message = f"output_dir={self.folder} {reason}; {mend}choose another folder, or delete this one"
    raise ConfigError(message, argument="output_dir")

  def _read(self, name):
    """Returns the values of a JSON file; None if it does not exist."""
    with naming("output_dir"):
      if storage.stat(f"{self.folder}/{name}") is None:
        return None
    try:
      return _read_json(self.folder, name)
    except ValueError as error:
      self._reject(f"holds a damaged {name} ({error})")


def with_names(differing: list[str], before: Json, now: Json) -> list[str]:
  """Returns the first three differences of two runs: ["mini+flow, now static:mini", ...] if these are of the models.

  `before` and `now`: values of the manifests, or what they say about the models.
  """
  names = []
  for values in (before, now):
    parts = [values.get(key) for key in ("encoder", "calibration")]
    names.append("+".join(str(part["name"]) for part in parts if isinstance(part, dict) and part.get("name")))
  is_of_models = any("_sha256 " in difference for difference in differing)
  if is_of_models and names[0] != names[1]:
    differing = [f"{names[0] or 'unknown'}, now {names[1] or 'unknown'}", *differing]
  return differing[:3]


def add_counters(counters: Iterable[dict[str, int]]) -> dict[str, int]:
  """Returns the sums of dicts {counter: number}."""
  total = collections.Counter(dict.fromkeys((READ, EMBEDDED, SKIPPED_EMPTY, BAD), 0))
  for shard_counters in counters:
    total.update(shard_counters)
  return dict(total)


def _count(shard):
  """Returns {counter: number}; bad records in total and by kind."""
  good, bad = len(shard.records), len(shard.bad)
  counters = {READ: good + bad + shard.skipped, EMBEDDED: good, SKIPPED_EMPTY: shard.skipped, BAD: bad}
  return counters | collections.Counter(f"{BAD} ({record.kind})" for record in shard.bad)


def _read_json(folder, name):
  """Returns the values of a JSON file; a ValueError for a damaged one."""
  with storage.open_file(f"{folder}/{name}") as file:
    return checksums.opened(files.parse_json(file.read()))


def write_json(folder: str, name: str, values: dict[str, object], names: Sequence[str] = ()) -> None:
  """Writes JSON values with the checksums of them, and of the files `names`."""
  sealed = checksums.sealed(values, folder, names)
  with storage.writing(f"{folder}/{name}") as file:
    file.write((json.dumps(sealed, indent=1) + "\n").encode("utf-8", "backslashreplace"))


def _field(value):
  """Returns a value as a field of a TSV."""
  return str(value).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def write_lines(file: IO[bytes], lines: Iterable[object]) -> None:
  """Writes each object as a line."""
  for line in lines:
    file.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def _write_examples(file, ids, vectors):
  import tensorflow as tf

  # TensorFlow writes to a path.
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "records")
    with tf.io.TFRecordWriter(path) as writer:
      for name, vector in zip(ids, vectors, strict=True):
        features = tf.train.Features(
          feature={
            "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()])),
            "embedding": tf.train.Feature(float_list=tf.train.FloatList(value=vector)),
          }
        )
        writer.write(tf.train.Example(features=features).SerializeToString(deterministic=True))
    with open(path, "rb") as written:
      shutil.copyfileobj(written, file)


def _write_json_lines(file, ids, vectors):
  for name, vector in zip(ids, vectors, strict=True):
    values = {"id": name, "embedding": vector.tolist()}
    file.write(f"{json.dumps(values)}\n".encode())


def _write_parquet(file, ids, vectors):
  import pyarrow as pa

  rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
  import_parquet("output_format").write_table(pa.table({"id": pa.array(ids, pa.string()), "embedding": rows}), file)


# {format: function that writes the vectors to a file; npy without the ids}
_WRITERS: dict[str, Callable] = {
  NPY: lambda file, ids, vectors: np.save(file, vectors),
  TFRECORD: _write_examples,
  JSONL: _write_json_lines,
  PARQUET: _write_parquet,
}
OUTPUTS = tuple(_WRITERS)
