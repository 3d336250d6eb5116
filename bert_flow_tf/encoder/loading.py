"""The loader of encoders, by their settings: whoever loads an encoder, of any kind, asks here.

load_fitted_encoder    the encoder that a calibration was fitted on, or another encoder in its place
load_encoder           name -> kind -> class of its encoders
read_encoder           name -> files -> model, tokenizer and weights of tokens, for a `SentenceEncoder`
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
from typing import TYPE_CHECKING, NamedTuple

from absl import logging

from bert_flow_tf.encoder.checkpoints import google
from bert_flow_tf.encoder.checkpoints.declared import Declared, find_static_embedding, read_declared, read_modules
from bert_flow_tf.encoder.checkpoints.files import CONFIG, EncoderFiles, TranslatedFiles
from bert_flow_tf.encoder.checkpoints.google import GoogleWeights
from bert_flow_tf.encoder.checkpoints.hugging_face import HuggingFaceWeights
from bert_flow_tf.encoder.checkpoints.keras_hub import read_preset
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.checkpoints.model_garden import ModelGardenWeights, is_model_garden
from bert_flow_tf.encoder.checkpoints.preset_files import is_preset
from bert_flow_tf.encoder.checkpoints.source import Source, find_source
from bert_flow_tf.encoder.engines.openvino_engine import check_openvino
from bert_flow_tf.encoder.identity import EncoderIdentity, FitSettings, VectorsIdentity, resolve
from bert_flow_tf.encoder.kinds import STATIC, TRANSFORMER, split_name, without_transformer
from bert_flow_tf.encoder.other.static_model import read_static_model
from bert_flow_tf.encoder.other.token_vectors import WordRows
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.settings import (
  LOADING,
  OPENVINO,
  STATIC_MAX_SEQ_LENGTH,
  STATIC_TOKEN_WEIGHTS,
  TENSORFLOW,
  EncoderSettings,
  needs_tensorflow,
  reject_openvino,
)
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.text.token_weights import TokenWeights, make_token_weights, parse_token_weights
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.encoder.transformer.weights import StoredWeights, share_weights
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.lazy import imported_tensorflow, load_tensorflow

if TYPE_CHECKING:
  from bert_flow_tf.encoder.transformer.transformer import Transformer

_MODEL2VEC = "model2vec"
# Device of the first GPU of NVIDIA.
_GPU = pathlib.Path("/dev/nvidia0")


class EncoderParts(NamedTuple):
  """Arguments of a `SentenceEncoder`."""

  loaded: LoadedModel
  tokenizer: SentenceTokenizer
  token_weights: TokenWeights | None
  settings: EncoderSettings


def load_encoder(settings: EncoderSettings, fit: FitSettings | None = None) -> TextEncoder:
  """Loads the encoder of settings, of the kind that its name says; see `SentenceEncoder.from_pretrained`.

  `fit`: the weights of a fit, and the settings that replace `settings` for these weights.
  """
  kind, _ = split_name(settings.encoder_name)
  if needs_tensorflow(settings.encoder_name, settings.engine):
    load_tensorflow()
    if settings.precision == INT8:
      from bert_flow_tf.encoder.transformer.int8 import largest_of_kernels

      largest_of_kernels()  # an error here comes before the long loading
  # Named, not imported: encoders are loaded by an encoder's class, too, and by its Keras layer.
  module, _, name = kind.encoder_class.rpartition(".")
  encoder_class: type[TextEncoder] = getattr(importlib.import_module(module), name)
  return encoder_class.load(settings, fit)


def load_fitted_encoder(
  identity: EncoderIdentity | VectorsIdentity | None,
  where: str,
  model: str | TextEncoder | None = None,
  cache_dir: str | os.PathLike | None = None,
  **given: object,
) -> tuple[TextEncoder, Json]:
  """Loads the encoder that an identity at `where` names, or `model`; `given` settings replace the identity's.

  Returns the encoder, and the arguments sentence_embedding_type, max_seq_length and low_dim as far as they are known.
  """
  if model is None and not isinstance(identity, EncoderIdentity):
    message = f"{where}: fitted on {identity or 'an unknown encoder'}; name the encoder, as model=mini"
    if identity is not None:
      message += ", with allow_other_encoder=True"
    raise EncoderError(message, "folder")
  arguments = resolve(identity, given, is_named=model is not None)
  if isinstance(model, TextEncoder):
    loaded = model.settings.arguments(LOADING)
    for keyword in loaded.keys() & given.keys():
      if given[keyword] != loaded[keyword]:
        message = f"{keyword}={given[keyword]}: the encoder is already loaded, with {loaded[keyword]}"
        raise ConfigError(message, keyword)
    return model, arguments.pooling
  name = model
  if isinstance(identity, EncoderIdentity):
    name = model or identity.name
  settings = EncoderSettings.of(name, cache_dir=cache_dir, **arguments.loading)
  fit = None
  if model is not None and isinstance(identity, EncoderIdentity):
    # The encoder of the fit, in whatever folder, is loaded with the settings of the fit.
    settings_of_fit = EncoderSettings.of(name, cache_dir=cache_dir, **arguments.loading_of_fit)
    fit = FitSettings(identity.weights_sha256, settings_of_fit)
  try:
    return load_encoder(settings, fit), arguments.pooling
  except ConfigError as error:
    if error.argument == "engine" and "engine" not in given:
      mend = ""
      if settings.precision == "float32":
        mend = f", or give engine={TENSORFLOW}, which has the same embeddings in float32"
      raise EncoderError(f"{where}: made with {error}{mend}", "folder") from error
    if error.argument != "frequency_corpus" or "frequency_corpus" in given:
      raise
    mend = "restore this file, or load with frequency_corpus=FILE, a copy of it"  # the user did not name the file
    raise EncoderError(
      f"{where}: the weights of its tokens are counted in a text, {error}; {mend}", "folder"
    ) from error
  except EncoderError as error:
    if model is not None:
      raise
    reason = str(error).partition("; expected ")[0]  # the user did not give the name
    message = f"{where}: its encoder cannot be loaded; give its folder, with model=FOLDER ({reason})"
    raise EncoderError(message, "folder") from error


def read_encoder(
  settings: EncoderSettings, fit: FitSettings | None = None, do_lower_case: bool | None = None
) -> EncoderParts:
  """Reads a transformer or its word rows, or a static model, from the files of settings.

  `fit`: see `load_encoder`. `do_lower_case`: None for what the files say.

  Raises:
    ConfigError, EncoderError: see `SentenceEncoder.from_pretrained`; EncoderError also for a name of another kind.
  """
  if settings.token_weights is not None:
    parse_token_weights(settings.token_weights)  # before the long loading
  source = find_source(settings)
  is_static_model = _check_transformer(source)
  _check_settings(settings, source, is_static_model)
  if settings.engine == OPENVINO:
    _check_openvino()
  if is_static_model:
    return EncoderParts(*read_static_model(settings, source, fit))
  loaded = _read_model(settings, source)
  if fit is not None or isinstance(loaded.model, StoredWeights):  # whose weights this reads, and thereby checks
    checksum = loaded.model.checksum()
    loaded = dataclasses.replace(loaded, weights_checksum=checksum)
    if fit is not None:
      settings = fit.choose(settings, checksum)
      loaded = _with_activation(loaded, settings)
  given = {**settings.loading_arguments(), "do_lower_case": do_lower_case}
  if isinstance(loaded.files, TranslatedFiles):
    given["vocab_file"] = None  # one of the files
  given["prompt"] = loaded.declared.choose_prompt(settings.prompt, loaded.name)
  tokenizer = load_tokenizer(loaded.files, loaded.name, given)
  tokenizer.check_ids(loaded.model.config.vocab_size)
  loaded.declared.check_letter_case(tokenizer.do_lower_case)
  token_weights = settings.token_weights or loaded.declared.token_weights
  weights = make_token_weights(token_weights, tokenizer, settings.frequency_corpus, settings.number_weight)
  return EncoderParts(loaded, tokenizer, weights, settings)


def _check_openvino():
  """Raises a ConfigError if OpenVINO is missing, or cannot do what is asked for here."""
  check_openvino()
  tf = imported_tensorflow()
  devices = 1 if tf is None else tf.distribute.get_strategy().num_replicas_in_sync
  if devices > 1:
    reject_openvino(OPENVINO, f"it computes on the CPU, not on the {devices} devices of a strategy")
  if _GPU.exists():
    logging.info("engine=%s computes on the CPU; engine=%s can compute on the GPU", OPENVINO, TENSORFLOW)


def check_folder(settings: EncoderSettings) -> None:
  """Raises an EncoderError if a folder on this machine has no transformer, before TensorFlow is imported."""
  if split_name(settings.encoder_name)[0] is TRANSFORMER and os.path.isdir(settings.encoder_name):
    _check_transformer(find_source(settings))


def _check_transformer(source):
  """Returns whether the files are a static model's; EncoderError if they are, and the name is a transformer's."""
  is_static_model = _is_static_model(source)
  if is_static_model and source.kind is not STATIC:
    raise EncoderError(
      f"model={source.name}: a static model, which has no transformer; give {without_transformer(source.name)}", "model"
    )
  return is_static_model


def _is_static_model(source):
  """Returns whether the files are a static model's, of model2vec or sentence-transformers."""
  if source.checkpoint is not None:
    return False
  if read_modules(source.files):
    return find_static_embedding(source.files) is not None
  return source.files.json(CONFIG).get("model_type") == _MODEL2VEC


