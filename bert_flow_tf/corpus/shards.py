"""A shard of the output: vectors, ids, bad records and a receipt, each whole or absent.

The receipt is written last: a shard that has one, and whose files have the sizes that it names, is finished. Writing a
shard twice gives the same files, so that what is begun again, or done by two workers, loses and doubles nothing.
"""

import dataclasses
import io
import json
import shutil
import tempfile

import numpy as np

from bert_flow_tf.corpus.formats import TFRECORD
from bert_flow_tf.corpus.storage import storage_of

NPY = "npy"
OUTPUTS = (NPY, TFRECORD)
# Names of counters.
READ, EMBEDDED, SKIPPED_EMPTY, BAD = "read", "embedded", "skipped (empty)", "bad"


@dataclasses.dataclass(frozen=True)
class ShardFolder:
  """Where the shards of a run are.

  Attributes:
    folder: the run's output.
    shards: how many there will be.
    output: "npy" (`np.load` reads float32 [n, dim], and a text file beside has n ids, one a line) or "tfrecord"
      (tf.train.Example with id, bytes, and embedding, float).
    dim: dimensions of a vector.
  """

  folder: str
  shards: int
  output: str
  dim: int

  def name(self, number, ending, what="shard"):
    """`shard-00000-of-00010.npy`."""
    return f"{what}-{number:05d}-of-{self.shards:05d}.{ending}"

  def write(self, number, found, vectors):
    """Writes a shard.

    Args:
      number: the shard's.
      found: `ShardRecords`.
      vectors: float32 [n, dim] of its records.

    Returns:
      {counter: number} of this shard.
    """
    if vectors.shape != (len(found.records), self.dim) or vectors.dtype != np.float32:
      raise AssertionError(f"shard {number}: {vectors.dtype} {vectors.shape} for {len(found.records)} records")
    ids = [record.id for record in found.records]
    if self.output == TFRECORD:
      writers = {self.name(number, TFRECORD): lambda file: _write_examples(file, ids, vectors)}
    else:
      writers = {
        self.name(number, NPY): lambda file: np.save(file, vectors),
        self.name(number, "ids.txt"): lambda file: _write_lines(file, ids),
      }
    if found.bad:
      lines = ["\t".join(map(_field, (bad.path, bad.line, bad.kind, bad.reason))) for bad in found.bad]
      writers[self.name(number, "tsv", "dead-letter")] = lambda file: _write_lines(file, lines)
    storage, sizes = storage_of(self.folder), {}
    for name, write in writers.items():
      with storage.writing(storage.join(self.folder, name)) as file:
        write(file)
        sizes[name] = file.tell()
    counters = _count(found)
    with storage.writing(storage.join(self.folder, self.name(number, "json"))) as file:
      file.write(json.dumps({"counters": counters, "bytes": sizes}, indent=1).encode())
    return counters

  def finished(self, number):
    """{counter: number} of a shard that is whole; None for one that is to be written, perhaps again."""
    storage = storage_of(self.folder)
    path = storage.join(self.folder, self.name(number, "json"))
    if storage.stat(path) is None:
      return None
    with storage.open(path) as file:
      try:
        receipt = json.loads(file.read())
        counters = {str(name): int(count) for name, count in receipt["counters"].items()}
        sizes = {str(name): int(size) for name, size in receipt["bytes"].items()}
      except (ValueError, TypeError, KeyError, AttributeError):
        return None
    stats = {name: storage.stat(storage.join(self.folder, name)) for name in sizes}
    whole = all(stats[name] is not None and stats[name][0] == size for name, size in sizes.items())
    return counters if whole else None

  def names(self):
    """Names of all files that are there."""
    return storage_of(self.folder).names(self.folder)

  def dead_letters(self):
    """A glob of the files of bad records."""
    return storage_of(self.folder).join(self.folder, f"dead-letter-*-of-{self.shards:05d}.tsv")


def _count(found):
  """{counter: number}; bad records in all and by kind."""
  counters = {
    READ: len(found.records) + len(found.bad) + found.skipped,
    EMBEDDED: len(found.records),
    SKIPPED_EMPTY: found.skipped,
    BAD: len(found.bad),
  }
  for bad in found.bad:
    counters[f"{BAD} ({bad.kind})"] = counters.get(f"{BAD} ({bad.kind})", 0) + 1
  return counters


def add_counters(counters):
  """The sums of dicts {counter: number}."""
  total = {READ: 0, EMBEDDED: 0, SKIPPED_EMPTY: 0, BAD: 0}
  for one in counters:
    for name, number in one.items():
      total[name] = total.get(name, 0) + number
  return total


def _field(value):
  """A value as a TSV's field."""
  return str(value).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _write_lines(file, lines):
  text = io.TextIOWrapper(file, "utf-8", "backslashreplace", newline="\n")
  text.writelines(f"{line}\n" for line in lines)
  text.detach()  # flushes, and leaves the file open


def _write_examples(file, ids, vectors):
  import tensorflow as tf

  with tempfile.NamedTemporaryFile() as local:
    with tf.io.TFRecordWriter(local.name) as writer:
      for name, vector in zip(ids, vectors, strict=True):
        features = tf.train.Features(
          feature={
            "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()])),
            "embedding": tf.train.Feature(float_list=tf.train.FloatList(value=vector)),
          }
        )
        writer.write(tf.train.Example(features=features).SerializeToString(deterministic=True))
    with open(local.name, "rb") as written:
      shutil.copyfileobj(written, file, 1 << 20)
