"""What the rows of all tables share: encoder, tasks, embeddings, fitted calibrations, finished figures."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from absl import logging

import bert_flow_tf
from bert_flow_tf.calibration.fitting import check_k_on_dev, fit_linear
from bert_flow_tf.calibration.spec import FLOW, parse_calibration
from bert_flow_tf.data.flow_corpus import TARGET, load_flow_corpus
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.evaluation.task_figures import Embeddings, evaluate, parts
from bert_flow_tf.tables.keys import gold_fingerprint, text_fingerprint

NONE = "none"
# Keys of a task's figures of which the first that is there is the paper's figure for it.
HEADLINE = ("spearman_wmean", "spearman", "auc")
_TARGET_OF = "target of "


@dataclasses.dataclass(frozen=True)
class Recipe:
  """A row's method.

  Attributes:
    embedding: a `sentence_embedding_type`.
    calibration: a value of `--calibration` in its canonical spelling; "none" for the embeddings themselves.
    corpus: what it is fitted on: "target", "nli", a file, or `target_of(TASK)`.
  """

  embedding: str
  calibration: str = NONE
  corpus: str = TARGET

  @property
  def is_random(self):
    """Whether seeds make a difference."""
    return self.calibration == FLOW


def target_of(task):
  """A recipe's corpus: the sentences of one task, whichever is evaluated."""
  return f"{_TARGET_OF}{task}"


@dataclasses.dataclass(frozen=True)
class Settings:
  """What the flags say, beside the encoder.

  Attributes:
    tasks: name -> `TaskData`, every task of the run.
    load_corpus: "nli" or a file -> `FlowCorpus`.
    flow_settings: (`FlowCorpus`, seed) -> `FlowSettings`.
    flow_key: (`FlowCorpus`, seed) -> json values, everything of `flow_settings` that decides a flow.
    max_seq_length, batch_size, cache: as `SentenceEncoder.encode` takes them.
  """

  tasks: dict[str, Any]
  load_corpus: Callable
  flow_settings: Callable
  flow_key: Callable
  max_seq_length: int = 64
  batch_size: int = 64
  cache: str | None = None


