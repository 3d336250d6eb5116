"""Writes the shards of the output: vectors, ids, bad records and a receipt, each an atomic file.

The receipt is written last: a shard is finished if it has a receipt and its files have the sizes in it. The receipt has
their checksums too, which a run checks once, when it resumes. Writing a shard twice gives the same files, so that a
shard that is repeated, or written by two workers, neither loses nor duplicates records.
"""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
from absl import logging

from bert_flow_tf.corpus.formats import TFRECORD
from bert_flow_tf.corpus.framing import to_tfrecord
from bert_flow_tf.corpus.reading import ShardRecords
from bert_flow_tf.corpus.storage import LocalStorage, storage_of
from bert_flow_tf.io import checksums
from bert_flow_tf.io.checksums import HashingWriter
from bert_flow_tf.io.files import parse_json, read_json

NPY = "npy"
OUTPUTS = (NPY, TFRECORD)
# Names of the counters.
READ, EMBEDDED, SKIPPED_EMPTY, BAD = "read", "embedded", "skipped (empty)", "bad"


@dataclasses.dataclass(frozen=True)
class ShardFolder:
  """Folder of a run's shards.

  Attributes:
    folder: the run's output.
    shards: number of shards.
    output: "npy" (float32 array of shape [n, dim], and a text file of n ids, one per line) or "tfrecord"
      (tf.train.Example with id, bytes, and embedding, float).
    dim: dimensions of a vector.
  """

  folder: str
  shards: int
  output: str
  dim: int

  def name(self, number: int, ending: str, prefix: str = "shard") -> str:
    """Returns the name of a file, as shard-00000-of-00010.npy."""
    width = max(5, len(str(self.shards - 1)))  # the names' order is that of the numbers
    return f"{prefix}-{number:0{width}d}-of-{self.shards:05d}.{ending}"

  def write(self, number: int, shard: ShardRecords, vectors: np.ndarray) -> dict[str, int]:
    """Writes a shard.

    Args:
      number: the shard's number.
      shard: its records.
      vectors: their embeddings, float32 array of shape [n, dim].

    Returns:
      {counter: number} of this shard.

    Raises:
      OSError: a file cannot be written.
    """
    assert vectors.shape == (len(shard.records), self.dim) and vectors.dtype == np.float32
    ids = [record.id for record in shard.records]
    if self.output == TFRECORD:
      writers = {self.name(number, TFRECORD): lambda file: _write_examples(file, ids, vectors)}
    else:
      writers = {
        self.name(number, NPY): lambda file: np.save(file, vectors),
        self.name(number, "ids.txt"): lambda file: _write_lines(file, ids),
      }
    if shard.bad:
      lines = ["\t".join(map(_field, (bad.path, bad.line, bad.kind, bad.reason))) for bad in shard.bad]
      writers[self.name(number, "tsv", "dead-letter")] = lambda file: _write_lines(file, lines)
    storage, sizes, sums = storage_of(self.folder), {}, {}
    for name, write in writers.items():
      with storage.writing(storage.join(self.folder, name)) as file:
        hashing = HashingWriter(file)
        write(hashing)
        sizes[name], sums[name] = file.tell(), hashing.digest.hexdigest()
    counters = _count(shard)
    receipt = {"counters": counters, "bytes": sizes, "files_sha256": sums}
    with storage.writing(storage.join(self.folder, self.name(number, "json"))) as file:
      file.write(json.dumps(checksums.sealed(receipt), indent=1).encode())
    return counters

  def finished(self, number: int, sizes: dict[str, int] | None = None) -> dict[str, int] | None:
    """Returns {counter: number} of a finished shard; None for a shard that is to be written, perhaps again.

    Args:
      number: the shard's number.
      sizes: {name: size in bytes} of the folder's files; None to ask for those of this shard.
    """
    storage = storage_of(self.folder)
    receipt_name = self.name(number, "json")

    def size_of(name):
      if sizes is not None:
        return sizes.get(name)
      stat = storage.stat(storage.join(self.folder, name))
      return None if stat is None else stat[0]

    if size_of(receipt_name) is None:
      return None
    with storage.open(storage.join(self.folder, receipt_name)) as file:
      try:
        receipt = checksums.opened(parse_json(file.read()))
        counters = {str(name): int(count) for name, count in receipt["counters"].items()}
        written = {str(name): int(size) for name, size in receipt["bytes"].items()}
      except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return counters if all(size_of(name) == size for name, size in written.items()) else None

  def discard_damaged(self) -> list[str]:
    """Deletes the receipts of the finished shards of this machine that have a damaged file, so that they are repeated.

    Returns:
      The damaged files. Those that Beam's file systems reach, which have checksums of their own, are not read.
    """
    damaged = []
    if isinstance(storage_of(self.folder), LocalStorage):
      finished = [number for number in range(self.shards) if self.finished(number) is not None]
      if finished:
        logging.info("comparing %d finished shards with their checksums", len(finished))
      for number in finished:
        path = pathlib.Path(self.folder, self.name(number, "json"))
        found = damaged_files(path)
        damaged += found
        if found:
          path.unlink(missing_ok=True)
    return damaged

  def dead_letters(self) -> str:
    """Returns a glob of the files of bad records."""
    return storage_of(self.folder).join(self.folder, f"dead-letter-*-of-{self.shards:05d}.tsv")


def damaged_files(receipt: pathlib.Path) -> list[str]:
  """Returns the names of a shard's files that differ from the checksums in its receipt, which older ones lack.

  Files that are absent are not among them: the user may have copied the vectors alone.
  """
  sums = read_json(receipt).get("files_sha256", {})
  present = {name: receipt.parent / name for name in sums if (receipt.parent / name).is_file()}
  return [name for name, path in present.items() if checksums.of_file(path) != sums[name]]


def _count(shard):
  """Returns {counter: number}; bad records in total and by kind."""
  good, bad = len(shard.records), len(shard.bad)
  counters = {READ: good + bad + shard.skipped, EMBEDDED: good, SKIPPED_EMPTY: shard.skipped, BAD: bad}
  return counters | collections.Counter(f"{BAD} ({record.kind})" for record in shard.bad)


def add_counters(counters: Iterable[dict[str, int]]) -> dict[str, int]:
  """Returns the sums of dicts {counter: number}."""
  total = collections.Counter(dict.fromkeys((READ, EMBEDDED, SKIPPED_EMPTY, BAD), 0))
  for shard_counters in counters:
    total.update(shard_counters)
  return dict(total)


def _field(value):
  """Returns a value as a field of a TSV."""
  return str(value).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _write_lines(file: BinaryIO, lines: Iterable[str]) -> None:
  for line in lines:
    file.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def _write_examples(file: BinaryIO, ids: Iterable[str], vectors: np.ndarray) -> None:
  import tensorflow as tf

  for name, vector in zip(ids, vectors, strict=True):
    features = tf.train.Features(
      feature={
        "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()])),
        "embedding": tf.train.Feature(float_list=tf.train.FloatList(value=vector)),
      }
    )
    file.write(to_tfrecord(tf.train.Example(features=features).SerializeToString(deterministic=True)))
