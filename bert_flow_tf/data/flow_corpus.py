"""The sentence pairs that a calibration is fitted on."""

import dataclasses
import math
import os

from absl import logging

from bert_flow_tf.data import nli
from bert_flow_tf.data.beir import BeirSettings, RetrievalTask, load_beir
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.given_columns import corpus_format
from bert_flow_tf.data.files.input_format import MAX_RECORD_BYTES, TEXT, TSV
from bert_flow_tf.data.files.rows import read_sentences
from bert_flow_tf.data.loading import load_table_parts
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Paths, TaskData
from bert_flow_tf.data.tasks import DataSettings, load_task
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.io.settings import Settings, setting

TARGET, TRAIN, NLI = "target", "train", "nli"
# The paper's learning rate of the flow on the sentences of a task (section 4.1).
LEARNING_RATE = 1e-3
# Pairs that a fit sees by default, about as many as an epoch of STS-B has, and the largest number of passes. On 1379
# pairs of STS-B the score of `mini` rises from 58 after one pass to 64 after five. On other text than the fit's it may
# fall: fitted on 500 pairs of the sample's train split, the test split has 55.3 after three passes, 53.6 after five,
# 51.0 after ten.
_PAIRS, _MAX_EPOCHS = 8000, 5


@dataclasses.dataclass(frozen=True)
class CorpusSettings(Settings):
  """Sentences that a calibration is fitted on."""

  flow_corpus: str | None = setting(
    None,
    "Sentences that the calibrations are fitted on: target (all sentences of the task), train (its train split), nli "
    "(SNLI and MNLI, from data_dir or TensorFlow Datasets), or a text file or TSV. Default: target, or train if "
    "use_full_for_training is 0.",
  )
  use_full_for_training: bool | None = setting(
    None,
    "1: fit on train, dev and test sentences as the published code, which reads the one file of each of STS-12 to "
    "STS-16 as all three and so uses every pair three times. 0: fit on train alone. Default: flow_corpus decides.",
  )
  queries: str | None = setting(
    None,
    "File of queries, some 64 or more without labels, where the other sentences are the documents that are searched: "
    "search takes the difference of both means away from queries. Default: texts have no roles.",
  )
  query_column: str | None = setting(
    None, "Column of the query in queries; in TSV and CSV also a number from 1. Default: sentence or text.", named=False
  )


@dataclasses.dataclass(frozen=True)
class FlowCorpus:
  """Sentence pairs that a calibration is fitted on."""

  name: str  # value of `flow_corpus`
  pairs: SentencePairs
  source: str  # description of their origin, for messages
  # Defaults of a flow on this corpus.
  learning_rate: float = LEARNING_RATE
  num_train_epochs: float | None = None  # None for `default_epochs`
  queries: tuple[str, ...] | None = None  # None where the sentences have no roles


def default_epochs(num_pairs: int) -> float:
  """Returns the passes over pairs that fit a flow where neither the user nor the paper says it."""
  return float(min(max(1, math.ceil(_PAIRS / max(num_pairs, 1))), _MAX_EPOCHS))


def load_flow_corpus(
  name: str,
  task: TaskData,
  data_dir: str | None = None,
  tfds_data_dir: str | None = None,
  max_record_bytes: int = MAX_RECORD_BYTES,
) -> FlowCorpus:
  """Returns the corpus "target" (all sentences of the task), "train" (its train split), "nli", or of a file."""
  if name == TARGET:
    return FlowCorpus(name, task.all_pairs(), task.source, num_train_epochs=task.spec.num_train_epochs)
  if name == TRAIN:
    pairs = task.fitting_pairs(False, f"flow_corpus={name}")
    return FlowCorpus(name, pairs, task.source, num_train_epochs=task.spec.num_train_epochs)
  if name == NLI:
    splits, source = load_table_parts("SNLI and MNLI", nli.CORPUS, Paths(data_dir, tfds_data_dir))
    return FlowCorpus(name, splits["train"], source, nli.LEARNING_RATE, nli.NUM_TRAIN_EPOCHS)
  path = os.path.expanduser(name)
  if not os.path.exists(path):
    message = f"flow_corpus={name}: expected target, train, nli, or a file of sentences that exists"
    raise ConfigError(message, argument="flow_corpus")
  pairs, source = read_custom_pairs(path, max_record_bytes)
  return FlowCorpus(name, pairs, source)


def load_task_and_corpus(
  data: DataSettings, corpus: CorpusSettings, beir: BeirSettings | None = None
) -> tuple[TaskData, FlowCorpus]:
  """Loads the evaluated task and the corpus of the fit that the settings choose."""
  task: TaskData
  if beir is not None and beir.beir is not None:
    task = load_beir(beir.beir, beir.split, data.max_record_bytes, beir.ignore_identical_ids)
  else:
    paths = (data.data_dir, data.tfds_data_dir, data.stsb_gold)
    task = load_task(data.task, *paths, **data.own_file)
  name, use_full = corpus.flow_corpus, corpus.use_full_for_training
  if name is not None and use_full is not None:
    message = f"flow_corpus={name}: use_full_for_training={use_full} also chooses the corpus; give only one of them"
    raise ConfigError(message, argument="flow_corpus")
  if use_full is not None:
    # `TaskData.fitting_pairs` reads the pairs as the published code does.
    pairs, source = task.fitting_pairs(use_full), task.source
    if use_full and task.spec.one_file_for_all_splits:
      source += ", each pair three times, as the published code reads it"
    kind = TARGET if use_full else TRAIN
    flow_corpus = FlowCorpus(kind, pairs, source, num_train_epochs=task.spec.num_train_epochs)
  else:
    # The data_dir of the task custom is its file, not a folder of NLI.
    folder = None if task.spec.name == "custom" else data.data_dir
    limit = data.max_record_bytes
    flow_corpus = load_flow_corpus(TARGET if name is None else name, task, folder, data.tfds_data_dir, limit)
  if task.spec.packaged and data.data_dir and flow_corpus.name != NLI:
    expected = "choose another task, as task=custom for a file of pairs"
    raise ConfigError(f"data_dir={data.data_dir}: the task {task.name} reads no files; {expected}", "data_dir")
  logging.info("%s: %s", task.spec.name, task.source)
  if beir is not None and beir.fit_queries and isinstance(task, RetrievalTask):
    queries = tuple(text for text in task.queries.values() if text.strip())
    return task, dataclasses.replace(flow_corpus, queries=queries)
  queries = queries_of_fit(corpus.queries, corpus.query_column, data.max_record_bytes)
  return task, dataclasses.replace(flow_corpus, queries=queries)


def queries_of_fit(
  path: str | None, column: str | None = None, max_record_bytes: int = MAX_RECORD_BYTES
) -> tuple[str, ...] | None:
  """Returns the texts of a file of queries, of any kind but TFRecord; None without a file."""
  if path is None:
    if column is not None:
      raise ConfigError("query_column: needs queries=FILE, which has this column", argument="query_column")
    return None
  kind = kind_of(path)
  if kind == TEXT and column is not None:
    kind = TSV
  with naming("queries", "input"):
    hint = "; --query_column names it, or in TSV and CSV gives its number, as --query_column=2"
    found = corpus_format([path], kind=kind, column=column, max_bytes=max_record_bytes, hint=hint, prefix="query_")
    return tuple(text for _, text in read_sentences([path], found))
