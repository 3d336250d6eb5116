"""Scores of an encoder for the rows of all tables: its embeddings, fitted models and stored results."""

import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf._version import __version__
from bert_flow_tf.calibration.names import check_k_on_dev, parse_calibration
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.controls import string_matches
from bert_flow_tf.evaluation.task_scores import HEADLINE, pair_cosines, scores_of_split
from bert_flow_tf.io import checksums, files
from bert_flow_tf.report.result_files import plain
from bert_flow_tf.tables.inputs import TableInputs, change_encoder, label_of, load_table_encoder, paper_encoder
from bert_flow_tf.tables.kinds import EncoderKind, encoder_kind
from bert_flow_tf.tables.recipe import CONTROLS, NONE, UNIFORM, RowRecipe

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

NLI_TUNED = " (fine-tuned on NLI)"
# Versions that take part in the key of a stored result.
_PACKAGES = ("tensorflow", "keras", "tf-keras", "tensorflow-probability", "tokenizers", "numpy", "scipy")
_KEPT_MODELS = 32


class Store:
  """Computed results on disk, a JSON file each, so that a stopped run resumes; a damaged file counts as absent."""

  def __init__(self, folder: str | os.PathLike) -> None:
    self._folder = folder
    versions = map(importlib.metadata.version, _PACKAGES)
    self._versions = dict(zip(_PACKAGES, versions, strict=True)) | {"bert-flow-tf": __version__}

  def kept(self, key: Mapping[str, object], compute: Callable[[], object]) -> Any:
    """Returns `compute()` as JSON values (None for NaN), from the file of the key if there is one."""
    # The key holds everything else that decides the result; the versions of the packages are added.
    key = plain({**key, "versions": self._versions})
    file = pathlib.Path(self._folder) / f"{_digest(key)[:32]}.json"
    try:
      content = checksums.verified(files.read_json(file))
      if content["key"] == key:
        return content["value"]
    except FileNotFoundError:
      pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
      logging.warning("%s is damaged (%s): its result is computed again", file, error)
    value = plain(compute())
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(file, json.dumps(checksums.sealed({"key": key, "value": value})) + "\n")
    return value


