"""Folders of vectors of models without TensorFlow."""

import importlib.util

import numpy as np
import pytest

from bert_flow_tf.corpus import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.embedding import Embedder
from tests.corpus.toy import Model, vector

needs_faiss = pytest.mark.skipif(
  importlib.util.find_spec("faiss") is None, reason="faiss-cpu is not installed: it is the extra search"
)
FORMATS = ["npy", "jsonl"]
if importlib.util.find_spec("pyarrow"):
  FORMATS.append("parquet")
SENTENCES = [f"sentence {number}" for number in range(250)]


class Wide(Model):
  output_dim = 8

  def encode(self, sentences, **settings):
    return np.tile(super().encode(sentences), 2)


def embed(folder, sentences=SENTENCES, encoder="toy", model=None, output="npy", keep_text=False):
  """Writes the vectors of sentences in shards of 50."""
  text = folder.with_suffix(".txt")
  text.parent.mkdir(parents=True, exist_ok=True)
  text.write_text("".join(f"{sentence}\n" for sentence in sentences))
  settings = JobSettings((str(text),), str(folder), shard_size=50, output_format=output, keep_text=keep_text)
  model = model or Model()
  EmbeddingJob(settings).run(Embedder(model, Model, {"weights": encoder}, {"encoder": {}}))
  return np.array([np.tile(vector(sentence), model.output_dim // 4) for sentence in sentences])


class Reader(Model):
  """Model that does not read numbers over 200, and knows no sentence with 0."""

  def unread(self, texts):
    return [text[-3:] if text[-3] == "2" else "" for text in texts]

  def knows(self, texts):
    return np.array(["0" not in text for text in texts], bool)


def content_of(folder):
  """Returns {path: (bytes, time of the last change)} of all files below a folder."""
  return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
