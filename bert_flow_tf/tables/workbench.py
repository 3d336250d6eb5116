"""Scores of one encoder, for the rows of all tables: its embeddings, fitted calibrations and stored results."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_flow_tf.calibration.combined import side_by_side
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import AUTO, FLOW, check_k_on_dev, parse_calibration
from bert_flow_tf.data.flow_corpus import TARGET, FlowCorpus
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.evaluation.task_scores import Embeddings, evaluate, parts
from bert_flow_tf.tables.inputs import TARGET_OF, Inputs
from bert_flow_tf.tables.keys import code_fingerprint, gold_fingerprint, text_fingerprint
from bert_flow_tf.tables.store import Store

NONE = "none"
NLI_TUNED = " (fine-tuned on NLI)"
# Keys of a task's metrics; the first that is present is the one that the paper reports.
HEADLINE = ("spearman_wmean", "spearman", "auc")


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Method of a row.

  Attributes:
    embedding: a `sentence_embedding_type`.
    calibration: canonical name of a calibration; "none" for the embeddings themselves.
    corpus: sentences that it is fitted on: "target", "nli", a file, or `target_of(TASK, ...)`.
  """

  embedding: str
  calibration: str = NONE
  corpus: str = TARGET

  @property
  def is_random(self) -> bool:
    """True if the seed changes the result."""
    return FLOW in self.calibration.split("+")


def target_of(*tasks: str) -> str:
  """Returns a recipe's corpus: the sentences of one task or several, whichever task is evaluated."""
  return f"{TARGET_OF}{','.join(tasks)}"