def _read_model(settings: EncoderSettings, source: Source) -> LoadedModel:
  """Returns the model of a source. No weight stays random."""
  changes = {}
  if settings.hidden_act is not None:
    changes["hidden_act"] = settings.hidden_act
  declared = Declared()
  declaring = source.files
  weights: HuggingFaceWeights | GoogleWeights | ModelGardenWeights
  vocab_file = _given_file("vocab_file", settings.vocab_file)
  if source.checkpoint is None and is_preset(source.files):
    declared, files, weights = read_preset(source.files, vocab_file, changes)
    declaring = files
  elif source.checkpoint is None:
    declared, files = read_declared(source.files)
    weights = HuggingFaceWeights(files, changes)
  else:
    config_path = _given_file("bert_config_file", settings.bert_config_file)
    if is_model_garden(source.checkpoint):
      weights = ModelGardenWeights(source.checkpoint, changes, config_path, vocab_file)
      files = weights.files
    else:
      vocab_file = vocab_file or source.folder / "vocab.txt"
      files = EncoderFiles(vocab_file.parent)
      config_path = config_path or google.config_file(source.folder)
      weights = GoogleWeights(config_path, files, vocab_file.name, source.checkpoint, changes)
  if source.kind is not STATIC:
    declared_in = None
    if declared.source:
      declared_in = declaring
    model: StoredWeights | Transformer = weights.stored()
    if settings.engine == TENSORFLOW:
      model = model.transformer
    return LoadedModel(model, source.name, files, declared, declared_in, source.revision)
  length = STATIC_MAX_SEQ_LENGTH
  if declared.source:
    length = declared.max_seq_length
  declared = Declared(WORD_ROWS, length, lower_case_by=declared.lower_case_by, token_weights=STATIC_TOKEN_WEIGHTS)
  return LoadedModel(WordRows(weights.word_embeddings()), source.name, files, declared, revision=source.revision)


