"""Sentence model: an encoder, its pooling and a calibration in one object."""

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import CHARACTERS, Characters
from bert_flow_tf.calibration.flow import as_calibration, load_calibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import FLOW, CalibrationSpec, parse_calibration
from bert_flow_tf.calibration.recipes import find_recipe
from bert_flow_tf.data.pairs import SentencePairs, Texts, check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.encoder import pooling as pooling_lib
from bert_flow_tf.encoder.identity import check_encoder, has_identity, load_identity, read_identity, save_identity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder, load_encoder
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, EncoderError, naming
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.evaluation.metrics import SAME, cosine_similarity, normalized
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import is_symbolic
from bert_flow_tf.io.checks import check_rows, check_sentence_transformers
from bert_flow_tf.training.fit_rows import FitSentences
from bert_flow_tf.training.fitter import Fitter, settings_of_fit
from bert_flow_tf.training.loop import LoopResult

_SAMPLE = 1024


class SentenceModel:
  """Sentences -> calibrated embeddings: low_dim(calibration(pooling(BERT(sentences)))).

      model = SentenceModel.from_pretrained("mini")
      model.fit(sentences, calibration="flow")
      embeddings = model.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      model.similarity(["A man is eating."], ["A man has lunch."])  # cosines [1]
      model.save("my_model")
      model = SentenceModel.load("my_model")

  Adapters for mteb, sentence-transformers and SentEval are in `integrations`.

  Args:
    encoder: the encoder.
    calibration: fitted calibration or flow; None for the encoder alone.
    sentence_embedding_type: see `SentenceEncoder.encode`.
    max_seq_length: see `SentenceEncoder.encode`.
    low_dim: number of groups of neighboring dimensions to average, after the calibration; None for none.
    cache: folder where embeddings are kept between runs, an `EmbeddingCache`, or None.
    allow_other_encoder: whether the calibration may have been fitted on other embeddings.

  Raises:
    ConfigError, EncoderError: an argument is not allowed, or the calibration was fitted on other embeddings.

  Attributes:
    encoder: the `SentenceEncoder`.
    calibration: the `Calibration`, or None.
    identity: the `EncoderIdentity` of the embeddings before calibration, and of `low_dim`.
    dim: dimensions of the embeddings before calibration.
    choice: the `Choice` of the last fit with "auto", else None.
    flow_fit: the `LoopResult` of the last fit of a flow, else None.
    sample: about 1,000 sentences of the last fit, with which an export describes the flow's usual input.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    calibration: Calibration | Glow | None = None,
    *,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
    low_dim: int | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
  ) -> None:
    if not hasattr(encoder, "identity"):
      message = f"encoder={encoder!r}: expected a loaded one; SentenceModel.from_pretrained(name) loads it"
      raise ConfigError(message, argument="encoder")
    self.encoder = encoder
    self.calibration: Any = None  # a Calibration
    self.choice: Any = None
    self.flow_fit: LoopResult | None = None
    self.sample: list[str] = []
    self.dim = encoder.dim(sentence_embedding_type)
    self.identity = encoder.identity(sentence_embedding_type, max_seq_length, low_dim)
    self._cache = cache
    self._default_calibration = FLOW
    if calibration is not None:
      fitted = as_calibration(calibration)
      self._take(fitted, f"calibration={fitted.name}", "calibration", allow_other_encoder)
    pooling_lib.check_low_dim(self._calibrated_dim, low_dim)

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
  ) -> "SentenceModel":
    """Loads an encoder, without a calibration.

    Args:
      name: see `SentenceEncoder.from_pretrained`.
      recipe: "paper", "recommended" or "fast" (`calibration.recipes`). It sets sentence_embedding_type and
        token_weights where they are not given, and the calibration that `fit` takes by default. None for the pooling
        that the encoder's files declare, and a flow.
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
    encoder.declared.log(**model.identity.settings.pooling_arguments())
    if recipe is not None:
      model._default_calibration = settings.calibration
    return model

  @classmethod
  def load(
    cls,
    folder: str | os.PathLike,
    *,
    model: str | SentenceEncoder | None = None,
    cache_dir: str | os.PathLike | None = None,
    cache: Any = None,
    allow_other_encoder: bool = False,
    **settings: Any,
  ) -> "SentenceModel":
    """Loads what `save` or a runner wrote: the calibration, and the encoder that it was fitted on.

    Args:
      folder: folder of a calibration, such as exp/NAME/flow, or of a model without a calibration.
      model: name or folder of the encoder, or a loaded one; None for the encoder that the folder names.
      cache_dir: see `SentenceEncoder.from_pretrained`.
      cache: see the class.
      allow_other_encoder: see the class.
      **settings: sentence_embedding_type, max_seq_length, low_dim or settings of `SentenceEncoder.from_pretrained`, in
        place of those of the folder.

    Raises:
      FlowError, CalibrationError, ConfigError: see `load_calibration`.
      EncoderError: the encoder cannot be loaded or is not the one of the fit, or neither folder nor `model` names it.
    """
    folder = os.path.expanduser(folder)
    where = f"folder={folder}"
    calibration: Any = None
    identity: Any
    with naming("folder"):
      if has_identity(folder):
        identity = load_identity(folder)
      else:
        calibration = load_calibration(folder)
        identity = read_identity(calibration.encoder, where)

    # The encoder of the fit, unless the caller has another one; its embeddings must be those of the fit.
    model, arguments = load_encoder(identity, where, model, cache_dir, **settings)
    try:
      loaded = cls(model, cache=cache, **arguments)
    except BertFlowError as error:
      if error.argument in settings:
        raise
      raise EncoderError(
        f"{where}: fitted on {identity}, got embeddings of {model.name!r}: {error}", "folder"
      ) from error
    if calibration is not None:
      loaded._take(calibration, where, "folder", allow_other_encoder)
      pooling_lib.check_low_dim(calibration.output_dim, loaded.identity.low_dim)
    elif not allow_other_encoder:
      identity.check_same(loaded.identity, where, "folder")
    return loaded

  def _take(self, calibration, where, argument, allow_other_encoder):
    """Takes a calibration that was fitted on such embeddings, with such characters; else raises an EncoderError."""
    check_encoder(calibration, self.identity, self.dim, where, argument, allow_other_encoder)
    self.calibration = calibration
    if not self._characters:
      return
    self.encoder.check_has_tokens(calibration.name)
    if not allow_other_encoder and self._parts()[-1].table_sha256 not in (None, self.encoder.characters.checksum):
      raise EncoderError(
        f"{where}: fitted with other frequencies of word pieces than this version or frequency_corpus has; fit it "
        "again, which takes seconds",
        argument,
      )

  def __repr__(self) -> str:
    identity = self.identity
    values = {"pooling": identity.sentence_embedding_type, "max_seq_length": identity.max_seq_length}
    values |= {"calibration": self.calibration and self.calibration.name}
    values |= {"dim": self.dim, "output_dim": self.output_dim}
    named = [f"{name}={value!r}" for name, value in values.items()]
    return f"SentenceModel({self.encoder.name!r}, {', '.join(named)})"

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the calibration and the encoder's identity; the encoder itself is not copied.

    Args:
      folder: gets calibration.npz, or without a calibration model.npz; an older model in it is replaced.

    Raises:
      BertFlowError: the folder cannot be written.
    """
    if self.calibration is not None:
      self.calibration.encoder = self.calibration.encoder or self.identity.to_dict()
      self.calibration.save(folder)
    else:
      save_identity(self.identity, folder)

  @property
  def name(self) -> str:
    """Encoder and calibration: "mini+flow"."""
    if self.calibration is None:
      return self.encoder.name
    return f"{self.encoder.name}+{self.calibration.name}"

  @property
  def max_seq_length(self) -> int:
    """Largest number of tokens of a sentence, [CLS] and [SEP] included."""
    return self.identity.max_seq_length

  @property
  def pooling(self) -> pooling_lib.Pooling:
    """The pooling of the encoder's blocks."""
    return self.encoder.pooling(self.identity.sentence_embedding_type)

  @property
  def shares(self) -> tuple[float, ...]:
    """Share of each view that the pooling concatenates, for the calibration's mix of them; () for one embedding."""
    return self.pooling.shares

  @property
  def output_dim(self) -> int:
    """Dimensions of the embeddings that `encode` returns."""
    return self.identity.low_dim or self._calibrated_dim

  @property
  def _calibrated_dim(self):
    """Dimensions after the calibration, before low_dim."""
    if self.calibration is None:
      return self.dim
    return self.calibration.output_dim

  def get_sentence_embedding_dimension(self) -> int:
    """Returns `output_dim`, under sentence-transformers' name."""
    return self.output_dim

  def fit(
    self,
    sentences: Texts | SentencePairs | tuple[Texts, Texts],
    calibration: str | None = None,
    *,
    dev: SentencePairs | None = None,
    strategy: tf.distribute.Strategy | str | None = None,
    folder: str | os.PathLike | None = None,
    encoder_dropout: bool = False,
    batch_size: int = 64,
    show_progress: bool | None = None,
    **settings: Any,
  ) -> "SentenceModel":
    """Embeds sentences, fits a calibration on them without labels, and returns the model itself.

    Args:
      sentences: a list of str, or another collection as `check_sentences` takes it; or pairs, as a `SentencePairs`, a
        tuple of two collections, or a collection of tuples of two str.
        Every occurrence counts. The flow's loss is a mean over pairs of sentences: of a plain list it takes neighbors.
      calibration: a name that `parse_calibration` reads: "flow", "whitening", "flow+soft-whitening",
        "soft-whitening+characters", ...; or "auto", which compares some of them without labels. None for the
        recipe's of `from_pretrained`, or for a flow.
      dev: pairs with gold scores on which natsv and sn+natsv without K choose it.
      strategy: of the flow's fit: a `tf.distribute.Strategy`, "default" (one device), "mirrored" (all GPUs, or logical
        CPUs) or "multi_worker_mirrored"; None for the current one within a scope, else that of the settings.
      folder: of the flow's checkpoints and TensorBoard events; None for none. A stopped fit is resumed from there.
      encoder_dropout: whether the flow's pairs are embedded in each step with BERT's dropout, as published.
      batch_size: largest number of sentences embedded at once.
      show_progress: see `SentenceEncoder.encode`.
      **settings: fields of `training.settings.FlowSettings` (num_train_epochs, seed, ...).

    Raises:
      BertFlowError: sentences or an argument are not allowed, or the fit failed; an earlier calibration stays.
    """
    spec = parse_calibration(calibration or self._default_calibration)
    flow_settings = settings_of_fit(spec, settings, dev)
    self.check_fit(spec, encoder_dropout)
    rows = self.fit_sentences(
      sentences, dev=dev, encoder_dropout=encoder_dropout, batch_size=batch_size, show_progress=show_progress
    )
    fitter = Fitter(strategy=strategy, folder=folder, show_progress=show_progress is not False)
    fitted = fitter.fit(spec, rows, flow_settings)
    pooling_lib.check_low_dim(fitted.output_dim, self.identity.low_dim)
    self.calibration, self.choice, self.flow_fit = fitted, fitter.choice, fitter.flow_fit
    step = math.ceil(len(rows.occurrences) / _SAMPLE)
    self.sample = rows.occurrences[:: max(step, 1)]  # characters need no sentence
    return self

  def fit_sentences(self, sentences: Any, **arguments: Any) -> FitSentences:
    """Returns sentences or pairs as a `Fitter` takes them, for this encoder; for `arguments` see `FitSentences`."""
    checked = sentences_or_pairs(sentences)
    return FitSentences(self.encoder, self.identity, checked, cache=self._cache, **arguments)

  def check_fit(self, spec: CalibrationSpec, encoder_dropout: bool = False) -> None:
    """Checks, before anything is embedded, that low_dim divides the calibrated embedding, and that dropout has a use.

    Raises:
      ConfigError: it does not, or views of a sentence are to be embedded with dropout.
    """
    for part in spec.parts:
      dim = self.dim // max(len(self.shares), 1)  # the mix of the views
      if part.method == "whitening" and part.k:
        dim = int(part.k)
      elif part.method == CHARACTERS:
        dim = int(part.k or Characters().dim)
        self.encoder.check_has_tokens(spec.name)
      pooling_lib.check_low_dim(dim, self.identity.low_dim)
    if encoder_dropout:
      self.encoder.check_has_transformer("be embedded with dropout")
    if encoder_dropout and self.shares:
      raise ConfigError(
        f"encoder_dropout: sentence_embedding_type={self.identity.sentence_embedding_type} has views, whose mix is "
        "fitted on embeddings without dropout; choose another one",
        argument="encoder_dropout",
      )

  def with_calibration(self, calibration: Calibration | None) -> "SentenceModel":
    """Returns a model of the same encoder and settings with another calibration, or without one."""
    return SentenceModel(self.encoder, calibration, cache=self._cache, **self.identity.settings.model_arguments())

  def log_cone(self, embeddings: np.ndarray) -> dict[str, Any]:
    """Logs how narrow the cone of embeddings [n, dim] of the encoder is; see `isotropy.log_cone`."""
    return isotropy.log_cone(embeddings, self.shares, self.encoder.is_for_similarity(self.pooling))

  def _uncalibrated(self, sentences, batch_size, show_progress):
    """Embeds sentences, without calibration and low_dim: float32 [n, rows_dim]."""
    embeddings = np.empty([len(sentences), 0], np.float32)
    if self.rows_dim > self._characters:
      embeddings = self._encoded(sentences, batch_size, show_progress)
    return self.with_characters(sentences, embeddings)

  def _encoded(self, sentences, batch_size, show_progress):
    arguments = {"batch_size": batch_size, "show_progress": show_progress, **self.identity.settings.pooling_arguments()}
    return self.encoder.encode(sentences, cache=self._cache, **arguments)

  @property
  def rows_dim(self) -> int:
    """Dimensions that the calibration takes: those of the embedding, then those of characters, if it has a use."""
    if self.calibration is None:
      return self.dim
    return self.calibration.dim

  @property
  def _characters(self):
    """Dimensions of the characters that the calibration takes."""
    if self.calibration is None:
      return 0
    return self.calibration.characters

  def _parts(self):
    return getattr(self.calibration, "parts", (self.calibration,))

  def with_characters(self, sentences: Sequence[str], embeddings: np.ndarray) -> np.ndarray:
    """Returns what the calibration takes, float32 [n, rows_dim], of sentences and their embeddings [n, dim]."""
    if not self._characters:
      return embeddings
    ids = self.encoder.tokenizer(sentences, self.max_seq_length, warn=False)
    characters = self.encoder.characters.of(ids, self._characters)
    if self.rows_dim == self._characters:
      return characters
    return np.concatenate([embeddings, characters], axis=1)

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """Applies the calibration, then low_dim, to embeddings [n, dim]: float32 [n, output_dim]."""
    if not len(embeddings):
      return np.zeros([0, self.output_dim], np.float32)
    if self.calibration is None:
      embeddings = check_rows(embeddings, self.dim)
    else:
      embeddings = self.calibration.transform(embeddings)
    return np.asarray(pooling_lib.low_dim(np.asarray(embeddings, np.float32), self.identity.low_dim))

  def encode(
    self,
    sentences: str | Texts,
    batch_size: int = 64,
    show_progress_bar: bool | None = False,
    normalize_embeddings: bool = False,
    *,
    calibrated: bool = True,
    **others: Any,
  ) -> np.ndarray:
    """Embeds and calibrates sentences; the arguments are named as in sentence-transformers.

    Args:
      sentences: n sentences, as `check_sentences` takes them (a list of str, a string tensor, ...), or one str.
      batch_size: largest number of sentences embedded at once; changes results by float rounding only.
      show_progress_bar: see `SentenceEncoder.encode`.
      normalize_embeddings: whether embeddings are divided by their length; one of zeros stays.
      calibrated: False for the embeddings that `transform` takes, before calibration and low_dim.
      **others: further arguments of sentence-transformers, with values that change nothing here: convert_to_numpy=True,
        device, ... `SentenceTransformersAdapter` also returns tensors of PyTorch.

    Returns:
      float32 [n, output_dim], or [output_dim] for one str; not calibrated, [n, dim] (and dimensions of characters, if
      the calibration has them).

    Raises:
      DataError: not str.
      ConfigError: an argument is not allowed.
      EncoderError, CalibrationError: an embedding is not finite.
    """
    check_sentence_transformers(others)
    is_single = isinstance(sentences, str)
    texts = [sentences] if is_single else sentences
    embeddings = self._uncalibrated(check_sentences(texts), batch_size, bool(show_progress_bar))
    if calibrated:
      embeddings = self.transform(embeddings)
    if normalize_embeddings:
      embeddings = normalized(embeddings)
    if is_single:
      return embeddings[0]
    return embeddings

  def similarity(
    self, texts_a: Texts, texts_b: Texts, batch_size: int = 64, show_progress_bar: bool | None = False
  ) -> np.ndarray:
    """Returns the cosine of the calibrated embeddings of each pair, float64 [n]; 0 for an embedding of zeros.

    With characters, it is that of the exact ones, which those of `encode` approximate to some 0.03. `search`, and
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
    if self._characters and self.identity.low_dim is None:
      return self._exact_similarity(a, b, batch_size, bool(show_progress_bar))
    embeddings = self.encode(a + b, batch_size, show_progress_bar)
    return np.nan_to_num(cosine_similarity(embeddings[: len(a)], embeddings[len(a) :]))

  def _exact_similarity(self, a, b, batch_size, show_progress):
    """Returns `similarity` with the exact characters, of which `encode` has random projections."""
    ids = self.encoder.tokenizer(a + b, self.max_seq_length, warn=False)
    rows: list[Any] = [self.encoder.characters.exact(ids)]
    if self.rows_dim > self._characters:
      embeddings = self._encoded(a + b, batch_size, show_progress)
      rows += [normalized(part.transform(embeddings)) for part in self._parts() if not part.characters]
    # All rows have length 1, or are 0, which counts in the lengths of what they are parts of.
    dots, squares = np.zeros(len(a)), np.zeros(2 * len(a))
    for of_part in rows:
      dots += np.asarray((of_part[: len(a)] * of_part[len(a) :]).sum(axis=1))
      squares += np.asarray((of_part * of_part).sum(axis=1))
    lengths = np.sqrt(squares[: len(a)] * squares[len(a) :])
    cosines = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
    return np.where(cosines > 1 - SAME, 1.0, cosines)

  def as_transformer(self, calibration: str | None = None) -> Any:
    """Returns this model as a transformer of scikit-learn's Pipelines, from sentences to embeddings.

    Args:
      calibration: name of the calibration that its `fit` fits, as `fit` takes it; None to take this model as it is.
    """
    from bert_flow_tf.scikit_learn import ScikitLearnTransformer

    return ScikitLearnTransformer(self, calibration)

  def encoder_graph(self) -> Any:
    """Returns the graph of the encoder, from text to what the calibration takes."""
    from bert_flow_tf.encoder.encoder_graph import EncoderGraph

    encoder: Any = self.encoder
    if not encoder.has_tokens:
      return encoder.text_graph()
    pooling = self.pooling if self.rows_dim > self._characters else None
    table = self.encoder.characters.dense(self._characters) if self._characters else None
    return EncoderGraph(self.encoder, pooling, self.max_seq_length, table)

  def as_function(self, normalize_embeddings: bool = False, *, trainable: bool = False) -> "SentenceFunction":
    """Returns a function that embeds and calibrates text in a graph: UTF-8 string [n] -> float32 [n, output_dim].

    It computes what `encode` does, to rounding, on the weights of this model: in a tf.data pipeline, a tf.function, a
    SavedModel, an attribute of a Keras layer, or `keras.layers.Lambda(function, output_shape=(model.output_dim,))`.
    `export_model` writes a version for TF Serving. Needs TensorFlow Text.

    Args:
      normalize_embeddings: whether embeddings are divided by their length.
      trainable: whether gradients flow to the weights of encoder and flow, which are its `trainable_variables` then:
        for a loop of your own. `fit` of Keras 3 trains no variables of a function; `SentenceEncoder.as_layer` and the
        flow are layers, which it trains.

    Raises:
      CalibrationError: the calibration is not fitted.
      EncoderError: the tokenizer has no form as a graph.
    """
    from bert_flow_tf.calibration.graph import make_calibration_graph

    # Variables and traces belong to no graph from which this may be called: Keras and tf.function throw theirs away.
    with tf.init_scope():
      encoder = self.encoder_graph()
      if encoder.without_text:
        raise EncoderError(encoder.without_text)
      calibration = make_calibration_graph(self.calibration, self.rows_dim)
      return SentenceFunction(encoder, calibration, self.identity.low_dim, normalize_embeddings, trainable)


class SentenceFunction(tf.Module):
  """Function of `SentenceModel.as_function`: UTF-8 text string [n] -> embeddings float32 [n, output_dim], in a graph.

  Attributes:
    variables: all weights on which it computes.
    trainable_variables: the weights that get gradients; none of a frozen function.
    non_trainable_variables: the other weights.
  """

  # Lists in place of the properties of `tf.Module`, for which every variable of a frozen function is trainable. A
  # SavedModel has them, too.
  variables: Any = ()
  trainable_variables: Any = ()
  non_trainable_variables: Any = ()

  def __init__(self, encoder: Any, calibration: Any, low_dim: int | None, normalize: bool, trainable: bool) -> None:
    super().__init__(name="sentence_function")
    variables = [*encoder.variables, *calibration.variables]
    trained = []
    if trainable:
      trained += encoder.trainable_variables()
      trained += [variable for variable in calibration.variables if variable.trainable]
    ids = set(map(id, trained))
    self.variables = variables
    self.trainable_variables = trained
    self.non_trainable_variables = [variable for variable in variables if id(variable) not in ids]
    if not encoder.takes_ids:
      encoder.track(self)

    def embed(text):
      embeddings = pooling_lib.low_dim(calibration.transform(encoder.of_text(text)), low_dim)
      if normalize:
        embeddings = tf.math.l2_normalize(embeddings, axis=1)
      if not trainable:
        embeddings = tf.stop_gradient(embeddings)
      return embeddings

    text = tf.TensorSpec([None], tf.string, "text")
    function = tf.function(embed, input_signature=[text], autograph=False)
    function.get_concrete_function()
    # TensorFlow saves functions that are attributes.
    self.__dict__["__call__"] = function

  def __call__(self, text: Any) -> tf.Tensor:
    """UTF-8 text string [n] -> float32 [n, output_dim]."""
    if is_symbolic(text):
      layer = "keras.layers.Lambda(function, output_shape=(dim,))"
      raise DataError(f"text: a symbolic tensor of Keras; use a layer on it, {layer}", "text")
    return self.__dict__["__call__"](text)