class Workbench:
  """Scores of an encoder; computes each result once.

  Args:
    encoder: a `SentenceEncoder` or a `WordEncoder`.
    inputs: tasks, corpora and settings of the run.
    store: stored results.
    label: name of the encoder in the tables.
    kind: kind of the encoder.
    paper_encoder: "base" or "large" if the encoder is the paper's.
    only_embedding: the one embedding of the encoder: of word vectors, of a SavedModel, of word embeddings alone, or
      declared by its folder. None if the tables choose.
  """

  def __init__(
    self,
    encoder: Any,
    inputs: TableInputs,
    store: Store,
    label: str,
    kind: EncoderKind = EncoderKind.BERT,
    paper_encoder: str | None = None,
    only_embedding: str | None = None,
  ) -> None:
    self.encoder, self.inputs, self.store, self.label = encoder, inputs, store, label
    self.kind, self.paper_encoder, self.only_embedding = kind, paper_encoder, only_embedding
    self._max_seq_length = inputs.embedding.max_seq_length
    if kind is EncoderKind.SAVED_MODEL:
      self._max_seq_length = None
    self.embeddings = functools.lru_cache(maxsize=2)(self._embeddings)
    self._fitted = functools.lru_cache(maxsize=_KEPT_MODELS)(self._fit)
    self._variant = functools.cache(self._change)

  @property
  def title(self) -> str:
    """Beginning of the names of its rows."""
    if self.kind is EncoderKind.TUNED:
      return self.label + NLI_TUNED
    return self.label

  @property
  def sizes(self) -> dict[str, int | str]:
    """Sizes of its BERT and the name that it was loaded by, JSON values for a reader."""
    if self.kind is EncoderKind.SAVED_MODEL:
      return {"dimensions": self.encoder.hidden_size, "folder": self.encoder.name}
    config = self.encoder.config
    sizes = {"blocks": config.num_hidden_layers, "dimensions": config.hidden_size, "word pieces": config.vocab_size}
    return {**sizes, "folder": self.encoder.name}

  def score(self, task: str, recipe: RowRecipe, seed: int = 0) -> tuple[float, str, str]:
    """Returns the score of a task's evaluated split, the reason if it is NaN, and the fitted calibration's name."""
    try:
      cosines, calibration = self.cosines(task, recipe, seed)
    except BertFlowError as error:
      logging.warning("no score of %s, %s on %s: %s", self.title, recipe, task, error)
      return float("nan"), str(error), recipe.calibration
    data = self.inputs.tasks[task]
    split = data.spec.eval_split
    scores = scores_of_split(split, data.splits[split], cosines, data.spec.metric).get(split)
    if scores is None:
      return float("nan"), f"the {split} split has no gold scores", calibration
    (value,) = [scores[key] for key in HEADLINE if key in scores]
    return value, scores["reason"], calibration

  def cosines(self, task: str, recipe: RowRecipe, seed: int = 0, split: str | None = None) -> tuple[np.ndarray, str]:
    """Returns the cosine of each pair of a split (None: the evaluated one), float64 [n]; and the calibration's name."""

    def compute():
      logging.info("%s: %s, seed %d: %s", task, self.title, seed, recipe)
      name, part = NONE, split or self.inputs.tasks[task].spec.eval_split
      pairs = self.inputs.tasks[task].splits[part]
      if recipe.embedding in CONTROLS:
        model = self._model(None)
        matches = string_matches(model.encoder, pairs.sentences_a, pairs.sentences_b, model.max_seq_length)
        return {"cosines": matches[recipe.embedding].tolist(), "calibration": name}
      if recipe.has_characters:
        cosines = self.model(task, recipe, seed).similarity(pairs.sentences_a, pairs.sentences_b)
      else:
        cosines = pair_cosines(*self.sides(task, recipe, seed, split), part)
      if recipe.calibration != NONE:
        name = self.model(task, recipe, seed).calibration_name  # with the choice of auto and natsv
      return {"cosines": cosines.tolist(), "calibration": name}

    values = self.stored("cosines", compute, task, recipe, seed, split)
    return np.array(values["cosines"], np.float64), values["calibration"]

  def stored(
    self, kind: str, compute: Callable, task: str, recipe: RowRecipe, seed: int = 0, split: str | None = None
  ) -> Any:
    """Returns `compute()` as JSON values, from the store if it is there; `kind` names this kind of result."""
    return self.store.kept({"kind": kind, **self._key(task, recipe, seed, split)}, compute)

  def sides(
    self, task: str, recipe: RowRecipe, seed: int = 0, split: str | None = None
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the calibrated embeddings of both sides of a split (None for the evaluated one), [n, dim] each."""
    data = self.inputs.tasks[task]
    pairs = data.splits[split or data.spec.eval_split]
    model = self.model(task, recipe, seed)
    encode = self.variant(recipe).embeddings(recipe.embedding).calibrated_by(model.transform)
    return encode(pairs.sentences_a), encode(pairs.sentences_b)

  def variant(self, recipe: RowRecipe) -> "Workbench":
    """Returns the workbench of this encoder as a recipe takes it: with other settings, or static."""
    if recipe.token_weights == UNIFORM and not (recipe.static or recipe.precision or recipe.engine):
      return self
    return self._variant(recipe.token_weights, recipe.static, recipe.precision, recipe.engine)

  def model(self, task: str, recipe: RowRecipe, seed: int = 0) -> "SentenceModel":
    """Returns the `SentenceModel` of a recipe, fitted on its corpus; see `cosines` for errors."""
    bench = self.variant(recipe)
    if recipe.calibration == NONE:
      return bench._model(recipe.embedding)
    spec = parse_calibration(recipe.calibration)
    check_k_on_dev([spec], self.inputs.tasks[task])
    corpus = self.inputs.corpus(recipe.corpus, task)
    # Only the arguments that decide the fit, so that a flow of Table 2 is used again in Table 6.
    dev_task = ""
    if spec.k_on_dev:
      dev_task = task
    if not recipe.is_random:
      seed = 0
    return bench._fitted(recipe.embedding, spec, corpus, dev_task, seed)

  def _change(self, token_weights, static, precision, engine):
    encoder = change_encoder(self.encoder, self.inputs.embedding, token_weights, static, precision, engine)
    return Workbench(encoder, self.inputs, self.store, self.label, self.kind)

  def _key(self, task, recipe, seed, split):
    """Returns everything that decides a result but the versions, and nothing else, JSON values."""
    data, encoder = self.inputs.tasks[task], self.variant(recipe).encoder
    key = {"gold": fingerprint(data.splits[split or data.spec.eval_split])}
    if recipe.embedding in CONTROLS or recipe.has_characters:
      key["characters"] = recipe.embedding, encoder.characters.checksum, self._max_seq_length
    if recipe.embedding in CONTROLS:
      return {**key, "identical": "tied"}  # 0.1 stored their cosines with their rounding
    key["encoder"] = encoder.fingerprint([], recipe.embedding, self._max_seq_length)
    if recipe.calibration == NONE:
      return key
    spec, corpus = parse_calibration(recipe.calibration), self.inputs.corpus(recipe.corpus, task)
    key |= {"calibration": spec.name, "corpus": fingerprint(corpus.pairs, gold=False)}
    if spec.k_on_dev and "dev" in data.splits:
      key["dev"] = fingerprint(data.splits["dev"])
    if recipe.is_random:
      key["flow"] = self.inputs.flow_key(corpus, seed)
    return key

  def _model(self, embedding):
    from bert_flow_tf.model import SentenceModel

    settings = self.inputs.embedding
    return SentenceModel(
      self.encoder,
      sentence_embedding_type=embedding,
      max_seq_length=self._max_seq_length,
      cache=settings.cached_dir,
    )

  def _embeddings(self, embedding: str) -> Embeddings:
    """Returns the embeddings of all sentences of the run's tasks."""
    sets = []
    for task in self.inputs.tasks.values():
      sets += task.splits.values()
    model, settings = self._model(embedding), self.inputs.embedding
    arguments = model.identity.settings.pooling_arguments()
    return Embeddings(model.encoder, sets, settings.predict_batch_size, settings.cached_dir, **arguments)

  def _fit(self, embedding, spec, corpus, dev_task, seed):
    """Returns a model with a calibration fitted on a corpus; `dev_task`: the task whose dev split chooses k."""
    dev = None
    if dev_task:
      dev = self.inputs.tasks[dev_task].splits["dev"]
    model = self._model(embedding)
    rows = model.fit_sentences(
      corpus.pairs,
      dev=dev,
      cached=[self.embeddings(embedding)],
      batch_size=self.inputs.embedding.predict_batch_size,
      show_progress=False,
      key=(embedding, corpus, dev_task),
    )
    (calibration,) = self._fitter.fit([spec], rows, self.inputs.flow_settings(corpus, seed))
    return model.with_calibration(spec.steps(calibration))

  @functools.cached_property
  def _fitter(self):
    """The fitter of all models, which fits a part that several of them share once."""
    from bert_flow_tf.training.fitter import Fitter

    return Fitter(show_progress=False, keep_trainers=True)


def load_benches(names: Sequence[str], inputs: TableInputs, store: Store, is_tuned: bool = False) -> list[Workbench]:
  """Returns a workbench for each name of an encoder; EncoderError if one cannot be loaded."""
  benches = []
  for name in names:
    encoder, kind, paper = load_table_encoder(name, inputs), encoder_kind(name, is_tuned), None
    only_embedding = encoder.pooling().name
    if kind in (EncoderKind.BERT, EncoderKind.TUNED):
      paper = paper_encoder(name, encoder.config, is_tuned)
      if not encoder.declared.source:
        only_embedding = None
    benches.append(Workbench(encoder, inputs, store, label_of(name), kind, paper, only_embedding))
  return benches


@functools.lru_cache(maxsize=64)
def fingerprint(pairs: SentencePairs, gold: bool = True) -> str:
  """Returns the hexadecimal SHA-256 of sentences, and with `gold` of their scores and subsets."""
  content: list[object] = [list(pairs.sentences_a), list(pairs.sentences_b)]
  if gold:
    content += [pairs.scores.tolist(), repr(pairs.subsets)]
  return _digest(content)


def _digest(value: Sequence[object] | dict[str, object]) -> str:
  return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
