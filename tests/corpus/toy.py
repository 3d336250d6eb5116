"""Corpora, and a model without TensorFlow whose embedding is a checksum of the sentence."""

import hashlib
import pathlib

import numpy as np

from bert_flow_tf.corpus.embedding import Embedder
from bert_flow_tf.corpus.shard_plan import plan_shards
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import DataError, EncoderError
from bert_flow_tf.vectors.shards import ShardFolder

DIM = 4
# Further arguments of the models' `encode`.
SETTINGS = {"batch_size": 64}


def vector(sentence):
  """Returns four numbers that no other sentence has."""
  return np.frombuffer(hashlib.sha256(sentence.encode()).digest()[:16], np.uint32).astype(np.float32)


class Model:
  """Model that has no embedding of the sentence "no vector"; `before` is called with the sentences of each call."""

  output_dim = DIM

  def __init__(self, before=None):
    self._before = before

  def encode(self, sentences, batch_size=64, normalize_embeddings=False):
    if self._before is not None:
      self._before(sentences)
    if "no vector" in sentences:
      raise EncoderError(f"sentence {sentences.index('no vector')}: its embedding is not finite")
    vectors = np.array([vector(sentence) for sentence in sentences], np.float32).reshape([-1, DIM])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize_embeddings else vectors


EMBEDDER = Embedder(Model(), Model)


def reject(sentences):
  """Raises an error of ours."""
  raise DataError(f"{len(sentences)} sentences: too odd")


def corpus(folder, sentences, shard_records=10, output="npy"):
  """Writes a text file; returns its plan and an empty output folder."""
  path = folder / "corpus.txt"
  path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
  plan = plan_shards([str(path)], InputFormat(), shard_records, 1 << 20)
  (folder / "out").mkdir()
  return plan, ShardFolder(str(folder / "out"), len(plan.shards), output, DIM)


def read_npy(folder):
  """Returns (ids, vectors) of an output folder, in the order of the shards."""
  folder = pathlib.Path(folder)
  paths = sorted(folder.glob("shard-*.npy"))
  ids = [line for path in paths for line in path.with_suffix(".ids.txt").read_text("utf-8").splitlines()]
  return ids, np.concatenate([np.load(path) for path in paths])
