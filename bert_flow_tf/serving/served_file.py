"""Models as files of OpenVINO or ONNX: from ids of tokens, or from vectors, to calibrated embeddings."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.step import Calibration, Features, apply_steps
from bert_flow_tf.encoder import settings as encoder_settings
from bert_flow_tf.encoder.engines.openvino_engine import POOLED_OUTPUT, States, check_openvino
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving import onnx_file
from bert_flow_tf.serving.served_model import ServedCalibration, roles_of
from bert_flow_tf.serving.settings import MODEL_FILES, ONNX, OPENVINO, SAVED_MODEL, TOKENIZER
from bert_flow_tf.serving.signatures import IDS_SIGNATURES, VECTOR_FILE_SIGNATURES

# Names of the output, and of the tensor before the calibration.
_EMBEDDING, _POOLED = "embedding", "pooled"


class CalibrationFile(ServedCalibration):
  """A calibration as a file; `format` is OPENVINO or ONNX."""

  def __init__(self, calibration: Calibration, normalize: bool, format: str) -> None:
    self.engine = _checked_format(format)
    super().__init__(calibration, [calibration], calibration.dim, calibration.output_dim, normalize)
    self.table = VECTOR_FILE_SIGNATURES
    self.without = ["log_prob and inverse: the file has one function"]
    if calibration.query_shift is not None:
      self.without.append("embed_query: the file is of documents")

  def write(self, folder: pathlib.Path) -> None:
    """Writes the file, of OpenVINO two."""
    rest = _graph(self._calibrate, tf.TensorSpec([None, self.sizes["dim"]], tf.float32, "vectors"))
    path = folder / MODEL_FILES[self.engine]
    if self.engine == ONNX:
      onnx_file.write_onnx(rest, path, _EMBEDDING)
      return
    from bert_flow_tf.encoder.engines import openvino_export

    openvino_export.write_ir(openvino_export.converted_model(rest), path, _EMBEDDING, {})

  def _calibrate(self, vectors):
    return {_EMBEDDING: apply_steps(self._steps, Features(vectors, lite=True))}

  def answer(self, folder: pathlib.Path, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the embeddings of {input: rows} by the file, before the calibration and after it."""
    return inputs["vectors"], _run(self.engine, folder, inputs)[_EMBEDDING]


