"""An encoder and a flow without TensorFlow's graphs, and workbenches of them, for tests of tables."""

import functools
import hashlib
import json

import numpy as np
import scipy.sparse

from bert_flow_tf.calibration.names import FLOW
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.other.word_vectors import AVERAGE
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.report.result_files import plain
from bert_flow_tf.tables.inputs import TableInputs
from bert_flow_tf.tables.plan import Plan
from bert_flow_tf.tables.registry import TABLES
from bert_flow_tf.tables.request import TableRequest
from bert_flow_tf.tables.workbench import Store, Workbench
from bert_flow_tf.training.fitter import Fitter
from bert_flow_tf.training.settings import FlowSettings

DIM = 6
SPREAD = np.array([3.0, 2.0, 1.0, 1.0, 0.5, 0.2])


class Words:
  """Numbers of words in place of their characters; controls."""

  checksum = "words"

  @property
  def whole_pieces(self):
    return self

  def exact(self, ids):
    counts = [np.bincount(row[1:-1], minlength=5000) for row in ids]
    return scipy.sparse.csr_array(normalized(np.array(counts, float)))

  def cosines(self, ids_a, ids_b):
    return (self.exact(ids_a) * self.exact(ids_b)).sum(axis=1)


class Encoder:
  """Sums of random word vectors around a large mean."""

  def __init__(self, weights="w", has_pooler=False):
    self.name = self.weights_checksum = weights
    self.has_pooler = has_pooler
    self.encoded = 0
    self.characters = Words()
    self._words = ["[CLS]", "[SEP]"]

  prompt = ""

  def with_prompt(self, prompt):
    return self

  def check_has_tokens(self, calibration):
    pass

  def dim(self, embedding):
    return DIM

  def pooling(self, embedding):
    return AVERAGE

  def is_for_similarity(self, pooling):
    return False

  def identity(self, embedding, max_seq_length=None, low_dim=None):
    settings = EncoderSettings.of(sentence_embedding_type=embedding, max_seq_length=max_seq_length, low_dim=low_dim)
    return EncoderIdentity(self.name, self.weights_checksum, "words", (embedding,), {}, settings)

  def tokenizer(self, sentences, max_seq_length, warn=True):
    self._words += sorted({word for sentence in sentences for word in sentence.split()} - set(self._words))
    return [np.array([0, *map(self._words.index, sentence.split()), 1]) for sentence in sentences]

  def embed_ids(self, ids, embedding, batch_size):
    texts = [" ".join(self._words[number] for number in row[1:-1]) for row in ids]
    return np.array([self.vector(text, embedding) for text in texts], np.float32)

  def fingerprint(self, sentences, embedding, max_seq_length):
    return f"{self.weights_checksum} {embedding} {max_seq_length} {sentences}"

  def encode(self, sentences, sentence_embedding_type, max_seq_length, **unused):
    self.encoded += len(sentences)
    return np.array([self.vector(s, sentence_embedding_type, max_seq_length) for s in sentences], np.float32)

  def vector(self, sentence, embedding, max_seq_length=64):
    words = sentence.split()[:max_seq_length]
    seeds = [hashlib.sha256(f"{self.weights_checksum} {embedding} {w}".encode()).digest()[:4] for w in words]
    return 4 + sum(np.random.default_rng(list(seed)).normal(size=DIM) for seed in seeds) * SPREAD


class NoStore:
  """Computes each result again."""

  def kept(self, key, compute):
    return json.loads(json.dumps(plain(compute())))


class RandomFlow(Calibration):
  """A random matrix that depends on the seed only, in place of a flow."""

  name = FLOW
  dim = output_dim = DIM

  def __init__(self, seed):
    self._matrix = flow_matrix(seed)

  def __call__(self, features):
    return ((features.embedding - 4) @ self._matrix).astype(np.float32)

  def contents(self):
    raise NotImplementedError


class CountingFitter(Fitter):
  """A fitter that counts its fits, and makes a random flow."""

  fits = 0

  def _fit_part(self, part, rows, settings):
    self.fits += 1
    if part.method == FLOW:
      return RandomFlow(settings.seed)
    return super()._fit_part(part, rows, settings)


class Bench(Workbench):
  """A workbench with a fitter that counts."""

  @functools.cached_property
  def _fitter(self):
    return CountingFitter(show_progress=False)

  @property
  def fits(self):
    return self._fitter.fits


def flow_matrix(seed):
  return np.random.default_rng(seed).normal(size=[DIM, DIM])


def make_bench(data, names, folder=None, encoder=None, label="fake", tasks=None, flow=None, embedding=None, **more):
  """Returns a workbench of tasks in a folder of data; `more` are further arguments of `Workbench`."""
  tasks = tasks or {name: load_task(name, data) for name in names}
  inputs = TableInputs(tasks, DataSettings(data_dir=data), embedding or EncoderSettings(), flow or FlowSettings())
  return Bench(encoder or Encoder(), inputs, Store(folder) if folder else NoStore(), label, **more)


def make(name, benches, seeds=(1, 2), tasks=("STS-B",), **plan):
  """Returns columns, rows and notes of a table of workbenches."""
  return TABLES[name].make(TableRequest(name, Plan(table=(name,), **plan), benches, tuple(tasks), list(seeds)))


def cosine(a, b):
  return np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def sides(pairs, encoder, embedding):
  """Returns the embeddings of both sides, float64 [n, dim] each, rounded as the encoder does."""
  return tuple(
    np.array([encoder.vector(s, embedding) for s in sentences]).astype(np.float32).astype(np.float64)
    for sentences in (pairs.sentences_a, pairs.sentences_b)
  )
