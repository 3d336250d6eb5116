"""Tasks, corpora, settings and encoders of a run."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf.data.custom import pair_up
from bert_flow_tf.data.files.source import lines
from bert_flow_tf.data.flow_corpus import NLI, TARGET, FlowCorpus, load_flow_corpus
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.kinds import encoder_label, split_name, without_transformer
from bert_flow_tf.encoder.other.word_vectors import WordVectors, wanted_words
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted
from bert_flow_tf.tables.kinds import EncoderKind, encoder_kind
from bert_flow_tf.training.settings import FlowSettings

if TYPE_CHECKING:
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
  from bert_flow_tf.encoder.text_encoder import TextEncoder
  from bert_flow_tf.encoder.transformer.config import EncoderConfig

_OTHER_CHARACTERS = re.compile(r"[\W_]+")
TARGET_OF = "target of "
_SAMPLE_LINES = 5000
SAMPLE_OF = f"{_SAMPLE_LINES} lines of "
# The paper's encoders: name on the hub; number of blocks, width, and size of the vocabulary.
_PAPER = {
  "base": ("bert-base-uncased", (12, 768, 30522)),
  "large": ("bert-large-uncased", (24, 1024, 30522)),
}
_OTHER = "whole-word-masking"  # bert-large-uncased-whole-word-masking is newer than the paper


def target_of(tasks: Sequence[str]) -> str:
  """Returns a recipe's corpus: the sentences of one task or several, whichever task is evaluated."""
  return f"{TARGET_OF}{','.join(tasks)}"


def sample_corpus(path: str) -> str:
  """Returns a recipe's corpus: 5,000 lines of a text file, without the sentences of the run's tasks."""
  return f"{SAMPLE_OF}{path}"


class TableInputs:
  """Tasks, corpora and settings of a run; each corpus is read once."""

  def __init__(
    self, tasks: dict[str, TaskData], data: DataSettings, embedding: EncoderSettings, flow: FlowSettings
  ) -> None:
    self.embedding = dataclasses.replace(embedding, max_seq_length=embedding.max_seq_length or DEFAULT_MAX_SEQ_LENGTH)
    self.tasks, self._data, self._flow = tasks, data, flow
    self._read = functools.cache(self._load_or_error)

  def corpus(self, name: str, task: str | None = None) -> FlowCorpus:
    """Returns a recipe's corpus: "target" (of the `task`), `target_of(...)`, `sample_corpus(...)`, "nli" or a file."""
    if name == TARGET:
      name = target_of([str(task)])
    corpus = self._read(name)
    if isinstance(corpus, DataError):
      raise corpus
    return corpus

  def _load_or_error(self, name):
    if name.startswith(SAMPLE_OF):
      return _sample(os.path.expanduser(name.removeprefix(SAMPLE_OF)), self.sentences())
    if not name.startswith(TARGET_OF):
      try:
        data = self._data
        return load_flow_corpus(name, None, data.data_dir, data.tfds_data_dir, data.max_record_bytes)
      except DataError as error:
        logging.warning("rows of the corpus %s have no scores: %s", name, error)
        return error
    tasks = name.removeprefix(TARGET_OF).split(",")
    if len(tasks) == 1:
      return load_flow_corpus(TARGET, self.tasks[tasks[0]])
    # Join several sets.
    pairs, sources = [], []
    for task in tasks:
      corpus = self.corpus(TARGET, task)
      pairs.append(corpus.pairs)
      sources.append(corpus.source)
    return FlowCorpus(TARGET, SentencePairs.concatenate(pairs), "; ".join(sources), num_train_epochs=1.0)

  def sentences(self) -> set[str]:
    """Returns all sentences of the run's tasks."""
    sentences: set[str] = set()
    for task in self.tasks.values():
      for pairs in task.splits.values():
        sentences.update(pairs.sentences_a, pairs.sentences_b)
    return sentences

  def flow_settings(self, corpus: FlowCorpus, seed: int) -> FlowSettings:
    """Returns the settings of one fit."""
    return dataclasses.replace(self._flow.for_corpus(corpus), seed=seed)

  def fit_size(self, corpus: FlowCorpus) -> str:
    """Returns epochs, steps and learning rate of a flow on a corpus: "0.15 epoch, 92 steps at learning rate 2e-05"."""
    from bert_flow_tf.training.optimizer import num_steps  # imports TensorFlow, after the files are read

    settings = self.flow_settings(corpus, seed=0)
    steps = num_steps(len(corpus.pairs), settings.train_batch_size, settings.epochs)
    word = "epochs"
    if settings.epochs <= 1:
      word = "epoch"
    return f"{settings.epochs:g} {word}, {steps:,} steps at learning rate {settings.flow_learning_rate:g}"

  def flow_key(self, corpus: FlowCorpus, seed: int) -> dict[str, object]:
    """Returns everything that decides a flow, except embeddings and sentences, as JSON values."""
    from bert_flow_tf.training.pipeline import (
      ORDER,  # needs TensorFlow, which fits and embeddings have imported already
    )

    key = self.flow_settings(corpus, seed).identity() | {"order": ORDER}
    del key["use_xla"]  # changes rounding only
    return key

  def check_fits(self, corpora: Sequence[str]) -> None:
    """Checks, before anything slow, the flow's settings, and that each task and each of some corpora has a batch."""
    from bert_flow_tf.training.flow_fit import check_flow

    names = [target_of([task]) for task in self.tasks]
    for name in names + list(corpora):
      try:
        corpus = self.corpus(name)
      except DataError:
        if name == NLI:  # its rows have no scores
          continue
        raise
      settings = self.flow_settings(corpus, seed=0)
      fitting_dim = 1 << (settings.config.n_levels + 1)  # the encoder is not loaded yet
      check_flow(settings, fitting_dim, len(corpus.pairs))