class IdsFile(ServedCalibration):
  """An encoder, its pooling and its calibration as a file; see `CalibrationFile`."""

  def __init__(self, model: SentenceModel, normalize: bool, format: str) -> None:
    self.engine = _checked_format(format)
    self._encoder = _checked_encoder(model.encoder, format)
    dim = model.dim if model.reads_embedding else 0
    super().__init__(model, model.steps, dim, model.output_dim, normalize)
    self.name = model.calibration_name or "none"
    self.sizes["max_seq_length"] = model.max_seq_length
    self.is_int8 = self._encoder.precision == INT8
    self.table = IDS_SIGNATURES
    self.without = ["text: a client cuts it into tokens", "log_prob, inverse and similarity: the file has one function"]
    if roles_of(model):
      self.without.append("embed_query and embed_document: export model.for_queries() and model.for_documents()")

  def embed(self, rows: Sequence[str] | np.ndarray) -> np.ndarray:
    """See the base class."""
    return self.model.encode(rows, calibrated=False)

  def write(self, folder: pathlib.Path) -> None:
    """Writes the file, of OpenVINO two."""
    if self.engine == ONNX:
      specs = [tf.TensorSpec([None, None], tf.int64, name) for name in ("input_ids", "attention_mask")]
      self._encoder.bert  # noqa: B018 (its variables are made outside of the graph)
      onnx_file.write_onnx(_graph(self._embed_ids, *specs), folder / MODEL_FILES[ONNX], _EMBEDDING)
      return
    from bert_flow_tf.encoder.engines import openvino_export

    encoder, states = self._encoder, None
    if self.sizes["dim"]:
      states = encoder.batch_model(self.model.pooling, self.model.max_seq_length)
    specs = [tf.TensorSpec([None, None], tf.int32, name) for name in ("ids", "mask")]
    options = {}
    if states is not None:
      options = states.runtime_options
      for name in states.outputs:
        positions = [] if name == POOLED_OUTPUT else [None]
        specs.append(tf.TensorSpec([None, *positions, encoder.hidden_size], tf.float32, name))
    rest = _graph(self._pool_and_calibrate, *specs)
    model = openvino_export.joined_model(rest, states, encoder.tokenizer.pad_id, encoder.max_tokens)
    openvino_export.write_ir(model, folder / MODEL_FILES[OPENVINO], _EMBEDDING, options)

  def write_tokenizer(self, folder: pathlib.Path, sentences: Sequence[str]) -> None:
    """Writes tokenizer.json, if it gives the tokens of some sentences; else the files of the vocabulary alone."""
    definition = self._encoder.tokenizer.definition(self.model.max_seq_length, sentences)
    files = self._encoder.tokenizer.files()
    characters_per_token = self._encoder.tokenizer.characters_per_token
    if characters_per_token is not None:
      # As the tokenizer does, which counts two tokens that are no text.
      limit = characters_per_token * (self.model.max_seq_length - 2)
      self.without.append(f"the cut of long texts, as by model2vec: a client takes the first {limit} characters")
    if definition is not None:
      files = {TOKENIZER: definition.encode()}
    else:
      self.without.append(f"{TOKENIZER}: it would give other tokens than bert_flow_tf, encoder.tokenizer(texts)")
    for name, content in files.items():
      (folder / name).write_bytes(content)

  def _embed_ids(self, ids, mask):
    """Returns embeddings before and after the calibration, of ids and mask int64 [n, seq_len], all by TensorFlow."""
    encoder = self._encoder
    is_token = mask[:, : encoder.max_tokens] > 0
    ids = tf.where(is_token, tf.cast(ids[:, : encoder.max_tokens], tf.int32), encoder.tokenizer.pad_id)
    mask = tf.cast(is_token, tf.int32)
    pooled = tf.zeros([tf.shape(ids)[0], 0])
    if self.sizes["dim"]:
      pooled = encoder.pooled_batch(ids, mask, self.model.pooling, packed=False)
    return self._calibrate(pooled, ids, mask)

  def _pool_and_calibrate(self, ids, mask, *values):
    """Returns the same of ids and mask int32 [n, seq_len], and of the states that the pooling reads."""
    pooling = self.model.pooling
    blocks = sorted(set(pooling.blocks))
    states = States(dict(zip(blocks, values, strict=False)), values[-1] if values else None)
    pooled = tf.zeros([tf.shape(ids)[0], 0])
    if self.sizes["dim"]:
      pooled = self._encoder.pool_states(ids, mask, pooling, states)
    return self._calibrate(pooled, ids, mask)

  def _calibrate(self, pooled, ids, mask):
    features = Features(pooled, ids, tf.reduce_sum(mask, axis=1), lite=True)
    return {_POOLED: pooled, _EMBEDDING: apply_steps(self._steps, features)}

  def answer(self, folder: pathlib.Path, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray | None, np.ndarray]:
    """See `CalibrationFile`; the first is None if no step reads it."""
    answers = _run(self.engine, folder, inputs, [_POOLED] if self.sizes["dim"] else [])
    return answers.get(_POOLED), answers[_EMBEDDING]


def _graph(function, *specs):
  """Returns a function of tensors as a graph."""
  return tf.function(function, list(specs), autograph=False).get_concrete_function()


def _run(format: str, folder: pathlib.Path, inputs: Mapping[str, np.ndarray], inner: Sequence[str] = ()) -> Any:
  """Returns {name: array} of the outputs of a file, and of tensors in it."""
  path = folder / MODEL_FILES[format]
  if format == ONNX:
    return onnx_file.run_onnx(path, inputs, inner)
  from bert_flow_tf.encoder.engines import openvino_export

  return openvino_export.run_file(path, inputs, inner)


def _checked_format(format: str) -> str:
  """Returns a format; raises ConfigError if the version of its engine does not work."""
  if format == OPENVINO:
    check_openvino("format")
  return format


def _checked_encoder(encoder: TextEncoder, format: str) -> SentenceEncoder:
  """Returns an encoder that can be in a file; raises ConfigError for another one."""
  where = f"format={format}"
  if not isinstance(encoder, SentenceEncoder):
    reason = f"{encoder.name} takes text, not ids of tokens, and only TensorFlow computes it"
    raise ConfigError(f"{where}: {reason}; use format={SAVED_MODEL}", "format")
  if encoder.precision == INT8 and not encoder.is_static:
    if format == ONNX:
      raise ConfigError(f"{where}: ONNX has none of our products of int8; load the model in float32", "format")
    if encoder.engine == encoder_settings.TENSORFLOW:
      reason = "TensorFlow's int8 has other embeddings than OpenVINO's"
      raise ConfigError(f"{where}: {reason}; load the model with engine={encoder_settings.OPENVINO}", "format")
  if format == ONNX and 4 * encoder.count_params() > onnx_file.MAX_BYTES:
    raise ConfigError(f"{where}: the encoder has more than the 2 GB of a file of ONNX; use format={OPENVINO}", "format")
  return encoder
