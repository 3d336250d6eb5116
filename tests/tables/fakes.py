"""An encoder and a flow without TensorFlow, and workbenches made of them, for tests of tables."""

import hashlib
import types

import numpy as np

from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.tables.inputs import Inputs
from bert_flow_tf.tables.store import Store
from bert_flow_tf.tables.workbench import Workbench
from bert_flow_tf.training.settings import FlowSettings

DIM = 6
SPREAD = np.array([3.0, 2.0, 1.0, 1.0, 0.5, 0.2])


class Encoder:
  """Sums of random word vectors around a large mean."""

  def __init__(self, weights="w", has_pooler=False):
    self.weights_checksum = weights
    self.bert = types.SimpleNamespace(has_pooler=has_pooler)
    self.encoded = 0
    self._words = ["[CLS]", "[SEP]"]

  def dim(self, embedding):
    return DIM

  def pooling(self, embedding):
    return types.SimpleNamespace(shares=())

  def identity(self, embedding, max_seq_length):
    return types.SimpleNamespace(sentence_embedding_type=embedding, max_seq_length=max_seq_length, low_dim=None)

  def tokenizer(self, sentences, max_seq_length, warn=True):
    self._words += sorted({word for sentence in sentences for word in sentence.split()} - set(self._words))
    return [np.array([0, *map(self._words.index, sentence.split()), 1]) for sentence in sentences]

  def embed_ids(self, ids, embedding, batch_size):
    texts = [" ".join(self._words[number] for number in row[1:-1]) for row in ids]
    return np.array([self.vector(text, embedding) for text in texts], np.float32)

  def fingerprint(self, sentences, embedding, max_seq_length):
    return f"{self.weights_checksum} {embedding} {max_seq_length} {sentences}"

  def encode(self, sentences, sentence_embedding_type, max_seq_length, batch_size, cache, show_progress=None):
    self.encoded += len(sentences)
    return np.array([self.vector(s, sentence_embedding_type, max_seq_length) for s in sentences], np.float32)

  def vector(self, sentence, embedding, max_seq_length=64):
    words = sentence.split()[:max_seq_length]
    seeds = [hashlib.sha256(f"{self.weights_checksum} {embedding} {w}".encode()).digest()[:4] for w in words]
    return 4 + sum(np.random.default_rng(list(seed)).normal(size=DIM) for seed in seeds) * SPREAD


class FakeInputs(Inputs):
  """Inputs whose key of a flow does not need TensorFlow."""

  def flow_key(self, corpus, seed):
    return [corpus.learning_rate, corpus.num_train_epochs, self.flow.permutation, seed]


class Bench(Workbench):
  """A workbench whose flow is a random matrix that depends on the seed only."""

  def _fit_flow(self, embedding, corpus, seed):
    self.fits += 1
    return types.SimpleNamespace(transform=lambda u: (u - 4) @ flow_matrix(seed), name="flow")


def flow_matrix(seed):
  return np.random.default_rng(seed).normal(size=[DIM, DIM])


def make_bench(data, names, folder=None, encoder=None, label="fake", tasks=None, flow=None, embedding=None, **more):
  """Returns a workbench of tasks in a folder of data; `more` are further arguments of `Workbench`."""
  tasks = tasks or {name: load_task(name, data) for name in names}
  inputs = FakeInputs(tasks, DataSettings(data_dir=data), embedding or EncoderSettings(), flow or FlowSettings())
  return Bench(encoder or Encoder(), inputs, Store(folder), label, **more)


def cosine(a, b):
  return np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def sides(pairs, encoder, embedding):
  """Returns the embeddings of both sides, float64 [n, dim] each, rounded as the encoder does."""
  return tuple(
    np.array([encoder.vector(s, embedding) for s in sentences]).astype(np.float32).astype(np.float64)
    for sentences in (pairs.sentences_a, pairs.sentences_b)
  )
