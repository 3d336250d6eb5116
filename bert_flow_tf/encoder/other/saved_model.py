"""Encoder of sentences by a SavedModel (model `saved_model:FOLDER`), which takes text and gives vectors."""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.checkpoints.declared import Declared
from bert_flow_tf.encoder.checkpoints.files import failure
from bert_flow_tf.encoder.checkpoints.source import absolute_name
from bert_flow_tf.encoder.identity import FitSettings
from bert_flow_tf.encoder.kinds import SAVED_MODEL, split_name
from bert_flow_tf.encoder.other.vector_encoder import VectorEncoder
from bert_flow_tf.encoder.pooling import OUTPUT, Pooling
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.encoder.text.word_piece import repair_surrogates
from bert_flow_tf.encoder.text_encoder import sentences_of_step
from bert_flow_tf.encoder.transformer.int8 import largest_of_kernels
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import Json, check_path, read_json
from bert_flow_tf.io.forks import check_not_forked

# The files that decide its vectors.
_FILES = ("saved_model.*pb*", "variables/**/*", "assets/**/*")
_CALL = "__call__"
# Input of an encoder of TensorFlow Hub, and output of its preprocessing.
_IDS, _HUB = "input_word_ids", "model=ENCODER_FOLDER"
_DEFAULT_SIGNATURE = "serving_default"
_HEADINGS = ("Graph execution error", "Detected at ", "<stack traces", "in user code")
_EXAMPLES = ("A man is eating.", "no")
# Largest difference, relative to the largest value, between a text's vectors alone and in a call with others. Quantized
# models round by so much.
_MAX_DIFFERENCE = 0.05

# Bytes of text per token, roughly; gives the number of texts in a step.
_BYTES_PER_TOKEN = 4

# Strings [n] -> {name of an output: tensor}.
_Function = Callable[[tf.Tensor], dict[str, tf.Tensor]]