class Workbench:
  """One encoder of a run; computes each result once.

  Args:
    encoder: a `SentenceEncoder`, or `WordVectors`.
    inputs: tasks, corpora and settings.
    store: stored results.
    label: name of the encoder in the tables.
    paper_encoder: "base" or "large" if it is the paper's encoder; None if its scores are not compared with the paper's.
    nli_tuned: whether the encoder was fine-tuned on NLI.
    words: whether it averages word vectors, and so has only one embedding.

  Attributes:
    fits: number of calibrations that were fitted.
    The arguments.
  """

  def __init__(
    self,
    encoder: Any,
    inputs: Inputs,
    store: Store,
    label: str,
    paper_encoder: str | None = None,
    nli_tuned: bool = False,
    words: bool = False,
  ) -> None:
    self.encoder, self.inputs, self.label = encoder, inputs, label
    self.paper_encoder, self.nli_tuned, self.words = paper_encoder, nli_tuned, words
    self.fits = 0
    self.store = store
    self.embeddings = functools.lru_cache(maxsize=2)(self._embeddings)
    # A flow is small and takes long to fit: it is kept for later tables. Whitening is large and takes a second.
    self._flow = functools.lru_cache(maxsize=32)(self._fit_flow)
    self._linear = functools.lru_cache(maxsize=1)(self._fit_linear)
    self._trainers = {}

  @property
  def title(self) -> str:
    """Beginning of the names of its rows."""
    return f"{self.label}{NLI_TUNED * self.nli_tuned}"

  @property
  def has_cls(self) -> bool:
    """True if its checkpoint has a pooler, which `cls` needs."""
    return not self.words and self.encoder.bert.has_pooler

  def scores(self, task: str, recipe: Recipe, seed: int = 0) -> dict[str, Any]:
    """Returns the metrics of a task's evaluated split, as JSON values, from the store if they are there.

    Args:
      task: name of a task.
      recipe: embedding and calibration.
      seed: seed of the flow.

    Raises:
      CalibrationError, FlowError, TrainingError: the calibration cannot be fitted on these sentences.
    """
    return self.remembered("scores", self._scores, task, recipe, seed)

  def remembered(
    self, kind: str, compute: Callable, task: str, recipe: Recipe, seed: int = 0, split: str | None = None
  ) -> Any:
    """Returns `compute(task, recipe, seed)` as JSON values, from the store if it is there.

    The arguments are those of `scores`, and kind, a name for this kind of result; and split, the split that it is
    computed on, None for the evaluated one.
    """
    return self.kept({"what": kind, **self._key(task, recipe, seed, split)}, lambda: compute(task, recipe, seed))

  def kept(self, key: dict[str, Any], compute: Callable) -> Any:
    """Returns `compute()` as JSON values, from the store if it has the key and was computed by the same code."""
    key = {**key, "code": code_fingerprint()}
    value = self.store.get(key)
    return self.store.put(key, compute()) if value is None else value

  def cosines(self, task: str, recipe: Recipe, seed: int = 0, split: str | None = None) -> np.ndarray:
    """Returns the cosine of each pair of a split (None for the evaluated one), float64 [n]."""
    data = self.inputs.tasks[task]
    split = split or data.spec.eval_split
    return evaluate(data, self.embeddings(recipe.embedding), self.transform(task, recipe, seed), [split])[1][split]

  def sides(self, task: str, recipe: Recipe, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns the calibrated embeddings of both sides of a task's evaluated split, [n, dim] each."""
    data = self.inputs.tasks[task]
    pairs = data.splits[data.spec.eval_split]
    transform, embeddings = self.transform(task, recipe, seed), self.embeddings(recipe.embedding)
    return transform(embeddings.of(pairs.sentences_a)), transform(embeddings.of(pairs.sentences_b))

  def transform(self, task: str, recipe: Recipe, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the recipe's fitted calibration as a function of embeddings [n, dim]."""
    calibration = self.calibration(task, recipe, seed)
    return (lambda embeddings: embeddings) if calibration is None else calibration.transform

  def calibration(self, task: str, recipe: Recipe, seed: int = 0) -> Calibration | None:
    """Returns the recipe's fitted calibration, None for "none".

    Raises:
      CalibrationError: k is to be chosen on dev, which the task does not have; or the fit failed.
      FlowError, TrainingError: the flow's fit failed.
    """
    if recipe.calibration == NONE:
      return None
    spec = parse_calibration(recipe.calibration)
    try:
      check_k_on_dev([spec], self.inputs.tasks[task])
    except ConfigError as error:  # not the user's mistake: other columns have a dev split
      raise CalibrationError(str(error)) from error
    corpus = self.inputs.corpus(recipe.corpus, task)
    # Only the arguments that decide the fit, so that a flow of Table 2 is used again in Table 6.
    parts = [
      self._flow(recipe.embedding, corpus, seed)
      if part.method == FLOW
      else self._linear(recipe.embedding, part, corpus, task if part.k_on_dev else None)
      for part in spec.parts
    ]
    return side_by_side(parts)

  def _key(self, task, recipe, seed, split):
    """Returns everything that decides a result but the code, and nothing else, JSON values."""
    data = self.inputs.tasks[task]
    key = {
      "encoder": self.encoder.fingerprint([], recipe.embedding, self.inputs.embedding.max_seq_length),
      "metric": data.spec.metric,
      "gold": gold_fingerprint(data.splits[split or data.spec.eval_split]),
    }
    shares = self._shares(recipe.embedding)
    key |= {"shares": shares} if shares else {}
    if recipe.calibration == NONE:
      return key
    spec, corpus = parse_calibration(recipe.calibration), self.inputs.corpus(recipe.corpus, task)
    key |= {"calibration": spec.name, "corpus": text_fingerprint(corpus.pairs)}
    if spec.k_on_dev and "dev" in data.splits:
      key["dev"] = gold_fingerprint(data.splits["dev"])
    if recipe.is_random:
      key["flow"] = self.inputs.flow_key(corpus, seed)
    return key

  def _scores(self, task, recipe, seed):
    data = self.inputs.tasks[task]
    split = data.spec.eval_split
    metrics, _ = evaluate(data, self.embeddings(recipe.embedding), self.transform(task, recipe, seed), [split])
    (name,) = (name for name, _, _ in parts(split, data.splits[split]))
    scores = dict(metrics.get(name, {"reason": f"the {split} split has no gold scores"}))
    if recipe.calibration != NONE:
      scores["calibration"] = self.calibration(task, recipe, seed).name
    return scores

  def _shares(self, embedding):
    """Returns the share of each view that an embedding concatenates, or ()."""
    return getattr(self.encoder.pooling(embedding), "shares", ())

  def _embeddings(self, embedding):
    return self._embed(embedding, [pairs for task in self.inputs.tasks.values() for pairs in task.splits.values()])

  def _embed(self, embedding, sets):
    settings = self.inputs.embedding
    arguments = {"sentence_embedding_type": embedding, "max_seq_length": settings.max_seq_length}
    return Embeddings(self.encoder, sets, settings.predict_batch_size, settings.cached_dir, **arguments)

  def _fit_linear(self, embedding, spec, corpus, chosen_on):
    from bert_flow_tf.training.calibrate import fit_linear

    self.fits += 1
    embeddings = self.embeddings(embedding)
    own = embeddings if embeddings.have(corpus.pairs) else self._embed(embedding, [corpus.pairs])
    task, shares = self.inputs.tasks.get(chosen_on), self._shares(embedding)
    if spec.method == AUTO:
      from bert_flow_tf.training.choice import choose_calibration

      sentences = [*corpus.pairs.sentences_a, *corpus.pairs.sentences_b]
      identity = self.encoder.identity(embedding, self.inputs.embedding.max_seq_length)
      return choose_calibration(self.encoder, identity, sentences, own.rows(corpus.pairs), shares).calibration
    gold = None
    if task is not None:
      dev = task.splits["dev"]
      gold = embeddings.of(dev.sentences_a), embeddings.of(dev.sentences_b), dev.scores
    return fit_linear(spec, own.rows(corpus.pairs), gold, shares)

  def _fit_flow(self, embedding: str, corpus: FlowCorpus, seed: int) -> Calibration:
    from bert_flow_tf.training.calibrate import FlowFitter
    from bert_flow_tf.training.sources import FitSentences

    self.fits += 1
    settings = self.inputs.flow_settings(corpus, seed)
    # Compiling takes longer than fitting: one flow and trainer serve all fits of a dimension, and a copy is kept.
    dim, shares = self.encoder.dim(embedding), self._shares(embedding)
    key = dim, shares, dataclasses.replace(settings, seed=0, num_train_epochs=1.0)
    if key not in self._trainers:
      self._trainers[key] = FlowFitter(settings, dim, show_progress=False, shares=shares)
    fitter = self._trainers[key]
    fitter.restart(settings)
    sides = list(corpus.pairs.sentences_a), list(corpus.pairs.sentences_b)
    sentences = FitSentences(sides, lambda pairs: self._embed(embedding, [pairs]), [self.embeddings(embedding)])
    fitter.fit(sentences.embedding_pairs(fitter.pairs_seen))
    return fitter.copy()


def headline(scores: dict[str, Any]) -> tuple[float, str]:
  """Returns the metric that the paper reports and ""; or NaN and the reason why it is not defined."""
  for key in HEADLINE:
    if scores.get(key) is not None:
      return scores[key], ""
  return float("nan"), scores.get("reason") or "not defined"