def _with_activation(loaded, settings):
  """Returns a model with the activation of settings, on the same weights."""
  model = loaded.model
  if settings.hidden_act in (None, model.config.hidden_act):
    return loaded
  key = model.config.architecture.key("hidden_act")
  config = EncoderConfig({**model.config.values, key: settings.hidden_act})
  if isinstance(model, StoredWeights):
    model = model.with_config(config)
  else:
    model = share_weights(config, model.weights, model.has_pooler)
  return dataclasses.replace(loaded, model=model)


def _given_file(argument, value):
  """Returns the path of a file that the user named; None for none."""
  if not value:
    return None
  path = pathlib.Path(os.path.expanduser(value))
  if not path.is_file():
    raise ConfigError(f"{argument}={value}: no such file; expected a file on this machine", argument)
  return path


def _check_settings(settings: EncoderSettings, source: Source, is_static_model: bool) -> None:
  """Raises ConfigError for a setting without a use for these files."""
  useless = {"saved_model_output": "is no SavedModel"}
  if not is_static_model:
    useless["static_normalize"] = "is no static model of others, whose files could say that it divides by lengths"
  if source.kind is STATIC:
    _, full = split_name(source.name)
    reason = f"has no transformer that could use it, as {full} has"
    useless |= dict.fromkeys(("precision", "engine", "hidden_act"), reason)
  if source.checkpoint is None:
    useless["bert_config_file"] = "is no checkpoint that it could belong to"
    if not is_preset(source.files):
      useless["vocab_file"] = "is no checkpoint and no KerasHub preset that it could belong to"
  settings.check_useful(useless)