class Workbench:
  """Computes the figures of one encoder, each piece of work once.

  Args:
    encoder: a `SentenceEncoder`, or `WordVectors`.
    settings: `Settings`.
    store: `Store` of finished figures.

  Attributes:
    fits: how many calibrations were fitted here.
  """

  def __init__(self, encoder, settings, store):
    self.encoder = encoder
    self.settings = settings
    self.fits = 0
    self._store = store
    self.embeddings = functools.lru_cache(maxsize=2)(self._embeddings)
    # A flow is kept for the tables to come: small, and long to fit. Whitening is large, and fitted in a second.
    self._flow = functools.lru_cache(maxsize=16)(self._fit_flow)
    self._linear = functools.lru_cache(maxsize=1)(self._fit_linear)
    self._task_corpus = functools.cache(lambda task: load_flow_corpus(TARGET, settings.tasks[task]))
    self._missing, self._trainers = {}, {}

  def figures(self, task, recipe, seed=0):
    """Figures of a task's evaluation split by a recipe, as `evaluation.figures` gives them; from the store if there.

    Args:
      task: name of a task.
      recipe: `Recipe`.
      seed: of the flow; of no concern to the others.

    Raises:
      CalibrationError, FlowError, TrainingError: there is no such figure.
    """
    return self.remembered("figures", self._figures, task, recipe, seed)

  def remembered(self, what, compute, task, recipe, seed=0, split=None):
    """What `compute(task, recipe, seed)` gives, as json keeps it; from the store if there.

    Args:
      what: name of the kind of thing that is computed.
      compute: the function.
      task: as in `figures`.
      recipe: as in `figures`.
      seed: as in `figures`.
      split: the split that it is computed of; the evaluation split if None.
    """
    return self.kept({"what": what, **self._key(task, recipe, seed, split)}, lambda: compute(task, recipe, seed))

  def kept(self, key, compute):
    """What `compute()` gives, as json keeps it; from the store if it is there under this key."""
    found = self._store.get(key)
    return self._store.put(key, compute()) if found is None else found

  def cosines(self, task, recipe, seed=0, split=None):
    """Similarities [n] of a task's split (the evaluation split if None) by a recipe."""
    data = self.settings.tasks[task]
    split = split or data.spec.eval_split
    return evaluate(data, self.embeddings(recipe.embedding), self.transform(task, recipe, seed), [split])[1][split]

  def transform(self, task, recipe, seed=0):
    """The fitted calibration of a recipe as a function of embeddings [n, dim]."""
    calibration = self.calibration(task, recipe, seed)
    return (lambda u: u) if calibration is None else calibration.transform

  def calibration(self, task, recipe, seed=0):
    """The fitted calibration of a recipe, None for "none".

    Raises:
      CalibrationError: k is to be chosen on dev, which the task does not have, or what the fit raises.
    """
    if recipe.calibration == NONE:
      return None
    spec = parse_calibration(recipe.calibration)
    try:
      check_k_on_dev([spec], self.settings.tasks[task])
    except ConfigError as error:  # no mistake where other columns have a dev split
      raise CalibrationError(str(error)) from error
    corpus = self.corpus(recipe.corpus, task)
    # What decides the fit and nothing else: a flow of Table 2 serves Table 6.
    if recipe.is_random:
      return self._flow(recipe.embedding, corpus, seed)
    return self._linear(recipe.embedding, spec, corpus, task if spec.k_on_dev else None)

  def corpus(self, name, task):
    """`FlowCorpus` of a recipe's corpus; "target" is the task's own.

    Raises:
      DataError: it cannot be read.
    """
    if name == TARGET:
      return self._task_corpus(task)
    if name.startswith(_TARGET_OF):
      return self._task_corpus(name.removeprefix(_TARGET_OF))
    return self.settings.load_corpus(name)

  def why_missing(self, corpus):
    """Why a recipe's corpus, "nli" or a file, is not here; "" where it is, or is the task's own sentences."""
    if corpus == TARGET or corpus.startswith(_TARGET_OF):
      return ""
    if corpus not in self._missing:
      try:
        self.settings.load_corpus(corpus)
        self._missing[corpus] = ""
      except DataError as error:
        logging.warning("rows of the corpus %s have no figures: %s", corpus, error)
        self._missing[corpus] = str(error)
    return self._missing[corpus]

  def _key(self, task, recipe, seed, split):
    """Everything that decides a figure and nothing else, json values."""
    data = self.settings.tasks[task]
    key = {
      "version": bert_flow_tf.__version__,
      "encoder": self.encoder.fingerprint([], recipe.embedding, self.settings.max_seq_length),
      "metric": data.spec.metric,
      "gold": gold_fingerprint(data.splits[split or data.spec.eval_split]),
    }
    if recipe.calibration == NONE:
      return key
    spec, corpus = parse_calibration(recipe.calibration), self.corpus(recipe.corpus, task)
    key |= {"calibration": spec.name, "corpus": text_fingerprint(corpus.pairs)}
    if spec.k_on_dev and "dev" in data.splits:
      key["dev"] = gold_fingerprint(data.splits["dev"])
    if recipe.is_random:
      key["flow"] = self.settings.flow_key(corpus, seed)
    return key

  def _figures(self, task, recipe, seed):
    data = self.settings.tasks[task]
    split = data.spec.eval_split
    found, _ = evaluate(data, self.embeddings(recipe.embedding), self.transform(task, recipe, seed), [split])
    (name,) = (name for name, _, _ in parts(split, data.splits[split]))
    figures = dict(found.get(name, {"reason": f"the {split} split has no gold scores"}))
    if recipe.calibration != NONE:
      figures["calibration"] = self.calibration(task, recipe, seed).name
    return figures

  def _embeddings(self, embedding):
    return self._embed(embedding, [pairs for task in self.settings.tasks.values() for pairs in task.splits.values()])

  def _embed(self, embedding, sets):
    arguments = {"sentence_embedding_type": embedding, "max_seq_length": self.settings.max_seq_length, "low_dim": None}
    return Embeddings(self.encoder, sets, self.settings.batch_size, self.settings.cache, **arguments)

  def _fit_linear(self, embedding, spec, corpus, chosen_on):
    self.fits += 1
    embeddings = self.embeddings(embedding)
    own = embeddings if embeddings.have(corpus.pairs) else self._embed(embedding, [corpus.pairs])
    return fit_linear(spec, own.rows(corpus.pairs), self.settings.tasks.get(chosen_on), embeddings)

  def _fit_flow(self, embedding, corpus, seed):
    from bert_flow_tf.calibration.flow import FlowCalibration
    from bert_flow_tf.training.calibrations import flow_source, make_flow

    self.fits += 1
    settings = self.settings.flow_settings(corpus, seed)
    # One flow and trainer for all fits of a width, since compiling takes longer than fitting; what is kept is a copy.
    dim = self.encoder.dim(embedding)
    key = dim, dataclasses.replace(settings, seed=0, num_train_epochs=1.0)
    if key not in self._trainers:
      self._trainers[key] = make_flow(settings, dim, show_progress=False)
    flow, trainer = self._trainers[key]
    trainer.restart(seed)
    flow.num_train_epochs = settings.epochs
    embeddings = self.embeddings(embedding)
    embed = lambda pairs: self._embed(embedding, [pairs])  # noqa: E731
    flow.fit_source(flow_source(flow, trainer, corpus.pairs, embeddings, embed))
    return FlowCalibration(flow.flow.copy())


def headline(figures):
  """(value, reason) of a task's figures: the paper's figure for it, NaN with a reason where it is not defined."""
  for key in HEADLINE:
    if figures.get(key) is not None:
      return figures[key], ""
  return float("nan"), figures.get("reason") or "not defined"