class SavedModelEncoder(VectorEncoder):
  """Encoder of sentences by a SavedModel from strings to vectors; it is the graph of itself, too (`EncoderGraph`).

  Attributes:
    of_text: tf.function, string [n] -> float32 [n, dim].
    variables: the weights.
    folder: the SavedModel's.
  """

  only_pooling = Pooling(OUTPUT, OUTPUT, (), 0)
  kind = "a SavedModel"
  takes_ids = False
  without_text: str | None = None
  declared = Declared(OUTPUT, STATIC_MAX_SEQ_LENGTH)

  def __init__(self, settings: EncoderSettings, fit: FitSettings | None = None) -> None:
    """Loads the SavedModel of the settings; see `SentenceEncoder.from_pretrained`."""
    super().__init__(settings, fit)
    self.check_settings("is a SavedModel, which takes text and gives vectors")
    check_not_forked(EncoderError)
    name = settings.encoder_name
    self.name, self.folder = name, _find(name)
    _check_export(name, self.folder)
    self._sha256 = _sha256_of(self.folder)
    self.choose_settings(self._sha256)
    self._loaded = _load(name, self.folder)
    function_name, function, output = _choose(name, self._loaded, self.settings.saved_model_output)
    self._deciding_settings = {"function": function_name, "output": output}
    try:
      vectors = function(tf.constant(_EXAMPLES))[output].numpy()
      alone = function(tf.constant(_EXAMPLES[:1]))[output].numpy()
    except Exception as error:  # of any operation
      message = f"model={name}: its {function_name} fails on plain text ({first_line(error)})"
      raise EncoderError(message, "model") from error
    if vectors.ndim != 2 or len(vectors) != len(_EXAMPLES) or not vectors.size:
      shape = f"of two texts has the shape {list(vectors.shape)}, expected [2, dim]"
      message = f"model={name}: {output} of {function_name} {shape}; choose another saved_model_output"
      raise EncoderError(message, "model")
    difference = np.abs(np.float32(alone) - np.float32(vectors[:1])).max()
    if difference > _MAX_DIFFERENCE * np.abs(np.float32(vectors)).max():
      raise EncoderError(
        f"model={name}: the vector that {function_name} gives to a text depends on the other texts of a call, or on "
        "chance; save the model as it is for inference, a row for each text in their order",
        "model",
      )
    self.hidden_size = vectors.shape[1]

    def embed(texts):
      # Some models fail without a row.
      n = tf.shape(texts)[0]
      filled = tf.concat([texts, tf.repeat("no", tf.cast(n < 1, tf.int32))], axis=0)
      vectors = tf.cast(function(filled)[output], tf.float32)
      message = "it does not give one vector for each text"
      with tf.control_dependencies(
        [tf.debugging.assert_equal(tf.shape(vectors), [tf.size(filled), self.hidden_size], message)]
      ):
        return tf.ensure_shape(vectors[:n], [None, self.hidden_size])

    self.of_text = tf.function(embed, [tf.TensorSpec([None], tf.string)], autograph=False)
    self.variables = list(self.of_text.get_concrete_function().graph.variables)

  def __reduce__(self) -> Any:
    """Returns function and arguments for a copy, which loads the folder again, perhaps from another working folder."""
    settings = dataclasses.replace(self.settings, model=absolute_name(self.name), init_checkpoint=None)
    return _loaded_again, (type(self), settings, self._sha256)

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the files that decide the vectors."""
    return self._sha256

  @property
  def deciding_settings(self) -> Json:
    """The function and the output that give the vectors."""
    return self._deciding_settings

  def count_params(self) -> int:
    """Returns the number of weights."""
    return sum(int(np.prod(variable.shape)) for variable in self.variables)

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the number that stands for whole texts; EncoderError for another number."""
    if max_seq_length not in (None, STATIC_MAX_SEQ_LENGTH):
      message = f"max_seq_length={max_seq_length}: {self.name} takes whole texts, not tokens; leave it out"
      raise EncoderError(message, "max_seq_length")
    return STATIC_MAX_SEQ_LENGTH

  def text_graph(self, pooling: Pooling | None, max_seq_length: int) -> "SavedModelEncoder":
    """Returns the graph from text to vectors, which takes the place of `EncoderGraph`."""
    del pooling, max_seq_length
    return self

  def features(self, text: tf.Tensor) -> tuple[tf.Tensor, None, None]:
    """UTF-8 text string [n] -> vectors float32 [n, dim], no ids, no numbers of tokens."""
    return self.of_text(text), None, None

  def _embed_texts(self, texts, pooling, max_seq_length, batch_size, progress):
    check_not_forked(EncoderError)
    encoded = np.array([repair_surrogates(text).encode() for text in texts], object)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    order = np.argsort(-lengths, kind="stable")
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    embeddings = np.empty([len(texts), self.hidden_size], np.float32)
    start = 0
    while start < len(texts):
      count = sentences_of_step(1 + int(lengths[order[start]]) // _BYTES_PER_TOKEN, batch_size, has_gpu)
      batch = order[start : start + count]
      try:
        embeddings[batch] = self.of_text(tf.constant(encoded[batch])).numpy()
      except tf.errors.OpError as error:
        which = f"one of {len(batch)} texts, the first {texts[batch[0]][:60]!r}"
        raise EncoderError(f"model={self.name}: it fails on {which} ({first_line(error)})", "model") from error
      progress.update(len(batch))
      start += count
    return embeddings

  def trainable_variables(self) -> list[tf.Variable]:
    """Returns [], because a SavedModel is not trained."""
    return []

  def track(self, module: Any) -> None:
    """Makes the SavedModel, with its files, a part of a module that is to be saved."""
    module.saved_model = self._loaded


def _loaded_again(cls, settings, sha256):
  """Returns the copy of an encoder; EncoderError if its folder has other files by now."""
  encoder = cls(settings)
  if encoder.weights_checksum != sha256:
    message = f"model={encoder.name}: its files have changed since the encoder was loaded that is copied here"
    raise EncoderError(f"{message}; restore them, or load the encoder again", "model")
  return encoder


def _find(name):
  """Returns the folder of a SavedModel."""
  _, rest = split_name(name)
  path = check_path(os.path.expanduser(rest), "model")
  problem = ""
  if not rest or not path.exists():
    problem = "no such folder"
  elif not path.is_dir():
    problem = "this is a file"
  elif not any(path.glob(_FILES[0])):
    problem = "it has no saved_model.pb"
    versions = [child.parent.name for child in sorted(path.glob(f"*/{_FILES[0]}"))]
    if versions:
      problem += f" itself; name one of its folders: {', '.join(versions)}"
  if problem:
    expected = f"expected {SAVED_MODEL.form} with saved_model.pb and variables/, as tf.saved_model.save writes it"
    raise EncoderError(f"model={name}: {expected}; {problem}", "model")
  return path


def _check_export(name, folder):
  """Raises EncoderError if a file of an export differs from its checksum, or this machine lacks its precision.

  Other SavedModels have no metadata.json, and pass.
  """
  path = folder / "assets.extra" / "metadata.json"
  if not path.is_file():
    return
  try:
    contents = checksums.verified(read_json(path), folder)
  except (OSError, ValueError) as error:
    message = f"model={name}: damaged, {path.name}: {error}; {checksums.KEEP_CHANGES}"
    raise EncoderError(message, "model") from error
  if (contents.get("encoder") or {}).get("precision") != INT8:
    return
  try:
    largest_of_kernels()
  except ConfigError as error:
    needs = "an x86 CPU, and no GPU (hide it with CUDA_VISIBLE_DEVICES=-1)"
    message = f"model={name}: exported in int8, which needs {needs}; or export it with precision=float32"
    raise EncoderError(message, "model") from error


def _sha256_of(folder):
  """Returns the hexadecimal SHA-256 of the names and contents of the files that decide the vectors."""
  digest = hashlib.sha256()
  paths = {path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()}
  for path in sorted(paths):
    digest.update(f"{path.relative_to(folder).as_posix()} {checksums.of_file(path)}\n".encode())
  return digest.hexdigest()


def load_saved_model(folder: str | os.PathLike) -> Any:
  """Returns a SavedModel as TensorFlow loads it, also within a strategy's scope."""
  # Not in the scope, which belongs to a thread: the model's graphs cannot read mirrored variables.
  with futures.ThreadPoolExecutor(1) as other_thread:
    return other_thread.submit(tf.saved_model.load, os.fspath(folder)).result()


def _load(name, folder):
  """Returns the loaded SavedModel."""
  with contextlib.suppress(ImportError):
    import tensorflow_text  # noqa: F401  # operations of many text models
  try:
    loaded = load_saved_model(folder)
  except Exception as error:  # of protocol buffers, files and any operation
    reason = failure(next(folder.glob(_FILES[0])), error)
    mend = "copy or save it again; packages with its operations, as tensorflow-text, must be installed"
    raise EncoderError(f"model={name}: its SavedModel cannot be loaded ({reason}); {mend}", "model") from error
  if hasattr(loaded, "prune"):
    raise EncoderError(f"model={name}: expected a SavedModel of TensorFlow 2, got a graph of TensorFlow 1", "model")
  return loaded


def _choose(name: str, loaded: Any, wanted: str | None) -> tuple[str, _Function, str]:
  """Returns the name of the function that gives vectors, the function, and the name of its output."""
  only, _, output = (wanted or "").rpartition(":")
  seen = []
  for function_name, function in _functions(loaded):
    if only and function_name != only:
      seen.append(function_name)
      continue
    spec = tf.TensorSpec([None], tf.string)
    try:
      outputs = tf.function(function, autograph=False).get_concrete_function(spec).structured_outputs
    except Exception as error:  # a function of other inputs can fail with any error
      seen.append(f"{function_name} does not take strings [n] ({first_line(error)})")
      continue
    vectors = [key for key, tensor in sorted(outputs.items()) if _is_vector(tensor) and output in ("", key)]
    if len(vectors) == 1:
      return function_name, function, vectors[0]
    if vectors:
      several = f"model={name}: its {function_name} gives several vectors; expected one of {', '.join(vectors)}"
      raise ConfigError(f"saved_model_output: {several}", "saved_model_output")
    shown = [f"{key} {_kind(tensor)}" for key, tensor in sorted(outputs.items())]
    seen.append(f"{function_name} gives {', '.join(shown)}")
  about = "; ".join(seen) or "no function of strings"
  takes = [key for signature in getattr(loaded, "signatures", {}).values() for key in _inputs(signature)]
  if _IDS in about:
    about = f"a preprocessing of TensorFlow Hub, which gives ids; give the encoder that takes them, as {_HUB}"
  elif _IDS in takes:
    folder = split_name(name)[1]
    about = f"an encoder of TensorFlow Hub, which takes ids; give model={folder}, which reads it as a BERT, or a "
    about += "SavedModel with its preprocessing before it"
  if wanted:
    raise ConfigError(f"saved_model_output={wanted}: no such output in {name}: {about}", "saved_model_output")
  raise EncoderError(f"model={name}: expected a SavedModel from strings [n] to vectors [n, dim], got: {about}", "model")


def _functions(loaded: Any) -> Iterator[tuple[str, _Function]]:
  """Yields name and function of the call and the signatures that may take strings."""
  if callable(loaded):
    yield _CALL, functools.partial(_call, loaded)
  signatures = getattr(loaded, "signatures", {})
  for name in sorted(signatures, key=lambda name: (name != _DEFAULT_SIGNATURE, name)):
    inputs = _inputs(signatures[name])
    if [spec.dtype for spec in inputs.values()] == [tf.string]:
      yield name, functools.partial(_call_signature, signatures[name], *inputs)


def _inputs(signature):
  """Returns {name: specification} of the inputs of a signature."""
  return signature.structured_input_signature[1]


def _call(loaded, texts):
  """Returns {name: output} of a call; a Keras model may take its texts as [n, 1]."""
  try:
    outputs = loaded(texts)
  except ValueError:  # no function for this shape
    outputs = loaded(tf.expand_dims(texts, 1))
  if isinstance(outputs, list | tuple):
    return {str(number): output for number, output in enumerate(outputs)}
  if isinstance(outputs, dict):
    return dict(outputs)
  return {OUTPUT: outputs}


def _call_signature(signature, key, texts):
  """Returns {name: output} of a signature whose only input is `key`."""
  spec = _inputs(signature)[key]
  if spec.shape.rank == 2:
    texts = tf.expand_dims(texts, 1)
  return signature(**{key: texts})


def _is_vector(tensor):
  """Returns whether an output may have a vector for each text."""
  return isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating and tensor.shape.rank in (None, 2)


def _kind(output):
  """Returns type and shape of an output for a message: "int32 (None, 5)"."""
  if isinstance(output, tf.Tensor):
    return f"{output.dtype.name} {output.shape}"
  return type(output).__name__


def first_line(error: Exception) -> str:
  """Returns kind and first line of an error, without TensorFlow's headings."""
  lines = [line.strip() for line in str(error).splitlines() if line[:1].strip() and not line.startswith(_HEADINGS)]
  return f"{type(error).__name__}: {' '.join(lines[:1])[:160]}"