def _sample(path, sentences):
  """Returns the corpus of some distinct lines of a text file, neighbors as pairs, drawn with a fixed seed.

  Lines that equal a sentence except for case and punctuation are left out.
  """
  distinct = dict.fromkeys(line for _, line in lines(path, empty="skip"))
  evaluated = set(map(_letters, sentences))
  allowed = [line for line in distinct if _letters(line) not in evaluated]
  if len(allowed) < 2:
    count = counted(len(allowed), "distinct line")
    raise DataError(f"{path} has {count} besides the sentences of the tasks; expected a text of some {_SAMPLE_LINES}")
  drawn = np.random.default_rng(0).permutation(len(allowed))[:_SAMPLE_LINES]
  pairs = pair_up(list(map(allowed.__getitem__, drawn)))
  source = (
    f"{len(drawn)} of {len(distinct)} distinct lines; {len(distinct) - len(allowed)} lines were left out because they "
    "are sentences of the evaluated sets, but for case and punctuation"
  )
  logging.info("%s: %s", path, source)
  return FlowCorpus(path, pairs, source)


def _letters(text):
  """Returns the letters and digits of a text, in lower case, to find sentences in spite of their punctuation."""
  return _OTHER_CHARACTERS.sub("", text.lower())


def load_table_encoder(name: str, inputs: TableInputs) -> Any:
  """Returns the encoder of a name; from a file of word vectors, glove:FILE, only the words of the tasks are read."""
  if encoder_kind(name) is not EncoderKind.WORDS:
    return _load_bert(name, inputs.embedding)
  words = wanted_words(inputs.sentences())
  vectors = WordVectors.from_file(os.path.expanduser(split_name(name)[1]), words)
  from bert_flow_tf.encoder.other.word_encoder import WordEncoder

  return WordEncoder(EncoderSettings.of(name), vectors=vectors)


def change_encoder(
  encoder: "SentenceEncoder",
  settings: EncoderSettings,
  token_weights: str,
  static: bool = False,
  precision: str = "",
  engine: str = "",
) -> "TextEncoder":
  """Returns an encoder with other token weights, precision and engine, or the word embeddings of its BERT alone."""
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
  from bert_flow_tf.encoder.text.token_weights import make_token_weights

  if static:
    return _load_bert(without_transformer(encoder.name), settings, token_weights)
  if precision or engine:  # kernels are read again, to be rounded
    changed = dataclasses.replace(settings, precision=precision or settings.precision, engine=engine or settings.engine)
    return _load_bert(encoder.name, changed, token_weights)
  weights = make_token_weights(token_weights, encoder.tokenizer, settings.frequency_corpus)
  changed = dataclasses.replace(encoder.settings, token_weights=token_weights)
  return SentenceEncoder(encoder.loaded, encoder.tokenizer, weights, changed)


def _load_bert(name, settings, token_weights=None):
  from bert_flow_tf.model import SentenceModel
  from bert_flow_tf.training.strategies import embedding_scope

  arguments = {**settings.loading_arguments(), "token_weights": token_weights}
  if token_weights is None:
    arguments["frequency_corpus"] = None
  if not split_name(name)[0].has_transformer:
    del arguments["precision"], arguments["engine"]
  if encoder_kind(name) is EncoderKind.SAVED_MODEL:
    return SentenceModel.from_pretrained(name, **arguments).encoder
  arguments["saved_model_output"] = None
  with embedding_scope():
    return SentenceModel.from_pretrained(name, max_seq_length=settings.max_seq_length, **arguments).encoder


def label_of(name: str) -> str:
  """Returns the name of an encoder in the tables."""
  if encoder_kind(name) is EncoderKind.WORDS:
    return pathlib.Path(split_name(name)[1]).name.removesuffix(".txt").removesuffix(".vec")
  return encoder_label(name)


def paper_encoder(name: str, config: "EncoderConfig", nli_tuned: bool = False) -> str | None:
  """Returns "base" or "large" if an encoder is the paper's by its name and sizes, else None."""
  last = pathlib.Path(name).name.lower()
  tuned = encoder_label(name).lower()  # with the experiment's name, for an encoder of bert-flow siamese
  sizes = (config.num_hidden_layers, config.hidden_size, config.vocab_size)
  for encoder, (full_name, expected) in _PAPER.items():
    named = name == encoder or last == full_name
    if nli_tuned:
      named = full_name in tuned and _OTHER not in tuned
    if named and sizes == expected:
      return encoder
  return None
