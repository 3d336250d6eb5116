"""Shards of a folder of vectors: the names and formats of their files, and what a finished one has.

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
from collections.abc import Callable, Iterable, Sequence
from typing import IO

import numpy as np
from absl import logging

from bert_flow_tf.data.files.input_format import JSONL, PARQUET, TFRECORD
from bert_flow_tf.data.files.parquet import import_parquet
from bert_flow_tf.io import checksums, files, storage
from bert_flow_tf.io.lazy import load_tensorflow

NPY = "npy"
# Names of the counters.
READ, EMBEDDED, SKIPPED_EMPTY, BAD = "read", "embedded", "skipped (empty)", "bad"
# Endings of the files of ids, of `unread_keys`, and of texts: a string of JSON per line.
IDS, UNREAD, TEXTS = "ids.txt", "unread.txt", "texts.jsonl"


@dataclasses.dataclass(frozen=True)
class Record:
  """Sentence to embed, from line `line` (from 1) of the file `path`; where records are no lines, from that record."""

  id: str
  text: str
  path: str
  line: int


@dataclasses.dataclass(frozen=True)
class BadRecord:
  """Record that cannot be embedded; the run counts each `kind`, and `reason` is for people."""

  path: str
  line: int
  kind: str
  reason: str


@dataclasses.dataclass
class ShardRecords:
  """Records of a shard: those to embed, the bad ones, and the number of empty ones, which are skipped.

  `unread`: `unread_keys` of the records' texts, int64 [records], after they are embedded.
  """

  records: list[Record] = dataclasses.field(default_factory=list)
  bad: list[BadRecord] = dataclasses.field(default_factory=list)
  skipped: int = 0
  unread: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))


@dataclasses.dataclass(frozen=True)
class ShardFolder:
  """Folder with a number `shards` of shards: vectors of `dim` dimensions in the format `output`, perhaps with texts."""

  folder: str
  shards: int
  output: str
  dim: int
  keeps_text: bool = False

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
      with self._writing(self.name(number, IDS), sizes) as file:
        write_lines(file, ids)
    if self.keeps_text:
      with self._writing(self.name(number, TEXTS), sizes) as file:
        write_lines(file, (json.dumps(record.text) for record in shard.records))
    if shard.unread.any():
      with self._writing(self.name(number, UNREAD), sizes) as file:
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
    receipt = {"counters": counters, "bytes": sizes, "unread": int(np.count_nonzero(shard.unread))}
    write_sealed(self.folder, self.name(number, "json"), receipt, names)
    return counters

  def finished(self, number: int, sizes: dict[str, int] | None = None) -> dict[str, int] | None:
    """Returns {counter: number} of a finished shard, else None; `sizes` are {name: bytes} of the folder's files."""
    name = self.name(number, "json")
    size_of = self._size if sizes is None else sizes.get
    if size_of(name) is None:
      return None
    try:
      receipt = read_sealed(self.folder, name)
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
        checksums.verified(files.read_json(path), self.folder)
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
    with storage.create_file(f"{self.folder}/{name}") as file:
      yield file
      sizes[name] = file.tell()


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


def read_sealed(folder, name):
  """Returns the values of a JSON file; a ValueError for a damaged one."""
  with storage.open_file(f"{folder}/{name}") as file:
    return checksums.verified(files.parse_json(file.read()))


def write_sealed(folder: str, name: str, values: dict[str, object], names: Sequence[str] = ()) -> None:
  """Writes JSON values with the checksums of them, and of the files `names`."""
  sealed = checksums.sealed(values, folder, names)
  with storage.create_file(f"{folder}/{name}") as file:
    file.write((json.dumps(sealed, indent=1) + "\n").encode("utf-8", "backslashreplace"))


def _field(value):
  """Returns a value as a field of a TSV."""
  return str(value).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def write_lines(file: IO[bytes], lines: Iterable[object]) -> None:
  """Writes each object as a line."""
  for line in lines:
    file.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def _write_examples(file, ids, vectors):
  tf = load_tensorflow()
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
