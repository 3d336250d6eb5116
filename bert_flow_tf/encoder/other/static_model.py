"""Static models of others (model `static:FOLDER`): a vector per token, and a text's embedding is their mean.

Folders of model2vec and of sentence-transformers' StaticEmbedding are read as their own programs read them.
"""

import dataclasses
import functools
import json
import pathlib
from typing import NamedTuple

import ml_dtypes  # noqa: F401  # gives NumPy the type bfloat16
import numpy as np
import tokenizers
from safetensors import safe_open

from bert_flow_tf.encoder.checkpoints.declared import Declared, declared_of_model, read_modules
from bert_flow_tf.encoder.checkpoints.files import CONFIG, EncoderFiles, failure
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.checkpoints.source import Source
from bert_flow_tf.encoder.identity import FitSettings
from bert_flow_tf.encoder.other.token_vectors import StaticModel
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.encoder.text.folder import WORDPIECE, FolderTokenizer
from bert_flow_tf.encoder.text.token_weights import UNIFORM, TokenWeights, make_token_weights
from bert_flow_tf.encoder.text.vocabulary_files import check_backend
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io.checks import is_integer

WEIGHTS, TOKENIZER_JSON = "model.safetensors", "tokenizer.json"
# Names in files of model2vec: vectors, weights and rows of tokens; and of the vectors in sentence-transformers' files.
EMBEDDINGS, TOKEN_WEIGHTS, _MAPPING, _EMBEDDING_BAG = "embeddings", "weights", "mapping", "embedding.weight"
# Key of config.json, of this package alone: the name of the calibration that is in the vectors, for messages.
CALIBRATION = "calibration"
# Tokens of a text that model2vec reads if config.json names no other number.
_MODEL2VEC_LENGTH = 512
# Stands at both ends of a text, as [CLS] and [SEP] do, and counts for nothing.
_EDGE = "[end of text]"
_EDGES = 2
_SAVE_AGAIN = "save or download the model again"


