"""Sentence model: an encoder, its pooling and a calibration in one object."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.names import FLOW, CalibrationSpec, fitted_steps, parse_calibration
from bert_flow_tf.calibration.recipes import Recipe, find_recipe
from bert_flow_tf.calibration.saving import load_steps, save_steps, steps_sha256
from bert_flow_tf.calibration.step import (
  Calibration,
  Normalize,
  QueryShift,
  Step,
  apply_to_rows,
  cosines_of_halves,
  display_name,
  names_of,
  output_dim,
)
from bert_flow_tf.calibration.step_list import Calibrating, read_steps, without_identity
from bert_flow_tf.data.files.rows import log_without_text
from bert_flow_tf.data.pairs import SentencePairs, Texts, check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.encoder.cache import CHUNK_SENTENCES
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY, role_of
from bert_flow_tf.encoder.identity import (
  RECIPE,
  EncoderIdentity,
  VectorsIdentity,
  check_dim,
  check_encoder,
  check_not_first,
  has_identity,
  load_identity,
  read_identity,
  save_identity,
)
from bert_flow_tf.encoder.loading import load_fitted_encoder
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import NO_GRADIENTS, reject_openvino
from bert_flow_tf.encoder.text_encoder import TextEncoder, TextGraph, check_loaded
from bert_flow_tf.encoder.transformer.number_formats import reject_int8
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, EncoderError, naming
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import (
  check_assignment,
  check_counts,
  check_dense,
  check_rows,
  check_sentence_transformers,
)
from bert_flow_tf.io.files import check_path
from bert_flow_tf.io.lazy import load_tensorflow
from bert_flow_tf.progress import Progress, either_name
from bert_flow_tf.training.fit_rows import FitSentences
from bert_flow_tf.training.fitter import Fitter, settings_of_fit

if TYPE_CHECKING:  # imported where they are used: they need TensorFlow
  import tensorflow as tf

  from bert_flow_tf.calibration.flow import FlowCalibration
  from bert_flow_tf.calibration.function import SentenceFunction
  from bert_flow_tf.training.choice import Choice
  from bert_flow_tf.training.loop import LoopResult

# Texts of pairs that are embedded at once: distinct ones, or those of a part of the pairs if there are more.
_MAX_TEXTS, _PART_TEXTS = 1 << 17, 1 << 14
_ATTRIBUTES = ("encoder", "steps", "dim", "choice", "flow_fit", "sample")


class SentenceModel:
  """Sentences -> calibrated embeddings: an encoder, and steps such as a flow, which are applied in their order.

      model = SentenceModel.from_pretrained("mini")
      model.fit(sentences, calibration="flow")
      embeddings = model.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      model.similarity(["A man is eating."], ["A man has lunch."])  # cosines [1]
      model.save("my_model")
      model = SentenceModel.load("my_model")

  Adapters for mteb, sentence-transformers and SentEval are in `integrations`.

  Args:
    encoder: the encoder.
    calibration: the steps: a list of them, a fitted calibration, or a flow; None for the encoder alone.
    sentence_embedding_type: see `SentenceEncoder.encode`.
    max_seq_length: see `SentenceEncoder.encode`.
    characters: dimensions of the step `Characters` after `calibration`; None for none.
    low_dim: number of groups of neighboring dimensions that the last step, `LowDim`, averages; None for none.
    steps: steps after `calibration` and `characters`, before `low_dim`.
    cache: folder where embeddings are kept between runs, an `EmbeddingCache`, or None.
    allow_other_encoder: whether the calibration may have been fitted on other embeddings.

  Raises:
    ConfigError, EncoderError: an argument is not allowed, or the calibration was fitted on other embeddings.

  Attributes:
    encoder: the encoder, a `SentenceEncoder` or an encoder of another kind.
    steps: all `calibration.Step`s, in their order. `fit` replaces a calibration and characters at the start; a
      calibration after other steps was fitted on what they give, so that `fit` is an error then.
    dim: dimensions of the embeddings before calibration.
    choice: the `Choice` of the last fit with "auto", else None.
    flow_fit: the `LoopResult` of the last fit of a flow, else None.
    sample: about 1,000 sentences of the last fit, with which an export describes the flow's usual input.
  """

  def __init__(
    self,
    encoder: TextEncoder,
    calibration: Calibrating = None,
    *,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
    characters: int | None = None,
    low_dim: int | None = None,
    steps: Sequence[Step] = (),
    cache: Any = None,
    allow_other_encoder: bool = False,
  ) -> None:
    check_loaded(encoder)
    self.encoder = encoder
    self.choice: Choice | None = None
    self.flow_fit: LoopResult | None = None
    self.sample: list[str] = []
    self.dim = encoder.dim(sentence_embedding_type)
    self._identity = encoder.identity(sentence_embedding_type, max_seq_length, low_dim)
    self._cache = cache
    self._recipe: Recipe | None = None
    self._has_warned = False
    given = read_steps(calibration, characters, steps, low_dim)
    for position, step in enumerate(given):
      if isinstance(step, Calibration):
        where = f"calibration={step.name}"
        if position == 0:
          check_encoder(step, self._identity, self.dim, where, "calibration", allow_other_encoder)
        elif not allow_other_encoder:
          check_not_first(step, display_name(given[position - 1]), where, "calibration")
    self._set_steps(given)

  def __setattr__(self, name: str, value: Any) -> None:
    """Sets an attribute; a ConfigError for a name that would have no effect, as truncate_dim."""
    check_assignment(self, SentenceModel, _ATTRIBUTES, name, value)
    super().__setattr__(name, value)

  @classmethod
  def from_pretrained(
    cls,
    name: str = "mini",
    *,
    recipe: str | None = None,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
    low_dim: int | None = None,
    cache: Any = None,
    **loading: Any,
  ) -> SentenceModel:
    """Loads an encoder, without a calibration.

    Args:
      name: see `SentenceEncoder.from_pretrained`.
      recipe: "paper", "recommended", "fast" or "search" (`calibration.recipes`). It sets sentence_embedding_type and
        token_weights where they are not given (search: neither), and the calibration that `fit` takes by default, also
        of the model that is saved and loaded, and of `with_calibration`. None for the pooling that the encoder's files
        declare, and a flow.
      sentence_embedding_type: see the class.
      max_seq_length: see the class.
      low_dim: see the class.
      cache: see the class.
      **loading: see `SentenceEncoder.from_pretrained`.

    Raises:
      ConfigError, EncoderError: an argument is not allowed, or the encoder cannot be loaded.
    """
    if recipe is not None:
      settings = find_recipe(recipe)
      name = settings.encoder_name(os.fspath(name))
      sentence_embedding_type = sentence_embedding_type or settings.sentence_embedding_type
      loading = {"token_weights": settings.token_weights, **loading}
    encoder = SentenceEncoder.from_pretrained(name, **loading)
    model = cls(
      encoder,
      sentence_embedding_type=sentence_embedding_type,
      max_seq_length=max_seq_length,
      low_dim=low_dim,
      cache=cache,
    )
    encoder.declared.log(**model._identity.settings.pooling_arguments())
    if recipe is not None:
      model._recipe = settings
    return model

  @classmethod
  def load(
    cls,
    folder: str | os.PathLike,
    *,
    model: str | TextEncoder | None = None,
    cache_dir: str | os.PathLike | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
    **settings: Any,
  ) -> SentenceModel:
    """Loads the folder that `save` or a command wrote: the calibration, and the encoder that it was fitted on.

    Args:
      folder: folder of a calibration, as exp/NAME/flow, or of a model without a calibration.
      model: name or folder of the encoder, or a loaded encoder; None for the encoder that the folder names.
      cache_dir: see `SentenceEncoder.from_pretrained`.
      cache: see the class.
      allow_other_encoder: see the class.
      **settings: sentence_embedding_type, max_seq_length, low_dim or settings of `SentenceEncoder.from_pretrained`, in
        place of the folder's settings. The recipe of a model that was saved is kept beside them: it only names the
        calibration that `fit` takes by default.

    Raises:
      FlowError, CalibrationError, ConfigError: see `load_calibration`.
      EncoderError: the encoder cannot be loaded, is not named, or differs from the encoder of the fit.
    """
    check_path(folder, "folder")
    folder = os.path.expanduser(folder)
    where = f"folder={folder}"
    steps, identity, recipe = _read_folder(folder, where)
    # The encoder of the fit, unless the caller gives an encoder; it must give the embeddings of the fit.
    encoder, arguments = load_fitted_encoder(identity, where, model, cache_dir, **settings)
    with _errors_of_fit(where, identity, encoder, settings):
      embeddings = encoder.identity(**arguments)
      dim = encoder.dim(embeddings.sentence_embedding_type)
    if identity is not None and not allow_other_encoder:
      identity.check_same(embeddings, where, "folder")
    for first in steps[:1]:
      if isinstance(first, Calibration):
        check_dim(first, embeddings.name, dim, where, "folder")
    with _errors_of_fit(where, identity, encoder, settings):
      loaded = cls(encoder, steps, cache=cache, allow_other_encoder=allow_other_encoder, **arguments)
    if not allow_other_encoder:
      for step in steps:
        step.check_encoder(encoder, where)
    loaded._recipe = recipe
    return loaded

  def _set_steps(self, steps: Sequence[Step]) -> None:
    """Sets the steps; a ConfigError if they do not fit the encoder."""
    bound = [step.bound_to(self.encoder) for step in steps]
    self._output_dim = output_dim(bound, self.dim)
    self.steps: tuple[Step, ...] = tuple(bound)

  @property
  def _kept_steps(self) -> tuple[Step, ...]:
    """The steps that a fit keeps."""
    return self.steps[len(fitted_steps(self.steps)) :]

  @property
  def calibration(self) -> Calibration | None:
    """The calibration of the encoder's embeddings, which is the first step; None for none."""
    return next((step for step in fitted_steps(self.steps) if isinstance(step, Calibration)), None)

  @property
  def characters(self) -> Characters | None:
    """The characters among the steps; None for none."""
    return next((step for step in self.steps if isinstance(step, Characters)), None)

  @property
  def flow(self) -> FlowCalibration | None:
    """The calibration if it is a flow alone, else None."""
    calibration = self.calibration
    if calibration is None or calibration.name != FLOW:
      return None
    from bert_flow_tf.calibration.flow import FlowCalibration

    return calibration if isinstance(calibration, FlowCalibration) else None

  @property
  def reads_embedding(self) -> bool:
    """False if no embedding is computed, as for characters alone."""
    return not self.steps or self.steps[0].reads_embedding

  @property
  def identity(self) -> EncoderIdentity:
    """The `EncoderIdentity` of the embeddings before the steps, of the weights as they are now, and of `low_dim`.

    Weights that may be trained (`as_layer`, `as_function(trainable=True)`, your own BERT) are read for it each time.
    """
    return dataclasses.replace(self._identity, weights_sha256=self.encoder.weights_checksum)

  @property
  def steps_checksum(self) -> str | None:
    """Hexadecimal SHA-256 of the steps that the identity does not hold; None for none."""
    return steps_sha256(without_identity(self.steps, self._identity))

  def __repr__(self) -> str:
    values = {"pooling": self._identity.sentence_embedding_type, "max_seq_length": self.max_seq_length}
    values |= {"calibration": self.calibration_name}
    values |= {"dim": self.dim, "output_dim": self.output_dim}
    named = [f"{name}={value!r}" for name, value in values.items()]
    return f"SentenceModel({self.encoder.name!r}, {', '.join(named)})"

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the steps, the encoder's identity and the name of the recipe; the encoder itself is not copied.

    Args:
      folder: gets calibration.npz, or without a calibration model.npz; an older model in it is replaced.

    Raises:
      EncoderError: the encoder was trained since it was loaded, so that its name or folder has other weights.
      BertFlowError: the folder cannot be written.
    """
    if not self.encoder.has_loaded_weights:
      raise EncoderError(
        f"encoder: its weights were trained, and {self.encoder.name!r} loads the former ones; encoder.saving."
        "save_encoder(encoder, FOLDER) writes them, and a model of from_pretrained(FOLDER) can be saved",
        argument="encoder",
      )
    identity = self.identity
    encoder = identity.to_dict()
    if self._recipe is not None:
      encoder[RECIPE] = self._recipe.name
    steps = without_identity(self.steps, identity)
    if steps:
      save_steps(folder, steps, encoder)
    else:
      save_identity(encoder, folder)

  @property
  def calibration_name(self) -> str | None:
    """Names of the steps, as `parse_calibration` reads them: "flow", "mean+characters"; None without steps.

    If none of them has a name, their classes; `low_dim` counts as no step.
    """
    return names_of(without_identity(self.steps, self._identity))

  @property
  def name(self) -> str:
    """Encoder and calibration: "mini+flow"."""
    if self.calibration_name is None:
      return self.encoder.name
    return f"{self.encoder.name}+{self.calibration_name}"

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self._identity.max_seq_length

  @property
  def pooling(self) -> Pooling:
    """The pooling of the encoder's blocks."""
    return self.encoder.pooling(self._identity.sentence_embedding_type)

  @property
  def output_dim(self) -> int:
    """Dimensions of the embeddings that `encode` returns."""
    return self._output_dim

  def get_sentence_embedding_dimension(self) -> int:
    """Returns `output_dim`, under sentence-transformers' name."""
    return self.output_dim

  @either_name
  def fit(
    self,
    sentences: Texts | SentencePairs | tuple[Texts, Texts],
    calibration: str | None = None,
    *,
    queries: Texts | None = None,
    dev: SentencePairs | None = None,
    strategy: tf.distribute.Strategy | str | None = None,
    folder: str | os.PathLike | None = None,
    encoder_dropout: bool = False,
    batch_size: int = 64,
    show_progress: bool | None = None,
    **settings: Any,
  ) -> SentenceModel:
    """Embeds sentences, fits a calibration on them without labels, and returns the model itself.

    Args:
      sentences: a list of str, or another ordered collection, such as a NumPy array or a tf.data.Dataset; or pairs: a
        `SentencePairs`, a tuple of two collections, or a collection of tuples of two str.
        Every occurrence counts. The flow's loss is a mean over pairs of sentences: of a plain list it takes neighbors.
      calibration: a name that `parse_calibration` reads: "flow", "whitening", "flow+soft-whitening",
        "soft-whitening+characters", ...; or "auto", which compares some of them without labels. None for the
        calibration of the recipe in `from_pretrained`; without a recipe, for a flow.
      queries: queries, some 64 or more, where the sentences are the documents that are searched. Queries and documents
        lie apart: `encode_query` takes the difference of their means away, and the calibration is fitted on documents,
        a linear one also on queries around the documents' mean. Every occurrence counts. None for texts without roles.
      dev: pairs with gold scores on which natsv and sn+natsv without K choose it.
      strategy: of the flow's fit: a `tf.distribute.Strategy`, "default" (one device), "mirrored" (all GPUs, or logical
        CPUs) or "multi_worker_mirrored"; None for the strategy of the current scope, else of the settings.
      folder: of the flow's checkpoints and TensorBoard events; None for none. A stopped fit is resumed from there.
      encoder_dropout: whether the flow's pairs are embedded in each step with BERT's dropout, as published.
      batch_size: largest number of sentences embedded at once.
      show_progress: see `SentenceEncoder.encode`.
      **settings: fields of `training.settings.FlowSettings` (num_train_epochs, seed, ...).

    Raises:
      BertFlowError: sentences or an argument are not allowed, or the fit failed; an earlier calibration stays.
    """
    if not calibration:
      calibration = self._recipe.calibration if self._recipe else FLOW
    spec = parse_calibration(calibration)
    flow_settings = settings_of_fit(spec, settings, dev)
    self.check_fit(spec, encoder_dropout)
    rows = self.fit_sentences(
      sentences,
      queries,
      dev=dev,
      encoder_dropout=encoder_dropout,
      batch_size=batch_size,
      show_progress=show_progress,
    )
    fitter = Fitter(strategy=strategy, folder=folder, show_progress=show_progress is not False)
    (fitted,) = fitter.fit([spec], rows, flow_settings)
    self._set_steps([*spec.steps(fitted), *self._kept_steps])
    self.choice, self.flow_fit = fitter.choice, fitter.flow_fit
    self.sample = rows.sample
    if queries is not None and fitted is None:
      logging.warning("queries: not read, as %s is fitted to nothing", spec.name)
    return self

  def fit_sentences(self, sentences: Any, queries: Any = None, **arguments: Any) -> FitSentences:
    """Returns sentences or pairs as a `Fitter` takes them, for this encoder; for the arguments see `FitSentences`."""
    checked = sentences_or_pairs(sentences)
    if queries is not None:
      checked_queries = check_sentences(queries, "queries")
      queries = [query for query in checked_queries if query.strip()]
      log_without_text("queries", len(checked_queries) - len(queries))
    return FitSentences(self.encoder, self.identity, checked, queries=queries, cache=self._cache, **arguments)

  def check_fit(self, spec: CalibrationSpec, encoder_dropout: bool = False) -> None:
    """Checks, before anything is embedded, that the steps take the calibrated embedding, and that dropout has a use.

    Raises:
      ConfigError: they do not, as `low_dim` that does not divide it, and characters without word pieces; a calibration
        after other steps, or second characters.
    """
    self._check_kept(with_characters=spec.characters is not None)
    dim = spec.output_dim_of(self.dim)
    for step in (*spec.steps(None), *self._kept_steps):
      dim = step.bound_to(self.encoder).output_dim_of(dim)
    if encoder_dropout:
      self.encoder.check_has_transformer("be embedded with dropout")
      reject_int8(self.encoder.precision, "encoder_dropout is part of a training")
      reject_openvino(self.encoder.engine, "encoder_dropout embeds in each step of a training")

  def with_calibration(self, calibration: Calibrating, characters: int | None = None) -> SentenceModel:
    """Returns a model of the same encoder, settings and further steps with another calibration, or without one.

    Args:
      calibration: steps in place of the fitted ones; see the class.
      characters: see the class.

    Raises:
      ConfigError, EncoderError: see the class; or a further step is a calibration, or second characters.
    """
    given = read_steps(calibration, characters)
    if given or fitted_steps(self.steps):
      self._check_kept(with_characters=any(isinstance(step, Characters) for step in given))
    steps = [*given, *without_identity(self._kept_steps, self._identity)]
    model = SentenceModel(self.encoder, steps, cache=self._cache, **self._identity.settings.model_arguments())
    model._recipe = self._recipe
    return model

  def _check_kept(self, with_characters):
    """Raises a ConfigError if the kept steps cannot follow other first steps, perhaps with characters."""
    way = "make a model without it, by SentenceModel(encoder, steps=[...])"
    for step in self._kept_steps:
      if isinstance(step, Calibration):
        reason = "was fitted on what the steps before it give, and others would take their place"
        raise ConfigError(f"steps: {step.name} {reason}; {way}, and fit that", argument="steps")
      if isinstance(step, Characters) and with_characters:
        raise ConfigError(f"steps: {step.name} would be there twice; {way}, or calibrate without", argument="steps")

  def _embed(self, sentences, batch_size, show_progress, prompt=None):
    """Embeds sentences, without the steps after the pooling: float32 [n, dim]."""
    encoder, pooling = self.encoder, self._identity.settings.pooling_arguments()
    if prompt is not None:
      encoder = encoder.with_prompt(prompt)
    return encoder.encode(sentences, batch_size=batch_size, show_progress=show_progress, cache=self._cache, **pooling)

  def _prompt_of(self, prompt_name, prompt, prompt_type):
    """Returns a prompt, the declared one of a name, or that of a role; None for neither."""
    prompts = self.encoder.declared.prompts
    if prompt is not None:
      return prompt
    if prompt_name is None:
      return None if prompt_type is None else self.encoder.prompt_of(role_of(prompt_type))
    if prompt_name not in list(prompts):
      names = ", ".join(prompts) or "none"
      message = f"prompt_name={prompt_name!r}: expected a prompt that {self.encoder.name} declares ({names})"
      raise ConfigError(message, argument="prompt_name")
    return prompts[prompt_name]

  def transform(self, embeddings: np.ndarray, sentences: Sequence[str] = (), *, prompt_type: Any = None) -> np.ndarray:
    """Applies the steps to embeddings [n, dim] of sentences, of a role as in `encode`: float32 [n, output_dim]."""
    check_dense(embeddings, "embeddings")
    if not len(embeddings):
      return np.zeros([0, self.output_dim], np.float32)
    steps = self.steps_of(prompt_type)
    return self._apply(steps, embeddings, self._tokens(sentences, len(embeddings)))

  def steps_of(self, prompt_type: Any) -> tuple[Step, ...]:
    """Returns the steps of texts of a role, as in `encode`; None for texts without a role, which all `steps` take."""
    role, calibration = None if prompt_type is None else role_of(prompt_type), self.calibration
    is_of_queries = any(isinstance(step, QueryShift) for step in self.steps[:1])
    if role == DOCUMENT and is_of_queries:
      return self.steps[1:]
    if role == QUERY and not is_of_queries and calibration is not None and calibration.query_shift is not None:
      return (*calibration.steps_of_queries(), *self.steps[1:])
    return self.steps

  def _apply(self, steps, embeddings, tokens):
    """Applies some steps, the first ones of the model."""
    is_calibrated = any(isinstance(step, Calibration | Characters) for step in self.steps)
    if self._recipe is not None and not is_calibrated and not self._has_warned:
      logging.warning("recipe=%s: not fitted yet, the embeddings are not calibrated; call fit", self._recipe.name)
      self._has_warned = True
    if self.reads_embedding:
      embeddings = check_rows(embeddings, self.dim)
    else:
      embeddings = np.zeros([len(embeddings), 0], np.float32)
    return apply_to_rows(steps, embeddings, tokens)

  def _tokens(self, sentences, n):
    """Returns the token ids of n sentences, a list of int32 arrays [seq_len]; an empty list if no step reads them."""
    readers = [display_name(step) for step in self.steps if step.reads_tokens]
    if not readers:
      return []
    if len(sentences) != n:
      raise DataError(f"sentences: {len(sentences)} for {n} embeddings; {readers[0]} needs them all", "sentences")
    return self.encoder.tokenizer(sentences, self.max_seq_length, warn=False)

  def _embed_if_read(self, sentences, batch_size, show_progress, prompt=None):
    """Returns the embeddings of sentences, [n, dim]; [n, 0] if no step reads them."""
    if not self.reads_embedding:
      return np.zeros([len(sentences), 0], np.float32)
    return self._embed(sentences, batch_size, show_progress, prompt)

  @either_name
  def encode(
    self,
    sentences: str | Texts,
    batch_size: int = 64,
    show_progress_bar: bool | None = False,
    normalize_embeddings: bool = False,
    *,
    calibrated: bool = True,
    prompt_name: str | None = None,
    prompt: str | None = None,
    prompt_type: Any = None,
    truncate_dim: int | None = None,
    **others: Any,
  ) -> np.ndarray:
    """Embeds and calibrates sentences; the arguments are named as in sentence-transformers.

    Args:
      sentences: n sentences, as `check_sentences` takes them (a list of str, a string tensor, ...), or one str.
      batch_size: largest number of sentences embedded at once; changes results by float rounding only.
      show_progress_bar: see `SentenceEncoder.encode`.
      normalize_embeddings: whether embeddings are divided by their length; an embedding of zeros stays.
      calibrated: False for the encoder's embeddings, which `transform` takes.
      prompt_name: name of a prompt that the encoder's folder declares, as "query", which is also the role.
      prompt: text to put before each sentence, in place of a prompt with a name; None for the encoder's `prompt`.
      prompt_type: "query" or "document", or mteb's PromptType, for the prompt of this role, and the place of queries
        where the calibration knows it; see `encode_query`.
      truncate_dim: number of dimensions to keep, the first ones, of an encoder that was trained for it; None for all.
        `from_pretrained` has it, too, and a calibration is fitted on these then.
      **others: further arguments of sentence-transformers, with values that change nothing here: convert_to_numpy=True,
        device, ... `SentenceTransformersAdapter` also returns tensors of PyTorch.

    Returns:
      float32 [n, output_dim], or [output_dim] for one str; not calibrated, [n, dim].

    Raises:
      DataError: not str.
      ConfigError: an argument is not allowed.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    check_sentence_transformers(others)
    if truncate_dim is not None:
      check_counts(truncate_dim=truncate_dim)
      if calibrated and self.steps:
        message = f"truncate_dim={truncate_dim}: the dimensions of a calibrated embedding have no such order"
        way = f"keep the encoder's first ones, by from_pretrained(name, truncate_dim={truncate_dim}), and fit again"
        raise ConfigError(f"{message}; {way}", argument="truncate_dim")
    is_single = isinstance(sentences, str)
    texts = [sentences] if is_single else sentences
    texts = check_sentences(texts)
    if prompt_type is None and prompt_name == QUERY:
      prompt_type = QUERY
    prompt = self._prompt_of(prompt_name, prompt, prompt_type)
    if calibrated:
      embeddings = self._embed_if_read(texts, batch_size, bool(show_progress_bar), prompt)
      embeddings = self.transform(embeddings, texts, prompt_type=prompt_type)
    else:
      embeddings = self._embed(texts, batch_size, bool(show_progress_bar), prompt)
    embeddings = embeddings[:, :truncate_dim]
    if normalize_embeddings:  # in place, as a corpus may fill half of the memory
      for start in range(0, len(embeddings), CHUNK_SENTENCES):
        part = embeddings[start : start + CHUNK_SENTENCES]
        part[:] = normalized(part)
    if is_single:
      return embeddings[0]
    return embeddings

  def encode_query(self, sentences: str | Texts, *args: Any, **kwargs: Any) -> np.ndarray:
    """Embeds queries of a search, as `encode`, which has the same arguments.

    Before each stands query_prompt of `from_pretrained`, else the prompt "query" that the encoder's folder declares,
    else its `prompt`. Of the embeddings `Calibration.query_shift` is taken away, if the calibration was fitted with
    queries.
    """
    return self.encode(sentences, *args, **{"prompt_type": QUERY, **kwargs})

  def encode_document(self, sentences: str | Texts, *args: Any, **kwargs: Any) -> np.ndarray:
    """Embeds texts that are searched, as `encode`, which has the same arguments.

    Before each stands document_prompt or prompt of `from_pretrained`, else the prompt "document", "passage" or "corpus"
    that the encoder's folder declares, else no prompt if it declares others, else its `prompt`.
    """
    return self.encode(sentences, *args, **{"prompt_type": DOCUMENT, **kwargs})

  def for_documents(self) -> SentenceModel:
    """Returns a model whose `encode` and `fit` take sentences as documents of a search; itself if texts have no roles.

    Raises:
      ConfigError: characters, which take no prompt.
    """
    return self._of_role(self.encoder.for_documents(), self.steps_of(DOCUMENT))

  def for_queries(self) -> SentenceModel:
    """Returns a model whose `encode` and `as_function` take sentences as queries, as `encode_query`; see there.

    Raises:
      ConfigError: characters, which take no prompt.
    """
    return self._of_role(self.encoder.for_queries(), self.steps_of(QUERY))

  def _of_role(self, encoder, steps):
    """Returns this model with the encoder and the steps of a role; itself if they are its own."""
    if encoder is self.encoder and steps is self.steps:
      return self
    model = copy.copy(self)
    model.encoder = encoder
    values = self._identity.settings.model_arguments()
    model._identity = dataclasses.replace(encoder.identity(**values), name=self._identity.name)
    model.steps = tuple(step.bound_to(encoder) for step in steps)
    return model

  def knows(self, texts: Texts) -> np.ndarray:
    """Returns whether the encoder knows a word or piece of each of n texts, bool [n]; see `TextEncoder.knows`.

    Raises:
      DataError: not str.
    """
    return self.encoder.knows(check_sentences(texts, "texts"), self.max_seq_length)

  def unread(self, texts: Texts) -> list[str]:
    """Returns the parts of n texts that do not change their embeddings, "" for none; see `TextEncoder.unread`.

    Texts with equal embeddings and other unread parts are different texts: `near_duplicates` keeps both.

    Raises:
      DataError: not str.
    """
    reads_all_pieces = any(step.reads_tokens for step in self.steps)
    return self.encoder.unread(check_sentences(texts, "texts"), self.pooling, self.max_seq_length, reads_all_pieces)

  @either_name
  def similarity(
    self, texts_a: Texts, texts_b: Texts, batch_size: int = 64, show_progress_bar: bool | None = False
  ) -> np.ndarray:
    """Returns the cosine of the calibrated embeddings of each pair, float64 [n]; 0 for an embedding of zeros.

    With characters, it is exact; the characters of `encode` approximate it to some 0.03. `search`, and
    `SentenceTransformersAdapter.similarity`, take embeddings in place of sentences.

    Args:
      texts_a: the first sentences of n pairs.
      texts_b: the second sentences.
      batch_size: see `encode`.
      show_progress_bar: see `encode`.

    Raises:
      DataError: not str, or lists of different lengths.
    """
    a, b = check_pairs(texts_a, texts_b)
    # Each distinct text is embedded once, unless the embeddings of all would take too much memory.
    numbers = {text: number for number, text in enumerate(dict.fromkeys([*a, *b]))}
    size, embeddings = _PART_TEXTS, None
    if len(numbers) <= _MAX_TEXTS:
      size, embeddings = _MAX_TEXTS, self._embed_if_read(list(numbers), batch_size, bool(show_progress_bar))
    cosines = [np.empty(0)]
    with Progress(len(a), bool(show_progress_bar) and embeddings is None, "comparing", "pair") as progress:
      for start in range(0, len(a), size // 2):
        pairs = slice(start, start + size // 2)
        texts = a[pairs] + b[pairs]
        if embeddings is None:
          rows = self._embed_if_read(texts, batch_size, show_progress=False)
        else:
          rows = embeddings[[numbers[text] for text in texts]]
        cosines.append(self._cosines(rows, self._tokens(texts, len(rows))))
        progress.update(len(texts) // 2)
    return np.concatenate(cosines)

  def _cosines(self, embeddings, tokens):
    """Returns the cosine of each of n / 2 sentences and its partner n / 2 places on."""
    # The last step knows its cosines best.
    before = self._apply(self.steps[:-1], embeddings, tokens)
    if not self.steps:
      return cosines_of_halves(before)
    return self.steps[-1].cosines(before, tokens)

  def as_transformer(self, calibration: str | None = None) -> Any:
    """Returns this model as a transformer of scikit-learn's Pipelines, from sentences to embeddings.

    Args:
      calibration: name of the calibration that its `fit` fits, as `fit` takes it; None to take this model as it is.

    Raises:
      ConfigError: scikit-learn is not installed.
    """
    try:
      from bert_flow_tf.scikit_learn import ScikitLearnTransformer
    except ImportError as error:
      raise ConfigError(f"as_transformer needs scikit-learn ({error}): pip install scikit-learn") from error

    return ScikitLearnTransformer(self, calibration)

  def encoder_graph(self) -> TextGraph:
    """Returns the graph of the encoder, from text to embeddings; of 0 dimensions if no step reads them."""
    pooling = self.pooling if self.reads_embedding else None
    return self.encoder.text_graph(pooling, self.max_seq_length)

  def as_function(
    self, normalize: bool = False, *, trainable: bool = False, normalize_embeddings: bool = False
  ) -> SentenceFunction:
    """Returns a function that embeds and calibrates text in a graph: UTF-8 string [n] -> float32 [n, output_dim].

    It computes as `encode` does, to rounding, on the weights of this model: in a tf.data pipeline, a tf.function, a
    SavedModel, an attribute of a Keras layer, or `keras.layers.Lambda(function, output_shape=(model.output_dim,))`.
    `export_model` writes a version for TF Serving. Needs TensorFlow Text.

    Args:
      normalize: whether embeddings are divided by their length, as by `export_model`, for an index of dot products; an
        embedding of zeros stays.
      trainable: whether gradients flow to the weights of encoder and flow, which are its `trainable_variables` then:
        for your training loop. `fit` of Keras 3 trains no variables of a function; `SentenceEncoder.as_layer` and the
        flow are layers, which it trains.
      normalize_embeddings: the same as `normalize`, under its name in `encode`.

    Raises:
      CalibrationError: the calibration is not fitted.
      EncoderError: the tokenizer has no form as a graph.
      ConfigError: `trainable` of an encoder with engine=openvino.
    """
    if trainable:
      reject_openvino(self.encoder.engine, NO_GRADIENTS)
    tf = load_tensorflow()
    from bert_flow_tf.calibration.function import SentenceFunction

    # Variables and traces belong to no graph from which this may be called: Keras and tf.function throw theirs away.
    with tf.init_scope():
      encoder = self.encoder_graph()
      if encoder.without_text:
        raise EncoderError(encoder.without_text)
      steps = list(self.steps)
      if normalize or normalize_embeddings:
        steps.append(Normalize())
      for step in steps:
        step.check_fitted()
      return SentenceFunction(encoder, steps, trainable)


def check_sentence_model(model: object, others: str = "") -> None:
  """Raises a ConfigError for anything but a `SentenceModel`, as its folder; `others`: what is taken besides."""
  if isinstance(model, SentenceModel):
    return
  way = "SentenceModel.load(folder) loads a saved one, SentenceModel.from_pretrained(name) an encoder"
  if isinstance(model, TextEncoder):
    way = "SentenceModel(encoder) makes one"
  raise ConfigError(f"model: expected a SentenceModel{others}, got a {type(model).__name__}; {way}", "model")


def _read_folder(folder, where) -> tuple[list[Step], EncoderIdentity | VectorsIdentity | None, Recipe | None]:
  """Returns a folder's steps, the identity of its embeddings, None if it is unknown, and its recipe, None without."""
  steps: list[Step] = []
  identity: EncoderIdentity | VectorsIdentity | None
  with naming("folder"):
    if has_identity(folder):
      identity, recipe = load_identity(folder)
    else:
      steps, values, recipe = load_steps(folder)
      identity = read_identity(values, where)
  if recipe is None:
    return steps, identity, None
  try:
    return steps, identity, find_recipe(recipe)
  except ConfigError as error:
    raise EncoderError(f"{where}: damaged, or saved by a later release ({error})", "folder") from error


@contextlib.contextmanager
def _errors_of_fit(
  where: str, identity: EncoderIdentity | VectorsIdentity | None, encoder: TextEncoder, given: Mapping[str, object]
) -> Iterator[None]:
  """Raises an EncoderError that names the folder at `where` for an error of what is not among the given settings."""
  try:
    yield
  except BertFlowError as error:
    if error.argument in given:
      raise
    message = f"{where}: fitted on {identity}, got embeddings of {encoder.name!r} ({error})"
    raise EncoderError(f"{message}{identity.remedy if identity else ''}", "folder") from error