class StaticTokenizer(FolderTokenizer):
  """Tokenizer of a static model, without [CLS] and [SEP]: a token that no text has stands in their place."""

  def __init__(self, path: pathlib.Path, backend: tokenizers.Tokenizer, reads_as_model2vec: bool) -> None:
    """Uses a tokenizer.json as it is. `reads_as_model2vec`: whether long texts are cut at a number of characters."""
    definition = json.loads(backend.to_str())["model"]
    unknown = definition.get("unk_token")
    if definition.get("unk_id") is not None:
      unknown = definition["vocab"][definition["unk_id"]][0]
    specials = dict.fromkeys(("cls_token", "sep_token", "pad_token", "mask_token"), _EDGE)
    super().__init__(backend, specials | {"unk_token": unknown or ""}, path)
    if definition["type"] == "WordLevel":
      self.kind = WORDPIECE  # every piece is a word
    self.settings = {"do_lower_case": self.do_lower_case}  # no user can change the others
    if reads_as_model2vec:
      self.characters_per_token = int(np.median([len(token) for token in backend.get_vocab()]))

  @functools.cached_property
  def ids(self) -> dict[str, int]:
    """{token: its id}; the last one stands at the ends of a text."""
    ids = self.backend.get_vocab(with_added_tokens=True)
    return ids | {_EDGE: 1 + max(ids.values(), default=-1)}

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the tokenizer, its special tokens and the prompt, in hexadecimal."""
    return self._checksum_of(self.backend.to_str(), self.specials, self.characters_per_token)


class _Files(NamedTuple):
  """Files of a static model, and what stands next to them."""

  files: EncoderFiles
  # The file that lists the modules, or config.json; the kinds of modules behind the vectors.
  source: pathlib.Path
  modules: list[str]


def read_static_model(
  settings: EncoderSettings, source: Source, fit: FitSettings | None = None
) -> tuple[LoadedModel, StaticTokenizer, TokenWeights, EncoderSettings]:
  """Returns model, tokenizer, weights of tokens, and settings of the static model of a source.

  `fit`: the weights of a fit, and the settings that replace `settings` for these weights.

  Raises:
    ConfigError: a setting that the model has no use for.
    EncoderError: a file is missing, damaged or not supported.
  """
  decided = f"has a {TOKENIZER_JSON}, which decides it"
  settings.check_useful(dict.fromkeys(("max_input_chars_per_word", "strip_accents"), decided))
  files, listing, modules = _find_files(source.files)
  tensors = _read_tensors(files.folder / WEIGHTS)
  as_model2vec = EMBEDDINGS in tensors
  backend = _read_tokenizer(files.folder / TOKENIZER_JSON)
  if as_model2vec:
    normalizes, length = _model2vec_settings(files)
    calibration = files.json(CONFIG).get(CALIBRATION)
    declared = Declared(WORD_ROWS, source=str(files.folder / CONFIG), calibration=str(calibration or ""))
  else:
    normalizes, length = "Normalize" in modules, _truncation(files.folder, backend)
    declared = Declared(WORD_ROWS, source=str(listing), **declared_of_model(source.files))
  if length is None:
    length = STATIC_MAX_SEQ_LENGTH
  declared = dataclasses.replace(declared, max_seq_length=min(length + _EDGES, STATIC_MAX_SEQ_LENGTH))
  tokenizer = StaticTokenizer(files.folder / TOKENIZER_JSON, backend, as_model2vec)
  # The last row is of the ends of a text.
  count = tokenizer.vocab_size - 1
  counts = np.ones(count + 1, np.float32)
  counts[-1] = 0
  rows = _rows(tensors, count, files.folder / WEIGHTS)
  if as_model2vec and tokenizer.unknown_id is not None:
    # model2vec leaves it out of a text.
    counts[tokenizer.unknown_id] = 0
    rows[tokenizer.unknown_id] = 0
  if settings.static_normalize is not None:
    normalizes = settings.static_normalize
  model = StaticModel(rows, normalizes)
  if fit is not None:
    settings = fit.choose(settings, model.checksum())
  tokenizer.prompt = declared.choose_prompt(settings.prompt, source.name)
  name = settings.token_weights or UNIFORM
  weights = make_token_weights(name, tokenizer, settings.frequency_corpus, settings.number_weight)
  if weights is None:
    weights = TokenWeights(UNIFORM, counts)
  else:
    weights.table *= counts
  return LoadedModel(model, source.name, files, declared, revision=source.revision), tokenizer, weights, settings


def _find_files(files: EncoderFiles) -> _Files:
  """Returns the files of the static model in a folder."""
  found = _Files(files, files.folder / CONFIG, [])
  modules = read_modules(files)
  if modules:
    found = _Files(modules[0][1], files.folder / "modules.json", [kind for kind, _ in modules[1:]])
  for kind in found.modules:
    if kind != "Normalize":
      raise EncoderError(f"{found.source}: the module {kind} behind its vectors is not supported")
  for name in (WEIGHTS, TOKENIZER_JSON):
    if not found.files.has(name):
      raise EncoderError(f"{found.files.folder}: no {name}, which a static model has; {_SAVE_AGAIN}")
  return found


def _read_tensors(path):
  """Returns {name: array} of the vectors and, if they are there, the rows and weights of tokens."""
  try:
    content = safe_open(path, "np")
    names = set(content.keys()) & {EMBEDDINGS, _EMBEDDING_BAG, _MAPPING, TOKEN_WEIGHTS}
    tensors = {name: content.get_tensor(name) for name in names}
  except Exception as error:  # safetensors raises errors of many classes
    raise EncoderError(f"{path}: cannot be read ({failure(path, error)}); {_SAVE_AGAIN}") from error
  if not {EMBEDDINGS, _EMBEDDING_BAG} & names:
    raise EncoderError(f"{path}: no tensor is {EMBEDDINGS} or {_EMBEDDING_BAG}; {_SAVE_AGAIN}")
  if EMBEDDINGS in names:
    names -= {_EMBEDDING_BAG}
  else:  # sentence-transformers reads no other tensor
    names = {_EMBEDDING_BAG}
  arrays = {}
  for name in names:
    dtype = np.int64 if name == _MAPPING else np.float32
    arrays[name] = tensors[name].astype(dtype, copy=False)
  return arrays


def _rows(tensors, count, path):
  """Returns the vectors of `count` tokens and a row of zeros, float32 [count + 1, dim]."""
  vectors = tensors.get(EMBEDDINGS)
  if vectors is None:
    vectors = tensors[_EMBEDDING_BAG]
  shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
  ranks = [tensor.ndim for name, tensor in tensors.items() if name in (_MAPPING, TOKEN_WEIGHTS)]
  per_token = dict(tensors)  # with an entry for each token
  if _MAPPING in tensors:
    per_token.pop(EMBEDDINGS)
  fits = vectors.ndim == 2 and vectors.shape[1] and set(ranks) <= {1} and min(map(len, per_token.values())) >= count
  if not fits or len(per_token.get(EMBEDDINGS, range(count))) != count:  # StaticEmbedding may have more rows
    raise EncoderError(f"{path}: tensors of the shapes {shapes} for {count} tokens in {TOKENIZER_JSON}; {_SAVE_AGAIN}")
  if _MAPPING in tensors:
    mapping = tensors[_MAPPING][:count]
    if mapping.min() < 0 or mapping.max() >= len(vectors):
      raise EncoderError(f"{path}: {_MAPPING} names a row beyond the {len(vectors)} rows of vectors; {_SAVE_AGAIN}")
    vectors = vectors[mapping]
  rows = np.zeros([count + 1, vectors.shape[1]], np.float32)
  rows[:count] = vectors[:count]
  if TOKEN_WEIGHTS in tensors:
    rows[:count] *= tensors[TOKEN_WEIGHTS][:count, np.newaxis]
  if not np.isfinite(rows).all():
    raise EncoderError(f"{path} holds NaN or infinity; {_SAVE_AGAIN}")
  return rows


def _read_tokenizer(path):
  """Returns the backend of a tokenizer.json."""
  try:
    backend = tokenizers.Tokenizer.from_file(str(path))
    check_backend(backend)
    if not backend.get_vocab_size():
      raise ValueError("no tokens")
    return backend
  except Exception as error:  # tokenizers raises nothing narrower
    raise EncoderError(f"{path}: cannot be read as a tokenizer ({one_line(error)}); {_SAVE_AGAIN}") from error


def _model2vec_settings(files):
  """Returns normalize and max_length of a config.json of model2vec."""
  folder, values = files.folder, files.json(CONFIG)
  normalizes, length = values.get("normalize", False), values.get("max_length", _MODEL2VEC_LENGTH)
  if not isinstance(normalizes, bool):
    raise EncoderError(f"{folder / CONFIG}: normalize is {normalizes!r}, expected true or false; {_SAVE_AGAIN}")
  if length is not None and not is_integer(length, 1):
    raise EncoderError(f"{folder / CONFIG}: max_length is {length!r}, expected a positive integer; {_SAVE_AGAIN}")
  return normalizes, length


def _truncation(folder, backend):
  """Returns the number of tokens that a tokenizer.json declares, which sentence-transformers heeds; None for all."""
  truncation = backend.truncation
  if truncation is None:
    return None
  if truncation["direction"] != "right":
    raise EncoderError(f"{folder / TOKENIZER_JSON}: texts are cut at their beginning, which is not supported")
  return truncation["max_length"]
